use proptest::prelude::*;

use super::*;

/// Returns the chunks of a text in deltas of a number of characters.
fn split(text: &str, delta_chars: usize) -> Vec<String> {
    let mut splitter = Splitter::new();
    let chars: Vec<char> = text.chars().collect();
    let mut chunks: Vec<String> = chars
        .chunks(delta_chars)
        .flat_map(|delta| splitter.push(&delta.iter().collect::<String>()))
        .collect();
    chunks.extend(splitter.finish());
    chunks
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    for delta_chars in [1, 3, 7, 10_000] {
        assert_eq!(split(text, delta_chars), expected, "in deltas of {delta_chars}");
    }
}

#[test]
fn first_chunks_are_short() {
    check("", &[]);
    check(" \n* * *\n", &[]);
    check("Yes.", &["Yes."]);
    check("Sure! Well, yes.", &["Sure! Well, yes."]);
    check(
        "Sure, I can help you with that, since I know it. It is easy.",
        &[
            "Sure, I can help you with that,",
            " since I know it.",
            " It is easy.",
        ],
    );
    check(
        "It costs 3,141.59 euros in 24:30 hours: so",
        &["It costs 3,141.59 euros in 24:30 hours:", " so"],
    );
    check(
        "He said \"I am going home.\" Then",
        &["He said \"I am going home.\"", " Then"],
    );
    let words = "word ".repeat(14);
    check(&words, &[words[..59].trim_end(), " word word"]);
}

#[test]
fn later_chunks_are_sentences() {
    let first = "This is the first clause, ";
    for (text, expected) in [
        ("a b. C d! e f", vec![" a b.", " C d!", " e f"]),
        (
            "v. 3 of the U.S.A. at 5. 3 apples. 3 Pears",
            vec![" v. 3 of the U.S.A. at 5. 3 apples.", " 3 Pears"],
        ),
        ("Dr. Who met Mr. X. Then", vec![" Dr. Who met Mr. X.", " Then"]),
        ("no end\n\nNext", vec![" no end", " Next"]),
        ("soft\nbreak\nHard", vec![" soft break", " Hard"]),
        ("1. One\n2. Two", vec![" 1. One", " 2. Two"]),
        ("!!! ... — 5", vec![" 5"]),
    ] {
        let chunks = [vec!["This is the first clause,"], expected].concat();
        check(&format!("{first}{text}"), &chunks);
    }
    check(
        "这是第一个句子，它有二十个以上的汉字在里面对吧。你好！再见",
        &[
            "这是第一个句子，它有二十个以上的汉字在里面对吧。",
            "你好！",
            "再见",
        ],
    );
}

#[test]
fn long_sentences_are_cut_at_clauses_or_words() {
    let first = "This is the first clause, ";
    let clause = "and so on and so forth it goes, ".repeat(12);
    let chunks = split(&format!("{first}{clause}"), 5);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk.ends_with(',') && chunk.chars().count() <= 241),
        "{chunks:?}"
    );
    let chunks = split(&format!("{first}{}", "word ".repeat(100)), 5);
    assert_eq!(
        chunks.iter().map(String::len).collect::<Vec<_>>(),
        [25, 240, 240, 20]
    );
    let chunks = split(&format!("{first}{}", "語".repeat(500)), 5);
    assert!(
        chunks.iter().all(|chunk| chunk.chars().count() <= 241),
        "{chunks:?}"
    );
    assert_eq!(chunks.concat().matches('語').count(), 500);
}

#[test]
fn markup_is_not_spoken() {
    for (text, expected) in [
        ("# Title\n\nText", "Title Text"),
        (
            "- one\n* two\n  + three\n> four\n- [x] five\n- [ ] six",
            "one two three four five six",
        ),
        (
            "**bold** and *it*, __b__ _i_ ~~gone~~ snake_case.",
            "bold and it, b i gone snake_case.",
        ),
        ("| a | b |\n|---|:-:|\n| 1|2 |", "a b 1 2"),
        ("Run `cargo build`, then ``a ` b`` go.", "Run, then go."),
        ("An unclosed ` tick\nstays `here", "An unclosed tick stays here"),
        ("Code:\n```rust\nfn x() {}\n```\nDone", "Code: Done"),
        ("~~~\n```\ncode\n~~~\nDone", "Done"),
        ("```code``` inline\n````\n```\n````\nend", "inline end"),
        ("~~old~~ new", "old new"),
        ("```\nnever closed", ""),
        (
            "See [the docs](https://a.b/c_d), ![logo](x.png) and [1].",
            "See the docs, logo and 1.",
        ),
        (
            "Open https://a.b/c?d=e_f. Or (www.x.org), <http://y>!",
            "Open. Or,!",
        ),
        ("Mail me@example.com, not @me or a@b", "Mail, not @me or a@b"),
        ("see:https://x.y end", "see: end"),
        ("Hi 👋🏽 there 👨‍👩‍👧 ❤️ 🇩🇪 1️⃣ ok✅", "Hi there 1 ok"),
        ("a \\* b \\_c", "a b c"),
        ("2 + 2 = 4 & 5 < 6", "2 + 2 = 4 & 5 < 6"),
        ("Setext\n===\n\n---\ntext", "Setext text"),
        ("C# and F# in a line", "C# and F# in a line"),
    ] {
        for delta_chars in [1, 2, 5, 1_000] {
            assert_eq!(
                split(text, delta_chars).concat(),
                expected,
                "{text:?} in {delta_chars}"
            );
        }
    }
}

/// Returns the letters and digits of a text.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

proptest! {
    #[test]
    fn deltas_do_not_change_the_chunks(
        text in "([a-zA-Z]{1,9}|[ \n.,!?:;`~*_#|()\\[\\]<>@/-]|https://a\\.b|[0-9é語👋。]){0,120}",
        delta_chars in 1_usize..40,
    ) {
        let chunks = split(&text, 100_000);
        prop_assert_eq!(split(&text, delta_chars), chunks.clone());
        prop_assert!(chunks.iter().all(|chunk| chunk.chars().any(char::is_alphanumeric)));
        prop_assert!(chunks.iter().all(|chunk| chunk == chunk.trim_end()));
    }

    #[test]
    fn no_letter_is_lost(
        text in "([a-zA-Zéß]{1,12}|[ \n.,!?:;—'\"()*_~#|<>+=&%-]|[0-9語。]){0,300}",
        delta_chars in 1_usize..40,
    ) {
        // Tildes may open a code block, whose letters are not spoken.
        prop_assume!(!text.contains("~~~"));
        prop_assert_eq!(letters(&split(&text, delta_chars).concat()), letters(&text));
    }

    #[test]
    fn unclosed_code_is_text(text in "[a-z]{1,5}( [a-z]{1,9}| `[a-z]{1,9}){0,1}( [a-z]{1,9}){0,30}") {
        prop_assert_eq!(letters(&split(&text, 3).concat()), letters(&text));
    }
}
