//! Providers that are asked in the common form: what a label call is there, and what its answer says.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Map;
use tollgate_formats::decisions::{Piece, pieces};
use tollgate_types::Format;
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::{
    Choice, File, GenerateRequest, GenerateResponse, Message, Part, ResponseFormat, Role, Sampling, Thinking,
    ToolChoice,
};
use tollgate_upstream::{
    CallContext, DecisionWay, LabelCall, LabelDraws, LabelReading, Payload, TextCall, TextProvider,
    TextReply, UpstreamError,
};

use super::{
    DRAWN_TOKENS, Means, Memory, answered, draw, probe, reading, schema, settled, takes, told_by_chat,
};

/// How a provider of text is asked for labels, and what is known of its models.
#[derive(Debug)]
pub(crate) struct ByText {
    media: &'static [StateMediaKind],
    /// How many of the likeliest tokens may be asked for; 0 where none are told.
    most: usize,
    memory: Memory,
}

impl ByText {
    /// A provider that takes media of these kinds and tells so many of the likeliest tokens.
    pub(crate) fn new(media: &'static [StateMediaKind], most: usize) -> Self {
        Self {
            media,
            most,
            memory: Memory::default(),
        }
    }

    /// What is known of its models.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The ways of a model.
    pub(crate) fn ways(&self, model: &str, state: &State) -> Vec<DecisionWay> {
        let mut ways = Vec::with_capacity(2);
        if !takes(self.media, state) {
            return ways;
        }
        if self.most > 0 && self.memory.may_have(model, Means::Logprobs) {
            ways.push(DecisionWay::TopLogprobs {
                most: self.memory.most(model, self.most),
            });
        }
        ways.push(DecisionWay::Sampled { at_once: 1 });
        ways
    }

    /// How probable each label is to begin the answer.
    pub(crate) async fn read(
        &self,
        provider: &dyn TextProvider,
        ctx: &CallContext,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let model = &call.upstream_model;
        let most = self.memory.most(model, self.most);
        let one = |call: LabelCall| async move {
            let request = GenerateRequest {
                max_tokens: Some(1),
                top_logprobs: u32::try_from(most).ok(),
                thinking: Some(Thinking::Off),
                ..request(&call)
            };
            let response = generate(provider, ctx, &call, request).await?;
            let told = told_by_chat(
                response
                    .choices
                    .first()
                    .and_then(|choice| choice.logprobs.as_ref()),
            )?;
            Ok(reading(&told, &call.labels, most)?.map(|reading| (reading, told.len())))
        };
        let attempt = one(call.clone()).await;
        let found = settled(&self.memory, model, Means::Logprobs, attempt, one(probe(call))).await?;
        Ok(found.map(|(reading, came)| {
            if came < most {
                self.memory.told_fewer(model, came);
            }
            reading
        }))
    }

    /// So many answers.
    pub(crate) async fn draw(
        &self,
        provider: &dyn TextProvider,
        ctx: &CallContext,
        call: &LabelCall,
        number: u32,
    ) -> Result<LabelDraws, UpstreamError> {
        let shape = ResponseFormat::JsonSchema {
            name: "answer".to_owned(),
            description: None,
            schema: schema(&call.labels),
            strict: Some(true),
        };
        let shape = Some(shape)
            .filter(|shape| provider.forces(shape))
            .unwrap_or_default();
        draw(call, number, 1, |_, _| async {
            let request = GenerateRequest {
                max_tokens: Some(DRAWN_TOKENS),
                response_format: shape.clone(),
                ..request(call)
            };
            let response = generate(provider, ctx, call, request).await?;
            let choices = response.choices.iter();
            Ok(choices
                .map(|choice| answered(&text_of(choice), &call.labels))
                .collect())
        })
        .await
    }
}

fn text_of(choice: &Choice) -> String {
    let texts = choice.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The state, its media and the question, as one turn.
fn request(call: &LabelCall) -> GenerateRequest {
    let mut parts: Vec<Part> = pieces(&call.state).into_iter().map(part).collect();
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

fn part(piece: Piece<'_>) -> Part {
    let medium = match piece {
        Piece::Text(text) => return Part::Text(text.to_owned()),
        Piece::Medium(medium) => medium,
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

/// The subtype of a data URL and what it has in base64.
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
        output_cap: request.max_tokens.unwrap_or(DRAWN_TOKENS),
        common: Some(Arc::new(request)),
        ..TextCall::new(Format::ChatCompletions, call.upstream_model.clone(), Bytes::new())
    };
    match provider.generate(&ctx, &text).await? {
        TextReply::Whole(answer) => match answer.payload {
            Payload::Common(response) => Ok(*response),
            Payload::Raw(..) => Err(UpstreamError::protocol("the answer is not in the common form")),
        },
        TextReply::Stream(_) => Err(UpstreamError::protocol("a stream came where none was asked for")),
    }
}
