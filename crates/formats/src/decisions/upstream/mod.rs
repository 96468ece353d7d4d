//! Encodes questions for upstreams that support decisions, and decodes their answers.

mod answers;
mod ask;
mod verdict;

use tollgate_types::decide::{Question, QuestionKind, State, StateMediaKind};

use crate::error::DecodeError;

pub use answers::answers;
pub use ask::ask;

/// Request and response format of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// TypeSafe's format, also used by model servers and clouds. Functions and `abstain` are added
    /// as in Tollgate's own dialect.
    SystemOne,
    /// OpenAI's format, `POST /v1/decisions`.
    OpenAi,
    /// Google's format, `POST /v1beta/decisions`.
    Google,
    /// OpenRouter's variant of System One (`components/decisions*.py` of openrouter 1.3), where a
    /// yes-or-no question has both criteria or none.
    OpenRouter,
}

/// Refuses media and questions that a shape cannot express.
pub fn check_compatible(shape: Shape, state: &State, questions: &[Question]) -> Result<(), DecodeError> {
    if shape == Shape::SystemOne {
        return Ok(());
    }
    let is_unknown = |kind| shape == Shape::OpenAi && kind != StateMediaKind::Image;
    if let Some(medium) = state.media.iter().find(|medium| is_unknown(medium.kind)) {
        let why = format!("is {}, which this model does not support", medium.kind.as_str());
        return Err(DecodeError::unsupported(&medium.param, why));
    }
    for question in questions {
        if matches!(question.kind, QuestionKind::Tool { .. }) {
            let param = format!("{}.type", question.param);
            return Err(DecodeError::unsupported(
                param,
                "is 'tool', which this model does not support",
            ));
        }
        if question.abstain {
            let param = format!("{}.abstain", question.param);
            return Err(DecodeError::unsupported(param, "is not supported by this model"));
        }
    }
    Ok(())
}
