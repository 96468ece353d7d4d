//! `/v1/files`: what accounts upload and requests name by its id. Bytes go to where media are kept, as they come.

mod kind;
mod routes;
mod service;
mod shelf;
mod upload;
mod wire;

pub use routes::routes;
pub use shelf::Files;
pub(crate) use shelf::{Label, Pieces};
