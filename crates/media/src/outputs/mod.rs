//! `/v1/media/{id}`: objects by their signed addresses, without a key (choices, J7).

mod routes;
mod service;

pub(crate) use routes::respond;
pub use routes::routes;
pub(crate) use service::Opened;
