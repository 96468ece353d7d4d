//! Image generations, edits, inpainting and variations: `POST /v1/images/generations`, `POST
//! /v1/images/edits` and `POST /v1/images/variations` (contract, choices J8).

mod blend;
mod form;
mod generator;
mod read;
mod routes;
mod service;
mod wire;

pub(crate) use generator::{ImageGenerator, KIND, Params};
pub use routes::routes;
pub use service::quote;
pub(crate) use service::still;
