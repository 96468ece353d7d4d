//! `/v1/batches`: many requests in one file, carried out within a day at 35 % below list. [`request`] is a line, [`service`] accepts,
//! [`job`] carries out, [`ending`] closes, [`outputs`] is what is delivered.

mod ending;
mod freed;
mod job;
mod lines;
mod messages;
mod native;
mod order;
mod outputs;
mod read;
mod request;
mod routes;
mod service;
mod told;
mod wire;

use utoipa_axum::router::OpenApiRouter;

pub use job::{Batches, LineRoom, MessageBatches};
pub(crate) use service::needs;
pub use told::{BatchRecords, BatchSummary, KINDS};

use crate::Inference;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Inference> {
    routes::routes().merge(messages::routes())
}
