//! Balance, credits, plans and statements of the account of a session.

mod routes;

pub use routes::routes;
