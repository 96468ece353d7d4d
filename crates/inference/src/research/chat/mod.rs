//! Research as a chat completion: the report is the message, and its progress is reasoning.

mod encode;
pub(super) mod read;
mod service;
mod stream;

pub(super) use encode::Identity;
pub(crate) use service::{ChatReport, Content, create, submission};
