//! Structured output for upstreams that do not enforce schemas. The gateway adds the schema to the
//! prompt and validates the response. An invalid response is repaired once, by a second request.
//! One hold covers both requests.

use std::sync::Arc;

use bytes::Bytes;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use tollgate_billing::{Demand, Ending};
use tollgate_types::generate::{
    Choice, FinishReason, GenerateRequest, GenerateResponse, Message, Part, ResponseFormat, Role,
};
use tollgate_types::{Error, ErrorCode, Format, Usage};
use tollgate_upstream::{Payload, TextAnswer, TextProvider};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::{Dispatched, Failure};
use crate::generate::Started;
use crate::operation::Completed;
use crate::route::{Route, Routed};
use crate::run_to_completion::Caller;

/// Maximum number of bytes of the first response that the repair request quotes.
const MAX_QUOTED_ANSWER_BYTES: usize = 16 * 1024;
/// Maximum number of validation errors that the repair request lists.
const MAX_REPORTED_FAULTS: usize = 8;
/// Maximum number of bytes of a listed validation error.
const MAX_FAULT_BYTES: usize = 200;
/// Maximum number of bytes that the quoted response and the validation errors add to the repair
/// request, including JSON escapes.
const REPAIR_BYTES: u64 =
    2 * (MAX_QUOTED_ANSWER_BYTES + MAX_REPORTED_FAULTS * MAX_FAULT_BYTES) as u64 + 1_024;

/// Attempt whose response matches the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The first response was valid.
    Validated,
    /// The first response was invalid; the second one, to the repair request, was valid.
    Repaired,
}

impl Structure {
    /// Returns the name of the attempt as reported to callers.
    pub fn as_str(self) -> &'static str {
        match self {
            Structure::Validated => "validated",
            Structure::Repaired => "repaired",
        }
    }
}

/// Compiled schema of a response, with the instruction for the model.
#[derive(Debug)]
pub struct Structured {
    /// Validator of the schema; `None` if any JSON object is valid.
    schema: Option<Validator>,
    instruction: String,
}

impl Routed {
    /// Retains the candidates that enforce the request's response format. If there are none, adds
    /// the schema to the prompt, and the pipeline validates the response. Returns whether the
    /// request was changed.
    pub fn shape(&mut self, request: &mut GenerateRequest) -> Result<bool, Error> {
        let enforces_schema = |text: &dyn TextProvider| text.enforces_schema(&request.response_format);
        if self.retain(|provider| provider.text().is_some_and(enforces_schema)) {
            return Ok(false);
        }
        let refusal = |code, message: String, param| Error::new(code, message).with_param(param);
        if request.n > 1 {
            let message = "'n' must be 1 for this model when 'response_format' is set.".to_owned();
            return Err(refusal(ErrorCode::UnsupportedParameter, message, "n"));
        }
        let structured = Structured::new(&request.response_format).map_err(|why| {
            let message = format!("'response_format' has a schema that is not supported: {why}.");
            refusal(ErrorCode::InvalidParameter, message, "response_format")
        })?;
        let Some(structured) = structured else {
            return Ok(false);
        };
        structured.add_instruction(request);
        request.response_format = enforceable_format(&request.response_format, self);
        check_compatible(self, request)?;
        self.structured = Some(Arc::new(structured));
        Ok(true)
    }
}

/// Returns the part of a format that the upstream can enforce: JSON mode, if the schema requires an
/// object.
fn enforceable_format(format: &ResponseFormat, routed: &Routed) -> ResponseFormat {
    let is_object = match format {
        ResponseFormat::JsonSchema { schema, .. } => schema.get("type").is_some_and(|kind| kind == "object"),
        ResponseFormat::JsonObject | ResponseFormat::Text => true,
    };
    match is_object && routed.all_enforce_schema(&ResponseFormat::JsonObject) {
        true => ResponseFormat::JsonObject,
        false => ResponseFormat::Text,
    }
}

/// Retains the candidates that are compatible with the changed request, in any format. If there are
/// none, returns the first candidate's error.
fn check_compatible(routed: &mut Routed, request: &GenerateRequest) -> Result<(), Error> {
    let compatibility = |route: &Route| {
        let text = route.provider.text()?;
        Some(text.check_compatible(request, &route.candidate.abilities))
    };
    let is_compatible = |route: &&Route| matches!(compatibility(route), Some(Ok(_)));
    let fit: Vec<Route> = routed.routes.iter().filter(is_compatible).cloned().collect();
    if !fit.is_empty() {
        routed.routes = fit;
        return Ok(());
    }
    match routed.routes.first().and_then(compatibility) {
        Some(Err(error)) => Err(error),
        _ => Ok(()),
    }
}

