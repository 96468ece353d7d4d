//! Typed decisions, `POST /v1/decisions`: questions about a state.
//!
//! Callers ask in three dialects, which the body tells apart: the house's own, which is a superset of System One, and
//! those of OpenAI and Google (`types/decision*.py` of openai 3.52, `_gaos/types/decisions` of google-genai 3.4).
//! [`read()`] makes the common form of any of them and [`write()`] answers in the dialect and the container of the
//! question. Upstreams that take questions are asked by [`ask`], and [`answers`] reads what they say; [`carry`] refuses
//! what their shape has no words for. [`pieces`] is for those who show a state to a model.

mod keys;
mod marker;
mod read;
mod upstream;
mod write;

use std::collections::HashMap;

use tollgate_types::decide::{DecideOptions, Question, State, StateMediaKind};

pub use marker::{Piece, marker, pieces};
pub use read::{read, read_knowing};
pub use upstream::{Shape, answers, ask, carry};
pub use write::{InputTokens, ResponseFrame, write};

/// How a caller asked, and gets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `state`, with questions in a list or in a map: the house's own, and System One.
    Native,
    /// `input`, with a list of questions.
    OpenAi,
    /// `input`, with a map of questions.
    Google,
}

/// What the questions, and so the answers, are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// In the order of the caller.
    List,
    /// By the name of each.
    Map,
}

/// What uploaded files are, by their ids.
pub type FileKinds = HashMap<String, StateMediaKind>;

/// An uploaded file that is a medium of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Its place among the media of the state. The medium has no address until the file was read.
    pub medium: usize,
    /// Its id, as the caller wrote it.
    pub id: String,
    /// What its part says that it is; `None` where its content is to say it.
    pub kind: Option<StateMediaKind>,
}

/// A request that is well formed.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The model as the caller named it.
    pub model: String,
    /// What is decided about.
    pub state: State,
    /// The media of the state that are files, in their order.
    pub files: Vec<NamedFile>,
    /// 1 to 128, no two of one id, in the order of the caller.
    pub questions: Vec<Question>,
    /// How it is decided.
    pub options: DecideOptions,
    /// How the caller asked.
    pub dialect: Dialect,
    /// What the questions are in.
    pub container: Container,
    /// Members that say nothing of what is asked and were passed over.
    pub ignored: Vec<String>,
    /// Places of the questions without a name of the caller's; their ids were made up.
    unnamed: Vec<usize>,
}

#[cfg(test)]
mod tests;
