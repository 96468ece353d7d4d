//! Answers whose shape an upstream cannot be made to keep: the model is told, the answer is looked at, and one that does
//! not fit is repaired once. Both attempts are under one hold.

use std::sync::Arc;

use bytes::Bytes;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use tollgate_billing::{Demand, Ending};
use tollgate_types::generate::{
    Choice, FinishReason, GenerateRequest, GenerateResponse, Message, Part, ResponseFormat, Role,
};
use tollgate_types::{Error, ErrorCode, Format, Usage};
use tollgate_upstream::{Payload, Provider, TextAnswer, TextProvider};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::{Dispatched, Failure};
use crate::generate::Started;
use crate::operation::Completed;
use crate::owned::Caller;
use crate::route::Routed;

/// Bytes of an answer that is shown to the model again.
const SHOWN_ANSWER: usize = 16 * 1024;
/// Faults that are told to the model, and bytes of each.
const TOLD_FAULTS: usize = 8;
const TOLD_FAULT: usize = 200;
/// What all that adds to the second request, wrapped in JSON and told in words, in bytes at the most.
const REPAIR_BYTES: u64 = 2 * (SHOWN_ANSWER + TOLD_FAULTS * TOLD_FAULT) as u64 + 1_024;

/// How an answer got the shape that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// It had it at once.
    Validated,
    /// The model was shown its answer and what was wrong with it.
    Repaired,
}

impl Structure {
    /// As callers are told.
    pub fn as_str(self) -> &'static str {
        match self {
            Structure::Validated => "validated",
            Structure::Repaired => "repaired",
        }
    }
}

/// The shape that an answer must have.
#[derive(Debug)]
pub struct Structured {
    /// `None` for any JSON object.
    schema: Option<Validator>,
    instruction: String,
}

impl Routed {
    /// Keeps the candidates that force the shape that a request's answer must have. When there is none, the request is changed
    /// so that its model is told in words, and the pipeline looks at the answer. Answers whether it was changed.
    pub fn shape(&mut self, request: &mut GenerateRequest) -> Result<bool, Error> {
        let forces = |text: &dyn TextProvider| text.forces(&request.response_format);
        if self.retain(|provider| provider.text().is_some_and(forces)) {
            return Ok(false);
        }
        let refusal = |code, message: String, param| Error::new(code, message).with_param(param);
        if request.n > 1 {
            let message = "'n' must be 1 for this model when the answer must have a shape.".to_owned();
            return Err(refusal(ErrorCode::UnsupportedParameter, message, "n"));
        }
        let structured = Structured::new(&request.response_format).map_err(|why| {
            let message = format!("'response_format' has a schema that cannot be used: {why}.");
            refusal(ErrorCode::InvalidParameter, message, "response_format")
        })?;
        let Some(structured) = structured else {
            return Ok(false);
        };
        structured.tell(request);
        request.response_format = nearest(&request.response_format, self);
        carry(self, request)?;
        self.structured = Some(Arc::new(structured));
        Ok(true)
    }
}

/// What can be forced of a shape: that an object is JSON at all.
fn nearest(format: &ResponseFormat, routed: &Routed) -> ResponseFormat {
    let is_object = match format {
        ResponseFormat::JsonSchema { schema, .. } => schema.get("type").is_some_and(|kind| kind == "object"),
        ResponseFormat::JsonObject | ResponseFormat::Text => true,
    };
    match is_object && routed.all_force(&ResponseFormat::JsonObject) {
        true => ResponseFormat::JsonObject,
        false => ResponseFormat::Text,
    }
}

/// Keeps the candidates that the changed request can be told, whichever format they take.
fn carry(routed: &mut Routed, request: &GenerateRequest) -> Result<(), Error> {
    let carries = |provider: &dyn Provider| provider.text().map(|text| text.carry(request));
    if routed.retain(|provider| matches!(carries(provider), Some(Ok(_)))) {
        return Ok(());
    }
    match routed.first_provider().and_then(carries) {
        Some(Err(error)) => Err(error),
        _ => Ok(()),
    }
}

