//! Counts the input tokens of a request, for the counting endpoints and for holds that the balance
//! does not cover by the byte bound.
//!
//! A tokenizer counts only texts that reach the model unchanged. Everything else is bounded by its
//! bytes: providers do not publish how tools, schemas, images and documents become billed tokens.
//! Where the provider has a counting endpoint, it is queried.

use tollgate_catalog::Framing;
use tollgate_formats::{embeddings, openai_completions, to_common};
use tollgate_pipeline::{CallRequest, DecideCall, Pipeline, ReferencesMedia, Routed};
use tollgate_types::embed::EmbedInput;
use tollgate_types::generate::{GenerateRequest, Message, Part, ResponseFormat, Role};
use tollgate_types::{Error, ErrorCode, Format, Tokenizer};
use tollgate_upstream::{EmbedCall, ModerationCall, TextCall};

use crate::policy::Inspectable;
use crate::structured_output::Shaped;

const EXACT: &str = "exact";
const UPPER_BOUND: &str = "upper_bound";

/// A call with texts that a tokenizer can count.
pub(crate) trait Countable: Sized {
    /// Returns the countable texts; empty if there are none.
    fn texts_to_count(&self) -> Vec<String>;

    /// Returns the name of the request field that holds the texts.
    fn text_field(&self) -> &'static str;

    /// Returns the exact number of input tokens, if the model is simulated.
    async fn simulated_count(
        _pipeline: &Pipeline,
        _routed: &Routed,
        _request: &CallRequest<Self>,
    ) -> Option<u64> {
        None
    }
}

impl Countable for TextCall {
    fn texts_to_count(&self) -> Vec<String> {
        if let Some(request) = &self.common {
            return texts_of(request);
        }
        if self.format == Format::Completions {
            return openai_completions::prompts(&self.body);
        }
        let decoded = to_common::decode_request(self.format, &self.body);
        decoded.map(|request| texts_of(&request)).unwrap_or_default()
    }

    fn text_field(&self) -> &'static str {
        match self.format {
            Format::ChatCompletions | Format::Messages => "messages",
            Format::Responses => "input",
            Format::GenerateContent => "contents",
            Format::Completions => "prompt",
        }
    }

    async fn simulated_count(
        pipeline: &Pipeline,
        routed: &Routed,
        request: &CallRequest<Self>,
    ) -> Option<u64> {
        pipeline.ask_count(routed, request).await
    }
}

impl Countable for EmbedCall {
    fn texts_to_count(&self) -> Vec<String> {
        let Ok(request) = embeddings::decode_request(&self.body) else {
            return Vec::new();
        };
        let text = |input| match input {
            EmbedInput::Text(text) => Some(text),
            EmbedInput::Tokens(_) => None,
        };
        request.inputs.into_iter().filter_map(text).collect()
    }

    fn text_field(&self) -> &'static str {
        "input"
    }
}

/// Decisions are counted before admission, so no text is left to count.
impl Countable for DecideCall {
    fn texts_to_count(&self) -> Vec<String> {
        Vec::new()
    }

    fn text_field(&self) -> &'static str {
        "state"
    }
}

/// Moderation is free of charge, so nothing is counted.
impl Countable for ModerationCall {
    fn texts_to_count(&self) -> Vec<String> {
        Vec::new()
    }

    fn text_field(&self) -> &'static str {
        "input"
    }
}

/// Rejects input that certainly exceeds the context window of the model. A token has at least one
/// byte, so input whose number of bytes does not exceed the window always fits. Longer input is
/// counted by the model's tokenizer or by the simulator. Without either, the input passes
/// unchecked.
pub(crate) async fn check_window<C: Countable>(
    pipeline: &Pipeline,
    routed: &Routed,
    request: &CallRequest<C>,
) -> Result<(), Error> {
    let demand = &request.demand;
    let Some(window) = demand.window(&routed.model) else {
        return Ok(());
    };
    if demand.tokens.saturating_add(demand.text_bytes) <= window {
        return Ok(());
    }
    let fewest = match routed.model.tokenizer {
        _ if routed.is_replay => None,
        Some(tokenizer) => {
            let texts = request.call.texts_to_count();
            let bytes: u64 = texts.iter().map(|text| text.len() as u64).sum();
            let counted = pipeline.count_text(tokenizer, texts).await;
            counted.map_or(Some(bytes / Tokenizer::MAX_TOKEN_BYTES), |counted| {
                Some(counted.fewest())
            })
        }
        None if routed.model.simulated => C::simulated_count(pipeline, routed, request).await,
        None => None,
    };
    // Input in token ids is counted without a tokenizer.
    let fewest = fewest.unwrap_or_default().max(demand.tokens);
    if fewest <= window {
        return Ok(());
    }
    let field = request.call.text_field();
    let message = format!(
        "'{field}' has at least {fewest} tokens, but the context window of this model has {window}. \
         Shorten the input, or choose a model with a larger context window (see GET /v1/models)."
    );
    Err(Error::new(ErrorCode::ContextLengthExceeded, message).with_param(field))
}

