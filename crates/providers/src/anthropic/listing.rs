//! `GET /models`: a page of records. The first page contains all current models. Other servers of
//! the format, such as vLLM, list their models in OpenAI's format.

use serde_json::Value;
use tollgate_upstream::{ListedModel, UpstreamError};

use crate::openai_compatible::listing;

/// Maximum size of a model list, in bytes.
pub(super) const LIMIT: usize = 1 << 20;

/// Parses a model list in Anthropic's or OpenAI's format.
pub(super) fn read(body: &[u8]) -> Result<Vec<ListedModel>, UpstreamError> {
    let invalid_list = || UpstreamError::protocol("the response is not a model list");
    let value: Value = serde_json::from_slice(body).map_err(|_| invalid_list())?;
    let records = value
        .get("data")
        .and_then(Value::as_array)
        .ok_or_else(invalid_list)?;
    let tokens = |record: &Value, name: &str| record.get(name).and_then(Value::as_u64);
    let model = |record: &Value| {
        let known = listing::model(record)?;
        Some(ListedModel {
            context_window: tokens(record, "max_input_tokens").or(known.context_window),
            max_output_tokens: tokens(record, "max_tokens").or(known.max_output_tokens),
            ..known
        })
    };
    Ok(records.iter().filter_map(model).collect())
}