impl Structured {
    /// The shape that a request asks for; the error says what is wrong with its schema. Nothing for free text. A schema
    /// refers to nothing outside of itself.
    pub fn new(format: &ResponseFormat) -> Result<Option<Self>, String> {
        let (schema, said) = match format {
            ResponseFormat::Text => return Ok(None),
            ResponseFormat::JsonObject => (None, String::new()),
            ResponseFormat::JsonSchema {
                schema, description, ..
            } => {
                // Patterns come from callers: the engine must not be slower than the text is long.
                let validator = jsonschema::options()
                    .with_pattern_options(PatternOptions::regex())
                    .build(schema)
                    .map_err(|error| shortened(&error.to_string()))?;
                let description = description.as_deref().unwrap_or_default();
                let said = format!(" It must match this JSON Schema: {schema}\n{description}");
                (Some(validator), said)
            }
        };
        let instruction =
            format!("Answer with one JSON object and nothing else: no other text, no code fence.{said}");
        Ok(Some(Self {
            schema,
            instruction: instruction.trim_end().to_owned(),
        }))
    }

    /// The request with the shape in words, ahead of everything else.
    pub fn tell(&self, request: &mut GenerateRequest) {
        request.messages.insert(0, said(Role::System, &self.instruction));
    }

    /// What the first attempt may consume.
    pub(crate) fn told(&self, asked: Demand) -> Demand {
        let told = (self.instruction.len() as u64)
            .saturating_mul(2)
            .saturating_add(256);
        Demand {
            text_bytes: asked.text_bytes.saturating_add(told),
            messages: asked.messages.saturating_add(1),
            ..asked
        }
    }

    /// What both attempts may consume.
    pub(crate) fn demand(&self, asked: Demand) -> Demand {
        let once = self.told(asked);
        Demand {
            text_bytes: once.text_bytes.saturating_mul(2).saturating_add(REPAIR_BYTES),
            tokens: once.tokens.saturating_mul(2),
            messages: once.messages.saturating_mul(2).saturating_add(2),
            media_bytes: once.media_bytes.saturating_mul(2),
            images: once.images.saturating_mul(2),
            max_tokens: once.max_tokens,
            reasoning_budget: once.reasoning_budget,
            n: once.n.saturating_mul(2),
            caches_for_an_hour: once.caches_for_an_hour,
            made: once.made,
        }
    }

    /// What is wrong with an answer. What is right is left without what stood around it.
    fn check(&self, answer: &mut GenerateResponse) -> Result<(), Vec<String>> {
        let Some(choice) = answer.choices.first_mut() else {
            return Ok(());
        };
        // An answer that was cut, blocked, or calls a tool instead is what it is, as with a shape that is forced.
        let ended = matches!(choice.finish, FinishReason::Stop | FinishReason::StopSequence);
        let refused = choice.parts.iter().any(|part| matches!(part, Part::Refusal(_)));
        if !ended || refused || !choice.tool_calls.is_empty() {
            return Ok(());
        }
        let text = text_of(choice);
        let document = without_fence(&text);
        let value: Value =
            serde_json::from_str(document).map_err(|error| vec![format!("It is not JSON: {error}")])?;
        if self.schema.is_none() && !value.is_object() {
            return Err(vec!["It is not a JSON object.".to_owned()]);
        }
        if let Some(schema) = &self.schema {
            let faults = schema.iter_errors(&value).take(TOLD_FAULTS);
            let faults: Vec<String> = faults
                .map(|fault| shortened(&format!("At '{}': {fault}", fault.instance_path())))
                .collect();
            if !faults.is_empty() {
                return Err(faults);
            }
        }
        if document.len() < text.len() {
            let document = document.to_owned();
            choice.parts.retain(|part| !matches!(part, Part::Text(_)));
            choice.parts.push(Part::Text(document));
            choice.logprobs = None;
        }
        Ok(())
    }

