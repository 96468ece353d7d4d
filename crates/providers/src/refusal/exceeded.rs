//! Detects token limits that a request exceeds, from the error message. Many servers report them
//! only as text.

/// Maximum number of bytes of a message that are read. The rest of a message may quote the prompt.
const MAX_READ: usize = 600;

/// Lower-case names of the cap on output tokens in error messages.
const CAP_NAMES: &[&str] = &[
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "maxoutputtokens",
    "maximum tokens you requested",
];
/// Phrases that report a cap that is too large. "greater than" is not one of them, because of "must
/// be greater than 0".
const CAP_IS_ABOVE: &[&str] = &[
    "too large",
    "too high",
    "exceed",
    "less than or equal to",
    "at most",
    "the maximum",
    "supported range",
];
const INPUT_NAMES: &[&str] = &["input", "prompt", "messages"];
const CONTEXT_NAMES: &[&str] = &[
    "context length",
    "context window",
    "context size",
    "context limit",
    "prompt is too long",
    "input is too long",
    "input token count",
    "maximum input length",
];
const CONTEXT_IS_EXCEEDED: &[&str] = &[
    "exceed",
    "too long",
    "too large",
    "longer than",
    "larger than",
    "greater than",
    "maximum",
];

/// A limit that a request exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// Context window, which the input alone or the input and the output cap together exceed.
    Context,
    /// Limit on output tokens, which the request's own cap exceeds.
    OutputCap,
}

/// Returns the limit that a message reports as exceeded; `None` if the message reports none
/// clearly. Reads at most [`MAX_READ`] bytes.
pub(super) fn exceeded(message: &str) -> Option<Exceeded> {
    let end = message.floor_char_boundary(MAX_READ);
    let text = message[..end].to_ascii_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let first = |names: &[&str]| names.iter().filter_map(|name| text.find(name)).min();
    let input = first(INPUT_NAMES).unwrap_or(usize::MAX);
    let is_about_cap = first(CAP_NAMES).is_some_and(|cap| cap < input);
    if is_about_cap && has(CAP_IS_ABOVE) {
        return Some(Exceeded::OutputCap);
    }
    if !has(CONTEXT_NAMES) || !has(CONTEXT_IS_EXCEEDED) {
        return None;
    }
    Some(match completion_exceeds_context(&text) {
        true => Exceeded::OutputCap,
        false => Exceeded::Context,
    })
}

/// Whether vLLM or SGLang reports a requested completion that fills the context window even without
/// input.
fn completion_exceeds_context(text: &str) -> bool {
    let number = |text: &str| {
        text.rsplit(|c: char| !c.is_ascii_digit())
            .next()?
            .parse::<u64>()
            .ok()
    };
    let completion = [" in the completion", " tokens for the completion"]
        .iter()
        .find_map(|phrase| number(text.split_once(phrase)?.0));
    let window = ["context length is ", "context length of "]
        .iter()
        .find_map(|phrase| {
            let (digits, _) = text.split_once(phrase)?.1.split_once(' ')?;
            digits.parse::<u64>().ok()
        });
    completion
        .zip(window)
        .is_some_and(|(completion, window)| completion >= window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_recognised_in_the_messages_of_real_servers() {
        let context = [
            // llama.cpp
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            "request (5012 tokens) exceeds the available context size (4096 tokens), try increasing it",
            // vLLM
            "This model's maximum context length is 4096 tokens. However, your request has 6000 input tokens. Please reduce the length of the input messages. None",
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (3000 in the messages, 2000 in the completion). Please reduce the length of the messages or completion.",
            "The prompt (total length 5000) is too long to fit into the model (context length 4096).",
            // SGLang
            "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
            // Anthropic
            "prompt is too long: 200001 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
            // Google
            "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
            // Bedrock
            "Input is too long for requested model.",
            // Mistral
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        ];
        let cap = [
            // vLLM
            "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context length is 4096 tokens and your request has 12 input tokens (100000 > 4096 - 12). None",
            "This model's maximum context length is 4096 tokens. However, you requested 100012 tokens (12 in the messages, 100000 in the completion). Please reduce the length of the messages or completion.",
            // SGLang
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5012 tokens: 12 tokens from the input messages and 5000 tokens for the completion.",
            // OpenAI
            "max_tokens is too large: 100000. This model supports at most 4096 completion tokens, whereas you provided 100000.",
            // Groq
            "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
            // Anthropic
            "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-x",
            // Bedrock
            "The maximum tokens you requested exceeds the model limit of 4096.",
        ];
        let other = [
            "",
            "temperature must be at most 2",
            "max_tokens must be greater than 0",
            "max_tokens must be at least 1, got 0.",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.",
            "The context length cannot be read.",
        ];
        let expected = [Some(Exceeded::Context), Some(Exceeded::OutputCap), None];
        for (messages, expected) in [&context[..], &cap, &other].into_iter().zip(expected) {
            for message in messages {
                assert_eq!(exceeded(message), expected, "{message}");
            }
        }
    }
}
