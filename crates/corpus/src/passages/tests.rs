use proptest::prelude::*;

use super::{MAX_BYTES, MAX_WORDS, passages};

fn words_of(text: &str) -> Vec<usize> {
    let count = |range: std::ops::Range<usize>| text[range].split_whitespace().count();
    passages(text).into_iter().map(count).collect()
}

#[test]
fn passages_end_at_boundaries() {
    let sentence = "one two three four five six seven eight nine ten. ";
    let paragraph = |sentences: usize| format!("{}\n\n", sentence.repeat(sentences));
    for (text, expected) in [
        (String::new(), vec![]),
        ("   ".to_owned(), vec![0]),
        ("short".to_owned(), vec![1]),
        (paragraph(18) + &paragraph(5), vec![180, 50]),
        (paragraph(10) + &paragraph(8) + &paragraph(3), vec![180, 30]),
        (paragraph(60), vec![250, 250, 100]),
        ("word ".repeat(700), vec![320, 320, 60]),
    ] {
        assert_eq!(words_of(&text), expected, "{} bytes", text.len());
    }
}

#[test]
fn texts_without_spaces_are_split_by_length() {
    let text = "語".repeat(333_334);
    let found = passages(&text);
    assert!(found.iter().all(|range| range.len() <= MAX_BYTES));
    assert_eq!(found.len(), text.len().div_ceil(MAX_BYTES / 3 * 3));
    assert!(passages(&" ".repeat(1_000_000)).len() < 300);
}

proptest! {
    #[test]
    fn passages_cover_the_text(text in "(\\PC|\\s){0,2000}", repeat in 1usize..20) {
        let text = text.repeat(repeat);
        let mut end = 0;
        for range in passages(&text) {
            prop_assert_eq!(range.start, end);
            prop_assert!(!range.is_empty() && range.len() <= MAX_BYTES);
            prop_assert!(text[range.clone()].split_whitespace().count() <= MAX_WORDS + 1);
            end = range.end;
        }
        prop_assert_eq!(end, text.len());
    }
}
