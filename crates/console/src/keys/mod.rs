//! API keys of the account of a session.

mod routes;

pub use routes::routes;
