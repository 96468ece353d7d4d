//! `/v1/jobs`: status, results, events and cancellation of asynchronous jobs (choices, J1–J7).

mod records;
mod routes;
mod service;
mod wire;

pub use records::Records;
pub(crate) use records::unavailable;
pub use routes::routes;
pub(crate) use routes::{accepted, prefer_wait, preference_applied};
pub use wire::{JobRecord, JobReference};
