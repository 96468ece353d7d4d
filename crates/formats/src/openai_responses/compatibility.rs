//! Checks for request features of other formats that this format cannot express.

use tollgate_types::generate::{GenerateRequest, Message, Part, Role, Tool};
use tollgate_types::{Error, ErrorCode};

use crate::to_common::{has_cache_breakpoints, is_default_value};

/// Minimum limit on output tokens that OpenAI accepts.
pub const MIN_OUTPUT_TOKENS: u64 = 16;

/// Fields of chat completions that are forwarded unchanged.
pub(super) const FORWARDED_FIELDS: &[&str] = &[
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
];

/// Fields that are omitted, because they do not affect the response.
const HINTS: &[&str] = &[
    "store",
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
    "usage",
];

/// Refuses a request that this format cannot represent without loss of information; the error names
/// the parameter as in the common form. Returns the names of the omitted fields that do not affect
/// the response. `min_output_tokens` is the minimum limit on output tokens that the server accepts.
pub fn check_compatible(request: &GenerateRequest, min_output_tokens: u64) -> Result<Vec<String>, Error> {
    let sampling = &request.sampling;
    let penalty = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
    let unknown = "is not supported by this model";
    let lacks = [
        (request.n > 1, "n", "must be 1 for this model"),
        (!request.stop.is_empty(), "stop", unknown),
        (sampling.top_k.is_some(), "top_k", unknown),
        (penalty(sampling.frequency_penalty), "frequency_penalty", unknown),
        (penalty(sampling.presence_penalty), "presence_penalty", unknown),
    ];
    if let Some((_, param, problem)) = lacks.into_iter().find(|(lacks, ..)| *lacks) {
        return Err(unsupported(param, problem));
    }
    if request.max_tokens.is_some_and(|cap| cap < min_output_tokens) {
        let message = format!("'max_tokens' must be at least {min_output_tokens} for this model.");
        return Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("max_tokens"));
    }
    for (index, tool) in request.tools.iter().enumerate() {
        if matches!(tool, Tool::Foreign { .. }) {
            let problem = "is a tool type that this model does not support";
            return Err(unsupported(&format!("tools[{index}].type"), problem));
        }
    }
    for message in &request.messages {
        check_message(message)?;
    }
    if let Some(last) = request.messages.last()
        && last.role == Role::Assistant
    {
        return Err(unsupported(
            &last.place.path,
            "is a final assistant message (a prefill), which this model does not support",
        ));
    }
    let mut ignored = check_extra_fields(request)?;
    if request.messages.iter().any(|message| message.name.is_some()) {
        ignored.push("messages.name".to_owned());
    }
    if sampling.seed.is_some() {
        ignored.push("seed".to_owned());
    }
    if has_cache_breakpoints(request) {
        ignored.push("cache_control".to_owned());
    }
    Ok(ignored)
}

/// Checks the fields outside the common form. Accepts forwarded fields, default values and fields
/// that do not affect the response, and refuses all others. Returns the names of the accepted
/// fields that do not affect the response.
fn check_extra_fields(request: &GenerateRequest) -> Result<Vec<String>, Error> {
    let mut ignored = Vec::new();
    for (name, value) in &request.extra {
        let is_forwarded =
            FORWARDED_FIELDS.contains(&&**name) || matches!(&**name, "verbosity" | "stream_options");
        if is_default_value(name, value) || is_forwarded {
            continue;
        }
        if !HINTS.contains(&&**name) {
            return Err(unsupported(name, "is not supported by this model"));
        }
        ignored.push(name.clone());
    }
    Ok(ignored)
}

fn check_message(message: &Message) -> Result<(), Error> {
    let mut index = 0;
    for part in &message.parts {
        let allows_media = matches!(message.role, Role::User | Role::Tool);
        let fits = match part {
            // A breakpoint is not a separate part of the request, so `index` does not count it. The
            // encoder omits breakpoints.
            Part::CacheBreakpoint(_) => continue,
            Part::Text(_) | Part::Reasoning(_) => true,
            Part::Refusal(_) => message.role == Role::Assistant,
            Part::Image { .. } | Part::Stored(_) => allows_media,
            // The gateway fetches a file at a URL before it sends the request.
            Part::File(file) => allows_media && (file.data.is_some() || file.url.is_some()),
            Part::Audio { .. } => message.role == Role::User,
            Part::Foreign { .. } => false,
        };
        if !fits {
            let problem = "has a content type that this model does not support in this message";
            return Err(unsupported(&message.place.part(index), problem));
        }
        index += 1;
    }
    if message.role == Role::Tool && message.tool_call_id.is_none() {
        return Err(unsupported(
            &format!("{}.role", message.place.path),
            "is 'function', a role that this model does not support; use tools",
        ));
    }
    Ok(())
}

fn unsupported(param: &str, problem: &str) -> Error {
    let message = format!("'{param}' {problem}. Remove it or choose another model.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(param)
}
