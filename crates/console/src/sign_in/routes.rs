//! Handlers of the sign-in endpoints.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use tollgate_accounts::sign_in::{self, SignedIn};
use tollgate_edge::list::{Done, List, path_id};
use tollgate_edge::object_body::ObjectBody;
use tollgate_edge::session::{Page, PersonSession, invalid_session, step_up_required};
use tollgate_edge::{ApiError, ErrorBody};
use tollgate_storage::{Session, SessionOwner};
use tollgate_types::{Error, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::{
    EmailBody, EndedBody, ListedSession, PasswordBody, PasswordSignIn, PersonPatch, PersonSessionBody,
    SessionBody, SignedInBody, TokenBody,
};
use crate::ConsoleApi;

/// Returns the routes of the sign-in endpoints.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new()
        .routes(routes!(get_session))
        .routes(routes!(sign_in_by_link))
        .routes(routes!(sign_in_by_password))
        .routes(routes!(send_sign_in_link))
        .routes(routes!(sign_out))
        .routes(routes!(step_up))
        .routes(routes!(list_sessions, end_other_sessions))
        .routes(routes!(end_session))
        .routes(routes!(change_person))
        .routes(routes!(set_password))
}

/// Returns the session of the browser; null if it is not signed in.
#[utoipa::path(
    get, path = "/console/api/v1/session", tag = "Sign-in", operation_id = "get_session",
    responses((status = 200, body = SessionBody<PersonSessionBody>), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn get_session(
    page: Page,
    State(console): State<ConsoleApi>,
) -> Result<Json<SessionBody<PersonSessionBody>>, ApiError> {
    let session = match &page.visitor.session {
        Some(session) => described(&console, session).await?,
        None => None,
    };
    let service = console.service.clone();
    Ok(Json(SessionBody { session, service }))
}

/// Returns the description of a session; `None` if its person no longer exists.
async fn described(console: &ConsoleApi, session: &Session) -> Result<Option<PersonSessionBody>, Error> {
    let SessionOwner::Person(id) = session.owner else {
        return Ok(None);
    };
    let sign_ins = &console.gate.sign_ins;
    let Some(person) = sign_ins.person(id).await? else {
        return Ok(None);
    };
    let memberships = console.operations.storage.people.memberships(id).await?;
    let has_password = sign_ins.has_password(id).await?;
    let is_proof_recent = sign_ins.sessions.is_proof_recent(session);
    let described = PersonSessionBody::new(session, person, memberships, has_password, is_proof_recent);
    Ok(Some(described))
}

/// Returns the response with a new session and its cookie.
async fn signed_in(console: &ConsoleApi, page: &Page, signed_in: &SignedIn) -> Result<Response, Error> {
    let session = described(console, &signed_in.session).await?;
    let session = session.ok_or_else(invalid_session)?;
    let body = Json(SignedInBody { session });
    Ok(page.cookies.signed_in(signed_in, console.gate.clock.now(), body))
}

/// Redeems a sign-in link or an invitation. A link works once; the URL of the page has its token in
/// the fragment. If the invited address belongs to a person, that person must be signed in.
#[utoipa::path(
    post, path = "/console/api/v1/sign-in/link", tag = "Sign-in", operation_id = "sign_in_by_link",
    request_body = TokenBody,
    responses((status = 200, body = SignedInBody<PersonSessionBody>), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn sign_in_by_link(
    page: Page,
    State(console): State<ConsoleApi>,
    ObjectBody(TokenBody { token }): ObjectBody<TokenBody>,
) -> Result<Response, ApiError> {
    let gate = &console.gate;
    match gate.sign_ins.redeem(&token, false, &page.visitor).await {
        Ok(created) => {
            record(&console, &page, &created.session).await?;
            Ok(signed_in(&console, &page, &created).await?)
        }
        Err(error) => Err(gate.failed(&page, error).await),
    }
}

/// Records a sign-in in the audit log.
async fn record(console: &ConsoleApi, page: &Page, session: &Session) -> Result<(), Error> {
    if let SessionOwner::Person(person) = session.owner {
        let people = &console.operations.storage.people;
        let memberships = people.memberships(person).await?;
        console
            .operations
            .record_sign_in(&memberships, session.id, page.request())
            .await;
    }
    Ok(())
}

/// Signs a person in by e-mail address and password. After ten wrong passwords in 15 minutes, the
/// address is locked for the rest of that time, except in browsers in which the person has signed
/// in before.
#[utoipa::path(
    post, path = "/console/api/v1/sign-in/password", tag = "Sign-in", operation_id = "sign_in_by_password",
    request_body = PasswordSignIn,
    responses((status = 200, body = SignedInBody<PersonSessionBody>), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn sign_in_by_password(
    page: Page,
    State(console): State<ConsoleApi>,
    ObjectBody(PasswordSignIn { email, password }): ObjectBody<PasswordSignIn>,
) -> Result<Response, ApiError> {
    let gate = &console.gate;
    let device = page.device.as_deref();
    match gate
        .sign_ins
        .by_password(&email, &password, device, &page.visitor)
        .await
    {
        Ok((created, device)) => {
            record(&console, &page, &created.session).await?;
            let response = signed_in(&console, &page, &created).await?;
            Ok(page.cookies.known_device(&device, response))
        }
        Err(error) => Err(gate.failed(&page, error).await),
    }
}

/// Sends a link to an e-mail address that signs its person in without the password, to set a new
/// one. Its redemption ends the password and all other sessions of the person. The link works once
/// and expires in one hour. The response is the same for unknown addresses. An address gets at most
/// three links in 15 minutes.
#[utoipa::path(
    post, path = "/console/api/v1/sign-in/reset", tag = "Sign-in", operation_id = "send_sign_in_link",
    request_body = EmailBody,
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn send_sign_in_link(
    _: Page,
    State(console): State<ConsoleApi>,
    ObjectBody(EmailBody { email }): ObjectBody<EmailBody>,
) -> Result<Json<Done>, ApiError> {
    let email = sign_in::address(&email)?;
    if !console.operations.sends_mail() {
        let message = "This service sends no e-mails. Ask its operator for a sign-in link.";
        return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).into());
    }
    // The response does not wait, so that its time does not reveal whether the address is known.
    let operations = console.operations.clone();
    console
        .tasks
        .spawn(async move { operations.send_reset_link(&email).await });
    Ok(Json(Done { done: true }))
}

/// Ends the session of the browser.
#[utoipa::path(
    post, path = "/console/api/v1/sign-out", tag = "Sign-in", operation_id = "sign_out",
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn sign_out(page: Page, State(console): State<ConsoleApi>) -> Result<Response, ApiError> {
    console.gate.sign_out(&page).await?;
    Ok(page.cookies.signed_out(Json(Done { done: true })))
}

/// Authenticates the person again by password. Sensitive changes require a sign-in or a step-up in
/// the last 15 minutes.
#[utoipa::path(
    post, path = "/console/api/v1/step-up", tag = "Sign-in", operation_id = "step_up",
    request_body = PasswordBody,
    responses((status = 200, body = SignedInBody<PersonSessionBody>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn step_up(
    PersonSession {
        page,
        session,
        person,
    }: PersonSession,
    State(console): State<ConsoleApi>,
    ObjectBody(PasswordBody { password }): ObjectBody<PasswordBody>,
) -> Result<Response, ApiError> {
    let gate = &console.gate;
    match gate.sign_ins.step_up(&session, &person, &password).await {
        Ok(renewed) => Ok(signed_in(&console, &page, &renewed).await?),
        Err(error) => Err(gate.failed(&page, error).await),
    }
}

/// Lists the sessions of the person, the newest first.
#[utoipa::path(
    get, path = "/console/api/v1/sessions", tag = "Sign-in", operation_id = "list_sessions",
    responses((status = 200, body = List<ListedSession>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_sessions(
    PersonSession { session, .. }: PersonSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<List<ListedSession>>, ApiError> {
    let sessions = console.gate.sign_ins.sessions.list(session.owner).await?;
    let listed = sessions
        .into_iter()
        .map(|found| ListedSession::new(found, session.id));
    Ok(Json(List::whole(listed.collect())))
}

/// Ends all sessions of the person except the current one.
#[utoipa::path(
    delete, path = "/console/api/v1/sessions", tag = "Sign-in", operation_id = "end_other_sessions",
    responses((status = 200, body = EndedBody), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn end_other_sessions(
    PersonSession { session, .. }: PersonSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<EndedBody>, ApiError> {
    let sessions = &console.gate.sign_ins.sessions;
    let ended = sessions.end_others(session.owner, session.id).await?;
    Ok(Json(EndedBody { ended }))
}

/// Ends a session of the person.
#[utoipa::path(
    delete, path = "/console/api/v1/sessions/{id}", tag = "Sign-in", operation_id = "end_session",
    params(("id" = String, Path, description = "Id of the session.")),
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn end_session(
    PersonSession { session, .. }: PersonSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
) -> Result<Json<Done>, ApiError> {
    let id = path_id(&id, "session")?;
    console.gate.sign_ins.sessions.end(session.owner, id).await?;
    Ok(Json(Done { done: true }))
}

/// Changes the name of the person, or sets the e-mail address of a person who has none.
#[utoipa::path(
    patch, path = "/console/api/v1/person", tag = "Sign-in", operation_id = "change_person",
    request_body = PersonPatch,
    responses((status = 200, body = SignedInBody<PersonSessionBody>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn change_person(
    PersonSession { session, person, .. }: PersonSession,
    State(console): State<ConsoleApi>,
    ObjectBody(PersonPatch { email, name }): ObjectBody<PersonPatch>,
) -> Result<Json<SignedInBody<PersonSessionBody>>, ApiError> {
    let sign_ins = &console.gate.sign_ins;
    sign_ins
        .change_person(person.id, email.as_deref(), name.as_deref())
        .await?;
    let session = described(&console, &session).await?.ok_or_else(invalid_session)?;
    Ok(Json(SignedInBody { session }))
}

/// Sets the password of the person and ends all other sessions. A person who has a password must
/// have signed in, or stepped up, in the last 15 minutes.
#[utoipa::path(
    put, path = "/console/api/v1/credentials/password", tag = "Sign-in", operation_id = "set_password",
    request_body = PasswordBody,
    responses((status = 200, body = SignedInBody<PersonSessionBody>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn set_password(
    PersonSession {
        page,
        session,
        person,
    }: PersonSession,
    State(console): State<ConsoleApi>,
    ObjectBody(PasswordBody { password }): ObjectBody<PasswordBody>,
) -> Result<Response, ApiError> {
    let sign_ins = &console.gate.sign_ins;
    if !sign_ins.sessions.is_proof_recent(&session) && sign_ins.has_password(person.id).await? {
        return Err(step_up_required().into());
    }
    let renewed = sign_ins.set_password(&session, &person, &password).await?;
    Ok(signed_in(&console, &page, &renewed).await?.into_response())
}
