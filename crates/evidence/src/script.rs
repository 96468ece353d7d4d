//! Classes of characters.

use unicode_normalization::char::is_combining_mark;

/// Whether a character has no visible form: control characters except `\n` and `\t`, zero-width
/// characters, bidirectional controls, soft hyphens, tags, variation selectors and fillers.
pub(crate) const fn is_invisible(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        ' '..='~' => false,
        '\0'..='\u{9f}' => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}' => true,
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// Whether a script puts no spaces between words, or joins particles to them: Chinese, Japanese,
/// Korean, Thai, Lao, Khmer and Burmese.
pub(crate) const fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1100}'..='\u{11ff}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Whether a boundary between two characters divides a word, a number, or a character and its
/// combining marks.
pub(crate) fn splits_word(before: Option<char>, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return false;
    };
    let is_part = |c: char| (c.is_alphanumeric() && !is_unspaced(c)) || is_combining_mark(c);
    (is_part(before) && is_part(after)) || (is_combining_mark(after) && !before.is_whitespace())
}

/// Whether a character closes a sentence in any script.
pub(crate) const fn is_terminator(c: char) -> bool {
    matches!(
        c,
        '.' | '!' | '?' | '…' | '。' | '！' | '？' | '．' | '।' | '؟' | '۔' | '։'
    )
}

/// Whether a character closes a quotation or a bracket.
pub(crate) const fn is_closer(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '”' | '’' | '»' | '›' | '“' | ')' | ']' | '」' | '』' | '）' | '】'
    )
}

/// Measures the length of texts in words. An unspaced character counts as half a word, and every
/// 16 characters of a long token as another word.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WordMeter {
    half_words: usize,
    token_chars: usize,
}

impl WordMeter {
    /// Measures the next character.
    pub(crate) const fn push(&mut self, c: char) {
        if c.is_whitespace() {
            self.token_chars = 0;
        } else if is_unspaced(c) {
            self.token_chars = 0;
            self.half_words += 1;
        } else {
            if self.token_chars.is_multiple_of(16) {
                self.half_words += 2;
            }
            self.token_chars += 1;
        }
    }

    /// Returns the number of words, rounded up.
    pub(crate) const fn words(self) -> usize {
        self.half_words.div_ceil(2)
    }
}

/// Returns the length of a text in words, as [`WordMeter`] counts them.
pub(crate) fn word_count(text: &str) -> usize {
    let mut meter = WordMeter::default();
    text.chars().for_each(|c| meter.push(c));
    meter.words()
}
