//! The common request and answer of moderation: what a text or picture is about that a content policy may forbid.

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModerationInput {
    /// Texts; each gets a result.
    Texts(Vec<String>),
    /// Parts of one thing, which gets one result.
    Parts(Vec<ModerationPart>),
}

impl ModerationInput {
    /// How many results an answer has.
    pub fn results(&self) -> usize {
        match self {
            ModerationInput::Texts(texts) => texts.len(),
            ModerationInput::Parts(_) => 1,
        }
    }
}

/// A part of what is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModerationPart {
    /// Text.
    Text(String),
    /// A picture: an http(s) or data URL.
    Image(String),
}

/// What was found, a result for each input.
#[derive(Clone, Debug, PartialEq)]
pub struct ModerationAnswer {
    /// Id of the answer; empty when it has none.
    pub id: String,
    /// One for each input, in their order.
    pub results: Vec<Moderation>,
}

/// What was found in one input.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Moderation {
    /// Whether anything was.
    pub flagged: bool,
    /// Every category that was looked for.
    pub categories: Vec<Category>,
}

/// A kind of content that was looked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Category {
    /// Its name, such as `violence`.
    pub name: String,
    /// Whether it was found.
    pub flagged: bool,
    /// How surely, from 0 to 1.
    pub score: f64,
    /// In which kinds of input it was looked for: `text`, `image`.
    pub applied_to: Vec<String>,
}
