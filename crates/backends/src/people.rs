//! SQL of people and sign-in links that SQLite and PostgreSQL share, and the decision about the
//! redemption of a link.

use std::time::Duration;

use tollgate_storage::{
    Invitation, LinkPurpose, LinkTarget, Member, MemberRole, Membership, Password, Person, Redemption,
    RedemptionOutcome, Result, Session, SessionOwner, SignInFailures, SignInLink, StorageError,
    StorageErrorKind,
};
use tollgate_types::{AccountId, AdminId, LinkId, MemberId, PersonId, Timestamp};

use crate::columns::columns;
use crate::rows::admin::MemberColumns;
use crate::rows::{corrupt, digest_from, id_bytes, id_from};

pub(crate) const GET: &str = "SELECT * FROM person WHERE id = $1";
pub(crate) const FIND: &str = "SELECT * FROM person WHERE email = $1";
pub(crate) const ADD: &str = "INSERT INTO person (id, email, name, created_at) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (email) DO NOTHING";
pub(crate) const MEMBERSHIPS: &str = "SELECT member.*, account.name AS account_name FROM member \
    JOIN account ON account.id = member.account_id \
    WHERE member.person_id = $1 AND account.state <> 'closed' ORDER BY member.id";
pub(crate) const CHANGE: &str = "UPDATE person SET email = $2, name = $3 WHERE id = $1";
/// Selects a member with the address `$2`, beside the person `$1` in an account.
pub(crate) const NAMESAKE: &str = "SELECT other.id FROM member AS own \
    JOIN member AS other ON other.account_id = own.account_id AND other.email = $2 \
    WHERE own.person_id = $1 AND other.id <> own.id LIMIT 1";
pub(crate) const SET_ADDRESS: &str = "UPDATE member SET email = $2 WHERE person_id = $1 AND email = ''";
pub(crate) const PASSWORD: &str =
    "SELECT data, set_at FROM credential WHERE person_id = $1 AND kind = 'password'";
/// Sets the password of the person `$1`, if the session `$4` is one of this person.
pub(crate) const SET_PASSWORD: &str = "INSERT INTO credential (id, person_id, kind, data, set_at) \
    SELECT person_id, person_id, 'password', $2, $3 FROM session WHERE person_id = $1 AND id = $4 \
    ON CONFLICT (id) DO UPDATE SET data = excluded.data, set_at = excluded.set_at";
pub(crate) const DELETE_PASSWORD: &str = "DELETE FROM credential WHERE person_id = $1 AND kind = 'password'";
pub(crate) const ADD_LINK: &str = "INSERT INTO sign_in_link (id, digest, digest_prefix, purpose, member_id, account_id, \
    admin_id, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
pub(crate) const DELETE_LINKS: &str = "DELETE FROM sign_in_link WHERE purpose = $1 \
    AND (member_id = $2 OR account_id = $3 OR admin_id = $4)";
pub(crate) const FIND_LINK: &str = "SELECT * FROM sign_in_link WHERE digest_prefix = $1";
pub(crate) const DELETE_LINK: &str = "DELETE FROM sign_in_link WHERE id = $1";
pub(crate) const DELETE_LINKS_OF_MEMBER: &str = "DELETE FROM sign_in_link WHERE member_id = $1";
pub(crate) const INVITATIONS: &str = "SELECT sign_in_link.member_id, sign_in_link.expires_at FROM member \
    JOIN sign_in_link ON sign_in_link.member_id = member.id \
    WHERE member.account_id = $1 AND member.person_id IS NULL AND sign_in_link.purpose = 'invitation' \
    ORDER BY sign_in_link.member_id";
pub(crate) const FAILURES: &str =
    "SELECT failures, began_at FROM sign_in_failure WHERE digest = $1 AND began_at >= $2";
/// Counts a failure at `$2`. A period that began before `$3` begins anew. `$4` is its length.
pub(crate) const RECORD_FAILURE: &str = "INSERT INTO sign_in_failure (digest, failures, began_at, ends_at) \
    VALUES ($1, 1, $2, $2 + $4) ON CONFLICT (digest) DO UPDATE SET \
    failures = CASE WHEN sign_in_failure.began_at < $3 THEN 1 ELSE sign_in_failure.failures + 1 END, \
    began_at = CASE WHEN sign_in_failure.began_at < $3 THEN $2 ELSE sign_in_failure.began_at END, \
    ends_at = CASE WHEN sign_in_failure.began_at < $3 THEN $2 ELSE sign_in_failure.began_at END + $4 \
    RETURNING failures, began_at";
pub(crate) const CLEAR_FAILURES: &str = "DELETE FROM sign_in_failure WHERE digest = $1";

