//! `/v1/async/chat/completions`: research jobs in Perplexity's asynchronous format.

mod costs;
mod routes;
mod service;
mod wire;

pub(super) use routes::routes;
