//! `GET /foundation-models` of the control plane: the models that can be called by their own names and write text.

use serde_json::Value;
use tollgate_upstream::{ListedModel, UpstreamError};

/// The most bytes of a list.
pub(super) const LIMIT: usize = 4 << 20;

/// Reads a list. Models that are called through inference profiles alone are not in it: what those are called like
/// depends on the account.
pub(super) fn read(body: &[u8]) -> Result<Vec<ListedModel>, UpstreamError> {
    let no_list = || UpstreamError::protocol("the answer is no list of models");
    let value: Value = serde_json::from_slice(body).map_err(|_| no_list())?;
    let records = value
        .get("modelSummaries")
        .and_then(Value::as_array)
        .ok_or_else(no_list)?;
    let has = |record: &Value, list: &str, word: &str| {
        let words = record.get(list).and_then(Value::as_array);
        words.is_some_and(|words| words.iter().any(|known| known == word))
    };
    let model = |record: &Value| {
        let callable =
            has(record, "outputModalities", "TEXT") && has(record, "inferenceTypesSupported", "ON_DEMAND");
        let name = record.get("modelId")?.as_str().filter(|_| callable)?;
        Some(ListedModel {
            name: name.to_owned(),
            context_window: None,
        })
    };
    Ok(records.iter().filter_map(model).collect())
}
