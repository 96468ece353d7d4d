//! Bodies of the sign-in endpoints.

use serde::Serialize;
use tollgate_edge::object_body::{Members, Read};
use tollgate_storage::{Membership, Person, Session};
use tollgate_types::{AccountId, Error, MemberId, PersonId, SessionId};
use utoipa::ToSchema;

/// The session of the browser, and the service that it is signed in to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionBody<T> {
    /// The session; null if the browser is not signed in.
    pub(crate) session: Option<T>,
    /// Name, support contact and version of the service.
    pub(crate) service: ServiceBody,
}

/// The service of a console.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ServiceBody {
    /// Name of the service (`service.slug`).
    pub name: String,
    /// Contact for help (`service.support`).
    pub support: Option<String>,
    /// Version of the gateway.
    pub version: String,
    /// Whether the service can send a sign-in link by e-mail.
    pub sends_mail: bool,
}

/// The session that a sign-in has created.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SignedInBody<T> {
    /// The session. Its cookie is in the header `set-cookie`, unless the session existed before.
    pub(crate) session: T,
}

/// A session of a person, with the accounts that it gives access to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PersonSessionBody {
    /// Id of the session: `sess_…`.
    #[schema(value_type = String)]
    id: SessionId,
    /// The signed-in person.
    person: PersonBody,
    /// Accounts that the person is a member of.
    accounts: Vec<MembershipBody>,
    /// Time of the sign-in, RFC 3339.
    created_at: String,
    /// Time when the session ends, RFC 3339.
    expires_at: String,
    /// Time of the last sign-in or step-up, RFC 3339.
    proved_at: String,
    /// Whether the person has no password yet.
    setup_required: bool,
    /// Whether sensitive changes require a step-up first.
    step_up_required: bool,
}

/// The person of a session.
#[derive(Debug, Serialize, ToSchema)]
struct PersonBody {
    /// Id of the person: `pers_…`.
    #[schema(value_type = String)]
    id: PersonId,
    /// E-mail address; null if the person has not entered one.
    email: Option<String>,
    /// Name for display; may be empty.
    name: String,
    /// Whether the person has a password.
    has_password: bool,
}

/// An account of a person.
#[derive(Debug, Serialize, ToSchema)]
struct MembershipBody {
    /// Id of the account: `acct_…`.
    #[schema(value_type = String)]
    id: AccountId,
    /// Name of the account.
    name: String,
    /// `owner`, `admin`, `billing`, `member` or `viewer`.
    role: &'static str,
    /// Id of the person as a member of the account: `mem_…`.
    #[schema(value_type = String)]
    member_id: MemberId,
}

impl PersonSessionBody {
    pub(crate) fn new(
        session: &Session,
        person: Person,
        memberships: Vec<Membership>,
        has_password: bool,
        is_proof_recent: bool,
    ) -> Self {
        let account = |membership: Membership| MembershipBody {
            id: membership.member.account,
            name: membership.account_name,
            role: membership.member.role.as_str(),
            member_id: membership.member.id,
        };
        Self {
            id: session.id,
            person: PersonBody {
                id: person.id,
                email: person.email,
                name: person.name,
                has_password,
            },
            accounts: memberships.into_iter().map(account).collect(),
            created_at: session.created_at.to_rfc3339(),
            expires_at: session.expires_at.to_rfc3339(),
            proved_at: session.proved_at.to_rfc3339(),
            setup_required: !has_password,
            step_up_required: !is_proof_recent,
        }
    }
}

/// A signed-in browser.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedSession {
    /// Id of the session: `sess_…`.
    #[schema(value_type = String)]
    id: SessionId,
    /// Browser and system, such as `Firefox on Linux`.
    client: String,
    /// IP address of the sign-in.
    address: String,
    /// Time of the sign-in, RFC 3339.
    created_at: String,
    /// Time of the last request, RFC 3339; accurate to one minute.
    last_seen_at: String,
    /// Time when the session ends, RFC 3339.
    expires_at: String,
    /// Whether this request belongs to the session.
    current: bool,
}

impl ListedSession {
    pub(crate) fn new(session: Session, current: SessionId) -> Self {
        Self {
            id: session.id,
            client: session.client,
            address: session.address,
            created_at: session.created_at.to_rfc3339(),
            last_seen_at: session.last_seen_at.to_rfc3339(),
            expires_at: session.expires_at.to_rfc3339(),
            current: session.id == current,
        }
    }
}

/// The number of sessions that were ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedBody {
    /// Number of sessions.
    pub(crate) ended: u64,
}

/// The token of a sign-in link or of an administrator.
#[derive(ToSchema)]
pub(crate) struct TokenBody {
    /// The token, from the fragment of the link's URL.
    pub(crate) token: String,
}

impl Read for TokenBody {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            token: members.required("token", "a string")?,
        })
    }
}

/// An e-mail address and its password.
#[derive(ToSchema)]
pub(crate) struct PasswordSignIn {
    /// E-mail address of the person.
    pub(crate) email: String,
    /// Password of the person.
    pub(crate) password: String,
}

impl Read for PasswordSignIn {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            email: members.required("email", "an e-mail address")?,
            password: members.required("password", "a string")?,
        })
    }
}

/// The e-mail address of a person.
#[derive(ToSchema)]
pub(crate) struct EmailBody {
    pub(crate) email: String,
}

impl Read for EmailBody {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            email: members.required("email", "an e-mail address")?,
        })
    }
}

/// The current password of a step-up, or a new password.
#[derive(ToSchema)]
pub(crate) struct PasswordBody {
    /// The password: 12 to 128 characters.
    pub(crate) password: String,
}

impl Read for PasswordBody {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            password: members.required("password", "a string of 12 to 128 characters")?,
        })
    }
}

/// Changes to the signed-in person.
#[derive(ToSchema)]
pub(crate) struct PersonPatch {
    /// E-mail address, for a person who has none.
    pub(crate) email: Option<String>,
    /// Name for display: at most 100 characters.
    pub(crate) name: Option<String>,
}

impl Read for PersonPatch {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            email: members.optional("email", "an e-mail address")?,
            name: members.optional("name", "a string of at most 100 characters")?,
        })
    }
}
