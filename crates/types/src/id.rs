//! Identifiers: UUIDv7 values (RFC 9562) with a prefix for the resource type, such as `acct_0197…`.
//!
//! Ids sort by creation time in milliseconds, except [`MediaId`], so that rows keyed by ids are
//! appended instead of scattered. Ids are not credentials.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clock::Timestamp;

/// Error: the text is not an id of the expected type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdError;

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected the prefix of the resource, such as acct_, and 32 lowercase hex characters")
    }
}

impl std::error::Error for IdError {}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u128);

        impl $name {
            /// Prefix of the text form.
            pub const PREFIX: &'static str = $prefix;

            /// Creates an id from its 128-bit value.
            pub const fn from_u128(value: u128) -> Self {
                Self(value)
            }

            /// Returns the 128-bit value.
            pub const fn as_u128(self) -> u128 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                f.write_str(std::str::from_utf8(&hex(self.0)).unwrap_or_default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let digits = text.strip_prefix($prefix).ok_or(IdError)?;
                let lower_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
                if digits.len() != 32 || !digits.bytes().all(lower_hex) {
                    return Err(IdError);
                }
                u128::from_str_radix(digits, 16).map(Self).map_err(|_| IdError)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// A tenant: the owner of keys, limits and a balance.
    AccountId,
    "acct_"
);
id!(
    /// An API key. This id is not the secret.
    KeyId,
    "key_"
);
id!(
    /// A request to the public API; the value of `x-request-id`.
    RequestId,
    "req_"
);
id!(
    /// A hold of credits. A request can have several holds.
    HoldId,
    "hold_"
);
id!(
    /// A movement of credits outside a hold, such as a grant or a refund.
    TransferId,
    "xfer_"
);
id!(
    /// A subscription of an account.
    SubscriptionId,
    "sub_"
);
id!(
    /// A purchase of credits.
    TopUpId,
    "topup_"
);
id!(
    /// A notification for an account.
    NoticeId,
    "notice_"
);
id!(
    /// An administrator of the admin API.
    AdminId,
    "adm_"
);
id!(
    /// An entry of the audit log.
    AuditId,
    "aud_"
);
id!(
    /// A member of an account.
    MemberId,
    "mem_"
);
id!(
    /// A person who can sign in to the console, as a member of any number of accounts.
    PersonId,
    "pers_"
);
id!(
    /// A session of the console. This id is not the cookie.
    SessionId,
    "sess_"
);
id!(
    /// A client secret of realtime sessions. This id is not the secret.
    ClientSecretId,
    "secret_"
);
id!(
    /// A link that signs a person in once. This id is not its token.
    LinkId,
    "link_"
);
id!(
    /// A stored response of the Responses API, or a response of a realtime session.
    ResponseId,
    "resp_"
);
id!(
    /// A realtime session. OpenAI's prefix is `sess_`, which sessions of the console have here.
    RealtimeSessionId,
    "rtsess_"
);
id!(
    /// The conversation of a realtime session.
    ConversationId,
    "conv_"
);
id!(
    /// An item of a realtime conversation: a message or a part of a function call.
    ItemId,
    "item_"
);
id!(
    /// An event that the server sends in a realtime session.
    EventId,
    "event_"
);
id!(
    /// An image, video or recording generated for an account. The value is random and not a UUIDv7,
    /// because URLs contain it.
    MediaId,
    "media_"
);
id!(
    /// A file of an account: an upload, or an output to download.
    FileId,
    "file-"
);
id!(
    /// A batch in the OpenAI format. The 128-bit value equals that of the job that runs the batch.
    BatchId,
    "batch_"
);
id!(
    /// A batch in the Messages format. The 128-bit value equals that of the job that runs the
    /// batch.
    MessageBatchId,
    "msgbatch_"
);
id!(
    /// A response with typed decisions. The 128-bit value equals that of the request.
    DecisionId,
    "dec_"
);
id!(
    /// A calibration profile for the probabilities of typed decisions.
    CalibrationId,
    "cal_"
);
id!(
    /// A saved chat of the playground.
    ChatId,
    "chat_"
);
id!(
    /// Background work that continues after the response to its request.
    JobId,
    "job_"
);
id!(
    /// A process that runs jobs, from its start to its exit.
    WorkerId,
    "worker_"
);

/// Returns the value as 32 lower-case hexadecimal digits. Every response contains an id, and the
/// standard formatter is slower.
fn hex(value: u128) -> [u8; 32] {
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(value.to_be_bytes()) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    digits
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Generates ids. Each process has one source, seeded by the operating system.
#[derive(Debug)]
pub struct IdSource {
    seed: u64,
    counter: AtomicU64,
}

impl IdSource {
    /// Creates a source. Sources with different seeds generate different sequences of ids.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            counter: AtomicU64::new(0),
        }
    }

    /// Returns a UUIDv7 value for `now`; times before the Unix epoch count as the epoch. Of the 74
    /// random bits, 12 are constant for the source and 62 are derived from a counter (SplitMix64),
    /// which requires no system call.
    pub fn next(&self, now: Timestamp) -> u128 {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let mixed = splitmix64(self.seed.wrapping_add(count.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let high = u128::from(self.seed >> 52);
        (millis(now) << 80) | (0x7 << 76) | (high << 64) | (0b10 << 62) | u128::from(mixed >> 2)
    }
}

/// Returns a lower bound of all UUIDv7 values for this time or a later one.
pub fn min_id(at: Timestamp) -> u128 {
    millis(at) << 80
}

/// Returns the time field of a UUIDv7: milliseconds since the epoch, in 48 bits.
fn millis(at: Timestamp) -> u128 {
    u128::from(at.as_micros().max(0).cast_unsigned() / 1000) & 0xFFFF_FFFF_FFFF
}

fn splitmix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_rejects_others() {
        let id = AccountId::from_u128(0x0197_0000_0000_7000_8000_0000_0000_00ff);
        assert_eq!(
            id.to_string(),
            "acct_01970000000070008000000000".to_owned() + "0000ff"
        );
        assert_eq!(id.to_string().parse(), Ok(id));
        let bad = [
            "",
            "acct_",
            "key_01970000000070008000000000000ff0",
            "acct_0197000000007000800000000000 0ff",
        ];
        for text in bad {
            assert_eq!(text.parse::<AccountId>(), Err(IdError), "{text}");
        }
        assert_eq!(
            "acct_01970000000070008000000000000FF0".parse::<AccountId>(),
            Err(IdError)
        );
    }

    #[test]
    fn ids_of_realtime_sessions_are_not_those_of_the_console() {
        let session = RealtimeSessionId::from_u128(1).to_string();
        assert_eq!(session.parse::<SessionId>(), Err(IdError));
        let console = SessionId::from_u128(1).to_string();
        assert_eq!(console.parse::<RealtimeSessionId>(), Err(IdError));
    }

    #[test]
    fn ids_are_uuid_v7_distinct_and_ordered_by_time() {
        let source = IdSource::new(42);
        let early: std::collections::HashSet<u128> = (0..10_000)
            .map(|_| source.next(Timestamp::from_micros(1_000_000)))
            .collect();
        assert_eq!(early.len(), 10_000);
        let late = source.next(Timestamp::from_micros(2_000_000));
        assert!(early.iter().all(|id| *id < late));
        let bound = min_id(Timestamp::from_micros(1_500_000));
        assert!(early.iter().all(|id| *id < bound) && bound < late);
        assert_eq!((late >> 76) & 0xf, 7);
        assert_eq!((late >> 62) & 0b11, 0b10);
    }
}
