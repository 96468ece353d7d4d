//! Grouping of words into chunks.

use unicode_segmentation::UnicodeSegmentation;

use super::{Gap, Word};

/// Characters after which the end of a clause ends the first chunk.
const MIN_FIRST_CHARS: usize = 20;
/// Characters at which the first chunk ends at a word.
const MAX_FIRST_CHARS: usize = 60;
/// Characters at which a longer sentence is cut.
const MAX_CHARS: usize = 240;

/// Marks that end a clause.
const CLAUSE_MARKS: [char; 16] = [
    ',', ';', ':', '—', '–', '.', '!', '?', '…', '、', '，', '；', '：', '。', '！', '？',
];
/// Marks that follow the one that ends a clause.
const CLOSING_MARKS: [char; 10] = ['"', '\'', ')', ']', '”', '’', '»', '«', '」', '』'];
/// Abbreviations that end no sentence although a capital letter may follow.
const ABBREVIATIONS: [&str; 15] = [
    "Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.", "Sr.", "Sra.", "Hr.", "Fr.", "Nr.", "z.B.", "e.g.", "i.e.",
    "vs.",
];

/// Words that form no complete chunk yet.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Text of the running chunk, with the space before it.
    text: String,
    has_first: bool,
}

impl Chunks {
    /// Appends a word and returns the chunks that are complete before or with it.
    pub(super) fn push(&mut self, word: &Word, chunks: &mut Vec<String>) {
        if self.text.is_empty() && !is_speakable(&word.text) {
            return;
        }
        let length = self.text.trim_start().chars().count();
        let is_long = length + 1 + word.text.chars().count() > self.max_chars();
        let is_line = word.gap == Gap::Line && (self.has_first || length >= MIN_FIRST_CHARS);
        if is_line {
            self.emit(self.text.len(), chunks);
        } else if is_long {
            self.emit(self.cut(), chunks);
        }
        self.append(word);
        self.emit_sentences(&word.text, chunks);
    }

    /// Returns the rest, if it has a letter or a digit.
    pub(super) fn finish(mut self, chunks: &mut Vec<String>) {
        self.emit(self.text.len(), chunks);
    }

    const fn max_chars(&self) -> usize {
        if self.has_first {
            MAX_CHARS
        } else {
            MAX_FIRST_CHARS
        }
    }

    fn append(&mut self, word: &Word) {
        let is_begin = self.text.is_empty() && !self.has_first;
        if word.gap != Gap::None && !is_begin {
            self.text.push(' ');
        }
        self.text.push_str(&word.text);
    }

    /// Emits the first bytes of the text as a chunk, if they have a letter or a digit.
    fn emit(&mut self, end: usize, chunks: &mut Vec<String>) {
        if self.text.get(..end).is_some_and(is_speakable) {
            let rest = self.text.split_off(end);
            chunks.push(std::mem::replace(&mut self.text, rest));
            self.has_first = true;
        }
    }

    fn emit_sentences(&mut self, word: &str, chunks: &mut Vec<String>) {
        if !self.has_first {
            let is_long = self.text.chars().count() >= MIN_FIRST_CHARS;
            if is_long && ends_clause(&self.text) {
                self.emit(self.text.len(), chunks);
            }
            return;
        }
        // The boundary after a full stop depends on the next letter, by rule SB8.
        if word.chars().any(char::is_alphabetic) {
            while let Some(end) = self.sentence_end() {
                self.emit(end, chunks);
            }
        }
    }

    /// Returns the end of the first sentence that a letter follows.
    fn sentence_end(&self) -> Option<usize> {
        let has_letter = |text: &str| text.chars().any(char::is_alphabetic);
        for (start, _) in self.text.split_sentence_bound_indices() {
            let (sentence, rest) = self.text.split_at_checked(start)?;
            if !has_letter(rest) {
                return None;
            }
            let sentence = sentence.trim_end();
            if has_letter(sentence) && !ends_with_abbreviation(sentence) {
                return Some(sentence.len());
            }
        }
        None
    }

    /// Returns where to cut a sentence that is too long: after its last clause, otherwise after its
    /// last word.
    fn cut(&self) -> usize {
        let ends = self.text.match_indices(' ').map(|(end, _)| end).rev();
        let mut clauses = ends.filter(|end| {
            let clause = self.text.get(..*end).unwrap_or_default();
            clause.chars().count() >= MIN_FIRST_CHARS && ends_clause(clause)
        });
        if self.has_first {
            clauses.next().unwrap_or(self.text.len())
        } else {
            self.text.len()
        }
    }
}

fn is_speakable(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

fn ends_clause(text: &str) -> bool {
    text.trim_end_matches(CLOSING_MARKS).ends_with(CLAUSE_MARKS) && !ends_with_abbreviation(text)
}

fn ends_with_abbreviation(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    ABBREVIATIONS.contains(&word.trim_start_matches(['(', '"', '“']))
}
