//! From any format to the common form, for those who do not care which one it was.

use serde_json::{Map, Value, json};
use tollgate_types::Format;
use tollgate_types::generate::{GenerateRequest, Part, Tool};

use crate::error::DecodeError;
use crate::{anthropic_messages, gemini, openai_chat, openai_completions, openai_responses};

/// Reads a request of this format. It has been validated before, by whoever knows what else belongs to it.
pub fn decode_request(format: Format, body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    match format {
        Format::ChatCompletions => openai_chat::decode_request(body),
        Format::Completions => openai_completions::decode_request(body),
        Format::Messages => anthropic_messages::decode_request(body),
        Format::Responses => openai_responses::decode_request(body),
        Format::GenerateContent => gemini::decode_request(body),
    }
}

/// The caller's name for a parameter that is named as in the common form.
pub fn param_in(format: Format, param: &str) -> String {
    let names: &[(&str, &str)] = match format {
        Format::ChatCompletions => &[
            ("max_tokens", "max_completion_tokens"),
            ("reasoning", "messages.reasoning_content"),
        ],
        Format::Completions => &[("messages", "prompt")],
        Format::Messages => &[
            ("stop", "stop_sequences"),
            ("reasoning_effort", "output_config.effort"),
            ("reasoning", "messages.content.thinking"),
            ("response_format", "output_config.format"),
            ("parallel_tool_calls", "tool_choice.disable_parallel_tool_use"),
            ("user", "metadata.user_id"),
        ],
        Format::Responses => &[
            ("max_tokens", "max_output_tokens"),
            ("reasoning_effort", "reasoning.effort"),
            ("reasoning", "input.encrypted_content"),
            ("response_format", "text.format"),
            ("logprobs", "top_logprobs"),
            ("verbosity", "text.verbosity"),
            ("image_url.detail", "input_image.detail"),
            ("messages", "input"),
            ("cache_control", "prompt_cache_breakpoint"),
        ],
        Format::GenerateContent => &[
            ("max_tokens", "generationConfig.maxOutputTokens"),
            ("n", "generationConfig.candidateCount"),
            ("stop", "generationConfig.stopSequences"),
            ("temperature", "generationConfig.temperature"),
            ("top_p", "generationConfig.topP"),
            ("top_k", "generationConfig.topK"),
            ("frequency_penalty", "generationConfig.frequencyPenalty"),
            ("presence_penalty", "generationConfig.presencePenalty"),
            ("seed", "generationConfig.seed"),
            ("logprobs", "generationConfig.responseLogprobs"),
            ("response_format", "generationConfig.responseMimeType"),
            ("reasoning_effort", "generationConfig.thinkingConfig"),
            ("reasoning", "contents.parts.thoughtSignature"),
            ("tool_choice", "toolConfig.functionCallingConfig"),
            ("messages", "contents"),
        ],
    };
    if let Some((_, name)) = names.iter().find(|(common, _)| *common == param) {
        return (*name).to_owned();
    }
    match (format, param.strip_suffix(".arguments")) {
        (Format::ChatCompletions, Some(call)) => format!("{call}.function.arguments"),
        (Format::Responses, Some(call)) => format!("{}.arguments", item_of_call(call)),
        (Format::Responses, None) if param.contains(".tool_calls[") => item_of_call(param),
        _ => param.to_owned(),
    }
}

/// The item of a call: `input[2].tool_calls[1]` is `input[3]`, since the calls of a turn stand one after the other.
fn item_of_call(call: &str) -> String {
    let item = || {
        let (turn, index) = call.strip_suffix(']')?.split_once("].tool_calls[")?;
        let (list, first) = turn.rsplit_once('[')?;
        let place = first.parse::<usize>().ok()? + index.parse::<usize>().ok()?;
        Some(format!("{list}[{place}]"))
    };
    item().unwrap_or_else(|| call.to_owned())
}

/// Whether a field of chat completions says what every model does anyway, so that nothing is lost without it. Only the
/// usual tier comes this far: others are refused at the door.
pub(crate) fn is_usual(name: &str, value: &Value) -> bool {
    match name {
        _ if value.is_null() => true,
        "service_tier" => true,
        "modalities" => *value == json!(["text"]),
        "logit_bias" => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Whether there are marks of what a provider may keep in its cache. Those without such marks leave them out.
pub(crate) fn marks_cache(request: &GenerateRequest) -> bool {
    let mut parts = request.messages.iter().flat_map(|message| &message.parts);
    let mut tools = request.tools.iter();
    parts.any(|part| matches!(part, Part::CacheBreakpoint(_)))
        || tools.any(|tool| matches!(tool, Tool::Function { cache: Some(_), .. }))
}

/// Takes out the reasoning that did not come from this origin: only who sealed it can read it. Answers whether there
/// was any.
pub fn drop_foreign_reasoning(request: &mut GenerateRequest, origin: &str) -> bool {
    let mut dropped = false;
    for message in &mut request.messages {
        let before = message.parts.len();
        message.parts.retain(|part| !is_foreign(part, origin));
        dropped |= message.parts.len() < before;
    }
    dropped
}

/// Whether there is reasoning that did not come from this origin.
pub fn has_foreign_reasoning(request: &GenerateRequest, origin: &str) -> bool {
    let mut parts = request.messages.iter().flat_map(|message| &message.parts);
    parts.any(|part| is_foreign(part, origin))
}

fn is_foreign(part: &Part, origin: &str) -> bool {
    match part {
        Part::Reasoning(reasoning) => reasoning.seal.as_ref().is_none_or(|seal| seal.origin != origin),
        _ => false,
    }
}
