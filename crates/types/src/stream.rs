//! The common form of a streamed answer.

use serde_json::Value;

use crate::generate::{FinishReason, Seal};
use crate::usage::Usage;

/// One step of a streamed answer. A stream is `Start`, any number of deltas and `Finish`es (one for each choice),
/// then `Usage`, then its end.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The answer begins; nothing was said yet.
    Start {
        /// Id of the answer.
        id: String,
        /// Seconds since the epoch.
        created: i64,
        /// The model that answers.
        model: String,
    },
    /// More text of a choice.
    Text {
        /// Which choice.
        choice: u32,
        /// The piece.
        text: String,
        /// Probabilities of its tokens in the OpenAI shape.
        logprobs: Option<Value>,
    },
    /// More reasoning of a choice.
    Reasoning {
        /// Which choice.
        choice: u32,
        /// The piece.
        text: String,
    },
    /// A piece of reasoning ends, and this is what its provider wants back with it.
    ReasoningSeal {
        /// Which choice.
        choice: u32,
        /// What is wanted back.
        seal: Seal,
        /// Whether the reasoning was hidden: no text of it came before.
        hidden: bool,
    },
    /// More of a refusal.
    Refusal {
        /// Which choice.
        choice: u32,
        /// The piece.
        text: String,
    },
    /// A tool call begins.
    ToolCallStart {
        /// Which choice.
        choice: u32,
        /// Which of its calls, from 0.
        call: u32,
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// More of a tool call's arguments.
    ToolCallArguments {
        /// Which choice.
        choice: u32,
        /// Which of its calls.
        call: u32,
        /// The piece.
        arguments: String,
    },
    /// A choice ends.
    Finish {
        /// Which choice.
        choice: u32,
        /// Why.
        reason: FinishReason,
        /// The text that ended it, with `FinishReason::StopSequence`.
        stop_sequence: Option<String>,
    },
    /// What the answer consumed.
    Usage(Usage),
}

impl StreamEvent {
    /// Which choice it belongs to, if it belongs to one.
    pub fn choice(&self) -> Option<u32> {
        match self {
            StreamEvent::Text { choice, .. }
            | StreamEvent::Reasoning { choice, .. }
            | StreamEvent::ReasoningSeal { choice, .. }
            | StreamEvent::Refusal { choice, .. }
            | StreamEvent::ToolCallStart { choice, .. }
            | StreamEvent::ToolCallArguments { choice, .. }
            | StreamEvent::Finish { choice, .. } => Some(*choice),
            StreamEvent::Start { .. } | StreamEvent::Usage(_) => None,
        }
    }
    /// Whether the event carries something the caller asked for, as opposed to framing.
    pub fn is_content(&self) -> bool {
        matches!(
            self,
            StreamEvent::Text { .. }
                | StreamEvent::Reasoning { .. }
                | StreamEvent::Refusal { .. }
                | StreamEvent::ToolCallStart { .. }
                | StreamEvent::ToolCallArguments { .. }
        )
    }
}
