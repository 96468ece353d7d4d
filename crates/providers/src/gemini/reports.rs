//! Reports of Gemini's deep research agents, as background interactions
//! (ai.google.dev/gemini-api/docs/deep-research).

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::Error;
use tollgate_types::usage::{Unit, Usage};
use tollgate_upstream::{
    CallContext, GenerationState, JobProvider, ProviderReport, ReportCall, ReportRole, Submitted,
    UpstreamError,
};

use super::adapter::Gemini;
use crate::http::escape;
use crate::media::{MAX_STATUS_BYTES, with_unknown_retry};
use crate::refusal;
use crate::reports::{
    Draft, MAX_REPORT_BYTES, Unsupported, accepted, char_boundary, count, id_of, incomplete, index,
    instructions, role, text,
};

/// Path of interactions below the base URL.
const PATH: &str = "/interactions";

/// Returns the question with the conversation before it, as one text.
fn prompt(call: &ReportCall) -> String {
    let Some((question, earlier)) = call.messages.split_last() else {
        return String::new();
    };
    let talk = earlier
        .iter()
        .filter(|message| message.role != ReportRole::System);
    let talk: Vec<String> = talk
        .map(|message| format!("{}: {}", role(message.role, "system"), message.text))
        .collect();
    match talk.is_empty() {
        true => question.text.clone(),
        false => format!(
            "Conversation so far:\n\n{}\n\nQuestion:\n\n{}",
            talk.join("\n\n"),
            question.text
        ),
    }
}

fn body_of(call: &ReportCall) -> Value {
    let system = call.messages.iter();
    let system = system.filter(|message| message.role == ReportRole::System);
    let system = system
        .map(|message| message.text.clone())
        .chain(instructions(call));
    let system: Vec<String> = system.collect();
    let mut body = json!({
        "agent": &*call.upstream_model,
        "input": prompt(call),
        "background": true,
        "agent_config": {"type": "deep-research"},
    });
    if !system.is_empty() {
        body["system_instruction"] = json!(system.join("\n\n"));
    }
    body
}

fn state(interaction: Value) -> Result<GenerationState<ProviderReport>, UpstreamError> {
    Ok(match text(&interaction, "status") {
        "queued" => GenerationState::Waiting { ahead: None },
        "in_progress" => GenerationState::Running { percent: None },
        "completed" => GenerationState::Completed(report(interaction)?),
        "incomplete" => incomplete(report(interaction)),
        "cancelled" => GenerationState::Cancelled,
        "failed" => GenerationState::Failed(failure(&interaction)),
        status @ ("requires_action" | "requires_continuation" | "budget_exceeded") => {
            GenerationState::Failed(UpstreamError::protocol(format!(
                "the interaction ended with {status}"
            )))
        }
        _ => return Err(UpstreamError::protocol("an interaction has an unknown status")),
    })
}

/// Returns the error of a failed interaction: that of its last step.
fn failure(interaction: &Value) -> UpstreamError {
    let steps = interaction["steps"].as_array().into_iter().flatten();
    let in_step = steps
        .rev()
        .map(|step| &step["error"])
        .find(|error| !error.is_null());
    let error = in_step.unwrap_or(&interaction["error"]);
    refusal::from_failure(&json!({"error": error}))
}

/// Reads a complete interaction. The report is the text of its output.
fn report(interaction: Value) -> Result<ProviderReport, UpstreamError> {
    let mut draft = Draft::default();
    for step in interaction["steps"].as_array().into_iter().flatten() {
        match text(step, "type") {
            "google_search_call" => draft.add_queries(&step["arguments"]["queries"]),
            "model_output" => {
                for content in step["content"].as_array().into_iter().flatten() {
                    if content["type"] == "text" {
                        draft.add_text(content, mark);
                    }
                }
            }
            _ => {}
        }
    }
    if draft.is_blank() {
        draft.set_text(text(&interaction, "output_text"));
    }
    let counted = &interaction["usage"];
    let tools = counted["grounding_tool_count"].as_array().into_iter().flatten();
    let searches = tools
        .map(|tool| count(tool, "count"))
        .fold(0, u64::saturating_add);
    draft.finish(usage(counted), searches, interaction)
}

