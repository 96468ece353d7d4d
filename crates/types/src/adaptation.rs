//! Changes to a request for a model that does not support a part of it.

use crate::generate::{GenerateRequest, Part, Role};
use crate::{Error, ErrorCode};

/// A change that removes or replaces a part of a request that the model does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptation {
    /// System messages after the first other message become user messages, and their texts are
    /// wrapped in a `<system-reminder>` element.
    Instructions,
    /// `parallel_tool_calls` is dropped.
    ParallelToolCalls,
    /// `temperature` is dropped.
    Temperature,
    /// `top_p` is dropped.
    TopP,
    /// The reasoning effort and mode are dropped.
    Reasoning,
}

impl Adaptation {
    /// Returns the change that avoids this refusal, whose `param` is a path in the common form.
    /// `None` if no change avoids it.
    pub fn for_refusal(refusal: &Error) -> Option<Self> {
        if refusal.code != ErrorCode::UnsupportedParameter {
            return None;
        }
        match refusal.param.as_deref()? {
            "parallel_tool_calls" => Some(Self::ParallelToolCalls),
            "temperature" => Some(Self::Temperature),
            "top_p" => Some(Self::TopP),
            "reasoning_effort" => Some(Self::Reasoning),
            param if param.ends_with("].role") => Some(Self::Instructions),
            _ => None,
        }
    }

    /// Applies the change to the request in place.
    pub fn apply(self, request: &mut GenerateRequest) {
        match self {
            Self::Instructions => {
                let is_instruction = |role| role == Role::System;
                let turns = request.messages.iter_mut();
                let turns = turns.skip_while(|message| is_instruction(message.role));
                for message in turns.filter(|message| is_instruction(message.role)) {
                    message.role = Role::User;
                    for part in &mut message.parts {
                        if let Part::Text(text) = part {
                            *text = as_reminder(text);
                        }
                    }
                }
            }
            Self::ParallelToolCalls => request.parallel_tool_calls = None,
            Self::Temperature => request.sampling.temperature = None,
            Self::TopP => request.sampling.top_p = None,
            Self::Reasoning => (request.thinking, request.reasoning_effort) = (None, None),
        }
    }
}

/// Wraps instructions in a `<system-reminder>` element, to send them within a user turn to models
/// that accept no instructions within the conversation. Claude Code uses the same tag.
pub fn as_reminder(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}
