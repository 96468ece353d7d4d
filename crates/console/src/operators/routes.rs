//! Handlers of the sessions of administrators.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRef, Path, State};
use axum::response::Response;
use serde::Serialize;
use tollgate_accounts::sign_in::SignedIn;
use tollgate_accounts::{Admins, KeyError};
use tollgate_edge::list::{Done, List, path_id};
use tollgate_edge::object_body::ObjectBody;
use tollgate_edge::session::{OperatorSession, Page, SessionGate, invalid_session};
use tollgate_edge::{ApiError, ErrorBody};
use tollgate_operations::Operations;
use tollgate_storage::{Admin, Session, SessionOwner};
use tollgate_types::{AdminId, Error, ErrorCode, SessionId};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::sign_in::wire::{EndedBody, ListedSession, ServiceBody, SessionBody, SignedInBody, TokenBody};

/// Shared state of the handlers.
#[derive(Clone, FromRef)]
pub struct OperatorConsole {
    /// Authenticator of sessions.
    pub gate: Arc<SessionGate>,
    /// Administrators and their tokens.
    pub admins: Arc<Admins>,
    /// Writer of the audit log.
    pub operations: Arc<Operations>,
    /// Name, support contact and version of the service.
    pub service: ServiceBody,
}

/// Returns the routes of the sessions of administrators.
pub fn routes() -> OpenApiRouter<OperatorConsole> {
    OpenApiRouter::new()
        .routes(routes!(get_operator_session))
        .routes(routes!(sign_in_operator_by_token))
        .routes(routes!(sign_in_operator_by_link))
        .routes(routes!(sign_out_operator))
        .routes(routes!(list_operator_sessions, end_other_operator_sessions))
        .routes(routes!(end_operator_session))
}

/// A session of an administrator.
#[derive(Debug, Serialize, ToSchema)]
struct AdminSessionBody {
    /// Id of the session: `sess_…`.
    #[schema(value_type = String)]
    id: SessionId,
    /// The signed-in administrator.
    admin: SignedInAdmin,
    /// Time of the sign-in, RFC 3339.
    created_at: String,
    /// Time when the session ends, RFC 3339.
    expires_at: String,
}

/// A signed-in administrator.
#[derive(Debug, Serialize, ToSchema)]
struct SignedInAdmin {
    /// Id of the administrator: `adm_…`.
    #[schema(value_type = String)]
    id: AdminId,
    /// Name of the administrator.
    name: String,
    /// `viewer`, `support`, `billing` or `owner`.
    role: &'static str,
}

/// Returns the description of a session; `None` if its administrator was revoked.
async fn described(console: &OperatorConsole, session: &Session) -> Result<Option<AdminSessionBody>, Error> {
    let admin = match session.owner {
        SessionOwner::Admin(id) => console.admins.active(id).await?,
        SessionOwner::Person(_) => None,
    };
    Ok(admin.map(|admin| AdminSessionBody {
        id: session.id,
        admin: SignedInAdmin {
            id: admin.id,
            name: admin.name,
            role: admin.role.as_str(),
        },
        created_at: session.created_at.to_rfc3339(),
        expires_at: session.expires_at.to_rfc3339(),
    }))
}

async fn signed_in(console: &OperatorConsole, page: &Page, created: &SignedIn) -> Result<Response, ApiError> {
    let session = described(console, &created.session).await?;
    let session = session.ok_or_else(invalid_session)?;
    let body = Json(SignedInBody { session });
    Ok(page.cookies.signed_in(created, console.gate.clock.now(), body))
}

/// Records a sign-in in the audit log.
async fn record(console: &OperatorConsole, page: &Page, admin: &Admin, created: &SignedIn) {
    let (operations, request) = (&console.operations, page.request());
    operations
        .record_admin_sign_in(admin, created.session.id, request)
        .await;
}

