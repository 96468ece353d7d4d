//! The identity under which a call is made.

use crate::id::{KeyId, MemberId};

/// Identity of the caller within an account: an API key, or a member with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Principal {
    /// The request had this API key.
    Key(KeyId),
    /// The request had a session of this member.
    Member(MemberId),
}

impl Principal {
    /// Returns the principal of two stored columns. At most one of them has a value.
    pub fn from_columns(key: Option<KeyId>, member: Option<MemberId>) -> Option<Self> {
        member.map(Self::Member).or(key.map(Self::Key))
    }

    /// Returns the id of the API key; `None` for a member.
    pub const fn key(self) -> Option<KeyId> {
        match self {
            Self::Key(key) => Some(key),
            Self::Member(_) => None,
        }
    }

    /// Returns the id of the member; `None` for an API key.
    pub const fn member(self) -> Option<MemberId> {
        match self {
            Self::Key(_) => None,
            Self::Member(member) => Some(member),
        }
    }
}
