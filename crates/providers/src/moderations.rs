//! Moderation in OpenAI's format (`POST …/moderations`), which other providers also use.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_types::moderate::{Category, Moderation, ModerationAnswer, ModerationInput, ModerationPart};
use tollgate_upstream::{CallContext, ModerationCall, ModerationProvider, UpstreamError};

use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Timeouts};
use crate::refusal;

/// Maximum size of a response, in bytes: 2,000 results of several kilobytes each.
const BODY_LIMIT: usize = 8 << 20;

/// Client of one moderation endpoint.
pub struct Moderations {
    endpoint: Endpoint,
    http: Arc<HttpClient>,
}

impl fmt::Debug for Moderations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Moderations(…)")
    }
}

impl Moderations {
    /// Builds the client of the endpoint at `path`. Every request contains the credentials.
    pub fn new(
        base: &BaseUrl,
        path: &'static str,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        if base.is_secure() {
            http.check_tls()?;
        }
        let endpoint = Endpoint::new(base, path, credentials)?;
        Ok(Self { endpoint, http })
    }
}

#[async_trait]
impl ModerationProvider for Moderations {
    async fn moderate(
        &self,
        ctx: &CallContext,
        call: &ModerationCall,
    ) -> Result<ModerationAnswer, UpstreamError> {
        let body = json!({"model": &*call.upstream_model, "input": input_to_wire(&call.input)});
        let timeouts = Timeouts::of(ctx);
        let body = RequestBody::from(Bytes::from(body.to_string()));
        let response = self.http.post(&self.endpoint, body, timeouts).await?;
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        let body = response.whole(BODY_LIMIT).await?;
        let answer: Wire = serde_json::from_slice(&body)
            .map_err(|_| UpstreamError::protocol("the response is not a moderation result"))?;
        let expected = call.input.results();
        if answer.results.len() != expected {
            let detail = format!("received {} results for {expected} inputs", answer.results.len());
            return Err(UpstreamError::protocol(detail));
        }
        Ok(ModerationAnswer {
            id: answer.id,
            results: answer.results.into_iter().map(result_from_wire).collect(),
        })
    }
}

fn input_to_wire(input: &ModerationInput) -> Value {
    match input {
        ModerationInput::Texts(texts) => json!(texts),
        ModerationInput::Parts(parts) => parts.iter().map(part_to_wire).collect(),
    }
}

fn part_to_wire(part: &ModerationPart) -> Value {
    match part {
        ModerationPart::Text(text) => json!({"type": "text", "text": text}),
        ModerationPart::Image(url) => json!({"type": "image_url", "image_url": {"url": url}}),
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    id: String,
    results: Vec<WireResult>,
}

#[derive(Deserialize)]
struct WireResult {
    flagged: Option<bool>,
    categories: Map<String, Value>,
    #[serde(default)]
    category_scores: Map<String, Value>,
    #[serde(default)]
    category_applied_input_types: Map<String, Value>,
}

/// Converts a result. Omits categories that are null, because the model did not check them. A
/// missing score is 1 for a flagged category, otherwise 0. Without `flagged`, any true category
/// flags the input.
fn result_from_wire(wire: WireResult) -> Moderation {
    let score_of = |name: &str| wire.category_scores.get(name).and_then(Value::as_f64);
    let kinds_of = |name: &str| -> Vec<String> {
        let kinds = wire
            .category_applied_input_types
            .get(name)
            .and_then(Value::as_array);
        let kinds = kinds.into_iter().flatten().filter_map(Value::as_str);
        kinds.map(str::to_owned).collect()
    };
    let categories: Vec<Category> = wire
        .categories
        .iter()
        .filter_map(|(name, flagged)| {
            let flagged = flagged.as_bool()?;
            Some(Category {
                name: name.clone(),
                flagged,
                score: score_of(name).unwrap_or(if flagged { 1.0 } else { 0.0 }),
                applied_to: kinds_of(name),
            })
        })
        .collect();
    let flagged = wire
        .flagged
        .unwrap_or_else(|| categories.iter().any(|category| category.flagged));
    Moderation { flagged, categories }
}
