//! Sessions of the console: the rules of their cookies, and the extractors that authenticate them.
//!
//! A session counts only if its cookie is valid, a page of the same origin sent the request, the
//! header `x-tollgate-account` is present, and no header has a key. Browsers send neither the
//! header nor `Sec-Fetch-Site: same-origin` for pages of other sites.

mod client;
mod site;

use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, COOKIE, SET_COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_accounts::sign_in::SignedIn;
use tollgate_accounts::{Admins, Caller, DeviceToken, SignIns, Visitor};
use tollgate_storage::{
    Account, AccountState, AccountStore, Admin, Budget, Member, MemberStore, Person, Session, SessionOwner,
};
use tollgate_types::{AccountId, Clock, Error, ErrorCode, PersonId, RequestId, SessionId, Timestamp};

use crate::auth::Authenticator;
use crate::context::{RequestContext, context_of};
use crate::error::ApiError;
use crate::failed_keys::FailedKeys;
pub use site::{Scheme, Site};

/// Header that names the account of a request, or `-` if it concerns no account.
const ACCOUNT: HeaderName = HeaderName::from_static("x-tollgate-account");
/// Headers that present a key.
const KEY_HEADERS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-goog-api-key"),
    HeaderName::from_static("api-key"),
];
/// Lifetime of the cookie that marks a known browser, in seconds: one year.
const DEVICE_SECONDS: i64 = 365 * 24 * 60 * 60;

/// The two consoles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// Console of members, on the public listener.
    Accounts,
    /// Console of administrators, on the admin listener.
    Operators,
}

/// Shared state of the extractors.
pub struct SessionGate {
    /// The console whose sessions are accepted.
    pub console: Console,
    /// The addresses of the console.
    pub site: Site,
    /// Service that creates and authenticates sessions.
    pub sign_ins: Arc<SignIns>,
    /// Authenticator of the public API, which counts requests of members; `None` in the operators'
    /// console.
    pub authenticator: Option<Arc<Authenticator>>,
    /// Accounts of members.
    pub accounts: Arc<dyn AccountStore>,
    /// Members of accounts.
    pub members: Arc<dyn MemberStore>,
    /// Administrators, whose revocation ends their sessions.
    pub admins: Arc<Admins>,
    /// Counter of failed sign-ins, which delays clients that try many.
    pub failed: FailedKeys,
    /// The installation's clock.
    pub clock: Arc<dyn Clock>,
}

impl SessionGate {
    /// Slows down a client whose sign-in failed, if it has failed often, and returns the error.
    pub async fn failed(&self, page: &Page, error: Error) -> ApiError {
        if matches!(
            error.code,
            ErrorCode::PermissionDenied | ErrorCode::Gone | ErrorCode::InvalidApiKey
        ) {
            self.failed.slow_down(page.ctx.peer).await;
        }
        error.into()
    }

    /// Ends the session of a request, if it has one.
    pub async fn sign_out(&self, page: &Page) -> Result<(), Error> {
        match &page.visitor.session {
            Some(session) => self.sign_ins.sessions.end(session.owner, session.id).await,
            None => Ok(()),
        }
    }

    /// Checks that a page of this console sent the request, and authenticates its session if it has
    /// a valid one.
    async fn page(&self, parts: &Parts) -> Result<Page, ApiError> {
        let ctx = context_of(parts)?;
        let scheme = self.site.scheme_of(parts, &ctx)?;
        let account = match parts.headers.get(ACCOUNT).map(HeaderValue::as_bytes) {
            None => None,
            Some(b"-") => Some(None),
            Some(text) => Some(Some(account_id(text)?)),
        };
        let has_key = KEY_HEADERS.iter().any(|name| parts.headers.contains_key(name));
        let Some(account) = account.filter(|_| !has_key && site::is_same_origin(parts, scheme)) else {
            return Err(invalid_session().into());
        };
        let cookies = Cookies {
            console: self.console,
            scheme,
        };
        let session = match cookies.find(&parts.headers, cookies.session_name()) {
            Some(cookie) => self.sign_ins.sessions.authenticate(cookie).await?,
            None => None,
        };
        let session = session.filter(|session| match session.owner {
            SessionOwner::Person(_) => self.console == Console::Accounts,
            SessionOwner::Admin(_) => self.console == Console::Operators,
        });
        let user_agent = parts.headers.get(USER_AGENT);
        let user_agent = user_agent
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let device = cookies.find(&parts.headers, cookies.device_name());
        Ok(Page {
            visitor: Visitor {
                client: client::client_name(user_agent),
                address: ctx.peer.to_string(),
                session,
            },
            device: device.map(str::to_owned),
            account,
            cookies,
            ctx,
        })
    }

