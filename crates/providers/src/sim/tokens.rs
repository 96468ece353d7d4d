//! The simulator's tokenizer: tokens are words with their leading white space; long words are
//! split. A text therefore has about as many tokens as words, and every token has at least one
//! byte.

/// Maximum number of characters of a word in one token.
const MAX_TOKEN_CHARS: usize = 12;

/// Splits a text into tokens, which together equal the text. Trailing white space belongs to the
/// last token.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let word = rest.len() - rest.trim_start().len();
        let after = rest.get(word..).unwrap_or_default();
        let longest = after
            .char_indices()
            .nth(MAX_TOKEN_CHARS)
            .map_or(after.len(), |(at, _)| at);
        let chunk = after.get(..longest).unwrap_or_default();
        let mut end = word + chunk.find(char::is_whitespace).unwrap_or(longest);
        let follows = rest.get(end..).unwrap_or_default();
        if follows.trim_start().is_empty() {
            end = rest.len();
        }
        let (token, others) = rest.split_at(end);
        rest = others;
        Some(token)
    })
}

/// Returns the number of tokens of a text.
pub(super) fn count(text: &str) -> u64 {
    split(text).count() as u64
}

/// Returns the first `max` tokens of a text, and whether more text follows.
pub(super) fn first(text: &str, max: u64) -> (&str, bool) {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let end: usize = split(text).take(max).map(str::len).sum();
    (text.get(..end).unwrap_or_default(), end < text.len())
}

/// Returns the next chunk of a streamed text, from the byte `from` on: a token, or a third of a
/// text with fewer than three tokens.
pub(super) fn chunk(text: &str, from: usize) -> Option<&str> {
    let rest = text.get(from..).filter(|rest| !rest.is_empty())?;
    if split(text).nth(2).is_some() {
        return split(rest).next();
    }
    let third = text.chars().count().div_ceil(3);
    let end = rest.char_indices().nth(third).map_or(rest.len(), |(at, _)| at);
    rest.get(..end)
}

/// Generates a text of exactly this number of tokens, with the words of `vocabulary` from index
/// `from` on.
pub(super) fn words(vocabulary: &[&str], tokens: u64, from: usize) -> String {
    let mut text = String::new();
    let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
    for word in vocabulary.iter().cycle().skip(from).take(tokens) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &str) -> Vec<&str> {
        let mut from = 0;
        let next = || {
            let chunk = chunk(text, from)?;
            from += chunk.len();
            Some(chunk)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn tokens_are_words_and_lose_nothing() {
        let cases = [
            ("", 0),
            ("one", 1),
            ("abcdefghijklabcdefghijklx", 3),
            ("one two  three\n", 3),
            ("  two words", 2),
            ("   ", 1),
            ("äö\u{a0}ü 漢字 😀", 4),
        ];
        for (text, expected) in cases {
            assert_eq!(count(text), expected, "{text:?}");
            assert_eq!(split(text).collect::<String>(), text);
            assert_eq!(chunks(text).concat(), text);
        }
    }

    #[test]
    fn texts_have_three_or_more_chunks() {
        for (text, expected) in [
            ("hello", 3),
            ("hi there", 3),
            ("abc", 3),
            ("ab", 2),
            ("a", 1),
            ("", 0),
            ("漢字字字", 2),
            ("a b c d", 4),
        ] {
            let chunks = chunks(text);
            assert!(chunks.len() >= expected.min(3), "{text:?} {chunks:?}");
            assert_eq!(chunks.concat(), text);
        }
    }

    #[test]
    fn the_first_tokens_are_a_prefix() {
        for (text, max, expected) in [
            ("a b c", 2, ("a b", true)),
            ("a b c", 3, ("a b c", false)),
            ("a b c", 9, ("a b c", false)),
            ("a b c", 0, ("", true)),
            ("", 0, ("", false)),
        ] {
            assert_eq!(first(text, max), expected, "{text:?} {max}");
        }
    }

    #[test]
    fn words_are_counted_and_begin_anywhere() {
        assert_eq!(words(&["a", "b"], 3, 0), "a b a");
        assert_eq!(words(&["a", "b"], 3, 1), "b a b");
        assert_eq!(count(&words(&["a", "b"], 1000, 7)), 1000);
        assert_eq!(words(&["a"], 0, 0), "");
    }
}
