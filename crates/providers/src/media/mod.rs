//! Shared code of the image and video adapters: requests to one server, multipart forms, parsing of
//! responses, and downloads. The code for each provider is in that provider's folder.

mod content;
mod form;
mod handle;
mod queue;
mod server;

use serde_json::{Map, Value, json};
use tollgate_types::{Error, ErrorCode, Retry};
use tollgate_upstream::UpstreamError;

pub(crate) use content::{content_at, data_url, decoded, encoded, non_empty, ratio, seconds};
pub(crate) use form::Form;
pub(crate) use handle::{from_handle, to_handle};
pub(crate) use queue::{QueueAdapter, QueueProvider};
pub(crate) use server::{Request, Server, follow_redirects};

/// Maximum size of a response that contains images or videos in base64, in bytes.
pub(crate) const BODY_LIMIT: usize = 128 << 20;
/// Maximum size of a response to a submission or a status request, in bytes.
pub(crate) const MAX_STATUS_BYTES: usize = 4 << 20;

/// Returns the prompt, the negative prompt and the seed as request fields. Omits a blank negative
/// prompt and a missing seed.
pub(crate) fn fields(prompt: &str, negative: &Option<String>, seed: Option<u64>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("prompt".to_owned(), json!(prompt));
    if let Some(negative) = non_empty(negative) {
        fields.insert("negative_prompt".to_owned(), json!(negative));
    }
    if let Some(seed) = seed {
        fields.insert("seed".to_owned(), json!(seed));
    }
    fields
}

/// Returns the error for a parameter that the provider does not support.
pub(crate) fn unsupported(param: &str) -> Error {
    let message =
        format!("This model does not support '{param}'. Remove the parameter or use another model.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(param)
}

/// Returns an error for the first parameter in the list that was sent. The list contains only
/// parameters that are not supported.
pub(crate) fn reject_unsupported(sent: &[(&str, bool)]) -> Result<(), Error> {
    match sent.iter().find(|(_, is_sent)| *is_sent) {
        Some((param, _)) => Err(unsupported(param)),
        None => Ok(()),
    }
}

/// Changes the retry of an error with status 500 or 502 to [`Retry::Unknown`]: the server may have
/// generated the media and billed for it.
pub(crate) fn with_unknown_retry(error: UpstreamError) -> UpstreamError {
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
