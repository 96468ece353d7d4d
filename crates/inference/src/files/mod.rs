//! `/v1/files`: files that accounts upload and requests reference by id. Uploads are streamed to
//! the blob store.

mod kind;
mod routes;
mod service;
mod storage;
mod upload;
mod wire;

pub use routes::routes;
pub use storage::Files;
pub(crate) use storage::{ChunkSource, Label};
