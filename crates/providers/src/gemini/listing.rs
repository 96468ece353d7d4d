//! Model lists with several pages: `GET /models`, or Vertex AI's `GET /publishers/google/models`.

use std::time::Duration;

use serde_json::Value;
use tollgate_upstream::{ListedModel, UpstreamError};

use super::adapter::Gemini;
use crate::refusal;

/// Maximum size of a page, in bytes.
const LIMIT: usize = 4 << 20;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 20;
/// Methods that the gateway can call. Models that report only other methods are omitted.
const METHODS: &[&str] = &["generateContent", "embedContent", "bidiGenerateContent"];

/// Requests the pages of the list, up to [`MAX_PAGES`].
pub(super) async fn all(provider: &Gemini, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
    let first = provider.surface.listing();
    let (mut models, mut path) = (Vec::new(), first.to_owned());
    for _ in 0..MAX_PAGES {
        let response = provider.access.get(&provider.http, &path, timeout).await?;
        if response.status != 200 {
            return Err(refusal::from_response(response, provider.http.settings()).await);
        }
        let (page, next) = read(&response.whole(LIMIT).await?)?;
        models.extend(page);
        match next {
            Some(token) => path = format!("{first}&pageToken={token}"),
            None => break,
        }
    }
    Ok(models)
}

/// Parses a page and the token of the next page; `None` if there is no valid token.
fn read(body: &[u8]) -> Result<(Vec<ListedModel>, Option<String>), UpstreamError> {
    let invalid_list = || UpstreamError::protocol("the response is not a model list");
    let value: Value = serde_json::from_slice(body).map_err(|_| invalid_list())?;
    let records = value
        .get("models")
        .or_else(|| value.get("publisherModels"))
        .and_then(Value::as_array)
        .ok_or_else(invalid_list)?;
    let next = value.get("nextPageToken").and_then(Value::as_str);
    let fits =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'=' | b'%');
    let next = next.filter(|token| !token.is_empty() && token.bytes().all(fits));
    Ok((
        records.iter().filter_map(model).collect(),
        next.map(str::to_owned),
    ))
}

fn model(record: &Value) -> Option<ListedModel> {
    let name = record.get("name")?.as_str()?;
    if let Some(name) = name.strip_prefix("publishers/google/models/") {
        return vertex_model(name);
    }
    let methods = record.get("supportedGenerationMethods").and_then(Value::as_array);
    let is_known = |method: &Value| method.as_str().is_some_and(|method| METHODS.contains(&method));
    if !methods.is_none_or(|methods| methods.iter().any(is_known)) {
        return None;
    }
    Some(ListedModel {
        name: name.strip_prefix("models/").unwrap_or(name).to_owned(),
        context_window: record.get("inputTokenLimit").and_then(Value::as_u64),
        max_output_tokens: record.get("outputTokenLimit").and_then(Value::as_u64),
        ..ListedModel::default()
    })
}

/// Returns the model if its name is that of a Gemini or text embedding model. Vertex AI also lists
/// Google's other models, and does not report their methods.
fn vertex_model(name: &str) -> Option<ListedModel> {
    let is_known = name.starts_with("gemini-") || name.starts_with("text-") && name.contains("embedding");
    is_known.then(|| ListedModel {
        name: name.to_owned(),
        ..ListedModel::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let body = r#"{"models":[
            {"name":"models/a","inputTokenLimit":1000,"supportedGenerationMethods":["generateContent"]},
            {"name":"models/live","supportedGenerationMethods":["bidiGenerateContent"]},
            {"name":"models/b","supportedGenerationMethods":["predict"]},
            {"name":"tunedModels/c"}, {"no":"name"}],"nextPageToken":"t-1"}"#;
        let (models, next) = read(body.as_bytes()).unwrap();
        let shown: Vec<(&str, Option<u64>)> = models
            .iter()
            .map(|model| (&*model.name, model.context_window))
            .collect();
        assert_eq!(
            shown,
            [("a", Some(1_000)), ("live", None), ("tunedModels/c", None)]
        );
        assert_eq!(next.as_deref(), Some("t-1"));
        for wrong in ["", "<html>", "{}", r#"{"models":{}}"#] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(read(br#"{"models":[],"nextPageToken":"a b"}"#).unwrap().1, None);
    }

    #[test]
    fn pages_of_the_other_service_are_read() {
        let names = [
            "gemini-3-x",
            "text-embedding-005",
            "text-bison",
            "imagen-4",
            "veo-3",
        ];
        let records = names.map(|name| {
            serde_json::json!({"name": format!("publishers/google/models/{name}"), "versionId": "default"})
        });
        let body = serde_json::json!({"publisherModels": records, "nextPageToken": "t"}).to_string();
        let (models, next) = read(body.as_bytes()).unwrap();
        let shown: Vec<&str> = models.iter().map(|model| &*model.name).collect();
        assert_eq!(shown, names[..2]);
        assert_eq!(next.as_deref(), Some("t"));
    }
}
