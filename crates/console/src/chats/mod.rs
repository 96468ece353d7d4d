//! Saved chats of the playground: `/console/api/v1/chats` for sessions, and
//! `/v1/playground/conversations` for API keys, which only read.

mod public;
mod routes;
mod service;
mod wire;

pub use public::routes as public_routes;
pub use routes::routes;
pub use service::SavedChats;
