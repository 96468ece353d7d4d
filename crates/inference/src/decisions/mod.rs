//! `POST /v1/decisions`, also as `POST /v1/systemone`, and the profiles by which probabilities are corrected.

mod calibrations;
mod routes;
pub(crate) mod service;
mod uploads;
mod wire;

pub use calibrations::Calibrations;
pub use routes::routes;
pub(crate) use service::text_of;
