//! `POST /webhooks/{provider}`: events of payment providers. The endpoint is not part of the public
//! API; a signature authenticates the provider.

mod routes;

pub use routes::routes;
