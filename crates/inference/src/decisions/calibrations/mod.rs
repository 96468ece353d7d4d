//! `/v1/decisions/calibrations`: calibration profiles that correct the probabilities of an account.
//! They are fitted to decisions with known outcomes, outside the threads that serve requests.

mod fit;
mod profiles;
mod read;
mod routes;
mod service;
mod wire;

pub use profiles::Calibrations;
pub(super) use routes::routes;
