//! Turn detection: when a speaker begins and ends.

mod detector;
pub mod semantic;

pub use detector::{ServerVad, VadEvent, VadSettings};
