//! `/v1/decisions/calibrations`: profiles by which an account has probabilities corrected. They are fitted to decisions whose
//! truth it knows, away from the threads that serve requests.

mod fit;
mod profiles;
mod read;
mod routes;
mod service;
mod wire;

pub use profiles::Calibrations;
pub(super) use routes::routes;
