use proptest::prelude::*;

use super::*;
use crate::script::word_count;

#[test]
fn passages_end_with_paragraphs() {
    let sentence = "The bridge of Dalen carries nine trains every hour. ";
    let paragraph = |sentences: usize| sentence.repeat(sentences);
    let words = |text: &str| -> Vec<usize> {
        passages(text)
            .iter()
            .map(|passage| word_count(&passage.text))
            .collect()
    };
    // 9 words a sentence.
    assert_eq!(words(&paragraph(60)), [243, 243, 54]);
    let text = format!("{}\n\n{}\n\n{}", paragraph(21), paragraph(10), paragraph(25));
    assert_eq!(words(&text), [189, 90 + 153, 72]);
    assert_eq!(words("short"), [1]);
    assert!(passages("").is_empty() && passages(" \n ").is_empty());
}

#[test]
fn long_sentences_are_divided() {
    for (text, count) in [
        ("word ".repeat(1_000), 4),
        ("桥".repeat(1_000), 2),
        ("x".repeat(40_000), 10),
        ("- item\n".repeat(1_000), 8),
    ] {
        let found = passages(&text);
        assert_eq!(found.len(), count, "{}", &text[..9]);
        assert!(
            found
                .iter()
                .all(|passage| word_count(&passage.text) <= MAX_WORDS + 1)
        );
    }
}

proptest! {
    #[test]
    fn passages_cover_the_text(
        parts in prop::collection::vec("[a-zA-Z]{1,9}[.!,]? |\\n\\n|- |大桥通车。|\\PC|([a-z]{3} ){300}|x{5000}", 0..60),
    ) {
        let text = parts.concat();
        let chars: Vec<char> = text.chars().collect();
        let mut last = 0;
        for passage in passages(&text) {
            let span = passage.span;
            prop_assert!(last <= span.start && span.start < span.end);
            prop_assert!(chars[last..span.start].iter().all(|c| c.is_whitespace()));
            prop_assert_eq!(&passage.text, &chars[span.start..span.end].iter().collect::<String>());
            prop_assert!(word_count(&passage.text) <= MAX_WORDS + 2);
            last = span.end;
        }
        prop_assert!(chars[last..].iter().all(|c| c.is_whitespace()));
    }
}
