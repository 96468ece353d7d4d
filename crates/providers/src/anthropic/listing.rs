//! `GET /models`: a page of records. The first one has all models that are sold.

use serde_json::Value;
use tollgate_upstream::{ListedModel, UpstreamError};

/// The most bytes of a list.
pub(super) const LIMIT: usize = 1 << 20;

/// Reads a list.
pub(super) fn read(body: &[u8]) -> Result<Vec<ListedModel>, UpstreamError> {
    let no_list = || UpstreamError::protocol("the answer is no list of models");
    let value: Value = serde_json::from_slice(body).map_err(|_| no_list())?;
    let records = value.get("data").and_then(Value::as_array).ok_or_else(no_list)?;
    let model = |record: &Value| {
        Some(ListedModel {
            name: record.get("id")?.as_str()?.to_owned(),
            context_window: record.get("max_input_tokens").and_then(Value::as_u64),
        })
    };
    Ok(records.iter().filter_map(model).collect())
}
