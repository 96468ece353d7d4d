//! `/v1/media/{id}`: serves stored objects by signed URL, without an API key (choices, J7).

mod routes;
mod service;

pub(crate) use routes::respond;
pub use routes::routes;
pub(crate) use service::Opened;