/// Returns the bytes of a mark. An annotation covers the cited text, in bytes; its mark follows it.
fn mark(text: &str, annotation: &Value) -> Option<(usize, usize)> {
    let end = index(annotation, "end_index")?;
    Some(own_mark(text, char_boundary(text, end)))
}

/// Returns the bytes of the agent's own mark, such as ` [cite: 1, 2]`, after or before `end`; the
/// empty place at `end` if there is none.
fn own_mark(text: &str, end: usize) -> (usize, usize) {
    const OPEN: &str = "[cite:";
    let (before, after) = text.split_at(end);
    let opened = after.trim_start_matches(' ');
    if opened.starts_with(OPEN)
        && let Some(length) = opened.find(']')
    {
        return (end, end + (after.len() - opened.len()) + length + 1);
    }
    match before.rfind(OPEN) {
        Some(start) if before.ends_with(']') && !before[start..end - 1].contains(']') => {
            (before[..start].trim_end_matches(' ').len(), end)
        }
        _ => (end, end),
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    usage["total_output_tokens"].as_u64()?;
    let input = count(usage, "total_input_tokens").saturating_add(count(usage, "total_tool_use_tokens"));
    let cached = count(usage, "total_cached_tokens").min(input);
    Some(
        Usage::tokens(input - cached, count(usage, "total_output_tokens"))
            .with(Unit::CacheRead, cached)
            .with(Unit::Reasoning, count(usage, "total_thought_tokens")),
    )
}

impl Gemini {
    /// Returns the path of an interaction on the server's root.
    fn interaction(&self, id: &str, action: &str) -> String {
        let path = format!("{PATH}/{}{action}", escape(id, ""));
        self.access.base().path_of(&path)
    }
}

#[async_trait]
impl JobProvider<ReportCall> for Gemini {
    fn check(&self, call: &ReportCall) -> Result<(), Error> {
        let unsupported = Unsupported {
            sites: true,
            dates: true,
            counts: true,
            output: true,
            ..Unsupported::default()
        };
        unsupported.check(call)
    }

    /// Submits the call without the idempotency key, which the service does not support.
    async fn submit(
        &self,
        ctx: &CallContext,
        call: &ReportCall,
        _key: &str,
    ) -> Result<Submitted<ProviderReport>, UpstreamError> {
        let body = body_of(call).to_string();
        let response = self.post(ctx, PATH, body.into()).await;
        let response = response.map_err(with_unknown_retry)?;
        let interaction = parsed(&response.whole(MAX_STATUS_BYTES).await?)?;
        accepted(&interaction)
    }

    async fn poll(
        &self,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState<ProviderReport>, UpstreamError> {
        let interaction = id_of(handle)?;
        let path = self.interaction(&interaction, "");
        let response = self.access.get_once(&self.http, ctx, &path).await?;
        match response.status {
            200..=299 => state(parsed(&response.whole(MAX_REPORT_BYTES).await?)?),
            404 | 410 => Ok(GenerationState::Lost),
            _ => Err(refusal::from_response(response, self.http.settings()).await),
        }
    }

    async fn cancel(&self, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let interaction = id_of(handle)?;
        let path = self.interaction(&interaction, "/cancel");
        let response = self.access.post_once(&self.http, ctx, &path).await?;
        match response.status {
            // The interaction has ended, or is unknown.
            200..=299 | 400 | 404 | 409 | 410 => Ok(()),
            _ => Err(refusal::from_response(response, self.http.settings()).await),
        }
    }
}

fn parsed(body: &Bytes) -> Result<Value, UpstreamError> {
    serde_json::from_slice(body).map_err(|_| {
        UpstreamError::protocol(format!(
            "the response has an unexpected shape ({} bytes)",
            body.len()
        ))
    })
}
