//! `/console/api/v1/chats`: saved chats of the playground, for sessions.

mod routes;
mod service;
pub(crate) mod wire;

pub use routes::routes;
pub use service::SavedChats;
