//! Research as a response of OpenAI's Responses API: searches are calls of the web search tool, and
//! the report is a message.

mod output;
mod read;
mod service;
mod stream;

pub(crate) use service::{Created, cancel, create, delete, find, input, shown, submission, subscribe};
