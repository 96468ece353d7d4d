//! The console: its pages, its API for sessions, and the public and admin APIs for sessions.

mod access;
pub(crate) mod pages;
pub(crate) mod start_links;

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use tollgate_console::operators::OperatorConsole;
use tollgate_console::{ConsoleApi, ServiceBody};
use tollgate_edge::session::{
    OperatorSession, SessionCaller, SessionGate, SessionOperator, step_up_required,
};
use tollgate_edge::{ApiError, request_layer};
use tollgate_operations::check_not_suspended;
use tollgate_web::Console;
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};

use crate::documentation;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollgate: console",
        description = "The API of the console, for signed-in people. A request has the cookie of a session, comes from a page \
                       of the console, and has the header `x-tollgate-account` with the id of an account, or `-`. The paths of \
                       the public API are available below `/console/v1`, and on the admin listener those of the admin API below \
                       `/console/admin/v1`."
    ),
    modifiers(&Session),
    tags(
        (name = "Sign-in", description = "Sessions, passwords and sign-in links"),
        (name = "Operators", description = "Sessions of administrators, on the admin listener"),
        (name = "Account", description = "The account of the session"),
        (name = "Keys", description = "API keys of the account"),
        (name = "Chats", description = "Saved chats of the playground"),
        (name = "Usage", description = "Calls of the account, and their costs over time"),
        (name = "Billing", description = "Balance, credits, plans and statements of the account"),
        (name = "People", description = "Members and invitations of the account")
    )
)]
struct Base;

/// Modifier that adds the security scheme of sessions to the OpenAPI document.
struct Session;

impl utoipa::Modify for Session {
    fn modify(&self, document: &mut Document) {
        let cookie = ApiKeyValue::with_description(
            "__Host-tollgate",
            "The cookie of a session; `tollgate` on HTTP on the loopback.",
        );
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    }
}

/// Returns the OpenAPI document of the console API.
pub fn document() -> Document {
    let (_, described) = tollgate_console::console_routes().split_for_parts();
    let (_, operators) = tollgate_console::operators::routes().split_for_parts();
    let mut document = Base::openapi();
    document.merge(described);
    document.merge(operators);
    documentation::tidy_admin(&mut document);
    document
}

/// Returns the description of the service for the pages.
pub(crate) fn service(slug: &str, support: Option<&str>, sends_mail: bool) -> ServiceBody {
    ServiceBody {
        name: slug.to_owned(),
        support: support.map(str::to_owned),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sends_mail,
    }
}

/// Builds the routes of the console on the public listener. `api` are the routes of the public API.
pub(crate) fn routes(console: ConsoleApi, api: Router) -> Router {
    let gate = console.gate.clone();
    let own = tollgate_console::console_routes()
        .split_for_parts()
        .0
        .with_state(console);
    let for_sessions = api.route_layer(middleware::from_fn_with_state(gate, authenticate_member));
    let apis = Router::new().merge(own).nest("/console", for_sessions);
    pages::routes(Console::Account).merge(uncached(apis))
}

/// Builds the routes of the console on the admin listener. `api` are the routes of the admin API
/// without their prefix `/admin`.
pub(crate) fn operator_routes(console: OperatorConsole, api: Router) -> Router {
    let gate = console.gate.clone();
    let own = tollgate_console::operators::routes()
        .split_for_parts()
        .0
        .with_state(console);
    let for_sessions = api.route_layer(middleware::from_fn_with_state(gate, authenticate_operator));
    let apis = Router::new().merge(own).nest("/console", for_sessions);
    pages::routes(Console::Operator).merge(uncached(apis))
}

/// Marks the responses of APIs as not cacheable.
fn uncached(apis: Router) -> Router {
    apis.method_not_allowed_fallback(request_layer::method_not_allowed)
        .layer(middleware::map_response(|mut response: Response| async move {
            // Media stay cacheable; streams of events do not.
            let headers = response.headers_mut();
            let cached = headers.get(CACHE_CONTROL).filter(|value| *value != "no-cache");
            if cached.is_none() {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            }
            response
        }))
}

/// Authenticates a request to the public API by its session, and checks the member's permissions.
async fn authenticate_member(State(gate): State<Arc<SessionGate>>, request: Request, next: Next) -> Response {
    match admit_member(&gate, request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn admit_member(gate: &SessionGate, request: Request) -> Result<Request, ApiError> {
    let (mut parts, body) = request.into_parts();
    // The nested router has removed the prefix `/console`.
    let Some(access) = access::access(&parts.method, parts.uri.path()) else {
        return Err(request_layer::not_found().await);
    };
    let (session, caller) = gate.caller(&parts).await?;
    access.permission.check(session.member.role)?;
    if !parts.method.is_safe() {
        check_not_suspended(&session.account)?;
    }
    if access.needs_proof && !gate.sign_ins.sessions.is_proof_recent(&session.session) {
        return Err(step_up_required().into());
    }
    parts.extensions.insert(SessionCaller {
        caller,
        session: session.session.id,
    });
    Ok(Request::from_parts(parts, body))
}

/// Authenticates a request to the admin API by the session of an administrator.
async fn authenticate_operator(
    State(gate): State<Arc<SessionGate>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    match OperatorSession::from_request_parts(&mut parts, &gate).await {
        Ok(session) => {
            parts.extensions.insert(SessionOperator(session.admin));
            next.run(Request::from_parts(parts, body)).await
        }
        Err(error) => error.into_response(),
    }
}