    /// The request for the second attempt.
    fn repair(
        &self,
        request: &GenerateRequest,
        answer: &GenerateResponse,
        faults: &[String],
    ) -> GenerateRequest {
        let mut request = request.clone();
        let text = answer.choices.first().map(text_of).unwrap_or_default();
        let shown = &text[..text.floor_char_boundary(SHOWN_ANSWER)];
        // Some upstreams refuse a turn that says nothing.
        let shown = if shown.trim().is_empty() {
            "(nothing)"
        } else {
            shown
        };
        request.messages.push(said(Role::Assistant, shown));
        let told = format!(
            "Your answer does not have the shape that was asked for:\n{}\n\n{}",
            faults.join("\n"),
            "Answer again, with the corrected JSON object and nothing else."
        );
        request.messages.push(said(Role::User, &told));
        request
    }
}

impl Pipeline {
    /// Looks at an answer, and has it repaired when it does not have the shape that was asked for. A second answer that
    /// does not have it either is a failure of the upstream, for which nobody pays.
    pub(crate) async fn structure(
        &self,
        admission: &mut Admission,
        caller: &Caller,
        dispatched: Dispatched<Started>,
    ) -> Completed<Started> {
        let Some(structured) = admission.structured.clone() else {
            return Ok((dispatched, None));
        };
        let (mut first, provider) = whole(dispatched)?;
        let faults = match structured.check(&mut first.1) {
            Ok(()) => return Ok((started(first, provider), Some(Structure::Validated))),
            Err(faults) => faults,
        };
        let id = admission.request.request;
        tracing::info!(request.id = %id, faults = faults.len(), "answer has another shape than was asked for");
        let Some(request) = &admission.request.call.common else {
            return Err(broken());
        };
        admission.request.call.common = Some(Arc::new(structured.repair(request, &first.1, &faults)));
        let dispatched = self.dispatch_for(admission, caller).await?;
        let (mut second, provider) = whole(dispatched)?;
        if let Err(faults) = structured.check(&mut second.1) {
            tracing::warn!(request.id = %id, faults = faults.len(), "repaired answer has another shape than was asked for");
            return Err(unfit());
        }
        second.0.usage = first
            .0
            .usage
            .zip(second.0.usage)
            .map(|(first, second)| sum(first, second));
        second.0.output_bytes = second.0.output_bytes.saturating_add(first.0.output_bytes);
        if second.0.usage.is_none() {
            // What is estimated is estimated for both.
            admission.request.demand = structured.demand(admission.request.demand);
        }
        second.1.usage = second.0.usage;
        Ok((started(second, provider), Some(Structure::Repaired)))
    }
}

/// An answer without its payload, and what it says.
type Answered = (TextAnswer, Box<GenerateResponse>);

fn whole(dispatched: Dispatched<Started>) -> Result<(Answered, Arc<str>), Failure> {
    let Dispatched { reply, provider } = dispatched;
    match reply {
        Started::Whole(mut answer) => match answer.payload {
            Payload::Common(said) => {
                answer.payload = Payload::Raw(Format::ChatCompletions, Bytes::new());
                Ok(((answer, said), provider))
            }
            Payload::Raw(..) => Err(broken()),
        },
        Started::Stream { .. } => Err(broken()),
    }
}

fn started(answered: Answered, provider: Arc<str>) -> Dispatched<Started> {
    let (mut answer, said) = answered;
    answer.payload = Payload::Common(said);
    Dispatched {
        reply: Started::Whole(answer),
        provider,
    }
}

/// Nothing was said that could be looked at.
fn broken() -> Failure {
    Failure {
        error: Error::internal("an answer whose shape is looked at is not in the common form"),
        ending: Ending::UpstreamError,
    }
}