impl Structured {
    /// Compiles the response format of a request; `None` for free text. The error describes the
    /// fault in the schema. External references are not resolved.
    pub fn new(format: &ResponseFormat) -> Result<Option<Self>, String> {
        let (schema, schema_text) = match format {
            ResponseFormat::Text => return Ok(None),
            ResponseFormat::JsonObject => (None, String::new()),
            ResponseFormat::JsonSchema {
                schema, description, ..
            } => {
                // Patterns come from callers, so the engine with linear run time is used.
                let validator = jsonschema::options()
                    .with_pattern_options(PatternOptions::regex())
                    .build(schema)
                    .map_err(|error| shortened(&error.to_string()))?;
                let description = description.as_deref().unwrap_or_default();
                let schema_text = format!(" It must match this JSON Schema: {schema}\n{description}");
                (Some(validator), schema_text)
            }
        };
        let instruction = format!(
            "Answer with one JSON object and nothing else: no other text, no code fence.{schema_text}"
        );
        Ok(Some(Self {
            schema,
            instruction: instruction.trim_end().to_owned(),
        }))
    }

    /// Prepends the schema to the request as a system message.
    pub fn add_instruction(&self, request: &mut GenerateRequest) {
        request
            .messages
            .insert(0, text_message(Role::System, &self.instruction));
    }

    /// Returns the demand of the first attempt: the request with the instruction.
    pub(crate) fn single_attempt_demand(&self, base: Demand) -> Demand {
        let instruction_bytes = (self.instruction.len() as u64)
            .saturating_mul(2)
            .saturating_add(256);
        Demand {
            text_bytes: base.text_bytes.saturating_add(instruction_bytes),
            messages: base.messages.saturating_add(1),
            ..base
        }
    }

    /// Returns the demand of both attempts.
    pub(crate) fn demand(&self, base: Demand) -> Demand {
        let once = self.single_attempt_demand(base);
        Demand {
            text_bytes: once.text_bytes.saturating_mul(2).saturating_add(REPAIR_BYTES),
            tokens: once.tokens.saturating_mul(2),
            messages: once.messages.saturating_mul(2).saturating_add(2),
            inputs: once.inputs.saturating_mul(2),
            media_bytes: once.media_bytes.saturating_mul(2),
            images: once.images.saturating_mul(2),
            max_tokens: once.max_tokens,
            reasoning_budget: once.reasoning_budget,
            n: once.n.saturating_mul(2),
            caches_for_an_hour: once.caches_for_an_hour,
            made: once.made,
        }
    }

