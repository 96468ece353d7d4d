//! Members: the people who may use an account.

use async_trait::async_trait;
use tollgate_types::{AccountId, MemberId, PersonId, Timestamp};

use crate::Result;
use crate::subscription::names;

names! {
    /// Permissions of a member within the account.
    MemberRole {
        /// All permissions. The last owner of an account can be neither removed nor demoted.
        Owner = "owner",
        /// All permissions except closing the account and changing owners.
        Admin = "admin",
        /// Use of the account.
        Member = "member",
        /// Read access to the account, and its purchases of credits and plans.
        Billing = "billing",
        /// Read access to the account.
        Viewer = "viewer",
    }
}

impl MemberRole {
    /// Returns the only owner of an account; `None` if it has none or several.
    pub fn last_owner(members: &[Member]) -> Option<MemberId> {
        let mut owners = members.iter().filter(|member| member.role == MemberRole::Owner);
        match (owners.next(), owners.next()) {
            (Some(only), None) => Some(only.id),
            _ => None,
        }
    }
}

/// A person with access to an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Unique id of the member.
    pub id: MemberId,
    /// Account of the member.
    pub account: AccountId,
    /// The person of the member; `None` if no one has accepted the invitation.
    pub person: Option<PersonId>,
    /// E-mail address in lower case, unique within the account; empty until the first owner of the
    /// account has entered it.
    pub email: String,
    /// Permissions of the member.
    pub role: MemberRole,
    /// Time when the member was added.
    pub created_at: Timestamp,
}

/// Stores members. Removing or demoting the last owner of an account is a `Conflict`, even if calls
/// run concurrently.
#[async_trait]
pub trait MemberStore: Send + Sync {
    /// Stores the member. `NotFound` if the account does not exist, `Conflict` if it already has a
    /// member with this address or person.
    async fn add(&self, member: Member) -> Result<()>;

    /// Lists the members of an account, sorted by id.
    async fn list(&self, account: AccountId) -> Result<Vec<Member>>;

    /// Returns the member of the account that is this person; `None` if the person is not a member.
    async fn of_person(&self, account: AccountId, person: PersonId) -> Result<Option<Member>>;

    /// Changes a member's role and returns the member as it was before. `NotFound` if the account
    /// has no such member, `Conflict` if the change would demote the last owner.
    async fn set_role(&self, account: AccountId, id: MemberId, role: MemberRole) -> Result<Member>;

    /// Removes a member with its sign-in links and returns it. `NotFound` if the account has no
    /// such member, `Conflict` if the member is the last owner.
    async fn remove(&self, account: AccountId, id: MemberId) -> Result<Member>;
}
