//! Splits a model's streamed Markdown into chunks for speech synthesis. The chunks are also the
//! transcript: what is not spoken does not appear in it.
//!
//! The first chunk is short, so that speech begins early. Later chunks are sentences by Unicode
//! Standard Annex #29, section 5.

mod chunks;
mod markdown;
#[cfg(test)]
mod tests;

use chunks::Chunks;
use markdown::Markdown;

/// Streaming splitter of one text. The chunks depend on the text alone, not on its deltas.
#[derive(Debug, Default)]
pub struct Splitter {
    markdown: Markdown,
    chunks: Chunks,
}

/// A word to speak.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    /// White space before the word.
    gap: Gap,
}

/// White space between two words. Wider gaps are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    /// No white space, as in Chinese.
    #[default]
    None,
    Space,
    /// End of a heading, a list item or a paragraph.
    Line,
}

impl Splitter {
    /// Creates a splitter at the start of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the chunks that a delta completes. Each has a letter or a digit. Chunks after the
    /// first include the space before them.
    pub fn push(&mut self, delta: &str) -> Vec<String> {
        let mut words = Vec::new();
        for c in delta.chars() {
            self.markdown.push(c, &mut words);
        }
        let mut chunks = Vec::new();
        for word in words {
            self.chunks.push(&word, &mut chunks);
        }
        chunks
    }

    /// Returns the remaining chunks. The splitter is then ready for another text.
    pub fn finish(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        std::mem::take(&mut self.markdown).finish(&mut words);
        let mut chunks = Vec::new();
        for word in words {
            self.chunks.push(&word, &mut chunks);
        }
        std::mem::take(&mut self.chunks).finish(&mut chunks);
        chunks
    }
}
