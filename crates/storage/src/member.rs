//! The people of an account.

use async_trait::async_trait;
use tollgate_types::{AccountId, MemberId, Timestamp};

use crate::Result;
use crate::subscription::names;

names! {
    /// What a member may do with the account.
    MemberRole {
        /// Everything. Once an account has an owner, it always has one.
        Owner = "owner",
        /// Everything but to close the account or to change owners.
        Admin = "admin",
        /// Use it.
        Member = "member",
        /// Look at it.
        Viewer = "viewer",
    }
}

impl MemberRole {
    /// The only owner among the members of an account.
    pub fn last_owner(members: &[Member]) -> Option<MemberId> {
        let mut owners = members.iter().filter(|member| member.role == MemberRole::Owner);
        match (owners.next(), owners.next()) {
            (Some(only), None) => Some(only.id),
            _ => None,
        }
    }
}

/// Somebody who belongs to an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Id.
    pub id: MemberId,
    /// Which account.
    pub account: AccountId,
    /// Address, in small letters; once in an account.
    pub email: String,
    /// What the member may do.
    pub role: MemberRole,
    /// Since when.
    pub created_at: Timestamp,
}

/// Stores members. What would leave an account that has an owner without one is a `Conflict`, whatever runs at once.
#[async_trait]
pub trait MemberStore: Send + Sync {
    /// Stores the member. `NotFound` when the account does not exist, `Conflict` when it has a member of this address.
    async fn add(&self, member: Member) -> Result<()>;

    /// Members of an account in order of id.
    async fn list(&self, account: AccountId) -> Result<Vec<Member>>;

    /// Changes a member's role and answers the member as it was. `NotFound` when the account has no such member,
    /// `Conflict` when it is the last owner.
    async fn set_role(&self, account: AccountId, id: MemberId, role: MemberRole) -> Result<Member>;

    /// Removes a member and answers it. `NotFound` when the account has no such member, `Conflict` when it is the last
    /// owner.
    async fn remove(&self, account: AccountId, id: MemberId) -> Result<Member>;
}
