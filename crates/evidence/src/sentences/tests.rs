use proptest::prelude::*;

use super::*;

fn texts(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    sentences(text)
        .iter()
        .map(|span| chars[span.start..span.end].iter().collect())
        .collect()
}

#[test]
fn texts_are_divided() {
    for (text, expected) in [
        ("One. Two! Three? Four", &["One.", "Two!", "Three?", "Four"][..]),
        (
            "It rose 1.5 % to 3.14. See example.com now.",
            &["It rose 1.5 % to 3.14.", "See example.com now."],
        ),
        (
            "Dr. Holm met Mr. J. R. Smith. They left.",
            &["Dr. Holm met Mr. J. R. Smith.", "They left."],
        ),
        (
            "The U.S. Senate voted, e.g. on No. 5. It passed.",
            &["The U.S. Senate voted, e.g. on No. 5.", "It passed."],
        ),
        (
            "He lives in the U.S. The house is old.",
            &["He lives in the U.S.", "The house is old."],
        ),
        (
            "Acme Inc. Chief Ann left. Acme Inc. It grew.",
            &["Acme Inc. Chief Ann left.", "Acme Inc.", "It grew."],
        ),
        (
            "Er kam am 3. Mai 2024 an. Danach z. B. ging er.",
            &["Er kam am 3. Mai 2024 an.", "Danach z. B. ging er."],
        ),
        (
            "“Is it?” she asked. “Yes.” He left.",
            &["“Is it?” she asked.", "“Yes.”", "He left."],
        ),
        (
            "It opened.[12] Then [3] it closed.",
            &["It opened.[12]", "Then [3] it closed."],
        ),
        (
            "Well... maybe. And... So it goes.",
            &["Well... maybe.", "And...", "So it goes."],
        ),
        (
            "这座大桥通车了。它很长！真的吗？是",
            &["这座大桥通车了。", "它很长！", "真的吗？", "是"],
        ),
        (
            "「はい。」と言った。終わり。",
            &["「はい。」", "と言った。", "終わり。"],
        ),
        ("यह सच है। वह गया।", &["यह सच है।", "वह गया।"]),
        ("# Title\nText of it.\n\nNext", &["Title", "Text of it.", "Next"]),
        (
            "Short title\nThe text begins. Ends",
            &["Short title", "The text begins.", "Ends"],
        ),
        (
            "- one item\n- two. And three\n1. four\n2) five",
            &["one item", "two.", "And three", "four", "five"],
        ),
        (
            "This line is so long that it was certainly wrapped by its author at the\nEnd of the page.",
            &["This line is so long that it was certainly wrapped by its author at the\nEnd of the page."],
        ),
        ("short but\ncontinued", &["short but\ncontinued"]),
        (
            "Page 5. The year was 1987. It rained.",
            &["Page 5.", "The year was 1987.", "It rained."],
        ),
        ("  \n\n ", &[]),
        ("", &[]),
        ("...", &["..."]),
        ("- ", &[]),
    ] {
        assert_eq!(texts(text), expected, "{text}");
    }
}

#[test]
fn hostile_texts_take_bounded_time() {
    for part in [".", "\n", ". \n", "[", "a.", "1. ", "# ", "。", " ", "[1]", "\"."] {
        let text = part.repeat(200_000);
        assert!(sentences(&text).len() <= 200_000, "{part}");
    }
}

proptest! {
    #[test]
    fn sentences_are_in_order(text in "([a-zA-Z]{1,4}|[.!?。 \\n#-]|1\\.|\\PC){0,80}") {
        let chars: Vec<char> = text.chars().collect();
        let mut last = 0;
        for span in sentences(&text) {
            prop_assert!(last <= span.start && span.start < span.end && span.end <= chars.len());
            prop_assert!(!chars[span.start].is_whitespace() && !chars[span.end - 1].is_whitespace());
            // Only marks of headings and items are between sentences.
            let gap = &chars[last..span.start];
            prop_assert!(gap.iter().all(|c| c.is_whitespace() || !c.is_alphabetic()), "{:?}", gap);
            last = span.end;
        }
    }
}