/// Returns the session of the browser; null if it is not signed in.
#[utoipa::path(
    get, path = "/console/admin/v1/session", tag = "Operators", operation_id = "get_operator_session",
    responses((status = 200, body = SessionBody<AdminSessionBody>), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn get_operator_session(
    page: Page,
    State(console): State<OperatorConsole>,
) -> Result<Json<SessionBody<AdminSessionBody>>, ApiError> {
    let session = match &page.visitor.session {
        Some(session) => described(&console, session).await?,
        None => None,
    };
    let service = console.service.clone();
    Ok(Json(SessionBody { session, service }))
}

/// Signs an administrator in by admin token.
#[utoipa::path(
    post, path = "/console/admin/v1/sign-in/token", tag = "Operators", operation_id = "sign_in_operator_by_token",
    request_body = TokenBody,
    responses((status = 200, body = SignedInBody<AdminSessionBody>), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn sign_in_operator_by_token(
    page: Page,
    State(console): State<OperatorConsole>,
    ObjectBody(TokenBody { token }): ObjectBody<TokenBody>,
) -> Result<Response, ApiError> {
    let gate = &console.gate;
    let admin = match console.admins.authenticate(token.trim()).await {
        Ok(admin) => admin,
        Err(KeyError::Invalid) => {
            let message = "The admin token is malformed, revoked or unknown.";
            let error = Error::new(ErrorCode::PermissionDenied, message).with_param("token");
            return Err(gate.failed(&page, error).await);
        }
        Err(KeyError::Storage(error)) => return Err(Error::internal(error.to_string()).into()),
    };
    let owner = SessionOwner::Admin(admin.id);
    let created = gate.sign_ins.sessions.create(owner, &page.visitor).await?;
    record(&console, &page, &admin, &created).await;
    signed_in(&console, &page, &created).await
}

/// Redeems a sign-in link of an administrator. A link works once.
#[utoipa::path(
    post, path = "/console/admin/v1/sign-in/link", tag = "Operators", operation_id = "sign_in_operator_by_link",
    request_body = TokenBody,
    responses((status = 200, body = SignedInBody<AdminSessionBody>), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn sign_in_operator_by_link(
    page: Page,
    State(console): State<OperatorConsole>,
    ObjectBody(TokenBody { token }): ObjectBody<TokenBody>,
) -> Result<Response, ApiError> {
    let gate = &console.gate;
    match gate.sign_ins.redeem(&token, true, &page.visitor).await {
        Ok(created) => {
            if let SessionOwner::Admin(id) = created.session.owner
                && let Some(admin) = console.admins.active(id).await?
            {
                record(&console, &page, &admin, &created).await;
            }
            signed_in(&console, &page, &created).await
        }
        Err(error) => Err(gate.failed(&page, error).await),
    }
}

/// Ends the session of the browser.
#[utoipa::path(
    post, path = "/console/admin/v1/sign-out", tag = "Operators", operation_id = "sign_out_operator",
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security((), ("session" = []))
)]
async fn sign_out_operator(page: Page, State(console): State<OperatorConsole>) -> Result<Response, ApiError> {
    console.gate.sign_out(&page).await?;
    Ok(page.cookies.signed_out(Json(Done { done: true })))
}

/// Lists the sessions of the administrator, the newest first.
#[utoipa::path(
    get, path = "/console/admin/v1/sessions", tag = "Operators", operation_id = "list_operator_sessions",
    responses((status = 200, body = List<ListedSession>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_operator_sessions(
    OperatorSession { session, .. }: OperatorSession,
    State(console): State<OperatorConsole>,
) -> Result<Json<List<ListedSession>>, ApiError> {
    let sessions = console.gate.sign_ins.sessions.list(session.owner).await?;
    let listed = sessions
        .into_iter()
        .map(|found| ListedSession::new(found, session.id));
    Ok(Json(List::whole(listed.collect())))
}

/// Ends all sessions of the administrator except the current one.
#[utoipa::path(
    delete, path = "/console/admin/v1/sessions", tag = "Operators", operation_id = "end_other_operator_sessions",
    responses((status = 200, body = EndedBody), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn end_other_operator_sessions(
    OperatorSession { session, .. }: OperatorSession,
    State(console): State<OperatorConsole>,
) -> Result<Json<EndedBody>, ApiError> {
    let sessions = &console.gate.sign_ins.sessions;
    let ended = sessions.end_others(session.owner, session.id).await?;
    Ok(Json(EndedBody { ended }))
}

/// Ends a session of the administrator.
#[utoipa::path(
    delete, path = "/console/admin/v1/sessions/{id}", tag = "Operators", operation_id = "end_operator_session",
    params(("id" = String, Path, description = "Id of the session.")),
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn end_operator_session(
    OperatorSession { session, .. }: OperatorSession,
    State(console): State<OperatorConsole>,
    Path(id): Path<String>,
) -> Result<Json<Done>, ApiError> {
    let id = path_id(&id, "session")?;
    console.gate.sign_ins.sessions.end(session.owner, id).await?;
    Ok(Json(Done { done: true }))
}
