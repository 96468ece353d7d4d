//! API crate for models, usage, webhook secrets, the events of payment providers, and the console.

pub mod audit;
pub mod calls;
pub mod chats;
pub mod deliveries;
pub mod keys;
pub mod live;
pub mod models;
pub mod money;
pub mod operators;
pub mod payments;
pub mod people;
pub mod playground;
pub mod sign_in;
pub mod usage;
pub mod webhooks;

use std::sync::Arc;

use axum::Json;
use axum::extract::FromRef;
use tokio_util::task::TaskTracker;
use tollgate_accounts::WebhookSecrets;
use tollgate_billing::TopUps;
use tollgate_catalog::Catalog;
use tollgate_edge::session::{MemberSession, SessionGate};
use tollgate_edge::{ApiError, Authenticator};
use tollgate_operations::{Actor, Operation, Operations};
use tollgate_storage::{LedgerStore, SubscriptionStore, UsageStore};
use tollgate_types::Clock;

pub use chats::SavedChats;
pub use live::Live;
pub use sign_in::wire::ServiceBody;

/// Shared state of this crate's handlers.
#[derive(Clone, FromRef)]
pub struct Console {
    /// Authenticator of callers, which also counts their requests.
    pub authenticator: Arc<Authenticator>,
    pub catalog: Arc<Catalog>,
    pub ledger: Arc<dyn LedgerStore>,
    pub usage: Arc<dyn UsageStore>,
    /// Source of plans and subscriptions.
    pub subscriptions: Arc<dyn SubscriptionStore>,
    /// Credit purchases, if they are configured.
    pub top_ups: Option<Arc<TopUps>>,
    /// Secrets that sign webhook requests to accounts.
    pub webhook_secrets: WebhookSecrets,
    /// Source of the current time, which determines the current week.
    pub clock: Arc<dyn Clock>,
    pub chats: SavedChats,
}

/// Returns all routes of the public API in this crate.
pub fn routes() -> utoipa_axum::router::OpenApiRouter<Console> {
    models::routes()
        .merge(usage::routes())
        .merge(payments::routes())
        .merge(webhooks::routes())
        .merge(playground::routes())
}

/// Shared state of the console API's handlers.
#[derive(Clone, FromRef)]
pub struct ConsoleApi {
    /// Authenticator of sessions.
    pub gate: Arc<SessionGate>,
    /// Executor of the commands that members may run.
    pub operations: Arc<Operations>,
    /// Saved chats of the playground.
    pub chats: SavedChats,
    /// Streams of changes to open pages.
    pub live: Arc<Live>,
    /// Tasks that outlive their request. A shutdown waits for them.
    pub tasks: TaskTracker,
    /// Description of the service for the pages.
    pub service: ServiceBody,
}

impl ConsoleApi {
    /// Executes a command as the member of the session.
    async fn perform<C: Operation>(
        &self,
        session: &MemberSession,
        command: C,
    ) -> Result<Json<C::Reply>, ApiError> {
        Ok(Json(
            self.operations.execute(&Self::actor(session), command).await?,
        ))
    }

    /// Returns the member of the session as the actor of commands.
    fn actor(session: &MemberSession) -> Actor {
        Actor::member(&session.member, session.page.request())
    }
}

/// Returns the routes of the console API, for sessions of people.
pub fn console_routes() -> utoipa_axum::router::OpenApiRouter<ConsoleApi> {
    sign_in::routes()
        .merge(people::routes())
        .merge(keys::routes())
        .merge(live::routes())
        .merge(money::routes())
        .merge(audit::routes())
        .merge(chats::routes())
        .merge(deliveries::routes())
        .merge(calls::routes())
        .merge(usage::series_routes())
}
