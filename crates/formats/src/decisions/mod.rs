//! Typed decisions, `POST /v1/decisions`: questions about a state.
//!
//! Callers use three dialects, which are detected from the body: Tollgate's own, a superset of
//! System One, and those of OpenAI and Google (`types/decision*.py` of openai 3.52,
//! `_gaos/types/decisions` of google-genai 3.4). [`read()`] decodes any of them to the common form,
//! and [`write()`] writes the response in the dialect and container of the request. [`ask`] encodes
//! questions for upstreams that support decisions, and [`answers`] decodes their answers;
//! [`check_compatible`] refuses questions that an upstream's shape cannot express. [`state_parts`]
//! splits a state for a model.

mod keys;
mod marker;
mod read;
mod upstream;
mod write;

use std::collections::HashMap;

use tollgate_types::decide::{DecideOptions, Question, State, StateMediaKind};

pub use marker::{StatePart, marker, state_parts};
pub(crate) use read::is_base64;
pub use read::{read, read_with_kinds};
pub use upstream::{Shape, answers, ask, check_compatible};
pub use write::{InputTokens, ResponseFrame, write};

/// Dialect of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `state`, with a list or map of questions: Tollgate's own dialect and System One.
    Native,
    /// `input`, with a list of questions.
    OpenAi,
    /// `input`, with a map of questions.
    Google,
}

/// Container of the questions, and therefore of the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// List, in the order of the caller.
    List,
    /// Map with the names of the questions as keys.
    Map,
}

/// Media kinds of uploaded files, by file id.
pub type FileKinds = HashMap<String, StateMediaKind>;

/// Uploaded file that is a medium of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Index among the media of the state. The medium has no URL until the file is read.
    pub medium: usize,
    /// File id, as sent in the request.
    pub id: String,
    /// Kind that the part declares; `None` if the kind must be detected from the content.
    pub kind: Option<StateMediaKind>,
}

/// A validated decision request.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRequest {
    /// Model name, as sent in the request.
    pub model: String,
    /// Subject of the decision: text and media.
    pub state: State,
    /// Media of the state that are uploaded files, in the order of the state.
    pub files: Vec<NamedFile>,
    /// 1 to 128 questions with unique ids, in the order of the caller.
    pub questions: Vec<Question>,
    /// Permutations, calibration, speed and seed.
    pub options: DecideOptions,
    /// Dialect of the response.
    pub dialect: Dialect,
    /// Container of the questions.
    pub container: Container,
    /// Names of the ignored members, which do not affect the decision.
    pub ignored: Vec<String>,
    /// Indices of the questions that the caller did not name; their ids are generated.
    unnamed: Vec<usize>,
}

#[cfg(test)]
mod tests;
