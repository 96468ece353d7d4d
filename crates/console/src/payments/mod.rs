//! `POST /webhooks/{provider}`: what a payment provider says about money. It is no part of the API: the provider calls it,
//! and proves by a signature that it is the provider.

mod routes;

pub use routes::routes;