/// Time between the expiry of an invitation and its deletion. Until then, its account lists it.
pub(crate) const INVITATION_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Binds a person to [`ADD`], for any engine.
macro_rules! bind_person {
    ($person:expr) => {{
        let person: &tollgate_storage::Person = $person;
        sqlx::query($crate::people::ADD)
            .bind($crate::rows::id_bytes(person.id.as_u128()))
            .bind(person.email.clone())
            .bind(person.name.clone())
            .bind(person.created_at.as_micros())
    }};
}

/// Binds a password to [`SET_PASSWORD`], for any engine.
macro_rules! bind_password {
    ($person:expr, $password:expr, $session:expr) => {
        sqlx::query($crate::people::SET_PASSWORD)
            .bind($crate::rows::id_bytes($person.as_u128()))
            .bind($password.hash)
            .bind($password.set_at.as_micros())
            .bind($crate::rows::id_bytes($session.as_u128()))
    };
}

/// Binds a link to [`ADD_LINK`], for any engine.
macro_rules! bind_link {
    ($link:expr) => {{
        let link: &tollgate_storage::SignInLink = $link;
        let [member, account, admin] = $crate::people::target_columns(link.target);
        sqlx::query($crate::people::ADD_LINK)
            .bind($crate::rows::id_bytes(link.id.as_u128()))
            .bind(link.digest.to_vec())
            .bind(link.digest[..16].to_vec())
            .bind(link.purpose.as_str())
            .bind(member)
            .bind(account)
            .bind(admin)
            .bind(link.created_at.as_micros())
            .bind(link.expires_at.as_micros())
    }};
}

/// Binds the purpose and target of a link to [`DELETE_LINKS`], for any engine.
macro_rules! delete_links {
    ($link:expr) => {{
        let link: &tollgate_storage::SignInLink = $link;
        let [member, account, admin] = $crate::people::target_columns(link.target);
        sqlx::query($crate::people::DELETE_LINKS)
            .bind(link.purpose.as_str())
            .bind(member)
            .bind(account)
            .bind(admin)
    }};
}

/// Binds a failed sign-in to [`RECORD_FAILURE`], for any engine.
macro_rules! record_failure {
    ($digest:expr, $at:expr, $since:expr) => {
        sqlx::query($crate::people::RECORD_FAILURE)
            .bind($digest.to_vec())
            .bind($at.as_micros())
            .bind($since.as_micros())
            .bind($at.as_micros().saturating_sub($since.as_micros()))
    };
}

pub(crate) use {bind_link, bind_password, bind_person, delete_links, record_failure};

/// Returns the columns `member_id`, `account_id` and `admin_id` of a target. Two columns are null.
pub(crate) fn target_columns(target: LinkTarget) -> [Option<Vec<u8>>; 3] {
    match target {
        LinkTarget::Member(id) => [Some(id_bytes(id.as_u128())), None, None],
        LinkTarget::Owner(id) => [None, Some(id_bytes(id.as_u128())), None],
        LinkTarget::Admin(id) => [None, None, Some(id_bytes(id.as_u128()))],
    }
}

/// Returns the person after the change of its address. Returns `Conflict` if it has another
/// address.
pub(crate) fn with_address(person: Person, email: String) -> Result<Person> {
    match person.email {
        Some(known) if known != email => Err(StorageError::new(
            StorageErrorKind::Conflict,
            format!("{} already has an e-mail address", person.id),
        )),
        _ => Ok(Person {
            email: Some(email),
            ..person
        }),
    }
}

/// Returns the `Conflict` error for an address that another member of an account has.
pub(crate) fn address_taken() -> StorageError {
    let message = "another member of an account has this e-mail address";
    StorageError::new(StorageErrorKind::Conflict, message)
}

/// Whether the visitor can redeem the link at this time, if its target still exists.
pub(crate) fn is_redeemable(link: &SignInLink, redemption: &Redemption) -> bool {
    let is_admin = matches!(link.target, LinkTarget::Admin(_));
    link.digest == redemption.digest && is_admin == redemption.is_admin && redemption.at <= link.expires_at
}

/// The decision about a redemption.
pub(crate) enum Decision {
    /// The redemption writes nothing.
    Refused(RedemptionOutcome),
    /// The redemption makes these changes, deletes the link and creates the session.
    SignIn(Box<SignIn>),
}

/// Changes of a redemption, apart from the link.
pub(crate) struct SignIn {
    /// A person to create.
    pub(crate) new_person: Option<Person>,
    /// A member to create or to update.
    pub(crate) member: Option<MemberWrite>,
    /// The session to create.
    pub(crate) session: Session,
}

/// A change of a member.
pub(crate) enum MemberWrite {
    /// Creates the member.
    Add(Member),
    /// Updates the person and the role.
    Update(Member),
}