fn unfit() -> Failure {
    let message = "The model did not give an answer of the shape that was asked for, also not when it was told what was \
                   wrong. Simplify the schema, or choose another model. Nothing was charged.";
    Failure {
        error: Error::new(ErrorCode::UpstreamError, message),
        ending: Ending::UpstreamError,
    }
}

fn sum(first: Usage, second: Usage) -> Usage {
    second.iter().fold(first, |sum, (unit, quantity)| {
        sum.with(unit, sum.get(unit).saturating_add(quantity))
    })
}

fn said(role: Role, text: &str) -> Message {
    Message {
        role,
        parts: vec![Part::Text(text.to_owned())],
        ..Message::default()
    }
}

fn text_of(choice: &Choice) -> String {
    let texts = choice.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The document without white space and the code fence that models like to put around it.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(fenced) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    fenced.strip_prefix("json").unwrap_or(fenced).trim()
}

fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(TOLD_FAULT)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollgate_types::usage::Unit;

    use super::*;

    fn schema() -> ResponseFormat {
        ResponseFormat::JsonSchema {
            name: "s".to_owned(),
            description: None,
            schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
            strict: None,
        }
    }

    fn answer(text: &str, finish: FinishReason) -> GenerateResponse {
        GenerateResponse {
            id: String::new(),
            created: 0,
            model: String::new(),
            choices: vec![Choice {
                index: 0,
                parts: vec![Part::Text(text.to_owned())],
                tool_calls: Vec::new(),
                finish,
                stop_sequence: None,
                logprobs: None,
                extra: serde_json::Map::new(),
            }],
            usage: None,
            extra: serde_json::Map::new(),
        }
    }

    #[test]
    fn an_answer_fits_or_it_is_told_why_not() {
        let object = Structured::new(&ResponseFormat::JsonObject).unwrap().unwrap();
        let strict = Structured::new(&schema()).unwrap().unwrap();
        // text, whether any object fits, whether the schema does
        for (text, as_object, as_schema) in [
            ("{\"n\":1}", true, true),
            (" \n```json\n{\"n\": 1}\n``` ", true, true),
            ("```\n{\"n\": 1}```", true, true),
            ("{\"n\":\"1\"}", true, false),
            ("{}", true, false),
            ("[1]", false, false),
            ("Here it is: {\"n\":1}", false, false),
            ("", false, false),
        ] {
            for (structured, fits) in [(&object, as_object), (&strict, as_schema)] {
                let mut answer = answer(text, FinishReason::Stop);
                let checked = structured.check(&mut answer);
                assert_eq!(checked.is_ok(), fits, "{text}: {checked:?}");
                if fits {
                    let said = text_of(&answer.choices[0]);
                    assert_eq!(said, without_fence(text), "{text}");
                }
            }
            assert!(
                strict.check(&mut answer(text, FinishReason::Length)).is_ok(),
                "{text} was cut"
            );
        }
    }

    #[test]
    fn a_schema_is_checked_and_reaches_nowhere() {
        assert!(Structured::new(&ResponseFormat::Text).unwrap().is_none());
        for schema in [
            json!({"type": "nonsense"}),
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"type": "string", "pattern": "(a+)+\\1"}),
        ] {
            let format = ResponseFormat::JsonSchema {
                name: "s".to_owned(),
                description: None,
                schema: schema.clone(),
                strict: None,
            };
            assert!(Structured::new(&format).is_err(), "{schema}");
        }
    }

    #[test]
    fn the_sum_has_every_class() {
        let first = Usage::tokens(3, 4).with(Unit::CacheRead, 5);
        let second = Usage::tokens(30, 40).with(Unit::Reasoning, 6);
        let both = Usage::tokens(33, 44)
            .with(Unit::CacheRead, 5)
            .with(Unit::Reasoning, 6);
        assert_eq!(sum(first, second), both);
    }
}