    /// Returns the caller of a session, for the routes of the public API.
    pub async fn caller(&self, parts: &Parts) -> Result<(MemberSession, Caller), ApiError> {
        let session = self.member(parts).await?;
        let caller = session.caller();
        Ok((session, caller))
    }

    /// Whether the session of a long response is still valid, and its member has the same role in
    /// an account that is not closed.
    pub async fn is_current(&self, session: &MemberSession) -> Result<bool, Error> {
        if !self.sign_ins.sessions.is_current(&session.session).await? {
            return Ok(false);
        }
        let membership = self.membership(session.account.id, session.person.id).await?;
        Ok(membership.is_some_and(|(member, _)| member.role == session.member.role))
    }

    /// Returns a person as a member of an account, with the account; `None` if the account is
    /// closed.
    async fn membership(
        &self,
        account: AccountId,
        person: PersonId,
    ) -> Result<Option<(Member, Account)>, Error> {
        let member = self.members.of_person(account, person).await?;
        let account = self.accounts.get(account).await?;
        Ok(member.zip(account.filter(|account| account.state != AccountState::Closed)))
    }

    /// Returns the session of a member, and counts the request like reads of the public API.
    async fn counted_member(&self, parts: &Parts) -> Result<MemberSession, ApiError> {
        let session = self.member(parts).await?;
        if let Some(authenticator) = &self.authenticator {
            authenticator
                .count(&session.caller(), &session.page.ctx, Budget::Control)
                .await?;
        }
        Ok(session)
    }

    async fn person(&self, parts: &Parts) -> Result<PersonSession, ApiError> {
        let page = self.page(parts).await?;
        let session = page.visitor.session.clone().ok_or_else(invalid_session)?;
        let SessionOwner::Person(id) = session.owner else {
            return Err(invalid_session().into());
        };
        let person = self.sign_ins.person(id).await?.ok_or_else(invalid_session)?;
        Ok(PersonSession {
            page,
            session,
            person,
        })
    }

    async fn member(&self, parts: &Parts) -> Result<MemberSession, ApiError> {
        let PersonSession {
            page,
            session,
            person,
        } = self.person(parts).await?;
        let Some(account) = page.account else {
            let message = "Send the id of the account in the header 'x-tollgate-account'.";
            return Err(ApiError(
                Error::new(ErrorCode::InvalidParameter, message).with_param("x-tollgate-account"),
            ));
        };
        let Some((member, account)) = self.membership(account, person.id).await? else {
            let error = Error::new(ErrorCode::NotFound, "The account does not exist.");
            return Err(error.with_param("x-tollgate-account").into());
        };
        Ok(MemberSession {
            page,
            session,
            person,
            member,
            account: Arc::new(account),
        })
    }

    async fn operator(&self, parts: &Parts) -> Result<OperatorSession, ApiError> {
        let page = self.page(parts).await?;
        let session = page.visitor.session.clone().ok_or_else(invalid_session)?;
        let SessionOwner::Admin(id) = session.owner else {
            return Err(invalid_session().into());
        };
        let admin = self.admins.active(id).await?.ok_or_else(invalid_session)?;
        Ok(OperatorSession { page, session, admin })
    }
}

/// A request of a page of this console, signed in or not.
#[derive(Clone, Debug)]
pub struct Page {
    /// The browser, with its valid session.
    pub visitor: Visitor,
    /// Value of the cookie of a browser in which a person has signed in by password.
    pub device: Option<String>,
    /// The account in the header `x-tollgate-account`.
    pub account: Option<AccountId>,
    /// The cookies of this console.
    pub cookies: Cookies,
    ctx: Arc<RequestContext>,
}

impl Page {
    /// Returns the id of the request.
    pub fn request(&self) -> RequestId {
        self.ctx.id
    }
}

/// A request of a signed-in person.
#[derive(Clone, Debug)]
pub struct PersonSession {
    /// The request, with the browser and its cookies.
    pub page: Page,
    /// The session of the person.
    pub session: Session,
    /// The signed-in person.
    pub person: Person,
}

/// A request of a signed-in person to one of the person's accounts.
#[derive(Clone, Debug)]
pub struct MemberSession {
    /// The request, with the browser and its cookies.
    pub page: Page,
    /// The session of the person.
    pub session: Session,
    /// The signed-in person.
    pub person: Person,
    /// The person as a member of the account.
    pub member: Member,
    /// The account of the request.
    pub account: Arc<Account>,
}

