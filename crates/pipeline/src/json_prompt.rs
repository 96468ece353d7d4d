//! A prompt of the gateway itself whose answer is a JSON document, such as the script of a video.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tollgate_billing::Demand;
use tollgate_types::generate::{
    FinishReason, GenerateRequest, GenerateResponse, Message, Part, ResponseFormat, Role, Sampling,
    ToolChoice,
};
use tollgate_types::{Error, Format, Usage};
use tollgate_upstream::TextCall;

use crate::route::Routed;

/// A prompt whose answer matches a JSON Schema.
#[derive(Clone, Debug)]
pub struct JsonPrompt {
    /// Name of the schema.
    pub name: &'static str,
    /// Instructions for the model.
    pub instructions: String,
    /// Material that the instructions are about.
    pub material: String,
    /// JSON Schema of the answer.
    pub schema: Value,
    /// Maximum number of output tokens, including the reasoning of the model.
    pub max_tokens: u64,
}

impl JsonPrompt {
    /// Builds the model call, and removes the candidates that do not support the call.
    pub fn call(&self, routed: &mut Routed) -> Result<TextCall, Error> {
        let mut request = self.request(&routed.public_model);
        if let Some(max) = routed.model.output_ceiling() {
            request.max_tokens = Some(max.min(self.max_tokens));
        }
        routed.shape(&mut request)?;
        routed.retain_compatible(Format::ChatCompletions, &request, true, false)?;
        let model = routed.public_model.clone();
        Ok(TextCall {
            common: Some(Arc::new(request)),
            ..TextCall::new(Format::ChatCompletions, model, Bytes::new())
        })
    }

    /// Returns the demand of the call, without the overhead that the pipeline adds for structured
    /// output.
    pub fn demand(&self, call: &TextCall) -> Demand {
        let messages = call.common.as_ref().map_or(&[][..], |request| &request.messages);
        let texts = messages.iter().flat_map(|message| &message.parts);
        let bytes: usize = texts
            .map(|part| match part {
                Part::Text(text) => text.len(),
                _ => 0,
            })
            .sum();
        Demand {
            text_bytes: (bytes + self.schema.to_string().len()) as u64,
            tokens: 0,
            messages: messages.len() as u64,
            inputs: 1,
            media_bytes: 0,
            images: 0,
            max_tokens: call.common.as_ref().and_then(|request| request.max_tokens),
            reasoning_budget: 0,
            n: 1,
            caches_for_an_hour: false,
            made: Usage::ZERO,
        }
    }

    fn request(&self, model: &str) -> GenerateRequest {
        let message = |role, text: &str| Message {
            role,
            parts: vec![Part::Text(text.to_owned())],
            ..Message::default()
        };
        GenerateRequest {
            model: model.to_owned(),
            messages: vec![
                message(Role::System, &self.instructions),
                message(Role::User, &self.material),
            ],
            max_tokens: Some(self.max_tokens),
            n: 1,
            response_format: ResponseFormat::JsonSchema {
                name: self.name.to_owned(),
                description: None,
                schema: self.schema.clone(),
                strict: None,
            },
            stream: false,
            include_usage: false,
            stop: Vec::new(),
            sampling: Sampling::default(),
            tools: Vec::new(),
            tool_choice: ToolChoice::default(),
            parallel_tool_calls: None,
            reasoning_effort: None,
            thinking: None,
            hide_reasoning: false,
            user: None,
            top_logprobs: None,
            extra: Map::new(),
        }
    }
}

/// Returns the text of the first choice of a response; `None` if a content filter withheld it or
/// the model refused to answer.
pub fn answer_text(response: &GenerateResponse) -> Option<String> {
    let choice = response.choices.first();
    let parts = choice.map_or(&[][..], |choice| &choice.parts);
    let is_filtered = choice.is_some_and(|choice| choice.finish == FinishReason::ContentFilter);
    if is_filtered || parts.iter().any(|part| matches!(part, Part::Refusal(_))) {
        return None;
    }
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    Some(texts.collect())
}