    /// Returns the validation errors of a response. A valid response is reduced to its JSON
    /// document.
    fn check(&self, answer: &mut GenerateResponse) -> Result<(), Vec<String>> {
        let Some(choice) = answer.choices.first_mut() else {
            return Ok(());
        };
        // As with native enforcement, a response is not validated if it was truncated, was blocked
        // or refused, or calls a tool.
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
            let faults = schema.iter_errors(&value).take(MAX_REPORTED_FAULTS);
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

    /// Returns the repair request: the first request, the response and its validation errors.
    fn repair(
        &self,
        request: &GenerateRequest,
        answer: &GenerateResponse,
        faults: &[String],
    ) -> GenerateRequest {
        let mut request = request.clone();
        let text = answer.choices.first().map(text_of).unwrap_or_default();
        let shown = &text[..text.floor_char_boundary(MAX_QUOTED_ANSWER_BYTES)];
        // Some upstreams reject empty turns.
        let shown = if shown.trim().is_empty() {
            "(nothing)"
        } else {
            shown
        };
        request.messages.push(text_message(Role::Assistant, shown));
        let correction = format!(
            "Your answer does not have the requested shape:\n{}\n\n{}",
            faults.join("\n"),
            "Answer again, with the corrected JSON object and nothing else."
        );
        request.messages.push(text_message(Role::User, &correction));
        request
    }
}

impl Pipeline {
    /// Validates a response, and sends a repair request if it does not match the schema. If the
    /// second response does not match either, the call fails as an upstream error and is not
    /// charged.
    pub(crate) async fn structure(
        &self,
        admission: &mut Admission,
        caller: &Caller,
        dispatched: Dispatched<Started>,
    ) -> Completed<Started> {
        let Some(structured) = admission.structured.clone() else {
            return Ok((dispatched, None));
        };
        let (mut first, target) = whole(dispatched)?;
        if is_withheld(&first.1) {
            return Ok((started(first, target), None));
        }
        let faults = match structured.check(&mut first.1) {
            Ok(()) => return Ok((started(first, target), Some(Structure::Validated))),
            Err(faults) => faults,
        };
        let id = admission.request.request;
        tracing::info!(request.id = %id, faults = faults.len(), "response does not match the requested format");
        let Some(request) = &admission.request.call.common else {
            return Err(not_common_form());
        };
        admission.request.call.common = Some(Arc::new(structured.repair(request, &first.1, &faults)));
        let first_usage = first.0.usage;
        let dispatched = self.dispatch_for(admission, caller).await;
        let dispatched = dispatched.map_err(|failure| Failure {
            reported: first_usage.map(Box::new),
            ..failure
        })?;
        let (mut second, target) = whole(dispatched)?;
        let both = first_usage
            .zip(second.0.usage)
            .map(|(first, second)| sum(first, second));
        let is_withheld = is_withheld(&second.1);
        if !is_withheld && let Err(faults) = structured.check(&mut second.1) {
            tracing::warn!(request.id = %id, faults = faults.len(), "corrected response does not match the requested format");
            return Err(schema_mismatch(both.or(first_usage).or(second.0.usage)));
        }
        second.0.usage = both;
        second.0.output_bytes = second.0.output_bytes.saturating_add(first.0.output_bytes);
        if second.0.usage.is_none() {
            // An estimate must cover both attempts.
            admission.request.demand = structured.demand(admission.request.demand);
        }
        second.1.usage = second.0.usage;
        let structure = (!is_withheld).then_some(Structure::Repaired);
        Ok((started(second, target), structure))
    }
}

/// Whether a content filter withheld the response. Such a response is not validated: a repair
/// request would not help.
fn is_withheld(answer: &GenerateResponse) -> bool {
    let mut choices = answer.choices.iter();
    choices.any(|choice| choice.finish == FinishReason::ContentFilter)
}

/// Response without its payload, and the decoded payload.
type Answered = (TextAnswer, Box<GenerateResponse>);

fn whole(dispatched: Dispatched<Started>) -> Result<(Answered, Arc<str>), Failure> {
    let Dispatched { reply, target } = dispatched;
    match reply {
        Started::Whole(mut answer) => match answer.payload {
            Payload::Common(response) => {
                answer.payload = Payload::Raw(Format::ChatCompletions, Bytes::new());
                Ok(((answer, response), target))
            }
            Payload::Raw(..) => Err(not_common_form()),
        },
        Started::Stream { .. } => Err(not_common_form()),
    }
}

fn started(answered: Answered, target: Arc<str>) -> Dispatched<Started> {
    let (mut answer, response) = answered;
    answer.payload = Payload::Common(response);
    Dispatched {
        reply: Started::Whole(answer),
        target,
    }
}

/// Returns the error for a response that cannot be validated because it is not in the common form.
fn not_common_form() -> Failure {
    Failure {
        error: Error::internal("a structured response is not in the common form"),
        ending: Ending::UpstreamError,
        reported: None,
    }
}

fn schema_mismatch(reported: Option<Usage>) -> Failure {
    let message = "The model's response does not match the requested format, even after one \
                   correction. Simplify the schema or choose another model. The request was not \
                   charged.";
    Failure {
        error: Error::new(ErrorCode::UpstreamError, message),
        ending: Ending::UpstreamError,
        reported: reported.map(Box::new),
    }
}

fn sum(first: Usage, second: Usage) -> Usage {
    second.iter().fold(first, |sum, (unit, quantity)| {
        sum.with(unit, sum.get(unit).saturating_add(quantity))
    })
}

fn text_message(role: Role, text: &str) -> Message {
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

/// Returns the document without surrounding white space and code fence.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(fenced) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return text;
    };
    fenced.strip_prefix("json").unwrap_or(fenced).trim()
}

fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_FAULT_BYTES)].to_owned()
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
    fn answers_fit_or_report_faults() {
        let object = Structured::new(&ResponseFormat::JsonObject).unwrap().unwrap();
        let strict = Structured::new(&schema()).unwrap().unwrap();
        // text, whether it is valid as a JSON object, whether it matches the schema
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
                    let final_text = text_of(&answer.choices[0]);
                    assert_eq!(final_text, without_fence(text), "{text}");
                }
            }
            assert!(
                strict.check(&mut answer(text, FinishReason::Length)).is_ok(),
                "{text} was cut"
            );
        }
    }

    #[test]
    fn schemas_are_validated_and_never_fetched() {
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
