//! Parses and validates a request to create a batch.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tollgate_types::{Error, ErrorCode};

use super::request::Endpoint;

/// Maximum number of `metadata` pairs, and maximum characters of a key and of a value.
const METADATA_LIMITS: (usize, usize, usize) = (16, 64, 512);
/// Allowed retention of the result files, in seconds.
const RETENTION_SECONDS: std::ops::RangeInclusive<u64> = 3_600..=2_592_000;

/// A validated request to create a batch.
#[derive(Debug)]
pub(super) struct BatchParams {
    pub(super) input_file_id: String,
    pub(super) endpoint: Endpoint,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) retention_seconds: Option<u64>,
    pub(super) webhook_url: Option<String>,
}

/// Parses a request body. Errors name the path of the invalid parameter.
pub(super) fn create(body: &[u8]) -> Result<BatchParams, Error> {
    let body: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        let message = format!("The body is not a JSON object: {error}.");
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    let known = [
        "input_file_id",
        "endpoint",
        "completion_window",
        "metadata",
        "output_expires_after",
        "webhook_url",
    ];
    if let Some(unknown) = body.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(Error::unknown_parameter(
            unknown.chars().take(60).collect::<String>(),
        ));
    }
    let input_file_id = required(&body, "input_file_id")?;
    let endpoint = required(&body, "endpoint")?;
    let endpoint = Endpoint::parse(&endpoint)
        .ok_or_else(|| invalid("endpoint", "must be '/v1/chat/completions' or '/v1/embeddings'"))?;
    if required(&body, "completion_window")? != "24h" {
        return Err(invalid("completion_window", "must be '24h'"));
    }
    Ok(BatchParams {
        input_file_id,
        endpoint,
        metadata: metadata(body.get("metadata"))?,
        retention_seconds: retention_seconds(body.get("output_expires_after"))?,
        webhook_url: text(&body, "webhook_url")?,
    })
}

fn text(body: &Map<String, Value>, name: &str) -> Result<Option<String>, Error> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(name, "must be a string")),
    }
}

fn required(body: &Map<String, Value>, name: &str) -> Result<String, Error> {
    text(body, name)?.ok_or_else(|| {
        Error::new(
            ErrorCode::MissingRequiredParameter,
            format!("'{name}' is missing."),
        )
        .with_param(name)
    })
}

fn metadata(value: Option<&Value>) -> Result<Option<BTreeMap<String, String>>, Error> {
    let (max, name_length, value_length) = METADATA_LIMITS;
    let pairs = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(pairs)) if pairs.len() <= max => pairs,
        Some(_) => {
            return Err(invalid(
                "metadata",
                &format!("must be an object of at most {max} key-value pairs"),
            ));
        }
    };
    let mut found = BTreeMap::new();
    for (name, value) in pairs {
        let view: String = name.chars().take(name_length).collect();
        let fits = |text: &str, max: usize| text.chars().count() <= max;
        match value {
            Value::String(value) if fits(name, name_length) && fits(value, value_length) => {
                found.insert(name.clone(), value.clone());
            }
            _ => {
                let what = format!(
                    "must be a string of at most {value_length} characters, with a key of at most {name_length}"
                );
                return Err(invalid(&format!("metadata.{view}"), &what));
            }
        }
    }
    Ok(Some(found))
}

fn retention_seconds(value: Option<&Value>) -> Result<Option<u64>, Error> {
    let value = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    if value["anchor"] != "created_at" {
        return Err(invalid("output_expires_after.anchor", "must be 'created_at'"));
    }
    let seconds = value["seconds"]
        .as_u64()
        .filter(|seconds| RETENTION_SECONDS.contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        invalid(
            "output_expires_after.seconds",
            "must be an integer from 3600 to 2592000",
        )
    })?;
    Ok(Some(seconds))
}

pub(super) fn invalid(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_input_is_reported_with_its_path() {
        let whole =
            json!({"input_file_id": "file-1", "endpoint": "/v1/embeddings", "completion_window": "24h"});
        assert!(create(whole.to_string().as_bytes()).is_ok());
        for (name, value, code, param) in [
            (
                "input_file_id",
                Value::Null,
                "missing_required_parameter",
                "input_file_id",
            ),
            ("input_file_id", json!(5), "invalid_parameter", "input_file_id"),
            (
                "endpoint",
                json!("/v1/images/generations"),
                "invalid_parameter",
                "endpoint",
            ),
            ("endpoint", Value::Null, "missing_required_parameter", "endpoint"),
            (
                "completion_window",
                json!("1h"),
                "invalid_parameter",
                "completion_window",
            ),
            (
                "completion_window",
                Value::Null,
                "missing_required_parameter",
                "completion_window",
            ),
            ("metadata", json!([1]), "invalid_parameter", "metadata"),
            ("metadata", json!({"a": 1}), "invalid_parameter", "metadata.a"),
            (
                "output_expires_after",
                json!({"seconds": 3600}),
                "invalid_parameter",
                "output_expires_after.anchor",
            ),
            (
                "output_expires_after",
                json!({"anchor": "created_at", "seconds": 3599}),
                "invalid_parameter",
                "output_expires_after.seconds",
            ),
            ("model", json!("m"), "unknown_parameter", "model"),
        ] {
            let mut body = whole.clone();
            body[name] = value;
            let error = create(body.to_string().as_bytes()).unwrap_err();
            assert_eq!(
                (error.code.as_str(), error.param.as_deref()),
                (code, Some(param)),
                "{body}"
            );
        }
        assert_eq!(create(b"[").unwrap_err().code, ErrorCode::InvalidJson);
    }
}
