//! `POST /v1/images/generations`: pictures from a prompt, from other pictures, or from parts of them (contract, choices J8).

mod blend;
mod craft;
mod read;
mod routes;
mod service;
mod wire;

pub(crate) use craft::{KIND, Pictures, Wish};
pub use routes::routes;
pub(crate) use service::still;
