//! `POST /v1/decisions` (alias `POST /v1/systemone`) and the calibration profiles that correct
//! probabilities.

mod calibrations;
mod routes;
pub(crate) mod service;
mod uploads;
mod wire;

pub use calibrations::Calibrations;
pub use routes::routes;
pub(crate) use service::{count_input, input_demand, text_of};
