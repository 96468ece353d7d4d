//! Sessions of people: sign-in, sign-out, step-up, the list of sessions, the profile and the
//! password.

mod routes;
pub(crate) mod wire;

pub use routes::routes;