impl SignIn {
    /// Returns the person whose password the redemption of this link deletes; `None` if it deletes
    /// none.
    pub(crate) fn reset_person(&self, link: &SignInLink) -> Option<PersonId> {
        match self.session.owner {
            SessionOwner::Person(id) if link.purpose == LinkPurpose::PasswordReset => Some(id),
            _ => None,
        }
    }

    /// Signs in a person or an administrator who exists.
    pub(crate) fn existing(owner: SessionOwner, redemption: &Redemption) -> SignIn {
        SignIn {
            new_person: None,
            member: None,
            session: Session {
                owner,
                ..redemption.session.clone()
            },
        }
    }

    /// Signs in a new person. Its address is empty if `email` is.
    fn new(email: &str, redemption: &Redemption) -> (PersonId, SignIn) {
        let person = Person {
            id: redemption.new_person,
            email: (!email.is_empty()).then(|| email.to_owned()),
            name: String::new(),
            created_at: redemption.at,
        };
        let id = person.id;
        let sign_in = SignIn {
            new_person: Some(person),
            ..SignIn::existing(SessionOwner::Person(id), redemption)
        };
        (id, sign_in)
    }
}

/// Returns the member that a link signs in. `members` are those of its account, sorted by id.
/// `None` if the member was removed or the account has no owner.
fn target_member(target: LinkTarget, members: &[Member]) -> Option<&Member> {
    let is_target = |member: &&Member| match target {
        LinkTarget::Member(id) => member.id == id,
        LinkTarget::Owner(_) => member.role == MemberRole::Owner,
        LinkTarget::Admin(_) => false,
    };
    members.iter().find(is_target)
}

/// Returns the address whose person must be known for [`decide`]; `None` if no address matters.
pub(crate) fn decisive_address(target: LinkTarget, members: &[Member]) -> Option<String> {
    let member = target_member(target, members).filter(|member| member.person.is_none());
    member.map(|member| member.email.clone())
}

/// Decides about the redemption of a link to an account or one of its members. `people` are the
/// signed-in person and the person with the [`decisive_address`], as far as they exist. The
/// invitation of a member that has a person is gone, because its inviter knows it.
pub(crate) fn decide(
    link: &SignInLink,
    members: &[Member],
    people: &[Person],
    redemption: &Redemption,
) -> Decision {
    let target = link.target;
    match (target, target_member(target, members)) {
        (_, Some(member)) if member.person.is_some() && link.purpose == LinkPurpose::Invitation => {
            Decision::Refused(RedemptionOutcome::Gone)
        }
        (_, Some(member)) => decide_member(member, people, redemption),
        (LinkTarget::Owner(account), None) => {
            Decision::SignIn(Box::new(first_owner(account, members, people, redemption)))
        }
        (_, None) => Decision::Refused(RedemptionOutcome::Gone),
    }
}

fn decide_member(member: &Member, people: &[Person], redemption: &Redemption) -> Decision {
    if let Some(person) = member.person {
        let sign_in = SignIn::existing(SessionOwner::Person(person), redemption);
        return Decision::SignIn(Box::new(sign_in));
    }
    let known = people
        .iter()
        .find(|person| person.email.as_ref() == Some(&member.email));
    let (person, sign_in) = match known {
        None => SignIn::new(&member.email, redemption),
        Some(known) if redemption.signed_in == Some(known.id) => {
            let owner = SessionOwner::Person(known.id);
            (known.id, SignIn::existing(owner, redemption))
        }
        Some(_) => {
            let email = member.email.clone();
            return Decision::Refused(RedemptionOutcome::NeedsSignIn { email });
        }
    };
    let accepted = Member {
        person: Some(person),
        ..member.clone()
    };
    Decision::SignIn(Box::new(SignIn {
        member: Some(MemberWrite::Update(accepted)),
        ..sign_in
    }))
}

/// Makes the visitor the first owner of an account without owners.
fn first_owner(account: AccountId, members: &[Member], people: &[Person], redemption: &Redemption) -> SignIn {
    let visitor = people
        .iter()
        .find(|person| redemption.signed_in == Some(person.id));
    let email = visitor.and_then(|person| person.email.clone());
    let (person, sign_in) = match visitor {
        Some(person) => {
            let owner = SessionOwner::Person(person.id);
            (person.id, SignIn::existing(owner, redemption))
        }
        None => SignIn::new("", redemption),
    };
    // The signed-in person may have been invited, too.
    let is_invited = |member: &&Member| member.person.is_none() && email.as_ref() == Some(&member.email);
    let member = members
        .iter()
        .find(|member| member.person == Some(person))
        .or_else(|| members.iter().find(is_invited));
    let member = match member {
        Some(member) => MemberWrite::Update(Member {
            person: Some(person),
            role: MemberRole::Owner,
            ..member.clone()
        }),
        None => MemberWrite::Add(Member {
            id: redemption.new_member,
            account,
            person: Some(person),
            email: email.unwrap_or_default(),
            role: MemberRole::Owner,
            created_at: redemption.at,
        }),
    };
    SignIn {
        member: Some(member),
        ..sign_in
    }
}

