//! The simulator: a model that answers without a model. Deterministic, scripted by the last user message, able to fail
//! in every way that the contract knows. What it does is told in docs/providers.md.

mod answer;
mod calls;
mod decide;
mod embeddings;
mod failure;
mod grammar;
mod images;
mod logprobs;
mod pattern;
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
use tollgate_formats::openai_completions::BEYOND_CHAT;
use tollgate_studio::Tools;
use tollgate_types::clock::SystemClock;
use tollgate_types::generate::{GenerateRequest, GenerateResponse};
use tollgate_types::{Clock, ErrorCode, Format};
use tollgate_upstream::{
    CallContext, CountProvider, DecideProvider, EmbedProvider, ImageCall, ListedModel, Maker, Payload,
    Provider, SpeechProvider, TextAnswer, TextCall, TextProvider, TextReply, TranscribeProvider,
    UpstreamError, VideoCall,
};

use answer::Answer;
use grammar::Script;
use ticket::Cancelled;

use crate::crossing;

/// The one model that generates text.
const CHAT: &str = "chat";
/// Its context, as the catalog says.
const CONTEXT_WINDOW: u64 = 1_000_000;
/// The one model that makes vectors, and its context.
const EMBEDDINGS: (&str, u64) = ("embeddings", 8_192);
/// When every answer was made (2026-01-01, 00:00 UTC): the same request has the same answer at any time.
const CREATED: i64 = 1_767_225_600;

/// The simulator. It needs no network and no key.
#[derive(Debug)]
pub struct Simulator {
    id: Arc<str>,
    /// With what films and speech are made.
    tools: Tools,
    clock: Arc<dyn Clock>,
    cancelled: Cancelled,
}

impl Simulator {
    /// The simulator of this configuration block.
    pub fn new(id: Arc<str>) -> Self {
        Self::with(id, Tools::find(), Arc::new(SystemClock::default()))
    }

    /// The same with these programs and by this clock.
    pub fn with(id: Arc<str>, tools: Tools, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            tools,
            clock,
            cancelled: Cancelled::default(),
        }
    }
}

/// A call as the simulator sees it.
struct Prompt {
    request: GenerateRequest,
    script: Script,
    /// What the last user message says beside the script.
    said: String,
    /// Names the answer and its tool calls. Equal for equal requests.
    hash: u64,
}

impl Prompt {
    fn read(call: &TextCall) -> Result<Self, UpstreamError> {
        let mut request = crossing::common_form(call)?;
        request.max_tokens = request.max_tokens.or(call.clamp_output);
        let last = grammar::last_user_text(&request);
        let (script, said) = grammar::read(&last).map_err(|wrong| {
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
            said,
            hash: hasher.finish(),
        })
    }
}

#[async_trait]
impl TextProvider for Simulator {
    fn takes(&self, _format: Format) -> bool {
        true
    }

    fn lacking_fields(&self, format: Format) -> &'static [&'static str] {
        match format {
            Format::Completions => BEYOND_CHAT,
            _ => &[],
        }
    }

    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let prompt = Prompt::read(call)?;
        if prompt.script.delay >= ctx.header_timeout {
            sleep(ctx.header_timeout).await;
            return Err(failure::asked_for(ErrorCode::UpstreamTimeout));
        }
        if !prompt.script.delay.is_zero() {
            sleep(prompt.script.delay).await;
        }
        if let (Some(code), None) = (prompt.script.error, prompt.script.cut) {
            return Err(failure::asked_for(code));
        }
        let answer = Answer::compose(&prompt)?;
        if call.stream {
            return Ok(TextReply::Stream(stream::open(prompt, answer, call)));
        }
        if prompt.script.cut.is_some() {
            let code = prompt.script.error.unwrap_or(ErrorCode::UpstreamError);
            return Err(failure::asked_for(code));
        }
        let wait = answer.pieces_to_pace(prompt.script.pace);
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(TextReply::Whole(whole(&prompt, answer, call)))
    }
}

fn whole(prompt: &Prompt, answer: Answer, call: &TextCall) -> TextAnswer {
    let usage = answer.usage;
    let output_bytes = answer.choices.iter().map(answer::Spoken::output_bytes).sum();
    let top_logprobs = prompt.request.top_logprobs;
    let choices = answer.choices.into_iter();
    let response = GenerateResponse {
        id: answer.id,
        created: CREATED,
        model: call.public_model.to_string(),
        choices: choices.map(|spoken| spoken.into_choice(top_logprobs)).collect(),
        usage: Some(usage),
        extra: serde_json::Map::new(),
    };
    TextAnswer {
        payload: Payload::Common(Box::new(response)),
        outline: None,
        usage: Some(usage),
        output_bytes,
    }
}

/// It counts what it would report.
#[async_trait]
impl CountProvider for Simulator {
    async fn count(&self, _ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError> {
        Ok(answer::input_tokens(&crossing::common_form(call)?))
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

    fn images(&self) -> Option<&dyn Maker<ImageCall>> {
        Some(self)
    }

    fn videos(&self) -> Option<&dyn Maker<VideoCall>> {
        Some(self)
    }

    fn speech(&self) -> Option<&dyn SpeechProvider> {
        Some(self)
    }

    fn transcriptions(&self) -> Option<&dyn TranscribeProvider> {
        Some(self)
    }

    async fn list_models(&self, _timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        let models = [(CHAT, CONTEXT_WINDOW), EMBEDDINGS];
        let listed = models.map(|(name, window)| ListedModel {
            name: name.to_owned(),
            context_window: Some(window),
        });
        Ok(listed.to_vec())
    }
}

#[cfg(test)]
mod tests;
