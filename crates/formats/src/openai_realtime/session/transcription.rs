//! Transcription of the input audio.

use std::sync::Arc;

use super::super::fields::{name_at, short_text_at, texts_at};
use super::super::writer::Object;
use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Settings of the transcription. The caller decides which of them a model supports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcription {
    /// Name of the model; `None` is the default of the caller.
    pub model: Option<Arc<str>>,
    /// ISO 639-1 code of the spoken language.
    pub language: Option<Arc<str>>,
    /// Text that guides the spelling, such as names.
    pub prompt: Option<Arc<str>>,
    /// ISO 639-1 codes of several possible languages.
    pub languages: Vec<Arc<str>>,
    /// Words that the audio may contain.
    pub keywords: Vec<Arc<str>>,
    pub delay: Option<TranscriptionDelay>,
}

/// Trade-off between the delay of a live transcription and its accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptionDelay {
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

const KEYS: &[&str] = &["model", "language", "prompt", "languages", "keywords", "delay"];

const MAX_NAME_CHARS: usize = 256;
const MAX_LANGUAGE_CHARS: usize = 16;
const MAX_LANGUAGES: usize = 32;
const MAX_KEYWORDS: usize = 1_000;
const MAX_PROMPT_CHARS: usize = 8_192;

impl Transcription {
    /// Reads the object of both dialects.
    pub(super) fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        node.check_keys(&[KEYS], path)?;
        let text = |key: &'static str, max: usize| {
            let value = node.get(key);
            value.map(|value| name_at(value, max, &path.key(key))).transpose()
        };
        let prompt = node.get("prompt");
        let delay = node.get("delay");
        Ok(Self {
            model: text("model", MAX_NAME_CHARS)?,
            language: text("language", MAX_LANGUAGE_CHARS)?,
            prompt: prompt
                .map(|value| short_text_at(value, MAX_PROMPT_CHARS, &path.key("prompt")))
                .transpose()?,
            languages: list(node, "languages", MAX_LANGUAGES, MAX_LANGUAGE_CHARS, path)?,
            keywords: list(node, "keywords", MAX_KEYWORDS, MAX_NAME_CHARS, path)?,
            delay: delay
                .map(|value| TranscriptionDelay::read(value, &path.key("delay")))
                .transpose()?,
        })
    }

    /// Returns the settings after an update, whose absent members do not change.
    pub(super) fn updated(&self, update: &Transcription) -> Transcription {
        let text = |new: &Option<Arc<str>>, old: &Option<Arc<str>>| new.clone().or_else(|| old.clone());
        let list = |new: &[Arc<str>], old: &[Arc<str>]| if new.is_empty() { old } else { new }.to_vec();
        Self {
            model: text(&update.model, &self.model),
            language: text(&update.language, &self.language),
            prompt: text(&update.prompt, &self.prompt),
            languages: list(&update.languages, &self.languages),
            keywords: list(&update.keywords, &self.keywords),
            delay: update.delay.or(self.delay),
        }
    }

    /// Writes the members of the object.
    pub(super) fn write(&self, object: &mut Object<'_>) {
        object.nullable("model", self.model.as_deref());
        object.nullable("language", self.language.as_deref());
        object.nullable("prompt", self.prompt.as_deref());
        self.write_lists(object);
    }

    /// Writes the settings beside the model, without null.
    pub(in crate::openai_realtime) fn write_hints(&self, object: &mut Object<'_>) {
        object.optional("language", self.language.as_deref());
        object.optional("prompt", self.prompt.as_deref());
        self.write_lists(object);
    }

    fn write_lists(&self, object: &mut Object<'_>) {
        if !self.languages.is_empty() {
            object.texts("languages", self.languages.iter().map(|language| &**language));
        }
        if !self.keywords.is_empty() {
            object.texts("keywords", self.keywords.iter().map(|keyword| &**keyword));
        }
        object.optional("delay", self.delay.map(TranscriptionDelay::as_str));
    }
}

fn list(
    node: &Node<'_>,
    key: &str,
    max_texts: usize,
    max_chars: usize,
    path: &Path<'_>,
) -> Result<Vec<Arc<str>>, BoxedError> {
    match node.get(key) {
        Some(value) => texts_at(value, max_texts, max_chars, &path.key(key)),
        None => Ok(Vec::new()),
    }
}

impl TranscriptionDelay {
    /// Returns the name of the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            TranscriptionDelay::Minimal => "minimal",
            TranscriptionDelay::Low => "low",
            TranscriptionDelay::Medium => "medium",
            TranscriptionDelay::High => "high",
            TranscriptionDelay::Xhigh => "xhigh",
        }
    }

    /// Returns the delay with this name of the protocol.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "minimal" => TranscriptionDelay::Minimal,
            "low" => TranscriptionDelay::Low,
            "medium" => TranscriptionDelay::Medium,
            "high" => TranscriptionDelay::High,
            "xhigh" => TranscriptionDelay::Xhigh,
            _ => return None,
        })
    }

    fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        let name = node.word_at(&["minimal", "low", "medium", "high", "xhigh"], path)?;
        Ok(Self::parse(name).unwrap_or(TranscriptionDelay::Xhigh))
    }
}
