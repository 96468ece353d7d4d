//! `GET /foundation-models` of the control plane: the text models that accept calls by model id.

use serde_json::Value;
use tollgate_upstream::{ListedModel, UpstreamError};

/// Maximum size of a model list, in bytes.
pub(super) const LIMIT: usize = 4 << 20;

/// Parses a list. Omits models that are available only through inference profiles: the names of the
/// profiles depend on the account.
pub(super) fn read(body: &[u8]) -> Result<Vec<ListedModel>, UpstreamError> {
    let invalid_list = || UpstreamError::protocol("the response is not a model list");
    let value: Value = serde_json::from_slice(body).map_err(|_| invalid_list())?;
    let records = value
        .get("modelSummaries")
        .and_then(Value::as_array)
        .ok_or_else(invalid_list)?;
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
            ..ListedModel::default()
        })
    };
    Ok(records.iter().filter_map(model).collect())
}
