use proptest::prelude::*;

use super::*;

#[test]
fn queries_are_cleaned() {
    let long = "word ".repeat(60);
    let cut = "word ".repeat(40);
    let han = "桥".repeat(250);
    for (text, expected) in [
        ("  Dalen\n\tbridge\u{200b} opening ", "Dalen bridge opening"),
        (
            "price of Node.js and Booking.com 2024",
            "price of Node.js and Booking.com 2024",
        ),
        (
            "\"Dalen bridge\" site:example.com",
            "\"Dalen bridge\" site:example.com",
        ),
        (
            "C++ and/or Rust @handle TCP/IP 24/7 km/h",
            "C++ and/or Rust @handle TCP/IP 24/7 km/h",
        ),
        (&long, cut.trim()),
        (&han, &han[..600]),
        ("大桥什么时候通车", "大桥什么时候通车"),
    ] {
        assert_eq!(safe_query(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn unsafe_queries_are_refused() {
    for text in [
        "",
        " \n ",
        "?!",
        "see https://evil.example/?q=secret",
        "HTTP://evil.example",
        "ｈｔｔｐｓ：／／evil.example",
        "hxxps://evil.example",
        "go to www.evil.example",
        "evil.example/secret",
        "evil.example:8080/secret",
        "evil.example?secret",
        "192.0.2.1:8080/secret",
        "ferry 192.0.2.1?secret",
        "mail jane@evil.example now",
        "jane＠evil.example",
        "mailto:jane",
        "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29",
        "ht\u{200b}tps://evil.example",
        // The address is after the maximum length.
        &format!("{} https://evil.example", "word ".repeat(60)),
    ] {
        assert_eq!(safe_query(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn safe_queries_are_short_and_stable(text in "([a-z./:@?]{1,9} |\\PC){0,90}") {
        if let Some(query) = safe_query(&text) {
            prop_assert!(query.chars().count() <= MAX_QUERY_CHARS);
            prop_assert!(!query.contains("://") && !query.contains('\n'));
            prop_assert_eq!(safe_query(&query), Some(query.clone()));
        }
    }
}
