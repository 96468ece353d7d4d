//! Sessions of administrators, on the admin listener.

mod routes;

pub use routes::{OperatorConsole, routes};
