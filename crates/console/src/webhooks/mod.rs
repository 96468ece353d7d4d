//! `/v1/account/webhook_secret`: what posts to the account are signed with.

mod routes;
mod wire;

pub use routes::routes;
