//! Excerpts of passages.

use std::collections::HashSet;

use crate::analyzer::analyzer;

/// Maximum length of an excerpt, in characters.
pub(crate) const MAX_SNIPPET_CHARS: usize = 400;

/// Returns the part of a passage with the most words of the query, from the start of a sentence,
/// with single spaces. Passages are short, so each start of a sentence is tried.
pub(crate) fn snippet(passage: &str, words: &[String]) -> String {
    let text = passage.split_whitespace().collect::<Vec<_>>().join(" ");
    let words: HashSet<&str> = words.iter().map(String::as_str).collect();
    let mut analyzer = analyzer();
    let mut stream = analyzer.token_stream(&text);
    let mut matches = Vec::new();
    while stream.advance() {
        let token = stream.token();
        if let Some(word) = words.get(token.text.as_str()) {
            matches.push((token.offset_from, *word));
        }
    }
    drop(stream);
    // Of the starts with equally many words, the one nearest to its first word is the best.
    let best = sentence_starts(&text).min_by_key(|&start| {
        let end = start + excerpt(&text[start..]).len();
        let inside: Vec<_> = matches
            .iter()
            .filter(|(at, _)| (start..end).contains(at))
            .collect();
        let count = inside.iter().map(|(_, word)| word).collect::<HashSet<_>>().len();
        (
            std::cmp::Reverse(count),
            inside.first().map_or(0, |(at, _)| at - start),
            start,
        )
    });
    excerpt(&text[best.unwrap_or(0)..]).to_owned()
}

/// Returns the start of the text, at most the maximum length, without a part of a word.
fn excerpt(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(MAX_SNIPPET_CHARS) else {
        return text;
    };
    let whole = &text[..end];
    match whole.rfind(' ') {
        Some(space) if space > 0 && !text[end..].starts_with(' ') => &whole[..space],
        _ => whole,
    }
}

fn sentence_starts(text: &str) -> impl Iterator<Item = usize> {
    let after_sentences = [". ", "! ", "? "]
        .into_iter()
        .flat_map(|end| text.match_indices(end));
    std::iter::once(0).chain(after_sentences.map(|(at, end)| at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::{MAX_SNIPPET_CHARS, snippet};
    use crate::analyzer::query_words;

    #[test]
    fn the_best_sentence_starts_the_snippet() {
        let filler = "Nothing of note is in this sentence about other things. ".repeat(12);
        let text = format!("{filler}The  harbour\nwall is 300 metres long. {filler}");
        let words = query_words("harbour wall length");
        let found = snippet(&text, &words);
        assert!(
            found.starts_with("The harbour wall is 300 metres long."),
            "{found}"
        );
        assert!(!found.ends_with(' ') && found.chars().count() <= MAX_SNIPPET_CHARS);
        assert_eq!(snippet("short  text", &words), "short text");
        assert!(snippet(&filler, &words).starts_with("Nothing"));
        let ideographs = "語".repeat(1_000);
        assert_eq!(snippet(&ideographs, &[]).chars().count(), MAX_SNIPPET_CHARS);
        assert_eq!(snippet("", &words), "");
    }
}
