//! Audit log and notifications of the account of a session.

mod routes;

pub use routes::routes;
