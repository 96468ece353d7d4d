//! Changes of an account as events, for open pages of the console.

mod routes;
mod service;
mod wire;

pub use routes::routes;
pub use service::Live;
