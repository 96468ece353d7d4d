use proptest::prelude::*;

use super::*;

const SOURCE: &str = "The Dalen bridge opened in 1987, after six years of work. Its main span measures \
    324.5 metres, and it doesn\u{2019}t carry trains. \u{201c}It was the largest project of the \
    region\u{201d}, said the chief engineer \u{2014} a na\u{ef}ve claim. 🌉🇪🇺 Der ﬁnale Ausbau kostete \
    12,5 Millionen Euro. 这座大桥于一九八七年正式通车，是该地区最大的工程项目之一。 The toll is not \
    collected on Sundays, and treatment with the compound was ineffective in older patients of the trial.";

/// Checks the kind and the source text of a match; `None` for no match.
fn check(quote: &str, expected: Option<(MatchKind, &str)>) {
    let text = CharText::new(SOURCE);
    let found = find_quote(&text, quote);
    let found = found.map(|found| (found.kind, text.span(found.span).unwrap()));
    assert_eq!(found, expected, "{quote}");
}

#[test]
fn quotes_are_found() {
    use MatchKind::{Exact, Fuzzy, Normalized};
    for (quote, kind, found) in [
        (
            "The Dalen bridge opened in 1987",
            Exact,
            "The Dalen bridge opened in 1987",
        ),
        ("  after six years of work.\n", Exact, "after six years of work."),
        (
            "🌉🇪🇺 Der ﬁnale Ausbau kostete",
            Exact,
            "🌉🇪🇺 Der ﬁnale Ausbau kostete",
        ),
        (
            "这座大桥于一九八七年正式通车，是该地区最大的工程",
            Exact,
            "这座大桥于一九八七年正式通车，是该地区最大的工程",
        ),
        (
            "the dalen BRIDGE  opened\nin 1987",
            Normalized,
            "The Dalen bridge opened in 1987",
        ),
        (
            "and it doesn't carry trains",
            Normalized,
            "and it doesn\u{2019}t carry trains",
        ),
        (
            "\"It was the largest project of the region\"",
            Normalized,
            "It was the largest project of the region",
        ),
        (
            "the chief engineer - a nai\u{308}ve claim",
            Normalized,
            "the chief engineer \u{2014} a na\u{ef}ve claim",
        ),
        (
            "Der finale Aus\u{ad}bau kostete",
            Normalized,
            "Der ﬁnale Ausbau kostete",
        ),
        (
            "这座大桥于一九八七年正式通车,是该地区最大的工程",
            Normalized,
            "这座大桥于一九八七年正式通车，是该地区最大的工程",
        ),
        (
            "The Dalen Bridge was opened in 1987, after six years of works.",
            Fuzzy,
            "The Dalen bridge opened in 1987, after six years of work.",
        ),
        (
            "这座大桥于一九八七年正式开通，是该地区最大的工程项目之一",
            Fuzzy,
            "这座大桥于一九八七年正式通车，是该地区最大的工程项目之一",
        ),
        // A quote that ends within a word is completed.
        (
            "after six years of work. Its main sp",
            Fuzzy,
            "after six years of work. Its main span",
        ),
    ] {
        check(quote, Some((kind, found)));
    }
}

#[test]
fn changed_quotes_are_not_found() {
    for quote in [
        "",
        "six years of work",
        "This sentence is in no source of the report.",
        // Other numbers.
        "The Dalen bridge opened in 1986, after six years of work.",
        "Its main span measures 324.6 metres, and it doesn't carry trains",
        "The Dalen bridge opened in 19",
        "Its main span measures 324",
        // Other polarity.
        "The toll is collected on Sundays, and treatment with the compound was",
        "and it does carry trains. \"It was the largest project of the region\"",
        "effective in older patients of the trial.",
        "treatment with the compound was effective in older patients of the trial",
        "The Dalen bridge opened in 1987, before six years of work. Its main span measures",
    ] {
        check(quote, None);
    }
    check(&"The Dalen bridge opened in 1987 ".repeat(20), None);
}

#[test]
fn hostile_sources_take_bounded_time() {
    let repeated = "the same words again and ".repeat(40_000);
    let letters = "a".repeat(1_000_000);
    let marks = format!("a{}", "\u{301}".repeat(300_000));
    for source in [repeated, letters, marks] {
        let text = CharText::new(&source);
        let finder = QuoteFinder::new(&text);
        for quote in [
            "the same words again but the same words again or",
            &format!("{}b{}", "a".repeat(300), "a".repeat(290)),
            &"\u{301}".repeat(600),
        ] {
            // The letters are one word, so that a part of them is no match.
            let found = finder.find(quote);
            assert!(
                found.is_none_or(|found| found.kind == MatchKind::Fuzzy),
                "{quote}"
            );
        }
    }
}

#[test]
fn wire_names_are_stable() {
    let found = QuoteMatch {
        span: Span { start: 1, end: 22 },
        kind: MatchKind::Normalized,
    };
    let json = r#"{"span":{"start":1,"end":22},"kind":"normalized"}"#;
    assert_eq!(serde_json::to_string(&found).unwrap(), json);
}

/// Texts of words, emoji, combining marks, ligatures and CJK characters.
fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z]{1,8}",
        "[A-Z][a-z]{1,5}",
        Just("ﬁne".to_owned()),
        Just("e\u{301}te\u{301}".to_owned()),
        Just("👩\u{200d}🔬".to_owned()),
        Just("大桥通车".to_owned()),
        Just("\u{1112}\u{1161}\u{11ab}글".to_owned()),
        Just("ｶﾞｽ".to_owned()),
        Just("\u{a8}x²".to_owned()),
        Just("İß".to_owned()),
        Just("“so”".to_owned()),
        "[0-9]{1,4}",
        "\\PC{1,3}",
    ];
    prop::collection::vec(part, 10..60).prop_map(|parts| parts.join(" "))
}

proptest! {
    #[test]
    fn matches_verify_again(source in texts(), from in 0.0..1.0, length in 20_usize..80, change in 0_usize..4) {
        let text = CharText::new(&source);
        let start = (from * text.len() as f64) as usize;
        let end = (start + length).min(text.len());
        let part = text.slice(start, end).unwrap();
        let quote = match change {
            0 => part.to_owned(),
            1 => part.to_uppercase(),
            2 => part.replace(' ', "\n "),
            _ => part.chars().enumerate().filter(|(place, _)| place % 25 != 12).map(|(_, c)| c).collect(),
        };
        if let Some(found) = find_quote(&text, &quote) {
            let span = text.span(found.span).unwrap();
            match found.kind {
                MatchKind::Exact => prop_assert_eq!(span, quote.trim()),
                MatchKind::Normalized => {
                    let quote = fold(&quote);
                    prop_assert_eq!(fold(span), quote.trim_matches(['\'', ' ']));
                }
                MatchKind::Fuzzy => {
                    let (one, two) = (fold(span), fold(&quote));
                    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.trim_matches(['\'', ' ']).chars().collect());
                    prop_assert!(distance::similarity(&one, &two) >= 0.9);
                }
            }
        } else {
            // Whole words of the source are always found.
            let trimmed = part.trim();
            let at = part.len() - part.trim_start().len() + text.byte_of_char(start).unwrap();
            let is_quote = change == 0 && trimmed.chars().count() >= MIN_QUOTE_CHARS;
            prop_assert!(!is_quote || !is_whole(&source, at, at + trimmed.len()), "{}", trimmed);
        }
    }
}
