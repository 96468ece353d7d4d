//! Counting what a request says, for callers who ask and for holds that the balance does not cover by bytes.
//!
//! Only texts are counted that stand in the caller's body as the model reads them. Everything else stays bounded by its
//! bytes: how tools, schemas, pictures and documents become tokens is not published, or not as it is billed.

use tollgate_billing::Demand;
use tollgate_catalog::Framing;
use tollgate_formats::{embeddings, hub, openai_completions};
use tollgate_pipeline::{CallRequest, Pipeline, Routed};
use tollgate_types::embed::EmbedInput;
use tollgate_types::generate::{GenerateRequest, Message, Part, ResponseFormat, Role};
use tollgate_types::{AccountId, Error, Format, Tokenizer};
use tollgate_upstream::{EmbedCall, ModerationCall, TextCall};

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

/// What is counted: a request that can be made.
pub(crate) struct Counting {
    pub(crate) routed: Routed,
    /// What it may consume, by its bytes.
    pub(crate) demand: Demand,
    /// The request in the common form, where it has one.
    pub(crate) request: Option<GenerateRequest>,
}

impl Counting {
    /// What is counted of a call.
    pub(crate) fn of_call(routed: Routed, request: &CallRequest) -> Self {
        let call = &request.call;
        let decoded = match &call.common {
            Some(common) => Some(GenerateRequest::clone(common)),
            // What has no place in the common form is bounded like everything else.
            None => hub::decode_request(call.format, &call.body).ok(),
        };
        Self {
            routed,
            demand: request.demand,
            request: decoded,
        }
    }

    /// The texts of a call by their tokens, everything else by its bytes.
    pub(crate) async fn counted_texts(&self, pipeline: &Pipeline, call: &impl Countable) -> Counted {
        let counted = match self.routed.model.tokenizer {
            Some(tokenizer) => pipeline.count_text(tokenizer, call.texts_to_count()).await,
            None => None,
        };
        let demand = counted.map_or(self.demand, |text| self.demand.counted(text));
        Counted {
            tokens: demand.input_bound(),
            how: UPPER_BOUND,
        }
    }

    /// The tokens as the model's provider counts them, where that is known without asking it; otherwise a bound that
    /// they cannot exceed.
    pub(crate) async fn count(mut self, pipeline: &Pipeline, account: AccountId) -> Result<Counted, Error> {
        if let Some(request) = &mut self.request {
            let put = pipeline.put_files(account, &self.routed, request, &mut self.demand);
            put.await?;
        }
        Ok(self.counted(pipeline).await)
    }

    /// The same for a request that has its files already.
    pub(crate) async fn counted(&self, pipeline: &Pipeline) -> Counted {
        let by_bytes = Counted {
            tokens: self.demand.input_bound(),
            how: UPPER_BOUND,
        };
        let Some(request) = &self.request else {
            return by_bytes;
        };
        let provider = self.routed.first_provider();
        if let Some(tokens) = provider.and_then(|provider| provider.text()?.count_input(request)) {
            return Counted { tokens, how: EXACT };
        }
        let Some(tokenizer) = self.routed.model.tokenizer else {
            return by_bytes;
        };
        let counted = match self.routed.model.framing {
            Some(framing) if self.is_plain(request) => exact(pipeline, tokenizer, framing, request).await,
            _ => self.bound(pipeline, tokenizer, request).await,
        };
        counted.unwrap_or(by_bytes)
    }

    async fn bound(
        &self,
        pipeline: &Pipeline,
        tokenizer: Tokenizer,
        request: &GenerateRequest,
    ) -> Option<Counted> {
        let counted = pipeline.count_text(tokenizer, texts_of(request)).await?;
        Some(Counted {
            tokens: self.demand.counted(counted).input_bound(),
            how: UPPER_BOUND,
        })
    }

    /// Whether what the model reads is a conversation of texts and nothing else, in the format whose framing is
    /// documented.
    fn is_plain(&self, request: &GenerateRequest) -> bool {
        self.routed.all_take(Format::ChatCompletions)
            && request.tools.is_empty()
            && request.response_format == ResponseFormat::Text
            && request.extra.is_empty()
            && request.messages.iter().all(is_plain_turn)
    }
}

fn is_plain_turn(message: &Message) -> bool {
    message.role != Role::Tool
        && message.tool_calls.is_empty()
        && message.extra.is_empty()
        && matches!(&*message.parts, [Part::Text(_)])
}

async fn exact(
    pipeline: &Pipeline,
    tokenizer: Tokenizer,
    framing: Framing,
    request: &GenerateRequest,
) -> Option<Counted> {
    let Framing::Chatml = framing;
    let mut read = texts_of(request);
    let names: Vec<String> = request
        .messages
        .iter()
        .filter_map(|turn| turn.name.clone())
        .collect();
    // A role is one token.
    let around = 4 * request.messages.len() + names.len() + 3;
    read.extend(names);
    let counted = pipeline.count_text(tokenizer, read).await?;
    Some(Counted {
        tokens: counted.tokens.saturating_add(around as u64),
        how: EXACT,
    })
}

#[cfg(test)]
mod tests;
