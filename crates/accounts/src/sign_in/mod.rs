//! Sign-in of people and administrators to the console: by link, by password or by admin token.

mod passwords;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use tollgate_storage::key::KeyDigest;
use tollgate_storage::{
    LinkPurpose, LinkTarget, Password, Person, PersonChange, PersonStore, Redemption, RedemptionOutcome,
    Session, SessionOwner, SignInLink, StorageErrorKind,
};
use tollgate_types::{AdminId, Error, ErrorCode, LinkId, MemberId, PersonId, Retry, Timestamp};

use crate::secret::{RandomToken, same_digest};
pub use passwords::{MAX_PASSWORD_CHARS, MIN_PASSWORD_CHARS, Passwords};
pub use sessions::{STEP_UP_LIFETIME, SessionLifetimes, Sessions, SignedIn, Visitor};

/// Maximum number of wrong passwords for an e-mail address, or from a known browser, per
/// [`FAILURE_PERIOD`].
const MAX_FAILURES: u32 = 10;
/// Period in which wrong passwords are counted, and after which a locked address is unlocked.
const FAILURE_PERIOD: Duration = Duration::from_secs(15 * 60);
/// Maximum number of links for an e-mail address that replace a password, per [`FAILURE_PERIOD`].
const MAX_RESETS: u32 = 3;
/// Lifetime of links that replace a password.
const RESET_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Maximum length of names, in characters.
const MAX_NAME_CHARS: usize = 100;

/// Service that signs people and administrators in.
pub struct SignIns {
    people: Arc<dyn PersonStore>,
    /// The sessions that sign-ins create.
    pub sessions: Arc<Sessions>,
    passwords: Passwords,
}

/// A link that signs in a person who has forgotten the password.
#[derive(Debug)]
pub struct ResetLink {
    /// Unique id of the link.
    pub id: LinkId,
    /// E-mail address of the person.
    pub email: String,
    /// Token of the link.
    pub token: RandomToken,
}

/// Value of the cookie that marks a browser in which a person has signed in by password. Failed
/// sign-ins from other browsers do not lock it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceToken(String);

impl DeviceToken {
    /// Returns the value of the cookie.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SignIns {
    /// Creates the service over `people` and `sessions`.
    pub fn new(people: Arc<dyn PersonStore>, sessions: Arc<Sessions>) -> Self {
        Self {
            people,
            sessions,
            passwords: Passwords::default(),
        }
    }

    fn now(&self) -> Timestamp {
        self.sessions.clock.now()
    }

    fn digest(&self, domain: &str, text: &str) -> KeyDigest {
        self.sessions.pepper.digest(&format!("{domain}:{text}"))
    }

