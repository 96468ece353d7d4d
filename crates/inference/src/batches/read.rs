//! The request.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tollgate_types::{Error, ErrorCode};

use super::request::Endpoint;

/// Most pairs of `metadata`, and most characters of a name and a value.
const METADATA: (usize, usize, usize) = (16, 64, 512);
/// How long what comes of a batch may be kept, in seconds.
const KEPT: std::ops::RangeInclusive<u64> = 3_600..=2_592_000;

/// A batch that is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) input_file_id: String,
    pub(super) endpoint: Endpoint,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) kept: Option<u64>,
    pub(super) webhook_url: Option<String>,
}

/// Reads a request.
pub(super) fn create(body: &[u8]) -> Result<Asked, Error> {
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
        let shown: String = unknown.chars().take(60).collect();
        let message = format!("'{shown}' is not a parameter of this endpoint. Leave it out.");
        return Err(Error::new(ErrorCode::UnknownParameter, message).with_param(shown));
    }
    let input_file_id = required(&body, "input_file_id")?;
    let endpoint = required(&body, "endpoint")?;
    let endpoint = Endpoint::parse(&endpoint)
        .ok_or_else(|| invalid("endpoint", "is '/v1/chat/completions' or '/v1/embeddings'"))?;
    if required(&body, "completion_window")? != "24h" {
        return Err(invalid("completion_window", "is '24h'"));
    }
    Ok(Asked {
        input_file_id,
        endpoint,
        metadata: metadata(body.get("metadata"))?,
        kept: kept(body.get("output_expires_after"))?,
        webhook_url: text(&body, "webhook_url")?,
    })
}

fn text(body: &Map<String, Value>, name: &str) -> Result<Option<String>, Error> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(invalid(name, "is a text")),
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
    let (most, name_length, value_length) = METADATA;
    let pairs = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(pairs)) if pairs.len() <= most => pairs,
        Some(_) => {
            return Err(invalid(
                "metadata",
                &format!("is an object of at most {most} pairs"),
            ));
        }
    };
    let mut found = BTreeMap::new();
    for (name, value) in pairs {
        let shown: String = name.chars().take(name_length).collect();
        let fits = |text: &str, most: usize| text.chars().count() <= most;
        match value {
            Value::String(value) if fits(name, name_length) && fits(value, value_length) => {
                found.insert(name.clone(), value.clone());
            }
            _ => {
                let what =
                    format!("is a text of at most {value_length} characters, its name of {name_length}");
                return Err(invalid(&format!("metadata.{shown}"), &what));
            }
        }
    }
    Ok(Some(found))
}

fn kept(value: Option<&Value>) -> Result<Option<u64>, Error> {
    let value = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    if value["anchor"] != "created_at" {
        return Err(invalid("output_expires_after.anchor", "is 'created_at'"));
    }
    let seconds = value["seconds"].as_u64().filter(|seconds| KEPT.contains(seconds));
    let seconds = seconds.ok_or_else(|| invalid("output_expires_after.seconds", "is 3600 to 2592000"))?;
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
    fn what_is_wrong_is_told_with_its_place() {
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
