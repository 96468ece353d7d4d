//! `GET /models`: OpenAI's page, and what its relatives add to a record.

use serde_json::Value;
use tollgate_upstream::{ListedModel, UpstreamError};

/// The most bytes of a list; OpenRouter's has some hundred kilobytes.
pub(crate) const LIMIT: usize = 8 << 20;

/// Where a record says how long a context the model has: OpenRouter and Together, Groq, vLLM, Mistral and LM Studio,
/// llama.cpp.
const CONTEXT_WINDOW: &[&str] = &[
    "/context_length",
    "/context_window",
    "/max_model_len",
    "/max_context_length",
    "/meta/n_ctx",
    "/meta/n_ctx_train",
];

/// Reads a list. Together answers a bare array, Ollama `null` when it has no model.
pub(crate) fn read(body: &[u8]) -> Result<Vec<ListedModel>, UpstreamError> {
    let no_list = || UpstreamError::protocol("the answer is no list of models");
    let value: Value = serde_json::from_slice(body).map_err(|_| no_list())?;
    let records = match (&value, value.get("data")) {
        (Value::Array(records), _) | (_, Some(Value::Array(records))) => records,
        (_, Some(Value::Null)) => return Ok(Vec::new()),
        _ => return Err(no_list()),
    };
    Ok(records.iter().filter_map(model).collect())
}

fn model(record: &Value) -> Option<ListedModel> {
    let name = record.get("id")?.as_str()?;
    let window = CONTEXT_WINDOW
        .iter()
        .find_map(|place| record.pointer(place)?.as_u64().filter(|tokens| *tokens > 0));
    Some(ListedModel {
        name: name.to_owned(),
        context_window: window,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_relative() {
        let cases = [
            (r#"{"object":"list","data":[{"id":"a"}]}"#, "a:-"),
            (r#"{"object":"list","data":null}"#, ""),
            (r#"[{"id":"b","context_length":8192}]"#, "b:8192"),
            (
                r#"{"data":[{"id":"c","max_model_len":4096},{"no":"id"}]}"#,
                "c:4096",
            ),
            (r#"{"data":[{"id":"d","meta":{"n_ctx_train":2048}}]}"#, "d:2048"),
            (
                r#"{"data":[{"id":"e","context_window":"many"},{"id":"f","context_window":0}]}"#,
                "e:- f:-",
            ),
        ];
        for (body, expected) in cases {
            let shown: Vec<String> = read(body.as_bytes())
                .unwrap()
                .iter()
                .map(|model| {
                    let window = model
                        .context_window
                        .map_or("-".to_owned(), |tokens| tokens.to_string());
                    format!("{}:{window}", model.name)
                })
                .collect();
            assert_eq!(shown.join(" "), expected, "{body}");
        }
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for body in ["", "<html>", "{}", r#"{"data":{}}"#, "7"] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
