//! `/v1/playground/conversations`: saved chats of the playground, for API keys.

mod routes;

pub use routes::routes;
