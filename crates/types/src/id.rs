//! Identifiers: UUIDv7 values (RFC 9562) with a prefix that names the noun, such as `acct_0197…`.
//!
//! Ids sort by the time they were made, so rows keyed by them are appended and not scattered. Ids are not secrets.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clock::Timestamp;

/// A text that is not an id of the expected noun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdError;

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an id of this kind")
    }
}

impl std::error::Error for IdError {}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u128);

        impl $name {
            /// What the text form begins with.
            pub const PREFIX: &'static str = $prefix;

            /// The id with this 128-bit value.
            pub const fn from_u128(value: u128) -> Self {
                Self(value)
            }

            /// The 128-bit value.
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
    /// An API key. The key itself is a secret and is never an id.
    KeyId,
    "key_"
);
id!(
    /// One request to the public API; the value of `x-request-id`.
    RequestId,
    "req_"
);
id!(
    /// One hold. Several may live under one request.
    HoldId,
    "hold_"
);
id!(
    /// A movement of credits that is not part of a hold: a grant, a refund.
    TransferId,
    "xfer_"
);
id!(
    /// A subscription of an account.
    SubscriptionId,
    "sub_"
);
id!(
    /// A purchase of credits, from the wish to the payment.
    TopUpId,
    "topup_"
);
id!(
    /// Something that an account is told.
    NoticeId,
    "notice_"
);
id!(
    /// Somebody who may use the admin API.
    AdminId,
    "adm_"
);
id!(
    /// A line of the audit log.
    AuditId,
    "aud_"
);
id!(
    /// Somebody who belongs to an account.
    MemberId,
    "mem_"
);
id!(
    /// An answer of the responses format.
    ResponseId,
    "resp_"
);
id!(
    /// An image, video or recording that was made for an account. Random and not a UUIDv7: addresses have it.
    MediaId,
    "media_"
);
id!(
    /// What an account has uploaded, or can download.
    FileId,
    "file-"
);
id!(
    /// Many requests in one file. It has the number of the job that carries it out.
    BatchId,
    "batch_"
);
id!(
    /// A batch in the format of messages. It has the number of the job that carries it out.
    MessageBatchId,
    "msgbatch_"
);
id!(
    /// Answers to typed questions. It has the number of their request.
    DecisionId,
    "dec_"
);
id!(
    /// A profile by which probabilities of typed decisions are corrected.
    CalibrationId,
    "cal_"
);
id!(
    /// Work that goes on after its request was answered.
    JobId,
    "job_"
);
id!(
    /// A process that carries out jobs, from its start to its end.
    WorkerId,
    "worker_"
);

/// The value in 32 lower-case digits. Every request has an id in its answer, and the formatter is slow.
fn hex(value: u128) -> [u8; 32] {
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(value.to_be_bytes()) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    digits
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Makes ids. One for each process, seeded from the operating system's random source.
#[derive(Debug)]
pub struct IdSource {
    seed: u64,
    counter: AtomicU64,
}

impl IdSource {
    /// A source whose ids differ from those of every source with another seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            counter: AtomicU64::new(0),
        }
    }

    /// A UUIDv7 value at `now`. The 62 random bits are a permutation of a counter (SplitMix64), so no value
    /// repeats within the process and no system call is made.
    pub fn next(&self, now: Timestamp) -> u128 {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let mixed = splitmix64(self.seed.wrapping_add(count.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let millis = u128::from(now.as_micros().max(0).cast_unsigned() / 1000) & 0xFFFF_FFFF_FFFF;
        let high = u128::from(self.seed >> 52);
        (millis << 80) | (0x7 << 76) | (high << 64) | (0b10 << 62) | u128::from(mixed >> 2)
    }
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
    fn ids_are_uuid_v7_distinct_and_ordered_by_time() {
        let source = IdSource::new(42);
        let early: std::collections::HashSet<u128> = (0..10_000)
            .map(|_| source.next(Timestamp::from_micros(1_000_000)))
            .collect();
        assert_eq!(early.len(), 10_000);
        let late = source.next(Timestamp::from_micros(2_000_000));
        assert!(early.iter().all(|id| *id < late));
        assert_eq!((late >> 76) & 0xf, 7);
        assert_eq!((late >> 62) & 0b11, 0b10);
    }
}