impl MemberSession {
    fn caller(&self) -> Caller {
        Caller::of_member(self.account.clone(), self.member.id)
    }
}

/// A request of a signed-in administrator.
#[derive(Clone, Debug)]
pub struct OperatorSession {
    /// The request, with the browser and its cookies.
    pub page: Page,
    /// The session of the administrator.
    pub session: Session,
    /// The signed-in administrator.
    pub admin: Admin,
}

macro_rules! extractor {
    ($type:ty, $method:ident) => {
        impl<S: Send + Sync> FromRequestParts<S> for $type
        where
            Arc<SessionGate>: FromRef<S>,
        {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
                Arc::<SessionGate>::from_ref(state).$method(parts).await
            }
        }
    };
}

extractor!(Page, page);
extractor!(PersonSession, person);
extractor!(MemberSession, counted_member);
extractor!(OperatorSession, operator);

/// Caller that a layer has authenticated by its session. The extractors of the public API accept it
/// in place of a key.
#[derive(Clone, Debug)]
pub struct SessionCaller {
    /// The member, as the caller of the public API.
    pub caller: Caller,
    /// Session of the member.
    pub session: SessionId,
}

/// Administrator that a layer has authenticated by its session. The extractor of the admin API
/// accepts it in place of a token.
#[derive(Clone, Debug)]
pub struct SessionOperator(pub Admin);

/// The names and attributes of a console's cookies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookies {
    console: Console,
    scheme: Scheme,
}

impl Cookies {
    fn session_name(self) -> &'static str {
        match (self.scheme, self.console) {
            (Scheme::Https, Console::Accounts) => "__Host-tollgate",
            (Scheme::Https, Console::Operators) => "__Host-tollgate-operator",
            (Scheme::LoopbackHttp, Console::Accounts) => "tollgate",
            (Scheme::LoopbackHttp, Console::Operators) => "tollgate-operator",
        }
    }

    fn device_name(self) -> &'static str {
        match self.scheme {
            Scheme::Https => "__Host-tollgate-device",
            Scheme::LoopbackHttp => "tollgate-device",
        }
    }

    /// Returns the value of a cookie; `None` if it is missing, or present with several values.
    fn find<'a>(self, headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
        let pairs = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'));
        let mut values = pairs
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(found, _)| *found == name)
            .map(|(_, value)| value);
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)
    }

    fn header(self, name: &str, value: &str, max_age_seconds: i64) -> Option<HeaderValue> {
        let secure = match self.scheme {
            Scheme::Https => "; Secure",
            Scheme::LoopbackHttp => "",
        };
        let text =
            format!("{name}={value}; Path=/; Max-Age={max_age_seconds}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(text).ok()
    }

    /// Adds the cookie of a new session to a response.
    pub fn signed_in(self, signed_in: &SignedIn, now: Timestamp, response: impl IntoResponse) -> Response {
        let seconds = signed_in.session.expires_at.as_seconds() - now.as_seconds();
        let cookie = self.header(self.session_name(), signed_in.token.reveal(), seconds.max(0));
        with_cookie(response.into_response(), cookie)
    }

    /// Adds the cookie that marks a known browser to a response.
    pub fn known_device(self, device: &DeviceToken, response: Response) -> Response {
        let cookie = self.header(self.device_name(), device.as_str(), DEVICE_SECONDS);
        with_cookie(response, cookie)
    }

    /// Removes the cookie of the session from the browser.
    pub fn signed_out(self, response: impl IntoResponse) -> Response {
        let cookie = self.header(self.session_name(), "", 0);
        with_cookie(response.into_response(), cookie)
    }
}

fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

fn account_id(text: &[u8]) -> Result<AccountId, Error> {
    let id = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    id.ok_or_else(|| {
        Error::new(ErrorCode::NotFound, "The account does not exist.").with_param("x-tollgate-account")
    })
}

/// Returns the error for a request without a valid session.
pub fn invalid_session() -> Error {
    let message = "The request has no valid session. Sign in to the console again.";
    Error::new(ErrorCode::InvalidSession, message)
}

/// Returns the error for a change that requires a recent sign-in.
pub fn step_up_required() -> Error {
    let message = "This change requires a recent sign-in. Enter the password again, or sign in again.";
    Error::new(ErrorCode::PermissionDenied, message).with_param("step_up")
}
