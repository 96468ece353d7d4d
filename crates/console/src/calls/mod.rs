//! `/console/api/v1/calls`: the calls of an account, with the arithmetic of their charges.

mod routes;
mod service;
mod wire;

pub use routes::routes;
