//! Counting what a request says, for callers who ask and for holds that the balance does not cover by bytes.
//!
//! A tokenizer counts only texts that stand in the caller's body as the model reads them. Everything else stays bounded by
//! its bytes: how tools, schemas, pictures and documents become tokens is not published, or not as it is billed. The
//! model's provider knows, and is asked where it can be.

use tollgate_catalog::Framing;
use tollgate_formats::{embeddings, hub, openai_completions};
use tollgate_pipeline::{CallRequest, DecideCall, NamesMedia, Pipeline, Routed};
use tollgate_types::embed::EmbedInput;
use tollgate_types::generate::{GenerateRequest, Message, Part, ResponseFormat, Role};
use tollgate_types::{Error, Format};
use tollgate_upstream::{EmbedCall, ModerationCall, TextCall};

use crate::policy::Inspected;
use crate::structured_output::Shaped;

const EXACT: &str = "exact";
const UPPER_BOUND: &str = "upper_bound";

/// A call some of whose text a tokenizer can count.
pub(crate) trait Countable {
    /// The texts; none where nothing can be counted.
    fn texts_to_count(&self) -> Vec<String>;
}

impl Countable for TextCall {
    fn texts_to_count(&self) -> Vec<String> {
        if let Some(request) = &self.common {
            return texts_of(request);
        }
        if self.format == Format::Completions {
            return openai_completions::prompts(&self.body);
        }
        let decoded = hub::decode_request(self.format, &self.body);
        decoded.map(|request| texts_of(&request)).unwrap_or_default()
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
}

/// It is counted before it is admitted.
impl Countable for DecideCall {
    fn texts_to_count(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Nothing is paid for it.
impl Countable for ModerationCall {
    fn texts_to_count(&self) -> Vec<String> {
        Vec::new()
    }
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

/// The input of a request in tokens.
pub(crate) struct Counted {
    pub(crate) tokens: u64,
    /// `exact` or `upper_bound`.
    pub(crate) how: &'static str,
}

impl Counted {
    /// So many tokens, as they are charged.
    pub(crate) fn exactly(tokens: u64) -> Self {
        Self { tokens, how: EXACT }
    }
}

/// The texts of a call by their tokens, where the tokenizer is known, and the rest by its bytes.
pub(crate) async fn bound_of<C: Countable>(
    pipeline: &Pipeline,
    routed: &Routed,
    request: &CallRequest<C>,
) -> Counted {
    let demand = routed.told(request.demand);
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

/// What is counted: a call that could be made.
pub(crate) struct Counting {
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest,
}

impl Counting {
    /// The tokens as the model's provider counts them, by its published tokenizer where that says all, else by asking it;
    /// otherwise a bound that they cannot exceed.
    pub(crate) async fn count(mut self, pipeline: &Pipeline) -> Result<Counted, Error> {
        self.request.call.shape(&mut self.routed)?;
        TextCall::fetch_media(pipeline, &mut self.routed, &mut self.request).await?;
        let exact = match self.by_tokenizer(pipeline).await {
            None => self.by_provider(pipeline).await,
            exact => exact,
        };
        Ok(self.counted(pipeline, exact).await)
    }

    /// The same for a call that has its shape and its media, without asking anybody elsewhere.
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

    /// Exact where what the model reads is a conversation of texts and nothing else, in the format whose framing is
    /// documented.
    async fn by_tokenizer(&self, pipeline: &Pipeline) -> Option<u64> {
        let tokenizer = self.routed.model.tokenizer?;
        let Framing::Chatml = self.routed.model.framing?;
        let request = self.request.call.common.as_deref()?;
        let is_plain = self.routed.all_take(Format::ChatCompletions)
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
        // A role is one token.
        let around = 4 * request.messages.len() + names.len() + 3;
        read.extend(names);
        let counted = pipeline.count_text(tokenizer, read).await?;
        Some(counted.tokens.saturating_add(around as u64))
    }

    /// Exact where the provider counts. What the content policy forbids is not sent to be counted either.
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
