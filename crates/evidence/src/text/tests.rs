use proptest::prelude::*;

use super::*;

#[test]
fn texts_are_cleaned() {
    for (text, expected) in [
        ("", ""),
        ("plain\ttext", "plain\ttext"),
        ("a\r\nb\rc\u{2028}d", "a\nb\nc\nd"),
        ("  a  \n\n \t\n\n  b \n", "a\n\n  b"),
        ("a\u{0}b\u{7}c\u{7f}d\u{9b}e", "abcde"),
        (
            "zero\u{200b}width\u{feff} soft\u{ad}hyphen",
            "zerowidth softhyphen",
        ),
        ("a\u{202e}b\u{2066}c\u{200f}d", "abcd"),
        ("tag\u{e0041}\u{e0042} vs\u{fe0f}\u{e0100}", "tag vs"),
        ("e\u{301} e\u{200b}\u{301} \u{212b}", "é é Å"),
        ("\u{1112}\u{1161}\u{11ab}글", "한글"),
        ("\u{200b}\n\u{ad}", ""),
    ] {
        assert_eq!(clean(text), expected, "{text:?}");
    }
}

#[test]
fn long_texts_are_cut() {
    let long = clean(&"é ".repeat(MAX_SOURCE_CHARS));
    // The last character is white space, and is removed.
    assert_eq!(long.chars().count(), MAX_SOURCE_CHARS - 1);
    assert_eq!(
        clean(&"é".repeat(MAX_SOURCE_CHARS + 1)).chars().count(),
        MAX_SOURCE_CHARS
    );
    let spaces = format!("a{}b", " ".repeat(2 * MAX_SOURCE_CHARS));
    assert_eq!(clean(&spaces), "a");
}

#[test]
fn parts_are_found_by_code_point() {
    let text = "a🌉é\u{301}大".repeat(300);
    let index = CharText::new(&text);
    assert_eq!((index.len(), index.as_str()), (1_500, text.as_str()));
    assert_eq!(index.slice(0, 5), Some("a🌉é\u{301}大"));
    assert_eq!(index.slice(1_498, 1_500), Some("\u{301}大"));
    assert_eq!(
        index.span(Span {
            start: 1_281,
            end: 1_282
        }),
        Some("🌉")
    );
    for (start, end) in [(1, 0), (0, 1_501), (1_501, 1_501)] {
        assert_eq!(index.slice(start, end), None, "{start} {end}");
    }
    assert_eq!(CharText::new("").slice(0, 0), Some(""));
    assert_eq!(CharText::new("").char_of_byte(3), 0);
}

proptest! {
    #[test]
    fn cleaning_is_idempotent(text in "(\\PC|[ \\n\\r\\t\\x00-\\x1f\u{ad}\u{200b}\u{300}-\u{310}\u{1100}-\u{11ff}\u{e0020}]){0,60}") {
        let once = clean(&text);
        prop_assert_eq!(clean(&once), once.clone());
        prop_assert!(!once.contains("\n\n\n") && !once.chars().any(is_invisible));
    }

    #[test]
    fn offsets_agree_with_the_characters(text in "\\PC{0,700}", a in 0_usize..700, b in 0_usize..700) {
        let index = CharText::new(&text);
        let chars: Vec<char> = text.chars().collect();
        let (start, end) = (a.min(b).min(chars.len()), a.max(b).min(chars.len()));
        let slice: String = chars[start..end].iter().collect();
        prop_assert_eq!(index.slice(start, end), Some(slice.as_str()));
        let byte = index.byte_of_char(start).unwrap();
        prop_assert_eq!(index.char_of_byte(byte), start);
    }
}
