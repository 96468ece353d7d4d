//! `/v1/jobs`: status, results, events and cancellation of asynchronous jobs (choices, J1–J7).

mod records;
mod routes;
mod service;
mod views;
mod wire;

pub use records::Records;
pub(crate) use records::unavailable;
pub(crate) use routes::POLL_SECONDS;
pub use routes::routes;
pub use views::views;
pub use wire::JobRecord;
