//! What the adapters of pictures and films have in common: requests to one server, forms, what an answer has in it, and
//! bytes as they come. What one maker does in its own way is in that maker's folder.

mod content;
mod form;
mod handle;
mod queue;
mod server;

use serde_json::{Map, Value, json};
use tollgate_types::{Error, ErrorCode, Retry};
use tollgate_upstream::UpstreamError;

pub(crate) use content::{data_url, decoded, encoded, place, positive, ratio, seconds};
pub(crate) use form::Form;
pub(crate) use handle::{from_handle, to_handle};
pub(crate) use queue::{Queue, Queued};
pub(crate) use server::{Asked, Server, followed};

/// Most bytes of an answer that has pictures or films in it, in base64.
pub(crate) const BODY_LIMIT: usize = 128 << 20;
/// Most bytes of an answer that tells how something goes.
pub(crate) const NEWS_LIMIT: usize = 4 << 20;

/// The fields of a request that every maker of a queue has under the same names.
pub(crate) fn fields(prompt: &str, negative: &Option<String>, seed: Option<u64>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("prompt".to_owned(), json!(prompt));
    if let Some(negative) = positive(negative) {
        fields.insert("negative_prompt".to_owned(), json!(negative));
    }
    if let Some(seed) = seed {
        fields.insert("seed".to_owned(), json!(seed));
    }
    fields
}

/// The refusal of a parameter that a maker has no word for.
pub(crate) fn unsupported(param: &str) -> Error {
    let message = format!("the model does not take `{param}`; leave it out, or choose another model");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(param)
}

/// Refuses the first parameter that was sent and is not taken.
pub(crate) fn refuse_sent(sent: &[(&str, bool)]) -> Result<(), Error> {
    match sent.iter().find(|(_, is_sent)| *is_sent) {
        Some((param, _)) => Err(unsupported(param)),
        None => Ok(()),
    }
}

/// A refusal as it is where something is made: a server that has failed in the midst of it may have made it, and what is
/// made is paid for.
pub(crate) fn uncertain(error: UpstreamError) -> UpstreamError {
    match (error.status, error.retry) {
        (Some(500 | 502), Retry::Safe | Retry::After(_)) => UpstreamError {
            retry: Retry::Unknown,
            ..error
        },
        _ => error,
    }
}

#[cfg(test)]
pub(crate) mod tests;
