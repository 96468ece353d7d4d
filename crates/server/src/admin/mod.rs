//! The admin API, on the admin listener. Each endpoint is one command of [`crate::control`], which the command line has
//! too: here is only what is about HTTP. Every endpoint asks for an administrator's token but the document.

mod accounts;
mod answer;
mod batches;
mod body;
mod credits;
mod people;
mod prices;
mod providers;
mod query;
mod subscriptions;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, FromRef, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use tollgate_edge::{ApiError, Operator, OperatorGate, Shell, shell};
use tollgate_providers::HttpClient;
use tollgate_types::{Error, ErrorCode};
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::assemble::assemble;
use crate::config::{Config, ConfigError, Flags};
use crate::control::{self, Actor, Command, PriceTable, Reply, perform};
use crate::documentation;
use crate::wiring::Domains;

/// What the handlers need.
#[derive(Clone, FromRef)]
pub struct AdminApi {
    /// What commands work on.
    pub domains: Arc<Domains>,
    /// Who administers.
    pub gate: Arc<OperatorGate>,
    /// Where the prices are.
    pub settings: Arc<SettingsFile>,
}

/// The settings as they are on the disk, which may be other ones than those that run.
pub struct SettingsFile {
    flags: Flags,
    running: Config,
    http: Arc<HttpClient>,
}

impl SettingsFile {
    /// The settings that a server with these would read.
    pub fn new(flags: Flags, running: Config, http: Arc<HttpClient>) -> Self {
        Self { flags, running, http }
    }

    /// The prices that they have, by model.
    async fn prices(&self) -> Result<BTreeMap<String, PriceTable>, Error> {
        let refused = |error: ConfigError| Error::new(ErrorCode::InvalidParameter, error.to_string());
        let config = Config::load(&self.flags, self.running.environment.clone()).map_err(refused)?;
        let assembled = assemble(&config, &self.http).await.map_err(refused)?;
        Ok(control::prices::tables(&assembled.snapshot))
    }
}

impl AdminApi {
    /// Carries out a command for whoever sent the request.
    async fn perform(&self, operator: &Operator, command: Command) -> Result<Reply, ApiError> {
        let actor = Actor::admin(&operator.admin, operator.request);
        Ok(perform(&self.domains, &actor, command).await?)
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollgate: administration",
        description = "Accounts, keys, credits, and who may change them. It is on the admin listener and takes the tokens \
                       that `tollgate admins create` makes. Every change is in the audit log.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    modifiers(&Token),
    tags(
        (name = "Accounts", description = "Accounts, their limits and keys"),
        (name = "Credits", description = "What accounts have, get and spend"),
        (name = "Plans", description = "What accounts pay for by the period"),
        (name = "Prices", description = "Which are in force, and which were"),
        (name = "Providers", description = "Who is called, and how that goes"),
        (name = "People", description = "Administrators, members, and what was changed by whom")
    )
)]
struct Base;

/// How a token is sent.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut Document) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "A token of an administrator, as `Authorization: Bearer <token>`.",
            ))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

fn routes() -> OpenApiRouter<AdminApi> {
    accounts::routes()
        .merge(credits::routes())
        .merge(subscriptions::routes())
        .merge(people::routes())
        .merge(prices::routes())
        .merge(providers::routes())
        .merge(batches::routes())
}

/// The document that describes the admin API.
pub fn document() -> Document {
    let (_, described) = routes().split_for_parts();
    let mut document = Base::openapi();
    document.merge(described);
    documentation::tidy_admin(&mut document);
    document
}

/// The routes of the admin API behind the shell.
pub fn router(api: AdminApi, shell: Arc<Shell>) -> Router {
    let document = documentation::document_route(document());
    routes()
        .split_for_parts()
        .0
        .with_state(api)
        .route("/admin/openapi.json", document)
        .route("/admin/{*path}", get(nothing).fallback(nothing))
        .method_not_allowed_fallback(shell::method_not_allowed)
        .layer(middleware::from_fn_with_state(shell, in_shell))
}

async fn in_shell(
    State(shell): State<Arc<Shell>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    shell.serve(peer.ip(), request, |request| next.run(request)).await
}

async fn nothing() -> ApiError {
    let message =
        "There is nothing at this path. GET /admin/openapi.json describes the paths of the admin API.";
    ApiError(Error::new(ErrorCode::NotFound, message))
}