columns! {
    /// A row of `person`.
    pub(crate) struct PersonColumns {
        id: Vec<u8>,
        email: Option<String>,
        name: String,
        created_at: i64,
    }
}

impl TryFrom<PersonColumns> for Person {
    type Error = StorageError;

    fn try_from(columns: PersonColumns) -> Result<Person> {
        Ok(Person {
            id: PersonId::from_u128(id_from(&columns.id)?),
            email: columns.email,
            name: columns.name,
            created_at: Timestamp::from_micros(columns.created_at),
        })
    }
}

columns! {
    /// A row of [`MEMBERSHIPS`].
    pub(crate) struct MembershipColumns {
        account_name: String,
    } with {
        member: MemberColumns,
    }
}

impl TryFrom<MembershipColumns> for Membership {
    type Error = StorageError;

    fn try_from(columns: MembershipColumns) -> Result<Membership> {
        Ok(Membership {
            member: columns.member.try_into()?,
            account_name: columns.account_name,
        })
    }
}

columns! {
    /// A row of [`PASSWORD`].
    pub(crate) struct PasswordColumns {
        data: String,
        set_at: i64,
    }
}

impl TryFrom<PasswordColumns> for Password {
    type Error = StorageError;

    fn try_from(columns: PasswordColumns) -> Result<Password> {
        Ok(Password {
            hash: columns.data,
            set_at: Timestamp::from_micros(columns.set_at),
        })
    }
}

columns! {
    /// A row of `sign_in_link`.
    pub(crate) struct LinkColumns {
        id: Vec<u8>,
        digest: Vec<u8>,
        purpose: String,
        member_id: Option<Vec<u8>>,
        account_id: Option<Vec<u8>>,
        admin_id: Option<Vec<u8>>,
        created_at: i64,
        expires_at: i64,
    }
}

impl TryFrom<LinkColumns> for SignInLink {
    type Error = StorageError;

    fn try_from(columns: LinkColumns) -> Result<SignInLink> {
        let target = match (columns.member_id, columns.account_id, columns.admin_id) {
            (Some(id), None, None) => LinkTarget::Member(MemberId::from_u128(id_from(&id)?)),
            (None, Some(id), None) => LinkTarget::Owner(AccountId::from_u128(id_from(&id)?)),
            (None, None, Some(id)) => LinkTarget::Admin(AdminId::from_u128(id_from(&id)?)),
            _ => return Err(corrupt("a sign-in link must have one target")),
        };
        let purpose = LinkPurpose::parse(&columns.purpose);
        Ok(SignInLink {
            id: LinkId::from_u128(id_from(&columns.id)?),
            digest: digest_from(columns.digest)?,
            purpose: purpose.ok_or_else(|| corrupt(format!("unknown link purpose '{}'", columns.purpose)))?,
            target,
            created_at: Timestamp::from_micros(columns.created_at),
            expires_at: Timestamp::from_micros(columns.expires_at),
        })
    }
}

columns! {
    /// A row of [`INVITATIONS`].
    pub(crate) struct InvitationColumns {
        member_id: Vec<u8>,
        expires_at: i64,
    }
}

impl TryFrom<InvitationColumns> for Invitation {
    type Error = StorageError;

    fn try_from(columns: InvitationColumns) -> Result<Invitation> {
        Ok(Invitation {
            member: MemberId::from_u128(id_from(&columns.member_id)?),
            expires_at: Timestamp::from_micros(columns.expires_at),
        })
    }
}

columns! {
    /// A row of [`FAILURES`] or [`RECORD_FAILURE`].
    pub(crate) struct FailureColumns {
        failures: i64,
        began_at: i64,
    }
}

impl TryFrom<FailureColumns> for SignInFailures {
    type Error = StorageError;

    fn try_from(columns: FailureColumns) -> Result<SignInFailures> {
        Ok(SignInFailures {
            count: u32::try_from(columns.failures).unwrap_or(u32::MAX),
            since: Timestamp::from_micros(columns.began_at),
        })
    }
}

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    GET,
    FIND,
    ADD,
    MEMBERSHIPS,
    CHANGE,
    NAMESAKE,
    SET_ADDRESS,
    PASSWORD,
    SET_PASSWORD,
    DELETE_PASSWORD,
    ADD_LINK,
    DELETE_LINKS,
    FIND_LINK,
    DELETE_LINK,
    DELETE_LINKS_OF_MEMBER,
    INVITATIONS,
    FAILURES,
    RECORD_FAILURE,
    CLEAR_FAILURES,
];
