//! The admin API, on the admin listener. Each endpoint executes one command of
//! [`tollgate_operations`], as the command line does, so this module contains only HTTP code. Every
//! endpoint except the OpenAPI document requires an administrator's token.

mod accounts;
mod alerts;
mod batches;
mod credits;
pub(crate) mod host;
mod ledger;
mod models;
mod people;
mod prices;
mod providers;
mod query;
mod research;
mod sessions;
mod subscriptions;
#[cfg(test)]
mod tests;
mod top_ups;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, FromRef, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use tollgate_console::operators::OperatorConsole;
use tollgate_edge::{ApiError, Operator, OperatorAuthenticator, RequestLayer, request_layer};
use tollgate_providers::HttpClient;
use tollgate_types::{Error, ErrorCode};
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::assemble::assemble;
use crate::config::{Config, ConfigError, Flags};
use crate::console;
use crate::documentation;
use crate::provider_status::ProviderEntry;
use crate::wiring::AppState;
use tollgate_operations::{Actor, Operation, PriceTable, prices as price_tables};

/// State of the admin API's handlers.
#[derive(Clone, FromRef)]
pub struct AdminApi {
    /// Stores and services that commands use.
    pub app_state: Arc<AppState>,
    /// Authenticator of administrators by their tokens.
    pub authenticator: Arc<OperatorAuthenticator>,
    /// Settings on disk, the source of the proposed prices.
    pub settings: Arc<SettingsFile>,
}

/// The settings on disk, which may differ from those of the running server.
pub struct SettingsFile {
    flags: Flags,
    running: Config,
    http: Arc<HttpClient>,
}

impl SettingsFile {
    /// Creates a reader of the settings that a restart with these flags would load.
    pub fn new(flags: Flags, running: Config, http: Arc<HttpClient>) -> Self {
        Self { flags, running, http }
    }

    /// Loads the settings and returns their prices by model id. `previous` supplies the model lists
    /// of providers that do not respond.
    async fn prices(&self, previous: &[ProviderEntry]) -> Result<BTreeMap<String, PriceTable>, Error> {
        let refused = |error: ConfigError| Error::new(ErrorCode::InvalidParameter, error.to_string());
        let config = Config::load(&self.flags, self.running.environment.clone()).map_err(refused)?;
        let assembled = assemble(&config, &self.http, previous).await.map_err(refused)?;
        Ok(price_tables::tables(&assembled.snapshot))
    }
}

impl AdminApi {
    /// Executes a command as the administrator who sent the request.
    async fn perform<C: Operation>(&self, operator: &Operator, command: C) -> Result<C::Reply, ApiError> {
        let actor = Actor::admin(&operator.admin, operator.request);
        Ok(self.app_state.operations.execute(&actor, command).await?)
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollgate: administration",
        description = "The API for operators: accounts, keys, credits, prices and administrators. The admin listener serves \
                       it. Create a token with `tollgate admins create`. The audit log records every change.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    modifiers(&Token),
    tags(
        (name = "Accounts", description = "Accounts, their limits and keys"),
        (name = "Credits", description = "Balances, grants, refunds, top-ups, alerts, usage and the ledger"),
        (name = "Plans", description = "Plans and subscriptions"),
        (name = "Prices", description = "Current prices and their history"),
        (name = "Batches", description = "Batches of all accounts"),
        (name = "Research", description = "Research jobs of all accounts, search services and corpora"),
        (name = "Realtime", description = "Open realtime sessions of the node that responds"),
        (name = "Providers", description = "Providers, their health, and models"),
        (name = "People", description = "Administrators, members, and the audit log")
    )
)]
struct Base;

/// Modifier that adds the security scheme of admin tokens to the OpenAPI document.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut Document) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "The token of an administrator, as `Authorization: Bearer <token>`.",
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
        .merge(research::routes())
        .merge(sessions::routes())
        .merge(alerts::routes())
        .merge(top_ups::routes())
        .merge(models::routes())
        .merge(ledger::routes())
}

/// Returns the OpenAPI document of the admin API.
pub fn document() -> Document {
    let (_, described) = routes().split_for_parts();
    let mut document = Base::openapi();
    document.merge(described);
    documentation::tidy_admin(&mut document);
    document
}

/// Returns the routes of the admin API and of the operators' console, wrapped in the request layer.
/// `console` is `None` if the console is disabled.
pub fn router(api: AdminApi, console: Option<OperatorConsole>, request_layer: Arc<RequestLayer>) -> Router {
    let documentation = documentation::admin_routes(document, console.is_some());
    let api = routes().split_for_parts().0.with_state(api);
    let console = console.map(|console| console::operator_routes(console, api.clone()));
    api.merge(console.unwrap_or_default())
        .merge(documentation)
        .route("/admin/{*path}", get(nothing).fallback(nothing))
        .method_not_allowed_fallback(request_layer::method_not_allowed)
        .layer(middleware::from_fn_with_state(request_layer, in_request_layer))
}

async fn in_request_layer(
    State(request_layer): State<Arc<RequestLayer>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    request_layer
        .serve(peer.ip(), request, |request| next.run(request))
        .await
}

async fn nothing() -> ApiError {
    let message = "Unknown path. GET /admin/openapi.json lists the paths of the admin API.";
    ApiError(Error::new(ErrorCode::NotFound, message))
}
