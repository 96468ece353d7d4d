//! Reports of OpenAI's deep research models, as background responses
//! (developers.openai.com/api/docs/guides/deep-research).

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tollgate_types::Error;
use tollgate_types::usage::{Unit, Usage};
use tollgate_upstream::{
    CallContext, GenerationState, JobProvider, ProviderReport, ReportCall, Submitted, UpstreamCause,
    UpstreamError, UpstreamErrorKind,
};

use crate::http::{BaseUrl, Credential, EndpointError, HttpClient, escape};
use crate::media::{MAX_STATUS_BYTES, Request, Server};
use crate::refusal;
use crate::reports::{
    Draft, MAX_REPORT_BYTES, Unsupported, accepted, count, id_of, incomplete, index, instructions, role, text,
};

/// Endpoint of background responses.
#[derive(Debug)]
pub(crate) struct ReportsEndpoint {
    server: Server,
}

impl ReportsEndpoint {
    pub(crate) fn new(
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let server = Server::new(base, credentials, http)?;
        Ok(Self { server })
    }

    fn path(&self, id: &str, action: &str) -> String {
        self.server
            .path(&format!("/responses/{}{action}", escape(id, "")))
    }
}

/// Returns the maximum number of tool calls: searches and page reads together.
fn max_tool_calls(call: &ReportCall) -> u64 {
    let by_effort = match call.effort {
        "minimal" => 10,
        "low" => 24,
        "medium" => 72,
        _ => u64::MAX,
    };
    let by_request = match (call.max_searches, call.max_pages) {
        (None, None) => u64::MAX,
        (searches, pages) => [searches, pages].into_iter().flatten().map(u64::from).sum(),
    };
    by_effort.min(by_request).min(call.paid_searches).max(1)
}

fn body_of(call: &ReportCall) -> Value {
    let messages = call.messages.iter();
    let messages =
        messages.map(|message| json!({"role": role(message.role, "developer"), "content": message.text}));
    // Only the newer tool has filters.
    let tool = match call.filters.include.is_empty() {
        true => json!({"type": "web_search_preview"}),
        false => json!({"type": "web_search", "filters": {"allowed_domains": call.filters.include}}),
    };
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(&*call.upstream_model));
    body.insert("input".to_owned(), messages.collect());
    body.insert("background".to_owned(), json!(true));
    body.insert("tools".to_owned(), json!([tool]));
    body.insert("max_tool_calls".to_owned(), json!(max_tool_calls(call)));
    if let Some(instructions) = instructions(call) {
        body.insert("instructions".to_owned(), json!(instructions));
    }
    if let Some(tokens) = call.max_output_tokens {
        body.insert("max_output_tokens".to_owned(), json!(tokens));
    }
    Value::Object(body)
}

fn state(response: Value) -> Result<GenerationState<ProviderReport>, UpstreamError> {
    Ok(match text(&response, "status") {
        "queued" => GenerationState::Waiting { ahead: None },
        "in_progress" => GenerationState::Running { percent: None },
        "completed" => GenerationState::Completed(report(response)?),
        "incomplete" if response["incomplete_details"]["reason"] == "content_filter" => {
            GenerationState::Failed(blocked())
        }
        "incomplete" => incomplete(report(response)),
        "failed" => GenerationState::Failed(refusal::from_failure(&json!({"error": response["error"]}))),
        "cancelled" => GenerationState::Cancelled,
        _ => return Err(UpstreamError::protocol("a response has an unknown status")),
    })
}

fn blocked() -> UpstreamError {
    UpstreamError::new(
        UpstreamErrorKind::ContentBlocked,
        UpstreamCause::Status,
        "the provider's content filter stopped the report",
    )
}

/// Reads a complete response. The report is the text of all messages.
fn report(response: Value) -> Result<ProviderReport, UpstreamError> {
    let mut draft = Draft::default();
    let mut searches = 0;
    for item in response["output"].as_array().into_iter().flatten() {
        match text(item, "type") {
            "web_search_call" if item["action"]["type"] == "search" => {
                searches += 1;
                draft.add_queries(&queries(&item["action"]));
            }
            "message" => {
                for part in item["content"].as_array().into_iter().flatten() {
                    if part["type"] == "output_text" {
                        draft.add_text(part, mark);
                    }
                }
            }
            _ => {}
        }
    }
    draft.finish(usage(&response["usage"]), searches, response)
}

/// Returns the queries of a search: older responses have one only.
fn queries(action: &Value) -> Value {
    let listed = &action["queries"];
    match listed.as_array().is_none_or(Vec::is_empty) {
        true => json!([action["query"]]),
        false => listed.clone(),
    }
}

/// Returns the bytes of a mark. The indexes of annotations count code points.
fn mark(text: &str, annotation: &Value) -> Option<(usize, usize)> {
    let place = (index(annotation, "start_index")?, index(annotation, "end_index")?);
    Some(link_at(
        text,
        place,
        annotation["url"].as_str().unwrap_or_default(),
    ))
}

/// Returns the bytes of a citation. Its link is replaced by the mark; without a link, the mark
/// follows the cited text.
fn link_at(text: &str, (start, end): (usize, usize), url: &str) -> (usize, usize) {
    let byte = |chars: usize| {
        text.char_indices()
            .nth(chars)
            .map_or(text.len(), |(byte, _)| byte)
    };
    let (start, end) = (byte(start), byte(end.max(start)));
    let is_link = text
        .get(start..end)
        .is_some_and(|link| link.trim_start_matches('(').starts_with('[') && link.contains(url));
    if is_link { (start, end) } else { (end, end) }
}

fn usage(usage: &Value) -> Option<Usage> {
    usage["output_tokens"].as_u64()?;
    let (input, output) = (count(usage, "input_tokens"), count(usage, "output_tokens"));
    let cached = count(&usage["input_tokens_details"], "cached_tokens").min(input);
    let reasoning = count(&usage["output_tokens_details"], "reasoning_tokens").min(output);
    Some(
        Usage::tokens(input - cached, output - reasoning)
            .with(Unit::CacheRead, cached)
            .with(Unit::Reasoning, reasoning),
    )
}

#[async_trait]
impl JobProvider<ReportCall> for ReportsEndpoint {
    fn check(&self, call: &ReportCall) -> Result<(), Error> {
        let unsupported = Unsupported {
            site_details: true,
            dates: true,
            ..Unsupported::default()
        };
        unsupported.check(call)
    }

    async fn submit(
        &self,
        ctx: &CallContext,
        call: &ReportCall,
        key: &str,
    ) -> Result<Submitted<ProviderReport>, UpstreamError> {
        let path = self.server.path("/responses");
        let body = body_of(call);
        let request = Request::json(&path, &body).with_key(key);
        let response: Value = self.server.read(ctx, request, MAX_STATUS_BYTES).await?;
        accepted(&response)
    }

    async fn poll(
        &self,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState<ProviderReport>, UpstreamError> {
        let response = id_of(handle)?;
        let path = self.path(&response, "");
        let response = self
            .server
            .read_if_found(ctx, Request::get(&path), MAX_REPORT_BYTES);
        response.await?.map_or(Ok(GenerationState::Lost), state)
    }

    async fn cancel(&self, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let response = id_of(handle)?;
        let path = self.path(&response, "/cancel");
        self.server.send_command(ctx, Request::post(&path)).await
    }
}
