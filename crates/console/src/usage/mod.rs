//! Usage, cost and balance of an account: `GET /v1/account/usage`, and over time for sessions.

mod routes;
mod series;
pub(crate) mod service;
pub(crate) mod wire;

pub use routes::{routes, series_routes};
