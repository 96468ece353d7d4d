//! Events of a stream and their ids.

use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hasher};

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tollgate_operations::MemberPermission::{self, Read, Use};
use tollgate_types::{Credits, Error, ErrorCode, JobId};
use utoipa::ToSchema;

/// Names of the topics with the permission that a member needs for each.
pub(super) const TOPICS: [(&str, MemberPermission); 5] = [
    ("balance", Read),
    ("jobs", Use),
    ("keys", Read),
    ("chats", Use),
    ("limits", Read),
];

/// Data of the event `balance`.
#[derive(Serialize, ToSchema)]
pub(super) struct BalanceEvent {
    /// Credits that can be spent.
    #[schema(value_type = String)]
    pub(super) credits: Credits,
    /// Credits held by running calls.
    #[schema(value_type = String)]
    pub(super) held: Credits,
    /// Allowance of the plan that is left in the current week.
    #[schema(value_type = String)]
    pub(super) allowance: Credits,
}

/// Data of the event `jobs`, which is sent when a job is accepted, makes progress or ends.
#[derive(Serialize, ToSchema)]
pub(super) struct JobsEvent {
    /// Number of queued and running jobs, at most 200.
    pub(super) unfinished: usize,
    /// Id of the newest job; null without jobs.
    #[schema(value_type = Option<String>)]
    pub(super) newest: Option<JobId>,
}

/// Data of the event `keys`.
#[derive(Serialize, ToSchema)]
pub(super) struct KeysEvent {
    /// Number of keys, including revoked ones.
    pub(super) count: usize,
}

/// Data of the event `chats`, which is sent when a chat is saved, renamed or deleted, and when the
/// maximum number of chats changes.
#[derive(Serialize, ToSchema)]
pub(super) struct ChatsEvent {
    /// Number of saved chats.
    pub(super) count: u32,
    /// Maximum number of saved chats.
    pub(super) limit: u32,
}

/// Data of the event `limits`, which is sent when the state, the name or a limit of the account
/// changes.
#[derive(Serialize, ToSchema)]
pub(super) struct LimitsEvent {
    /// `active`, `suspended` or `closed`.
    pub(super) state: &'static str,
}

/// The data of a topic with its version, which differs if the state differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TopicState {
    pub(super) version: u64,
    pub(super) data: Value,
}

impl TopicState {
    /// Creates the state of a topic. The version is a hash of everything that the topic announces.
    pub(super) fn new(announced: &impl Debug, data: impl Serialize) -> Result<Self, Error> {
        Ok(Self {
            version: version(announced),
            data: serde_json::to_value(data).map_err(Error::internal)?,
        })
    }
}

/// Returns a hash of the debug text, never 0.
fn version(announced: &impl Debug) -> u64 {
    struct Text(DefaultHasher);
    impl Write for Text {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    let mut text = Text(DefaultHasher::new());
    // Writing to a hasher cannot fail.
    let _ = write!(text, "{announced:?}");
    text.0.finish().max(1)
}

/// Versions of all topics that a client has received; 0 for none. Their text is the id of an event,
/// so that every node can continue a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions(pub(super) [u64; TOPICS.len()]);

impl Versions {
    /// Parses the header `last-event-id`.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut versions = Self::default();
        let mut parts = text.split('-');
        for version in &mut versions.0 {
            let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let part = parts.next().filter(is_number);
            let number = part.and_then(|part| u64::from_str_radix(part, 16).ok());
            *version = number.ok_or_else(malformed)?;
        }
        match parts.next() {
            None => Ok(versions),
            Some(_) => Err(malformed()),
        }
    }
}

fn malformed() -> Error {
    let message = "'last-event-id' must be the id of the last received event.";
    Error::new(ErrorCode::InvalidParameter, message).with_param("last-event-id")
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, version) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "-" };
            write!(f, "{separator}{version:x}")?;
        }
        Ok(())
    }
}

/// Returns an event with the versions that the client has received with it.
pub(super) fn event(name: &str, received: Versions, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\nid: {received}\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_malformed_ones_are_refused() {
        let versions = Versions([1, 0, u64::MAX, 16, 7]);
        assert_eq!(versions.to_string(), "1-0-ffffffffffffffff-10-7");
        assert_eq!(Versions::parse(&versions.to_string()).unwrap(), versions);
        for text in [
            "",
            "1",
            "1-2-3-4",
            "1-2-3-4-5-6",
            "1-2-3-4-x",
            "1-2-3-4-",
            "1-2-3-4-11111111111111111",
            "1-2-3-4-+5",
        ] {
            let refused = Versions::parse(text);
            assert_eq!(
                refused.unwrap_err().param.as_deref(),
                Some("last-event-id"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn versions_differ_with_the_state() {
        assert_eq!(version(&("a", 1)), version(&("a", 1)));
        assert_ne!(version(&("a", 1)), version(&("a", 2)));
        assert_ne!(version(&""), 0);
    }
}
