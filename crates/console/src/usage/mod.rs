//! `GET /v1/account/usage`: usage, cost and balance of an account.

mod routes;
mod service;
mod wire;

pub use routes::routes;
