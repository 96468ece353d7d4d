use std::collections::BTreeMap;

use tollgate_types::Date;

use super::{comparison, fill, first_sentence, join, long_date, movement, number, ordinal, with_article};

#[test]
fn numbers_have_commas() {
    for (value, decimals, text) in [
        (0.0, 0, "0"),
        (999.0, 0, "999"),
        (1_000.0, 0, "1,000"),
        (1_234_567.891, 2, "1,234,567.89"),
        (-123_456.0, 0, "-123,456"),
        (9.96, 1, "10.0"),
    ] {
        assert_eq!(number(value, decimals), text);
    }
}

#[test]
fn figures_are_compared() {
    for (before, now, compared, moved) in [
        (
            100.0,
            104.24,
            "4.2 per cent more than in 2018",
            "rose by 4.2 per cent",
        ),
        (
            100.0,
            90.0,
            "10.0 per cent less than in 2018",
            "fell by 10.0 per cent",
        ),
        (100.0, 100.05, "almost the same as in 2018", "hardly changed"),
        (0.0, 5.0, "almost the same as in 2018", "hardly changed"),
    ] {
        assert_eq!(comparison(before, now, 2018), compared);
        assert_eq!(movement(before, now), moved);
    }
}

#[test]
fn phrases_are_filled() {
    let values = BTreeMap::from([
        ("a".to_owned(), "one".to_owned()),
        ("b_c".to_owned(), "{a}".to_owned()),
    ]);
    for (template, text) in [
        ("{a} and {b_c}.", "one and {a}."),
        ("{unknown} {a}", "{unknown} one"),
        ("open { a", "open { a"),
    ] {
        assert_eq!(fill(template, &values), text);
    }
    assert_eq!(join(&[]), "");
    assert_eq!(join(&["a"]), "a");
    assert_eq!(join(&["a", "b", "c"]), "a, b and c");
    assert_eq!(long_date(Date::new(2024, 2, 29).unwrap()), "29 February 2024");
    assert_eq!(
        (ordinal(0), ordinal(11), ordinal(12)),
        ("first", "twelfth", "last")
    );
    assert_eq!(with_article("engineer"), "an engineer");
    assert_eq!(with_article("capital of all"), "the capital of all");
    assert_eq!(first_sentence("One. Two."), "One.");
}
