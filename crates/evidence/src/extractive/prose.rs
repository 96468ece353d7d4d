//! Recognition of sentences that state something, in contrast to menus and notices.

use crate::script::{is_terminator, is_unspaced, word_count};

/// Minimum number of words of a statement.
const MIN_WORDS: usize = 4;

/// Minimum number of words of a statement without a full stop.
const MIN_UNTERMINATED_WORDS: usize = 9;

/// Parts of menus and notices of web pages, in lower case.
const NOTICES: [&str; 36] = [
    "cookie",
    "sign in",
    "sign up",
    "log in",
    "subscribe",
    "newsletter",
    "all rights reserved",
    "skip to content",
    "privacy policy",
    "terms of service",
    "terms of use",
    "click here",
    "javascript",
    "read more",
    "share this",
    "follow us",
    "advertisement",
    "back to top",
    "table of contents",
    "your browser",
    "add to cart",
    "copyright ©",
    "related articles",
    "leave a comment",
    "see also",
    "datenschutz",
    "impressum",
    "anmelden",
    "alle rechte vorbehalten",
    "mehr erfahren",
    "mentions légales",
    "tous droits réservés",
    "en savoir plus",
    "todos los derechos reservados",
    "iniciar sesión",
    "版权所有",
];

/// Whether a sentence states something: it has words and a full stop, and is no question, menu,
/// notice or markup.
pub(super) fn is_statement(sentence: &str) -> bool {
    let words = word_count(sentence);
    let last = sentence
        .trim_end_matches(|c: char| !c.is_alphanumeric() && !is_terminator(c))
        .chars()
        .next_back();
    let is_terminated = last.is_some_and(is_terminator);
    let is_question = matches!(last, Some('?' | '？' | '؟'));
    let min_words = if is_terminated {
        MIN_WORDS
    } else {
        MIN_UNTERMINATED_WORDS
    };
    words >= min_words && !is_question && is_text(sentence) && !is_menu(sentence)
}

/// Whether most characters are letters, and none is markup.
fn is_text(sentence: &str) -> bool {
    let visible = sentence.chars().filter(|c| !c.is_whitespace()).count();
    let letters = sentence.chars().filter(|c| c.is_alphabetic()).count();
    let markup = ["://", "www.", "![", "](", "[[", "]]", "`", "<", "{", "}", "|"];
    letters * 10 >= visible * 6 && !markup.iter().any(|mark| sentence.contains(mark))
}

fn is_menu(sentence: &str) -> bool {
    let separators = sentence
        .chars()
        .filter(|c| matches!(c, '›' | '»' | '·' | '•' | '→'))
        .count();
    let lower = sentence.to_lowercase();
    let is_notice = NOTICES.iter().any(|notice| lower.contains(notice));
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let is_title = |word: &&&str| word.starts_with(|c: char| c.is_uppercase() || c.is_numeric());
    // Titles of pages: nearly every word has a capital letter.
    let capitals = words.iter().filter(is_title).count();
    let is_titles = words.len() >= 4 && capitals * 10 > words.len() * 8 && !sentence.contains(is_unspaced);
    separators >= 2 || is_notice || is_titles
}
