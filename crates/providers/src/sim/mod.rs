//! The simulator: a provider without a model. It is deterministic, scripted by the last user
//! message, and can return every error code of the API. docs/providers.md describes it.

mod answer;
mod calls;
mod decide;
mod embeddings;
mod failure;
mod grammar;
mod images;
mod logprobs;
mod pattern;
mod realtime;
mod research;
mod schema;
mod speech;
mod stream;
mod ticket;
mod tokens;
mod videos;

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;
use tollgate_formats::openai_completions::COMPLETIONS_ONLY;
use tollgate_media_tools::Tools;
use tollgate_types::clock::SystemClock;
use tollgate_types::generate::{GenerateRequest, GenerateResponse};
use tollgate_types::{Clock, ErrorCode, Format};
use tollgate_upstream::{
    CallContext, CountProvider, DecideProvider, EmbedProvider, ImageCall, JobProvider, ListedModel, Payload,
    Provider, RealtimeProvider, ResearchProvider, SpeechProvider, TextAnswer, TextCall, TextProvider,
    TextReply, TranscribeProvider, UpstreamError, VideoCall,
};

use answer::Answer;
use grammar::Script;
use ticket::Cancelled;

use crate::conversion;

/// Name of the only text model.
const CHAT: &str = "chat";
/// Context window of the text model in tokens, as in the catalog.
const CONTEXT_WINDOW: u64 = 1_000_000;
/// Name of the only embedding model, and its context window in tokens.
const EMBEDDINGS: (&str, u64) = ("embeddings", 8_192);
/// Creation time of every response (2026-01-01, 00:00 UTC), so that equal requests have equal
/// responses at any time.
const CREATED: i64 = 1_767_225_600;

/// The provider of simulated models. It needs no network and no key.
#[derive(Debug)]
pub struct Simulator {
    id: Arc<str>,
    /// Programs that generate videos and speech.
    tools: Tools,
    clock: Arc<dyn Clock>,
    cancelled: Cancelled,
}

impl Simulator {
    /// Builds the simulator of the configuration block `id`.
    pub fn new(id: Arc<str>) -> Self {
        Self::with(id, Tools::find(), Arc::new(SystemClock::default()))
    }

    /// Builds the simulator with these programs and this clock.
    pub fn with(id: Arc<str>, tools: Tools, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            tools,
            clock,
            cancelled: Cancelled::default(),
        }
    }
}

/// A call with its parsed script.
struct Prompt {
    request: GenerateRequest,
    script: Script,
    /// The last user message without its script.
    user_text: String,
    /// Hash of the request body, a part of the ids of the response and its tool calls. Equal for
    /// equal requests.
    hash: u64,
}

impl Prompt {
    fn read(call: &TextCall) -> Result<Self, UpstreamError> {
        let mut request = conversion::common_form(call)?;
        request.max_tokens = request.max_tokens.or(call.clamp_output);
        let last = grammar::last_user_text(&request);
        let (script, user_text) = grammar::read(&last).map_err(|wrong| {
            let error = failure::simulated(ErrorCode::InvalidParameter, wrong);
            UpstreamError {
                param: Some(call.format.input().to_owned()),
                ..error
            }
        })?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&call.body);
        Ok(Self {
            request,
            script,
            user_text,
            hash: hasher.finish(),
        })
    }
}

#[async_trait]
impl TextProvider for Simulator {
    fn takes(&self, _format: Format) -> bool {
        true
    }

    fn unsupported_fields(&self, format: Format) -> &'static [&'static str] {
        match format {
            Format::Completions => COMPLETIONS_ONLY,
            _ => &[],
        }
    }

    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let prompt = Prompt::read(call)?;
        if prompt.script.delay >= ctx.header_timeout {
            sleep(ctx.header_timeout).await;
            return Err(failure::requested(ErrorCode::UpstreamTimeout));
        }
        if !prompt.script.delay.is_zero() {
            sleep(prompt.script.delay).await;
        }
        if let (Some(code), None) = (prompt.script.error, prompt.script.cut) {
            return Err(failure::requested(code));
        }
        let answer = Answer::compose(&prompt)?;
        if call.stream {
            return Ok(TextReply::Stream(stream::open(prompt, answer, call)));
        }
        if prompt.script.cut.is_some() {
            let code = prompt.script.error.unwrap_or(ErrorCode::UpstreamError);
            return Err(failure::requested(code));
        }
        let wait = answer.stream_duration(prompt.script.pace);
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(TextReply::Whole(whole(&prompt, answer, call)))
    }
}

fn whole(prompt: &Prompt, answer: Answer, call: &TextCall) -> TextAnswer {
    let usage = answer.usage;
    let output_bytes = answer
        .choices
        .iter()
        .map(answer::AnswerChoice::output_bytes)
        .sum();
    let top_logprobs = prompt.request.top_logprobs;
    let choices = answer.choices.into_iter();
    let response = GenerateResponse {
        id: answer.id,
        created: CREATED,
        model: call.public_model.to_string(),
        choices: choices
            .map(|answer_choice| answer_choice.into_choice(top_logprobs))
            .collect(),
        usage: Some(usage),
        extra: serde_json::Map::new(),
    };
    TextAnswer {
        capped_answers: 0,
        payload: Payload::Common(Box::new(response)),
        outline: None,
        usage: Some(usage),
        output_bytes,
    }
}

/// Counts the tokens that the usage of a response would report.
#[async_trait]
impl CountProvider for Simulator {
    async fn count(&self, _ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError> {
        Ok(answer::input_tokens(&conversion::common_form(call)?))
    }
}

#[async_trait]
impl Provider for Simulator {
    fn id(&self) -> &str {
        &self.id
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn text(&self) -> Option<&dyn TextProvider> {
        Some(self)
    }

    fn counts(&self) -> Option<&dyn CountProvider> {
        Some(self)
    }

    fn embeddings(&self) -> Option<&dyn EmbedProvider> {
        Some(self)
    }

    fn decisions(&self) -> Option<&dyn DecideProvider> {
        Some(self)
    }

    fn images(&self) -> Option<&dyn JobProvider<ImageCall>> {
        Some(self)
    }

    fn videos(&self) -> Option<&dyn JobProvider<VideoCall>> {
        Some(self)
    }

    fn speech(&self) -> Option<&dyn SpeechProvider> {
        Some(self)
    }

    fn transcriptions(&self) -> Option<&dyn TranscribeProvider> {
        Some(self)
    }

    fn realtime(&self) -> Option<&dyn RealtimeProvider> {
        Some(self)
    }

    fn research(&self) -> Option<&dyn ResearchProvider> {
        Some(self)
    }

    async fn list_models(&self, _timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        let models = [(CHAT, CONTEXT_WINDOW), EMBEDDINGS];
        let listed = models.map(|(name, window)| ListedModel {
            name: name.to_owned(),
            context_window: Some(window),
            ..ListedModel::default()
        });
        Ok(listed.to_vec())
    }
}

#[cfg(test)]
mod tests;
