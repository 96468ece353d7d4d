//! Decoding of any format to the common form, for code that is independent of the format.

use serde_json::{Map, Value, json};
use tollgate_types::Format;
use tollgate_types::generate::{GenerateRequest, Part, Tool};

use crate::error::DecodeError;
use crate::{anthropic_messages, gemini, openai_chat, openai_completions, openai_responses};

/// Decodes a request of this format. The body must have been validated.
pub fn decode_request(format: Format, body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    match format {
        Format::ChatCompletions => openai_chat::decode_request(body),
        Format::Completions => openai_completions::decode_request(body),
        Format::Messages => anthropic_messages::decode_request(body),
        Format::Responses => openai_responses::decode_request(body),
        Format::GenerateContent => gemini::decode_request(body),
    }
}

/// Translates a parameter name of the common form to the caller's format. Names without a
/// translation are returned unchanged.
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

/// Returns the path of the responses item of a tool call. `input[2].tool_calls[1]` becomes
/// `input[3]`, because the calls of a turn are consecutive items. A path of another form is
/// returned unchanged.
fn item_of_call(call: &str) -> String {
    let item = || {
        let (turn, index) = call.strip_suffix(']')?.split_once("].tool_calls[")?;
        let (list, first) = turn.rsplit_once('[')?;
        let place = first.parse::<usize>().ok()? + index.parse::<usize>().ok()?;
        Some(format!("{list}[{place}]"))
    };
    item().unwrap_or_else(|| call.to_owned())
}

/// Whether a field of chat completions has its default value, so that it can be dropped.
/// `service_tier` is always the default tier at this point, because validation refuses others.
pub(crate) fn is_default_value(name: &str, value: &Value) -> bool {
    match name {
        _ if value.is_null() => true,
        "service_tier" => true,
        "modalities" => *value == json!(["text"]),
        "logit_bias" => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Whether the request has cache breakpoints. Formats without breakpoints omit them.
pub(crate) fn has_cache_breakpoints(request: &GenerateRequest) -> bool {
    let mut parts = request.messages.iter().flat_map(|message| &message.parts);
    let mut tools = request.tools.iter();
    parts.any(|part| matches!(part, Part::CacheBreakpoint(_)))
        || tools.any(|tool| matches!(tool, Tool::Function { cache: Some(_), .. }))
}

/// Removes reasoning whose signature is missing or has another origin, because an upstream accepts
/// only its own signatures. Returns whether any reasoning was removed.
pub fn drop_foreign_reasoning(request: &mut GenerateRequest, origin: &str) -> bool {
    let mut dropped = false;
    for message in &mut request.messages {
        let before = message.parts.len();
        message.parts.retain(|part| !is_foreign(part, origin));
        dropped |= message.parts.len() < before;
    }
    dropped
}

/// Whether the request has reasoning whose signature is missing or has another origin.
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
