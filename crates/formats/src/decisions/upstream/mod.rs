//! Upstreams that take questions: what they are asked, and what they answer.

mod answers;
mod ask;
mod verdict;

use tollgate_types::decide::{Question, QuestionKind, State, StateMediaKind};

use crate::error::DecodeError;

pub use answers::answers;
pub use ask::ask;

/// How an upstream wants to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// TypeSafe's, which model servers and clouds have taken over. Functions and `abstain` are added as this house
    /// writes them.
    SystemOne,
    /// `POST /v1/decisions` of OpenAI.
    OpenAi,
    /// `POST /v1beta/decisions` of Google.
    Google,
    /// System One as OpenRouter has it (`components/decisions*.py` of openrouter 1.3), where a yes or no has both
    /// criteria or none.
    OpenRouter,
}

/// Refuses what a shape has no words for.
pub fn carry(shape: Shape, state: &State, questions: &[Question]) -> Result<(), DecodeError> {
    if shape == Shape::SystemOne {
        return Ok(());
    }
    let is_unknown = |kind| shape == Shape::OpenAi && kind != StateMediaKind::Image;
    if let Some(medium) = state.media.iter().find(|medium| is_unknown(medium.kind)) {
        let why = format!("is {}, which this model does not take", medium.kind.as_str());
        return Err(DecodeError::unsupported(&medium.param, why));
    }
    for question in questions {
        if matches!(question.kind, QuestionKind::Tool { .. }) {
            let param = format!("{}.type", question.param);
            return Err(DecodeError::unsupported(
                param,
                "is 'tool', which this model is not asked",
            ));
        }
        if question.abstain {
            let param = format!("{}.abstain", question.param);
            return Err(DecodeError::unsupported(param, "is not asked of this model"));
        }
    }
    Ok(())
}
