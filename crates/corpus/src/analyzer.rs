//! Words of texts and queries: lower case, without accents, English stems; Chinese, Japanese and
//! Korean as pairs of characters.

use std::collections::HashSet;

use tantivy::tokenizer::{
    AsciiFoldingFilter, Language, LowerCaser, RemoveLongFilter, Stemmer, TextAnalyzer, Token, TokenStream,
    Tokenizer,
};

/// Name of the analyzer in the schema of the index.
pub(crate) const ANALYZER: &str = "corpus";
/// Maximum length of a word, in bytes. Longer ones are encoded data.
const MAX_WORD_BYTES: usize = 64;
/// Maximum number of different words of a query.
const MAX_QUERY_WORDS: usize = 64;

/// Words that a query ignores if it has others.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "an", "and", "any", "are", "as", "at", "be", "been", "before", "but", "by",
    "can", "did", "do", "does", "for", "from", "had", "has", "have", "how", "if", "in", "into", "is", "it",
    "its", "me", "no", "not", "of", "on", "or", "s", "so", "t", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "to", "was", "were", "what", "when", "where", "which",
    "who", "whom", "whose", "why", "will", "with", "would", "you", "your",
];

/// Returns the analyzer of titles, texts and queries.
pub(crate) fn analyzer() -> TextAnalyzer {
    TextAnalyzer::builder(Words)
        .filter(RemoveLongFilter::limit(MAX_WORD_BYTES))
        .filter(LowerCaser)
        .filter(AsciiFoldingFilter)
        .filter(Stemmer::new(Language::English))
        .build()
}

/// Returns the different words of a query, in order. Nothing in the text is an operator. Stop words
/// are left out if other words remain.
pub(crate) fn query_words(text: &str) -> Vec<String> {
    let mut analyzer = analyzer();
    let mut seen = HashSet::new();
    let mut words = Vec::new();
    let mut stop_words = Vec::new();
    let mut stream = analyzer.token_stream(text);
    while stream.advance() && words.len() < MAX_QUERY_WORDS {
        let token = stream.token();
        if !seen.insert(token.text.clone()) {
            continue;
        }
        let original = text.get(token.offset_from..token.offset_to).unwrap_or_default();
        match STOP_WORDS.contains(&original.to_lowercase().as_str()) {
            true if stop_words.len() < MAX_QUERY_WORDS => stop_words.push(token.text.clone()),
            true => {}
            false => words.push(token.text.clone()),
        }
    }
    if words.is_empty() { stop_words } else { words }
}

/// Splits text into runs of letters and digits, and into pairs of ideographs.
#[derive(Clone, Debug)]
struct Words;

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream {
            text,
            next: 0,
            token: Token::default(),
        }
    }
}

struct WordStream<'a> {
    text: &'a str,
    /// Byte offset of the first character that was not read.
    next: usize,
    token: Token,
}

/// Role of a character in the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Ideograph,
    /// Invisible character or accent inside a word; it belongs to no token.
    Ignored,
    Separator,
}

fn class(character: char) -> Class {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' => Class::Letter,
        '\0'..='\x7f' => Class::Separator,
        '\u{300}'..='\u{36f}' | '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => {
            Class::Ignored
        }
        '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => Class::Ideograph,
        _ if character.is_alphanumeric() => Class::Letter,
        _ => Class::Separator,
    }
}

impl WordStream<'_> {
    fn start_token(&mut self, from: usize) {
        self.token.text.clear();
        self.token.offset_from = from;
        self.token.position = self.token.position.wrapping_add(1);
        self.token.position_length = 1;
    }

    /// Reads a pair of ideographs. The next pair begins with the second one.
    fn read_ideographs(&mut self, from: usize, first: char) {
        self.start_token(from);
        self.token.text.push(first);
        let second_at = from + first.len_utf8();
        self.next = second_at;
        self.token.offset_to = second_at;
        let mut rest = self.text[second_at..].chars();
        let Some(second) = rest.next().filter(|second| class(*second) == Class::Ideograph) else {
            return;
        };
        self.token.text.push(second);
        self.token.offset_to = second_at + second.len_utf8();
        // The last pair of a run ends the run: a single character follows no other.
        if rest.next().map(class) != Some(Class::Ideograph) {
            self.next = self.token.offset_to;
        }
    }

    /// Reads a run of letters and digits. Characters beyond the limit are skipped, so that a text
    /// without spaces needs no long token.
    fn read_letters(&mut self, from: usize) {
        self.start_token(from);
        let rest = &self.text[from..];
        let mut end = self.text.len();
        for (at, character) in rest.char_indices() {
            match class(character) {
                Class::Letter if self.token.text.len() <= MAX_WORD_BYTES => self.token.text.push(character),
                Class::Letter | Class::Ignored => {}
                Class::Ideograph | Class::Separator => {
                    end = from + at;
                    break;
                }
            }
        }
        self.token.offset_to = end;
        self.next = end;
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let rest = &self.text[self.next..];
        let start = rest
            .char_indices()
            .find(|(_, character)| matches!(class(*character), Class::Letter | Class::Ideograph));
        let Some((at, character)) = start else {
            self.next = self.text.len();
            return false;
        };
        let from = self.next + at;
        match class(character) {
            Class::Ideograph => self.read_ideographs(from, character),
            _ => self.read_letters(from),
        }
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests;
