//! Decisions of providers that use the common form: encodes a label call as a request, and decodes
//! the response.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Map;
use tollgate_formats::decisions::{StatePart, state_parts};
use tollgate_types::Format;
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::{
    File, GenerateRequest, GenerateResponse, Message, Part, ResponseFormat, Role, Sampling, Thinking,
    ToolChoice,
};
use tollgate_upstream::{
    CallContext, DecisionWay, Draw, LabelCall, LabelDraws, LabelReading, Payload, TextCall, TextProvider,
    TextReply, UpstreamError,
};

use super::{
    Capability, Memory, accepts_media, attempt_outcome, chat_logprobs, count_answers, probe, reading, schema,
};

/// Encodes label calls for a text provider and records which capabilities its models lack.
#[derive(Debug)]
pub(crate) struct TextLabels {
    media: &'static [StateMediaKind],
    /// Maximum number of top tokens in a request; 0 if the provider reports none.
    max: usize,
    memory: Memory,
}

impl TextLabels {
    /// Creates the encoder for a provider that accepts these media kinds and reports up to `max`
    /// top tokens.
    pub(crate) fn new(media: &'static [StateMediaKind], max: usize) -> Self {
        Self {
            media,
            max,
            memory: Memory::default(),
        }
    }

    /// Returns the capabilities and limits that were recorded for the provider's models.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the methods that the model supports for this state, best first; empty if the
    /// provider does not accept the state's media.
    pub(crate) fn ways(&self, model: &str, state: &State) -> Vec<DecisionWay> {
        let mut ways = Vec::with_capacity(2);
        if !accepts_media(self.media, state) {
            return ways;
        }
        if self.max > 0 && self.memory.may_have(model, Capability::Logprobs) {
            ways.push(DecisionWay::TopLogprobs {
                max: self.memory.max(model, self.max),
            });
        }
        ways.push(DecisionWay::Sampled { max_answers: 1 });
        ways
    }

    /// Reads the probability that the response starts with each label; `None` if the model reports
    /// no top tokens.
    pub(crate) async fn read(
        &self,
        provider: &dyn TextProvider,
        ctx: &CallContext,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let model = &call.upstream_model;
        let max = self.memory.max(model, self.max);
        let one = |call: LabelCall| async move {
            let request = GenerateRequest {
                max_tokens: Some(1),
                top_logprobs: u32::try_from(max).ok(),
                thinking: Some(Thinking::Off),
                ..request(&call)
            };
            let response = generate(provider, ctx, &call, request).await?;
            let token_logprobs = chat_logprobs(
                response
                    .choices
                    .first()
                    .and_then(|choice| choice.logprobs.as_ref()),
            )?;
            let reading = reading(&token_logprobs, &call.labels, max)?;
            let usage = response.usage;
            Ok(reading.map(|reading| (LabelReading { usage, ..reading }, token_logprobs.len())))
        };
        let attempt = one(call.clone()).await;
        let found = attempt_outcome(
            &self.memory,
            model,
            Capability::Logprobs,
            attempt,
            one(probe(call)),
        )
        .await?;
        Ok(found.map(|(reading, received)| {
            if received < max {
                self.memory.set_max_logprobs(model, received);
            }
            reading
        }))
    }

    /// Samples one answer, because these providers return one answer per request.
    pub(crate) async fn draw(
        &self,
        provider: &dyn TextProvider,
        ctx: &CallContext,
        call: &LabelCall,
        draw: Draw,
    ) -> Result<LabelDraws, UpstreamError> {
        let shape = ResponseFormat::JsonSchema {
            name: "answer".to_owned(),
            description: None,
            schema: schema(&call.labels),
            strict: Some(true),
        };
        let request = GenerateRequest {
            max_tokens: Some(draw.max_tokens),
            response_format: Some(shape)
                .filter(|shape| provider.enforces_schema(shape))
                .unwrap_or_default(),
            ..request(call)
        };
        let response = generate(provider, ctx, call, request).await?;
        count_answers(&response, call, 1)
    }
}

/// Builds a request with one user message, which contains the state, its media and the question.
fn request(call: &LabelCall) -> GenerateRequest {
    let mut parts: Vec<Part> = state_parts(&call.state).into_iter().map(part).collect();
    parts.push(Part::Text(call.question.to_string()));
    GenerateRequest {
        model: call.upstream_model.to_string(),
        messages: vec![Message {
            role: Role::User,
            parts,
            ..Message::default()
        }],
        max_tokens: None,
        n: 1,
        stream: false,
        include_usage: false,
        stop: Vec::new(),
        sampling: Sampling {
            temperature: Some(1.0),
            ..Sampling::default()
        },
        tools: Vec::new(),
        tool_choice: ToolChoice::default(),
        parallel_tool_calls: None,
        response_format: ResponseFormat::Text,
        reasoning_effort: None,
        thinking: None,
        hide_reasoning: false,
        user: None,
        top_logprobs: None,
        extra: Map::new(),
    }
}

fn part(part: StatePart<'_>) -> Part {
    let medium = match part {
        StatePart::Text(text) => return Part::Text(text.to_owned()),
        StatePart::Medium(medium) => medium,
    };
    let url = medium.url.clone();
    match medium.kind {
        StateMediaKind::Image => Part::Image { url, detail: None },
        StateMediaKind::Audio => {
            let (format, data) = base64_of(&url);
            Part::Audio {
                data: data.to_owned(),
                format: format.to_owned(),
            }
        }
        StateMediaKind::Video => Part::File(File {
            data: Some(url),
            ..File::default()
        }),
    }
}

/// Splits a data URL into its format and its base64 data. Converts variant names of MP3 and WAV to
/// `mp3` and `wav`.
pub(crate) fn base64_of(url: &str) -> (&str, &str) {
    let (head, data) = url.split_once(',').unwrap_or(("", url));
    let subtype = head.split([';', '/']).nth(1).unwrap_or_default();
    let format = match subtype {
        "mpeg" | "mp3" => "mp3",
        "x-wav" | "wave" | "vnd.wave" => "wav",
        other => other,
    };
    (format, data)
}

async fn generate(
    provider: &dyn TextProvider,
    ctx: &CallContext,
    call: &LabelCall,
    request: GenerateRequest,
) -> Result<GenerateResponse, UpstreamError> {
    let mut ctx = ctx.clone();
    ctx.inspected = true;
    let text = TextCall {
        output_cap: request.max_tokens.unwrap_or_default(),
        common: Some(Arc::new(request)),
        ..TextCall::new(Format::ChatCompletions, call.upstream_model.clone(), Bytes::new())
    };
    match provider.generate(&ctx, &text).await? {
        TextReply::Whole(answer) => match answer.payload {
            Payload::Common(response) => Ok(*response),
            Payload::Raw(..) => Err(UpstreamError::protocol("the response is not in the common form")),
        },
        TextReply::Stream(_) => Err(UpstreamError::protocol(
            "received a stream for a request without `stream`",
        )),
    }
}