    /// Creates a link that signs this target in once, and returns its token. Earlier links with the
    /// same purpose and target become invalid.
    pub async fn create_link(
        &self,
        purpose: LinkPurpose,
        target: LinkTarget,
        lifetime: Duration,
    ) -> Result<(SignInLink, RandomToken), Error> {
        let (now, token) = (self.now(), RandomToken::generate()?);
        let link = SignInLink {
            id: LinkId::from_u128(self.sessions.ids.next(now)),
            digest: self.sessions.pepper.digest(token.reveal()),
            purpose,
            target,
            created_at: now,
            expires_at: now.plus(lifetime),
        };
        let stored = self.people.create_link(link.clone()).await;
        stored.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => {
                let message = match target {
                    LinkTarget::Member(_) => "The member does not exist.",
                    LinkTarget::Owner(_) => "The account does not exist.",
                    LinkTarget::Admin(_) => "The administrator does not exist.",
                };
                Error::new(ErrorCode::NotFound, message)
            }
            _ => Error::from(error),
        })?;
        Ok((link, token))
    }

    /// Redeems a link. Returns `gone` for a link that is used, expired or unknown, and
    /// `permission_denied` with the parameter `sign_in` if the person of the link must sign in
    /// first. `is_admin` selects the links of administrators.
    pub async fn redeem(&self, token: &str, is_admin: bool, visitor: &Visitor) -> Result<SignedIn, Error> {
        let now = self.now();
        if !RandomToken::fits(token) {
            return Err(gone());
        }
        // The store replaces the owner of the session.
        let owner = SessionOwner::Admin(AdminId::from_u128(0));
        let SignedIn {
            session,
            token: cookie,
        } = self.sessions.prepare(owner, visitor)?;
        let signed_in = visitor.session.as_ref().and_then(|session| match session.owner {
            SessionOwner::Person(person) => Some(person),
            SessionOwner::Admin(_) => None,
        });
        let redemption = Redemption {
            digest: self.sessions.pepper.digest(token),
            is_admin,
            signed_in,
            new_person: PersonId::from_u128(self.sessions.ids.next(now)),
            new_member: MemberId::from_u128(self.sessions.ids.next(now)),
            session,
            at: now,
        };
        match self.people.redeem(redemption).await? {
            RedemptionOutcome::SignedIn(session) => {
                if let Some(replaced) = &visitor.session {
                    self.sessions.store.delete(replaced.owner, replaced.id).await?;
                }
                Ok(SignedIn {
                    session,
                    token: cookie,
                })
            }
            RedemptionOutcome::Gone => Err(gone()),
            RedemptionOutcome::NeedsSignIn { email } => {
                let message = format!(
                    "{email} has signed in here before. Sign in as {email}, then open this link again in the same browser."
                );
                Err(Error::new(ErrorCode::PermissionDenied, message).with_param("sign_in"))
            }
        }
    }

    /// Signs a person in by e-mail address and password. `device` is the cookie of a browser in
    /// which the person has signed in before. Returns `permission_denied` with the parameter
    /// `password` if either is wrong, and `rate_limit_exceeded` after too many failures.
    pub async fn by_password(
        &self,
        email: &str,
        password: &str,
        device: Option<&str>,
        visitor: &Visitor,
    ) -> Result<(SignedIn, DeviceToken), Error> {
        let email = email.trim().to_ascii_lowercase();
        let person = self.people.find(email.clone()).await?;
        let counted = match device.filter(|device| self.is_device_of(&email, device)) {
            Some(device) => self.digest("failures of device", device),
            None => self.digest("failures", &email),
        };
        let verified = self.verify(person.as_ref(), counted, password).await?;
        let Some(person) = person else {
            return Err(wrong_password());
        };
        let owner = SessionOwner::Person(person.id);
        let created = self.sessions.create(owner, visitor).await?;
        let created = self.unless_replaced(created, &person, &verified).await?;
        Ok((created, self.new_device(&email)?))
    }

    /// Creates a link that signs in the person with this e-mail address. `None` if there is no such
    /// person with an account, or if too many links were requested for the address.
    pub async fn reset_link(&self, email: &str) -> Result<Option<ResetLink>, Error> {
        let (now, email) = (self.now(), address(email)?);
        let counted = self.digest("resets", &email);
        let requested = self
            .people
            .record_failure(counted, now, now.minus(FAILURE_PERIOD))
            .await?;
        if requested.count > MAX_RESETS {
            return Ok(None);
        }
        let Some(person) = self.people.find(email.clone()).await? else {
            return Ok(None);
        };
        let memberships = self.people.memberships(person.id).await?;
        let Some(membership) = memberships.first() else {
            return Ok(None);
        };
        let target = LinkTarget::Member(membership.member.id);
        let (link, token) = self
            .create_link(LinkPurpose::PasswordReset, target, RESET_LIFETIME)
            .await?;
        Ok(Some(ResetLink {
            id: link.id,
            email,
            token,
        }))
    }

    /// Authenticates the person of a session again and replaces the session. Same errors as
    /// [`by_password`](Self::by_password).
    pub async fn step_up(
        &self,
        session: &Session,
        person: &Person,
        password: &str,
    ) -> Result<SignedIn, Error> {
        let counted = self.digest("failures of step-up", &person.id.to_string());
        let verified = self.verify(Some(person), counted, password).await?;
        let renewed = self.sessions.renew_proof(session).await?;
        self.unless_replaced(renewed, person, &verified).await
    }

    /// Returns the session, or ends it if the password is no longer the verified one. A new
    /// password ends all sessions, but not one that is created afterwards.
    async fn unless_replaced(
        &self,
        created: SignedIn,
        person: &Person,
        verified: &Password,
    ) -> Result<SignedIn, Error> {
        if self.people.password(person.id).await?.as_ref() == Some(verified) {
            return Ok(created);
        }
        let session = &created.session;
        self.sessions.store.delete(session.owner, session.id).await?;
        Err(wrong_password())
    }

    /// Verifies a password and returns the stored one. The attempt counts as a failure before the
    /// verification, so that simultaneous attempts cannot exceed the maximum.
    async fn verify(
        &self,
        person: Option<&Person>,
        counted: KeyDigest,
        password: &str,
    ) -> Result<Password, Error> {
        let now = self.now();
        let failures = self
            .people
            .record_failure(counted, now, now.minus(FAILURE_PERIOD))
            .await?;
        if failures.count > MAX_FAILURES {
            let wait = failures.since.plus(FAILURE_PERIOD).since(now);
            let message = "Too many wrong passwords. Wait until the time in the 'retry-after' header has passed, or sign in by link.";
            return Err(Error::new(ErrorCode::RateLimitExceeded, message).with_retry(Retry::After(wait)));
        }
        let stored = match person {
            Some(person) => self.people.password(person.id).await?,
            None => None,
        };
        let hash = stored.as_ref().map(|password| &*password.hash);
        let is_plausible = password.len() <= MAX_PASSWORD_CHARS * 4;
        let is_right = self
            .passwords
            .verify(password, hash.filter(|_| is_plausible))
            .await?;
        let verified = stored.filter(|_| is_right).ok_or_else(wrong_password)?;
        self.people.clear_failures(counted).await?;
        Ok(verified)
    }

    /// Returns the value of the device cookie: a random part and its digest for this address.
    fn new_device(&self, email: &str) -> Result<DeviceToken, Error> {
        let random = RandomToken::generate()?;
        let tag = self.device_tag(email, random.reveal());
        Ok(DeviceToken(format!("{}.{tag}", random.reveal())))
    }

    fn is_device_of(&self, email: &str, device: &str) -> bool {
        let Some((random, tag)) = device.split_once('.') else {
            return false;
        };
        let digest = |text: &str| self.sessions.pepper.digest(text);
        same_digest(&digest(&self.device_tag(email, random)), &digest(tag))
    }

    fn device_tag(&self, email: &str, random: &str) -> String {
        let digest = self.digest("device", &format!("{random}:{email}"));
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns a person; `None` if it does not exist.
    pub async fn person(&self, id: PersonId) -> Result<Option<Person>, Error> {
        Ok(self.people.get(id).await?)
    }

    /// Whether a person has a password.
    pub async fn has_password(&self, id: PersonId) -> Result<bool, Error> {
        Ok(self.people.password(id).await?.is_some())
    }

    /// Changes the name of a person, and the address of a person who has none.
    pub async fn change_person(
        &self,
        id: PersonId,
        email: Option<&str>,
        name: Option<&str>,
    ) -> Result<Person, Error> {
        let change = PersonChange {
            email: email.map(address).transpose()?,
            name: name.map(display_name).transpose()?,
        };
        let changed = self.people.change(id, change).await;
        changed.map_err(|error| match error.kind {
            StorageErrorKind::Conflict => {
                let message =
                    "The e-mail address belongs to someone else, or the person already has an address.";
                Error::new(ErrorCode::Conflict, message).with_param("email")
            }
            _ => Error::from(error),
        })
    }

    /// Sets the password of a session's person, replaces the session, and ends all other sessions
    /// of the person.
    pub async fn set_password(
        &self,
        session: &Session,
        person: &Person,
        password: &str,
    ) -> Result<SignedIn, Error> {
        passwords::check_new(password, person.email.as_deref())?;
        let hash = self.passwords.hash(password).await?;
        let set_at = self.now();
        let password = Password { hash, set_at };
        let set = self
            .people
            .set_password(person.id, password.clone(), session.id)
            .await;
        set.map_err(|error| match error.kind {
            StorageErrorKind::NotFound => {
                Error::new(ErrorCode::InvalidSession, "The session has ended. Sign in again.")
            }
            _ => Error::from(error),
        })?;
        let renewed = self.sessions.renew_proof(session).await?;
        self.unless_replaced(renewed, person, &password).await
    }
}

