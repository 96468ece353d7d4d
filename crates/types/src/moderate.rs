//! Common request and response of moderation, which detects categories of content in texts and
//! images.

/// Content to classify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModerationInput {
    /// Texts, each with a separate result.
    Texts(Vec<String>),
    /// Parts that are classified together, with one result.
    Parts(Vec<ModerationPart>),
}

impl ModerationInput {
    /// Returns the number of results in the response.
    pub fn results(&self) -> usize {
        match self {
            ModerationInput::Texts(texts) => texts.len(),
            ModerationInput::Parts(_) => 1,
        }
    }
}

/// Text or image of an input with several parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModerationPart {
    Text(String),
    /// http(s) or data URL.
    Image(String),
}

/// Response to a moderation request.
#[derive(Clone, Debug, PartialEq)]
pub struct ModerationAnswer {
    /// Id of the response; empty if it has none.
    pub id: String,
    /// One result per text, in input order, or one result for all parts.
    pub results: Vec<Moderation>,
}

/// Classification result of one input.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Moderation {
    /// Whether any category was detected.
    pub flagged: bool,
    /// All categories that were checked.
    pub categories: Vec<Category>,
}

/// Result for one category of content.
#[derive(Clone, Debug, PartialEq)]
pub struct Category {
    /// Name, such as `violence`.
    pub name: String,
    /// Whether the category was detected.
    pub flagged: bool,
    /// Confidence, from 0 to 1.
    pub score: f64,
    /// Kinds of input that were checked for this category: `text`, `image`.
    pub applied_to: Vec<String>,
}
