//! Common events of a streamed response, into which all formats are decoded.

use serde_json::Value;

use crate::generate::{FinishReason, Seal};
use crate::usage::Usage;

/// One event of a streamed response. A stream consists of `Start`, any number of deltas, one
/// `Finish` per choice, and `Usage`.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The response starts; it has no content yet.
    Start {
        /// Id of the response.
        id: String,
        /// Creation time in seconds since the Unix epoch.
        created: i64,
        /// Id of the model that responds.
        model: String,
    },
    /// Text delta of a choice.
    Text {
        /// Index of the choice.
        choice: u32,
        /// Text to append.
        text: String,
        /// Token probabilities of the delta in the OpenAI format.
        logprobs: Option<Value>,
    },
    /// Reasoning delta of a choice.
    Reasoning {
        /// Index of the choice.
        choice: u32,
        /// Text to append.
        text: String,
    },
    /// End of a reasoning block, with the opaque data that the provider expects back in later
    /// requests.
    ReasoningSeal {
        /// Index of the choice.
        choice: u32,
        /// Opaque data of the provider.
        seal: Seal,
        /// Whether the reasoning was hidden, so that no reasoning text preceded this event.
        hidden: bool,
    },
    /// Refusal delta of a choice.
    Refusal {
        /// Index of the choice.
        choice: u32,
        /// Text to append.
        text: String,
    },
    /// The model starts a tool call; its arguments follow.
    ToolCallStart {
        /// Index of the choice.
        choice: u32,
        /// Index of the call within the choice, from 0.
        call: u32,
        /// Id of the tool call.
        id: String,
        /// Name of the called tool.
        name: String,
    },
    /// Arguments delta of a tool call.
    ToolCallArguments {
        /// Index of the choice.
        choice: u32,
        /// Index of the call within the choice, from 0.
        call: u32,
        /// Text to append.
        arguments: String,
    },
    /// End of a choice.
    Finish {
        /// Index of the choice.
        choice: u32,
        /// Reason why generation ended.
        reason: FinishReason,
        /// The stop sequence that ended generation, with `FinishReason::StopSequence`.
        stop_sequence: Option<String>,
    },
    /// Usage of the whole response.
    Usage(Usage),
}

impl StreamEvent {
    /// Returns the index of the choice that the event belongs to, if any.
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
    /// Returns a mutable reference to the index of the choice that the event belongs to, if any.
    pub fn choice_mut(&mut self) -> Option<&mut u32> {
        match self {
            StreamEvent::Text { choice, .. }
            | StreamEvent::Reasoning { choice, .. }
            | StreamEvent::ReasoningSeal { choice, .. }
            | StreamEvent::Refusal { choice, .. }
            | StreamEvent::ToolCallStart { choice, .. }
            | StreamEvent::ToolCallArguments { choice, .. }
            | StreamEvent::Finish { choice, .. } => Some(choice),
            StreamEvent::Start { .. } | StreamEvent::Usage(_) => None,
        }
    }

    /// Whether the event has content for the caller: text, reasoning, a refusal or a part of a tool
    /// call.
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
