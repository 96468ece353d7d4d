//! `/v1/account/webhook_secret`: the secret that signs webhook requests to the account.

mod routes;
mod wire;

pub use routes::routes;
