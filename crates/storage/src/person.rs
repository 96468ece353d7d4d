//! People who can sign in to the console, their passwords, and the links that sign them in once.

use async_trait::async_trait;
use tollgate_types::{AccountId, AdminId, LinkId, MemberId, PersonId, SessionId, Timestamp};

use crate::Result;
use crate::key::KeyDigest;
use crate::member::Member;
use crate::session::Session;
use crate::subscription::names;

/// A person who can sign in to the console. Members link the person to accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Unique id of the person.
    pub id: PersonId,
    /// E-mail address in lower case, unique among people; `None` until the first owner of an
    /// account has entered it.
    pub email: Option<String>,
    /// Name for display; empty if the person has not entered one.
    pub name: String,
    /// Time of the first sign-in.
    pub created_at: Timestamp,
}

/// A change to a person; `None` leaves a field unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PersonChange {
    /// The e-mail address of a person who has none.
    pub email: Option<String>,
    /// New value of [`Person::name`].
    pub name: Option<String>,
}

/// A password of a person.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    /// The hash in PHC format, with its algorithm, parameters and salt.
    pub hash: String,
    /// Time when the password was set.
    pub set_at: Timestamp,
}

names! {
    /// Purpose of a sign-in link.
    LinkPurpose {
        /// Sign-in of a member, or of the first owner of an account.
        SignIn = "sign_in",
        /// Acceptance of an invitation to an account.
        Invitation = "invitation",
        /// Sign-in of a person who has forgotten the password.
        PasswordReset = "password_reset",
    }
}

/// The identity that a sign-in link signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// A member of an account.
    Member(MemberId),
    /// The owner of an account. If it has none when the link is redeemed, the visitor becomes the
    /// first owner.
    Owner(AccountId),
    /// An administrator of the gateway.
    Admin(AdminId),
}

/// A link that signs a person or an administrator in once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInLink {
    /// Unique id of the link.
    pub id: LinkId,
    /// Digest of the token in the link.
    pub digest: KeyDigest,
    /// Purpose of the link.
    pub purpose: LinkPurpose,
    /// The identity that the link signs in.
    pub target: LinkTarget,
    /// Time when the link was created.
    pub created_at: Timestamp,
    /// Time after which the link is invalid.
    pub expires_at: Timestamp,
}

/// The redemption of a link by a visitor.
#[derive(Clone, Debug)]
pub struct Redemption {
    /// Digest of the token that the visitor presents.
    pub digest: KeyDigest,
    /// Whether the visitor is on the admin listener, which redeems only the links of
    /// administrators. The public listener redeems all other links.
    pub is_admin: bool,
    /// The person who is already signed in, if there is one.
    pub signed_in: Option<PersonId>,
    /// Id of the person, if the link creates one.
    pub new_person: PersonId,
    /// Id of the member, if the link creates one.
    pub new_member: MemberId,
    /// The session to create. The store replaces its owner by the identity of the link.
    pub session: Session,
    /// Time of the redemption.
    pub at: Timestamp,
}

/// The outcome of a redemption. Every outcome except a sign-in leaves the storage unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedemptionOutcome {
    /// The link was redeemed, and the session was created with this owner.
    SignedIn(Session),
    /// The link is unknown, used or expired, or its member, account or administrator no longer
    /// exists. Nothing was written.
    Gone,
    /// The e-mail address of the member belongs to a person who has signed in before. The link
    /// remains valid until that person, signed in, redeems it. Nothing was written.
    NeedsSignIn {
        /// The e-mail address of the member.
        email: String,
    },
}

/// A member with its account, for the person of the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The member of the person.
    pub member: Member,
    /// Name of the member's account.
    pub account_name: String,
}

/// An invitation that was not accepted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The invited member.
    pub member: MemberId,
    /// Time after which the newest invitation of the member is invalid.
    pub expires_at: Timestamp,
}

/// Failed sign-ins of one e-mail address or device since the start of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignInFailures {
    /// Number of failures.
    pub count: u32,
    /// Time of the first failure of the period.
    pub since: Timestamp,
}

/// Stores people, their passwords, sign-in links and failed sign-ins.
#[async_trait]
pub trait PersonStore: Send + Sync {
    /// Returns the person; `None` if there is none.
    async fn get(&self, id: PersonId) -> Result<Option<Person>>;

    /// Returns the person with this e-mail address, in lower case; `None` if there is none.
    async fn find(&self, email: String) -> Result<Option<Person>>;

    /// Lists the memberships of a person in accounts that are not closed, sorted by member id.
    async fn memberships(&self, id: PersonId) -> Result<Vec<Membership>>;

    /// Changes the person and returns it. A new address is also set for the members of the person
    /// that have none. `NotFound` if the person does not exist. `Conflict` if the person already
    /// has another address, another person has the new one, or another member of an account of the
    /// person has it.
    async fn change(&self, id: PersonId, change: PersonChange) -> Result<Person>;

    /// Returns the password of a person; `None` if none is set.
    async fn password(&self, id: PersonId) -> Result<Option<Password>>;

    /// Sets the password of a person and deletes the person's sessions except `session`, in one
    /// atomic step. `NotFound` if the person has no such session.
    async fn set_password(&self, id: PersonId, password: Password, session: SessionId) -> Result<()>;

    /// Stores a link and deletes earlier links with the same purpose and target. `NotFound` if the
    /// member, account or administrator does not exist.
    async fn create_link(&self, link: SignInLink) -> Result<()>;

    /// Redeems a link in one atomic step: compares the whole digest, deletes the link, creates what
    /// is missing, and creates the session. Of several simultaneous redemptions, one succeeds.
    ///
    /// The link of a member that has a person signs that person in. An invitation of such a member
    /// is `Gone`, because its creator knows it, too. A password reset also deletes the password and
    /// all other sessions of the person: someone else may have set the password, even before the
    /// owner of the address signed in first. The link of another member signs in the person
    /// with the member's address only if that person is already signed in
    /// ([`RedemptionOutcome::NeedsSignIn`] otherwise), for the same reason. If no person has the
    /// address, a new person is created and becomes the person of the member.
    ///
    /// The link of an account signs in its first owner (the lowest member id), as described for
    /// members. If the account has no owner, the signed-in person becomes its owner, or a new
    /// person with an empty address if the visitor is not signed in. A member that already is this
    /// person becomes an owner, and so does an invited member with the address of this person.
    async fn redeem(&self, redemption: Redemption) -> Result<RedemptionOutcome>;

    /// Lists the invitations of an account that were not accepted, expired or not, sorted by
    /// member.
    async fn invitations(&self, account: AccountId) -> Result<Vec<Invitation>>;

    /// Returns the failed sign-ins of this digest of an e-mail address or device; `None` if the
    /// period began before `since` or there are none.
    async fn failures(&self, digest: KeyDigest, since: Timestamp) -> Result<Option<SignInFailures>>;

    /// Counts a failed sign-in and returns the failures of the period, which begins anew if it
    /// began before `since`.
    async fn record_failure(
        &self,
        digest: KeyDigest,
        at: Timestamp,
        since: Timestamp,
    ) -> Result<SignInFailures>;

    /// Forgets the failed sign-ins of a digest.
    async fn clear_failures(&self, digest: KeyDigest) -> Result<()>;

    /// Deletes at most `limit` links and periods of failed sign-ins, each, that ended before
    /// `before`, and returns their number. Links of invitations are deleted 30 days later. The
    /// length of a period is the difference of `at` and `since` when its last failure was recorded.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64>;
}
