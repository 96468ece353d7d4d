//! The action of a model call, after the last colon of a path.

/// Actions that the generateContent API supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    GenerateContent,
    StreamGenerateContent,
    CountTokens,
    EmbedContent,
    BatchEmbedContents,
}

impl Action {
    /// Parses the action of a target such as `vendor/name:generateContent`.
    pub fn of(target: &str) -> Option<Self> {
        let (_, name) = target.rsplit_once(':')?;
        Some(match name {
            "generateContent" => Action::GenerateContent,
            "streamGenerateContent" => Action::StreamGenerateContent,
            "countTokens" => Action::CountTokens,
            "embedContent" => Action::EmbedContent,
            "batchEmbedContents" => Action::BatchEmbedContents,
            _ => return None,
        })
    }
}
