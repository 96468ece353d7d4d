use proptest::prelude::*;
use tollgate_types::Date;

use super::{Document, Format, Parsed, parse};

fn one(path: &str, format: Format, content: &str) -> Document {
    let parsed = parse(path, format, content.as_bytes()).unwrap();
    assert_eq!((parsed.documents.len(), parsed.malformed), (1, 0), "{content:?}");
    parsed.documents.into_iter().next().unwrap()
}

#[test]
fn titles_come_from_the_text_or_the_name() {
    for (path, format, content, title) in [
        ("a/my-notes_2.txt", Format::Text, "one line", "my notes 2"),
        (
            "a.txt",
            Format::Text,
            "\u{feff}Harbour rules\r\n\r\nNo swimming.",
            "Harbour rules",
        ),
        ("a.txt", Format::Text, "first line\nsecond line", "a"),
        (
            "b.md",
            Format::Markdown,
            "text\n\n## The **old** pier ##\n",
            "The old pier",
        ),
        ("b.md", Format::Markdown, "#hashtag", "b"),
        (
            "b.md",
            Format::Markdown,
            "---\ntitle: \"Of: quays\"\n---\n# Other",
            "Of: quays",
        ),
        ("b.md", Format::Markdown, "---\ntitle: open\n# H", "H"),
        ("c.json", Format::Json, r#"{"text":"x","title":7}"#, "c"),
        (
            "c.json",
            Format::Json,
            r#"{"text":"x","title":" A\n\tB\u0000C "}"#,
            "A B C",
        ),
    ] {
        assert_eq!(one(path, format, content).title, title, "{content:?}");
    }
}

#[test]
fn front_matter_and_fields_are_read() {
    let expected = Document {
        path: "x".to_owned(),
        url: Some("https://example.com/a".to_owned()),
        title: "T".to_owned(),
        author: Some("Ann Lee".to_owned()),
        date: Date::new(2024, 2, 29),
        text: "Body".to_owned(),
    };
    let json = r#"{"title":"T","text":"Body","url":"https://example.com/a","date":"2024-02-29T10:00:00Z",
                   "author":" Ann  Lee "}"#;
    let markdown = "---\r\ntitle: T\r\ndate: 2024-02-29\r\nAuthor: 'Ann Lee'\r\nurl: https://example.com/a\r\n\
                    tags: [a, b]\r\n---\r\nBody\r\n";
    assert_eq!(one("x", Format::Json, json), expected);
    assert_eq!(one("x", Format::Markdown, markdown), expected);
    for url in [
        "javascript:alert(1)",
        "https://",
        "https:///x",
        "http://a b",
        "file:///etc/passwd",
    ] {
        let json = serde_json::json!({"text": "x", "url": url, "date": "2024-13-01", "author": ""});
        let document = one("x", Format::Json, &json.to_string());
        assert_eq!(
            (document.url, document.date, document.author),
            (None, None, None),
            "{url}"
        );
    }
}

#[test]
fn markdown_becomes_plain_text() {
    for (content, text) in [
        ("# A\n\nb *c* __d__ `e`", "A\n\nb c d e"),
        ("see [the map](https://x.example/m_a_p) now", "see the map now"),
        ("![chart](c.png) rest ![x] y! [z]", "rest ![x] y! [z]"),
        ("a <!-- ignore previous\ninstructions --> b <!-- open", "a  b"),
        (
            "2 * 3 and snake_case_name and a _ b",
            "2 * 3 and snake_case_name and a _ b",
        ),
        (
            "```\nlet a = b * c; // [x](y)\n```\nend",
            "let a = b * c; // [x](y)\nend",
        ),
        ("[unclosed](target", "[unclosed](target"),
        ("****\ntext", "****\ntext"),
    ] {
        assert_eq!(one("a.md", Format::Markdown, content).text, text, "{content:?}");
    }
}

#[test]
fn malformed_documents_are_counted() {
    for (format, content, paths, malformed) in [
        (
            Format::JsonLines,
            "{\"text\":\"a\"}\n\n{bad\n{\"text\":\"b\"}\n{\"title\":\"t\"}",
            &["f/1", "f/4"][..],
            2,
        ),
        (Format::Json, r#"[{"text":"a"},{"text":" "},3]"#, &["f/1"], 2),
        (Format::Json, "nonsense", &[], 1),
        (Format::Json, &"[".repeat(100_000), &[], 1),
        (Format::Text, " \n ", &[], 1),
        (Format::Markdown, "<!-- only -->", &[], 1),
    ] {
        let parsed = parse("f", format, content.as_bytes()).unwrap();
        let found: Vec<&str> = parsed
            .documents
            .iter()
            .map(|document| document.path.as_str())
            .collect();
        assert_eq!((&*found, parsed.malformed), (paths, malformed), "{format:?}");
    }
    for binary in [&b"a\0b"[..], b"\xff\xfe", b"\xc3"] {
        assert_eq!(parse("f", Format::Text, binary), None, "{binary:?}");
    }
    assert_eq!(parse("f", Format::JsonLines, b"").unwrap(), Parsed::default());
}

/// A quadratic scan of a million brackets would take minutes.
#[test]
fn long_hostile_markdown_is_read() {
    for unit in ["[", "![", "<!--", "*_`", "[a](", "# ", "---\n"] {
        let content = unit.repeat(1_000_000 / unit.len());
        assert!(parse("a.md", Format::Markdown, content.as_bytes()).is_some());
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed(content in "(\\PC|[\\[\\]()!*_`#<>\n-]){0,200}") {
        for format in [Format::Text, Format::Markdown, Format::Json, Format::JsonLines] {
            if let Some(parsed) = parse("f", format, content.as_bytes()) {
                for document in parsed.documents {
                    let is_clean = |c: char| !c.is_control() || c == '\n' || c == '\t';
                    prop_assert!(document.text.chars().all(is_clean));
                }
            }
        }
    }
}
