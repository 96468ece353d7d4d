//! `/v1/videos`: video jobs in the format of OpenAI's API. They are the same jobs as those of `POST
//! /v1/videos/generations`.

mod assets;
mod read;
mod routes;
mod service;
mod wire;

pub use routes::routes;
pub use service::quote;
