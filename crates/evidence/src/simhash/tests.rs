use super::*;

/// Returns a text of different words.
fn article(seed: u64, words: u64) -> String {
    let word = |number: u64| format!("w{}", mix(seed * 1_000 + number % 170) % 5_000);
    (0..words).map(word).collect::<Vec<String>>().join(" ")
}

#[test]
fn similar_texts_are_near_duplicates() {
    let article_text = article(1, 400);
    let hash = simhash(&article_text);
    let formatted = format!("  {}!", article_text.to_uppercase().replace(' ', ",\n the "));
    let extended = format!("{article_text} copyright 2024");
    for (text, expected) in [
        (article_text.clone(), true),
        (formatted, true),
        (extended, true),
        (article(2, 400), false),
        (article_text[..article_text.len() / 4].to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(is_near_duplicate(hash, simhash(&text)), expected, "{text}");
    }
}

#[test]
fn distances_are_limited() {
    for (a, b, expected) in [
        (0xf0, 0xf0, true),
        (0xf0, 0xf7, true),
        (0xf0, 0xff, false),
        (0, 0, false),
        (0, 1, false),
        (u64::MAX, u64::MAX - 1, true),
    ] {
        assert_eq!(is_near_duplicate(a, b), expected, "{a:x} {b:x}");
    }
    assert_eq!(simhash("the of, and!"), 0);
    assert_ne!(simhash("bridge"), 0);
}