fn texts_of(request: &GenerateRequest) -> Vec<String> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    parts.filter_map(text_of).cloned().collect()
}

fn text_of(part: &Part) -> Option<&String> {
    match part {
        Part::Text(text) | Part::Refusal(text) => Some(text),
        _ => None,
    }
}

/// Number of input tokens of a request.
pub(crate) struct Counted {
    pub(crate) tokens: u64,
    /// Precision of the count: `exact` or `upper_bound`.
    pub(crate) how: &'static str,
}

impl Counted {
    /// Returns an exact count, equal to the charged tokens.
    pub(crate) fn exactly(tokens: u64) -> Self {
        Self { tokens, how: EXACT }
    }

    /// Returns an upper bound of the charged tokens.
    pub(crate) fn bounded_by(tokens: u64) -> Self {
        let how = UPPER_BOUND;
        Self { tokens, how }
    }
}

/// Returns an upper bound: counts the texts with the model's tokenizer, if it is known, and
/// everything else by bytes.
pub(crate) async fn bound_of<C: Countable>(
    pipeline: &Pipeline,
    routed: &Routed,
    request: &CallRequest<C>,
) -> Counted {
    let demand = routed.single_attempt_demand(request.demand);
    let counted = match routed.model.tokenizer {
        Some(tokenizer) => {
            let texts = request.call.texts_to_count();
            pipeline.count_text(tokenizer, texts).await
        }
        None => None,
    };
    let demand = counted.map_or(demand, |counted| demand.counted(counted));
    Counted {
        tokens: demand.input_bound(),
        how: UPPER_BOUND,
    }
}

/// A routed call whose input is counted.
pub(crate) struct Counting {
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest,
}

impl Counting {
    /// Counts the tokens like the provider does: with its published tokenizer where that suffices,
    /// otherwise with its counting endpoint. Falls back to an upper bound.
    pub(crate) async fn count(mut self, pipeline: &Pipeline) -> Result<Counted, Error> {
        self.request.call.shape(&mut self.routed)?;
        TextCall::fetch_media(pipeline, &mut self.routed, &mut self.request).await?;
        let exact = match self.by_tokenizer(pipeline).await {
            None => self.by_provider(pipeline).await,
            exact => exact,
        };
        Ok(self.counted(pipeline, exact).await)
    }

    /// Counts like [`Self::count`] but sends no request to a provider. The call must already have
    /// its shape and its media.
    pub(crate) async fn count_here(&self, pipeline: &Pipeline) -> Counted {
        let exact = match self.by_tokenizer(pipeline).await {
            None if self.routed.model.simulated => self.by_provider(pipeline).await,
            exact => exact,
        };
        self.counted(pipeline, exact).await
    }

    async fn counted(&self, pipeline: &Pipeline, exact: Option<u64>) -> Counted {
        match exact {
            Some(tokens) => Counted::exactly(tokens),
            None => bound_of(pipeline, &self.routed, &self.request).await,
        }
    }

    /// Returns an exact count if the model reads only a conversation of texts, in a format with
    /// documented framing.
    async fn by_tokenizer(&self, pipeline: &Pipeline) -> Option<u64> {
        let tokenizer = self.routed.model.tokenizer?;
        let Framing::Chatml = self.routed.model.framing?;
        let request = self.request.call.common.as_deref()?;
        let is_plain = self.routed.all_accept_format(Format::ChatCompletions)
            && request.tools.is_empty()
            && request.response_format == ResponseFormat::Text
            && request.extra.is_empty()
            && request.messages.iter().all(is_plain_turn);
        if !is_plain {
            return None;
        }
        let mut read = texts_of(request);
        let turns = request.messages.iter();
        let names: Vec<String> = turns.filter_map(|turn| turn.name.clone()).collect();
        // Each role is one token.
        let around = 4 * request.messages.len() + names.len() + 3;
        read.extend(names);
        let counted = pipeline.count_text(tokenizer, read).await?;
        Some(counted.tokens.saturating_add(around as u64))
    }

    /// Returns the count of the provider's counting endpoint, if it has one. Input that the content
    /// policy forbids is not sent to the provider.
    async fn by_provider(&self, pipeline: &Pipeline) -> Option<u64> {
        self.routed.first_provider()?.counts()?;
        if let Some(policy) = pipeline.policy().filter(|policy| policy.inspects_input()) {
            let texts = self.request.call.texts().ok()?;
            let checked = policy.check_input(self.request.request, &texts).await;
            checked.ok()?;
        }
        pipeline.ask_count(&self.routed, &self.request).await
    }
}

fn is_plain_turn(message: &Message) -> bool {
    message.role != Role::Tool
        && message.tool_calls.is_empty()
        && message.extra.is_empty()
        && matches!(&*message.parts, [Part::Text(_)])
}

#[cfg(test)]
mod tests;
