//! Detects requested parts that some servers silently omit: additional choices and token
//! probabilities. A complete response names them in `x-tollgate-ignored`. A streamed response
//! cannot, because its headers are sent first.

use tollgate_edge::RequestContext;
use tollgate_formats::openai_chat::{ChatHead, ResponseHead};
use tollgate_formats::openai_completions::{CompletionHead, Field};
use tollgate_formats::to_common;
use tollgate_types::Format;
use tollgate_types::generate::{Choice, GenerateResponse, Part};
use tollgate_upstream::{Outline, Payload, TextCall};

/// Choices and token probabilities that a request expects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    format: Format,
    /// Expected number of choices over all prompts.
    choices: u32,
    /// Whether `n` is greater than 1.
    several: bool,
    logprobs: bool,
}

impl Wanted {
    /// Reads the expectations from a call. Formats without choices and token probabilities expect
    /// one choice.
    pub(crate) fn of(call: &TextCall) -> Self {
        let outline = call.outline.as_ref();
        let chat = outline.and_then(Outline::get::<ChatHead<'static>>);
        let completion = outline.and_then(Outline::get::<CompletionHead<'static>>);
        let (n, choices, logprobs) = match (&call.common, chat, completion) {
            (_, _, Some(head)) => (head.n, head.choices(), head.has(Field::Logprobs)),
            (_, Some(head), _) => (head.n, head.n, head.logprobs),
            (Some(request), ..) => (request.n, request.n, request.top_logprobs.is_some()),
            (None, ..) => (1, 1, false),
        };
        Self {
            format: call.format,
            choices,
            several: n > 1,
            logprobs,
        }
    }

    /// Reports the parts that a complete response lacks in `x-tollgate-ignored`.
    pub(crate) fn note_missing(
        self,
        ctx: &RequestContext,
        payload: &Payload<GenerateResponse>,
        outline: Option<&Outline>,
    ) {
        let (choices, lacks_logprobs) = match payload {
            Payload::Common(answer) => (answer.choices.len(), lacks_logprobs(&answer.choices)),
            Payload::Raw(..) => match outline.and_then(Outline::get::<ResponseHead>) {
                Some(head) => (head.choices as usize, head.lacks_logprobs),
                None => return,
            },
        };
        if self.several && choices < self.choices as usize {
            ctx.note_ignored(&[&to_common::param_in(self.format, "n")]);
        }
        if self.logprobs && lacks_logprobs {
            ctx.note_ignored(&[&to_common::param_in(self.format, "logprobs")]);
        }
    }
}

/// Whether the choices have text but no token probabilities. Tool calls never have any.
fn lacks_logprobs(choices: &[Choice]) -> bool {
    let has_text = |choice: &Choice| {
        choice
            .parts
            .iter()
            .any(|part| matches!(part, Part::Text(text) if !text.is_empty()))
    };
    choices.iter().any(has_text) && choices.iter().all(|choice| choice.logprobs.is_none())
}
