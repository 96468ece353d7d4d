//! `GET /v1/account/usage`: usage, cost and balance of an account.

mod routes;
pub(crate) mod service;
pub(crate) mod wire;

pub use routes::routes;
