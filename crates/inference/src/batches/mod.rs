//! `/v1/batches`: many requests in one file, executed within 24 hours at 35 % below the list price.
//! [`request`] parses a line, [`service`] accepts batches, [`job`] executes them, [`finalize`]
//! closes them, and [`outputs`] writes the result files.

mod finalize;
mod hold_release;
mod job;
mod lines;
mod messages;
mod native;
mod outputs;
mod payload;
mod read;
mod request;
mod routes;
mod service;
mod summary;
mod wire;

use utoipa_axum::router::OpenApiRouter;

pub use job::{Batches, LineSlots, MessageBatches};
pub(crate) use service::needs;
pub use summary::{BatchRecords, BatchSummary, KINDS};

use crate::Inference;

/// Returns the router of `/v1/batches` and `/v1/messages/batches`.
pub fn routes() -> OpenApiRouter<Inference> {
    routes::routes().merge(messages::routes())
}