/// Parses an e-mail address and returns it in lower case. Does not check whether the address
/// exists.
pub fn address(text: &str) -> Result<String, Error> {
    let text = text.trim();
    let plain = text
        .chars()
        .all(|c| c.is_ascii_graphic() && !"<>()[],;:\\\"".contains(c));
    let parts = text.split_once('@').filter(|(name, domain)| {
        let labels = domain.split('.').all(|label| !label.is_empty());
        !name.is_empty() && labels && !domain.contains('@')
    });
    if !plain || text.len() > 254 || parts.is_none() {
        let message =
            "'email' must be an ASCII e-mail address of at most 254 characters, such as jo@example.com.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("email"));
    }
    Ok(text.to_ascii_lowercase())
}

fn display_name(text: &str) -> Result<String, Error> {
    let text = text.trim();
    if text.chars().count() > MAX_NAME_CHARS || text.chars().any(char::is_control) {
        let message = "'name' must have at most 100 characters, without control characters.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("name"));
    }
    Ok(text.to_owned())
}

fn gone() -> Error {
    let message = "This sign-in link was used, has expired or does not exist. Ask the person who sent it for a new one.";
    Error::new(ErrorCode::Gone, message)
}

fn wrong_password() -> Error {
    let message = "The e-mail address or the password is wrong.";
    Error::new(ErrorCode::PermissionDenied, message).with_param("password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_and_in_small_letters() {
        assert_eq!(address(" Jo+x@Example.COM ").unwrap(), "jo+x@example.com");
        let long = format!("{}@example.com", "a".repeat(250));
        for text in [
            "",
            "jo",
            "@example.com",
            "jo@",
            "jo@@example.com",
            "jo@a@b",
            "jo @example.com",
            "jo@example..com",
            "jo@.com",
            "<jo@example.com>",
            "jo\n@example.com",
            "jö@example.com",
            &long,
        ] {
            assert_eq!(
                address(text).unwrap_err().param.as_deref(),
                Some("email"),
                "{text}"
            );
        }
    }
}
