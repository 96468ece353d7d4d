//! The simulator's tokens: words with the white space before them, long words in pieces. So a plain text has about as
//! many tokens as words, and every token has at least one byte.

/// The most characters of a word in one token.
const LONGEST: usize = 12;

/// The tokens of a text. Joined they are the text; white space at its end belongs to the last one.
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
            .nth(LONGEST)
            .map_or(after.len(), |(at, _)| at);
        let piece = after.get(..longest).unwrap_or_default();
        let mut end = word + piece.find(char::is_whitespace).unwrap_or(longest);
        let follows = rest.get(end..).unwrap_or_default();
        if follows.trim_start().is_empty() {
            end = rest.len();
        }
        let (token, others) = rest.split_at(end);
        rest = others;
        Some(token)
    })
}

/// How many tokens a text has.
pub(super) fn count(text: &str) -> u64 {
    split(text).count() as u64
}

/// The first tokens of a text, at most `most` of them; whether that is less than all of it.
pub(super) fn first(text: &str, most: u64) -> (&str, bool) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let end: usize = split(text).take(most).map(str::len).sum();
    (text.get(..end).unwrap_or_default(), end < text.len())
}

/// A text cut for a stream: its tokens, or three pieces where it has fewer tokens and enough characters.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let tokens: Vec<&str> = split(text).collect();
    if tokens.len() >= 3 {
        return tokens;
    }
    let letters = text.chars().count();
    let each = letters.div_ceil(3).max(1);
    let starts: Vec<usize> = text
        .char_indices()
        .step_by(each)
        .map(|(at, _)| at)
        .chain([text.len()])
        .collect();
    starts
        .windows(2)
        .filter_map(|ends| text.get(ends[0]..ends[1]))
        .filter(|piece| !piece.is_empty())
        .collect()
}

/// So many tokens of text.
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
            assert_eq!(pieces(text).concat(), text);
        }
    }

    #[test]
    fn pieces_are_three_where_there_are_three_letters() {
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
            let pieces = pieces(text);
            assert!(pieces.len() >= expected.min(3), "{text:?} {pieces:?}");
            assert_eq!(pieces.concat(), text);
        }
    }

    #[test]
    fn the_first_tokens_are_a_prefix() {
        for (text, most, expected) in [
            ("a b c", 2, ("a b", true)),
            ("a b c", 3, ("a b c", false)),
            ("a b c", 9, ("a b c", false)),
            ("a b c", 0, ("", true)),
            ("", 0, ("", false)),
        ] {
            assert_eq!(first(text, most), expected, "{text:?} {most}");
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
