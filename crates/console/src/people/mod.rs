//! The account of a session, its members and invitations.

mod routes;

pub use routes::routes;
