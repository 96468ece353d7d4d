use proptest::prelude::*;

use super::{MAX_QUERY_WORDS, analyzer, query_words};

fn words(text: &str) -> Vec<String> {
    let mut analyzer = analyzer();
    let mut stream = analyzer.token_stream(text);
    let mut words = Vec::new();
    while stream.advance() {
        let token = stream.token();
        assert!(text.get(token.offset_from..token.offset_to).is_some(), "{text:?}");
        words.push(token.text.clone());
    }
    words
}

#[test]
fn texts_are_split_into_stems() {
    for (text, expected) in [
        ("", &[][..]),
        (" \n\t… — !", &[]),
        ("The Ferries are sailing", &["the", "ferri", "are", "sail"]),
        ("Ménière's café", &["menier", "s", "cafe"]),
        ("cafe\u{301}s", &["cafe"]),
        ("ig\u{200b}nore so\u{ad}ft", &["ignor", "soft"]),
        ("\u{200b}", &[]),
        ("COVID-19 3.5", &["covid", "19", "3", "5"]),
        ("東京都庁", &["東京", "京都", "都庁"]),
        ("東", &["東"]),
        ("in東京for2020", &["in", "東京", "for2020"]),
        ("한국어", &["한국", "국어"]),
        ("🦀crab🦀", &["crab"]),
        ("Ελλάδα", &["ελλάδα"]),
    ] {
        assert_eq!(words(text), expected, "{text:?}");
    }
}

#[test]
fn long_words_are_left_out() {
    assert_eq!(words(&format!("a {} b", "x".repeat(1_000_000))), ["a", "b"]);
    assert_eq!(words(&"x".repeat(63)).len(), 1);
}

#[test]
fn queries_have_no_operators() {
    for (text, expected) in [
        ("", &[][..]),
        ("title:* AND (", &["titl"]),
        (
            "\"harbour master\"~2 -secret",
            &["harbour", "master", "2", "secret"],
        ),
        ("what is the height of the tower", &["height", "tower"]),
        ("to be or not to be", &["to", "be", "or", "not"]),
        ("ferry ferries FERRY", &["ferri"]),
        ("🦀", &[]),
    ] {
        assert_eq!(query_words(text), expected, "{text:?}");
    }
    assert_eq!(query_words(&"\"".repeat(200)), [""; 0]);
    let many: Vec<String> = (0..1_000).map(|number| format!("w{number}")).collect();
    assert_eq!(query_words(&many.join(" ")).len(), MAX_QUERY_WORDS);
}

proptest! {
    #[test]
    fn tokens_are_inside_any_text(text in any::<String>()) {
        let found = words(&text);
        prop_assert!(found.len() <= text.chars().count());
    }
}
