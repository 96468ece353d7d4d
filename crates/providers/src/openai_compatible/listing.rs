//! `GET /models`: OpenAI's list, and the fields that other servers add to a record.

use serde_json::Value;
use tollgate_upstream::{ListedModel, UpstreamError};

/// Maximum size of a list, in bytes. OpenRouter's list is several hundred kilobytes long.
pub(crate) const LIMIT: usize = 8 << 20;

/// JSON pointers to the context window in a record: OpenRouter and Together, Groq, vLLM, Mistral
/// and LM Studio, llama.cpp.
const CONTEXT_WINDOW: &[&str] = &[
    "/context_length",
    "/context_window",
    "/max_model_len",
    "/max_context_length",
    "/meta/n_ctx",
    "/meta/n_ctx_train",
];

/// JSON pointers to the maximum output tokens in a record: Groq and servers related to vLLM,
/// OpenRouter.
const MAX_OUTPUT_TOKENS: &[&str] = &[
    "/max_completion_tokens",
    "/max_output_tokens",
    "/top_provider/max_completion_tokens",
];

/// JSON pointers to the input modalities in a record: OpenRouter and llama.cpp, servers related to
/// Mistral's.
const INPUT: &[&str] = &["/architecture/input_modalities", "/input_modalities"];

/// Parses a list. Together returns a bare array; Ollama returns `null` as `data` if it has no
/// model.
pub(crate) fn read(body: &[u8]) -> Result<Vec<ListedModel>, UpstreamError> {
    let invalid_list = || UpstreamError::protocol("the response is not a model list");
    let value: Value = serde_json::from_slice(body).map_err(|_| invalid_list())?;
    let records = match (&value, value.get("data")) {
        (Value::Array(records), _) | (_, Some(Value::Array(records))) => records,
        (_, Some(Value::Null)) => return Ok(Vec::new()),
        _ => return Err(invalid_list()),
    };
    Ok(records.iter().filter_map(model).collect())
}

/// Parses one record of a list; `None` if it has no `id`.
pub(crate) fn model(record: &Value) -> Option<ListedModel> {
    let name = record.get("id")?.as_str()?;
    let tokens = |places: &[&str]| {
        let mut tokens_found = places.iter().filter_map(|place| record.pointer(place)?.as_u64());
        tokens_found.find(|tokens| *tokens > 0)
    };
    let words = |list: &Value| -> Option<Vec<String>> {
        let words = list
            .as_array()?
            .iter()
            .map(|word| word.as_str().map(str::to_owned));
        words
            .collect::<Option<Vec<_>>>()
            .filter(|words| !words.is_empty())
    };
    Some(ListedModel {
        name: name.to_owned(),
        context_window: tokens(CONTEXT_WINDOW),
        max_output_tokens: tokens(MAX_OUTPUT_TOKENS),
        input: INPUT.iter().find_map(|place| words(record.pointer(place)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_lists_of_compatible_servers_are_read() {
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
    fn limits_and_modalities_are_read() {
        let llama =
            r#"{"data":[{"id":"a","architecture":{"input_modalities":["text"]},"meta":{"n_ctx":1024}}]}"#;
        let router =
            r#"{"data":[{"id":"b","context_length":8192,"top_provider":{"max_completion_tokens":4096}}]}"#;
        let odd = r#"{"data":[{"id":"c","max_completion_tokens":0,"input_modalities":["text",7]}]}"#;
        let text = || Some(vec!["text".to_owned()]);
        for (body, window, output, input) in [
            (llama, Some(1024), None, text()),
            (router, Some(8192), Some(4096), None),
            (odd, None, None, None),
        ] {
            let model = read(body.as_bytes()).unwrap().remove(0);
            assert_eq!(
                (model.context_window, model.max_output_tokens, model.input),
                (window, output, input),
                "{body}"
            );
        }
    }

    #[test]
    fn invalid_lists_are_errors() {
        for body in ["", "<html>", "{}", r#"{"data":{}}"#, "7"] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }
}
