//! `/v1/jobs`: what callers see of work that goes on after its request was answered (choices, J1–J7).

mod records;
mod routes;
mod service;
mod wire;

pub use records::Records;
pub(crate) use records::unavailable;
pub use routes::routes;
pub(crate) use routes::{accepted, prefer_wait};
pub use wire::{JobRecord, JobReference};
