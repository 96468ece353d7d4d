//! Deliveries of webhooks and alerts to the account, for sessions.

mod routes;

pub use routes::routes;
