//! Room: what an account can look at, models, usage and what its posts are signed with, and what payment providers say about its money.

pub mod models;
pub mod payments;
pub mod usage;
pub mod webhooks;

use std::sync::Arc;

use axum::extract::FromRef;
use tollgate_accounts::WebhookSecrets;
use tollgate_billing::TopUps;
use tollgate_catalog::Catalog;
use tollgate_edge::Gate;
use tollgate_storage::{LedgerStore, SubscriptionStore, UsageStore};
use tollgate_types::Clock;

/// What the handlers of this room need.
#[derive(Clone, FromRef)]
pub struct Console {
    /// Who is calling.
    pub gate: Arc<Gate>,
    /// Models.
    pub catalog: Arc<Catalog>,
    /// Balances.
    pub ledger: Arc<dyn LedgerStore>,
    /// Usage rows.
    pub usage: Arc<dyn UsageStore>,
    /// Plans.
    pub subscriptions: Arc<dyn SubscriptionStore>,
    /// Sells credits, if they are sold.
    pub top_ups: Option<Arc<TopUps>>,
    /// What posts to accounts are signed with.
    pub webhook_secrets: WebhookSecrets,
    /// The time, which says what week it is.
    pub clock: Arc<dyn Clock>,
}

/// The routes of this room.
pub fn routes() -> utoipa_axum::router::OpenApiRouter<Console> {
    models::routes()
        .merge(usage::routes())
        .merge(payments::routes())
        .merge(webhooks::routes())
}
