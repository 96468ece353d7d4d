use tollgate_types::Date;

use super::{FrontMatter, split};

#[test]
fn fields_are_split_from_the_document() {
    let full = FrontMatter {
        title: Some("Of: quays".to_owned()),
        author: Some("Ann Lee".to_owned()),
        date: Date::new(2024, 2, 29),
        url: Some("https://example.com/a".to_owned()),
    };
    let document = "---\r\ntitle: \"Of: quays\"\r\ndate: 2024-02-29\r\nAuthor: 'Ann Lee'\r\n\
                    url: https://example.com/a\r\ntags: [a, b]\r\n---\r\nBody\r\n";
    for (document, fields, body) in [
        (document, full, "Body\r\n"),
        ("Body", FrontMatter::default(), "Body"),
        (
            "---\ntitle: open\n# H",
            FrontMatter::default(),
            "---\ntitle: open\n# H",
        ),
        (
            "---\ntitle: ''\ndate: soon\n...\nBody",
            FrontMatter::default(),
            "Body",
        ),
        (
            "--- \ntitle: a\n---\n",
            FrontMatter::default(),
            "--- \ntitle: a\n---\n",
        ),
        ("---\n---\n", FrontMatter::default(), ""),
        ("", FrontMatter::default(), ""),
    ] {
        assert_eq!(split(document), (fields, body), "{document:?}");
    }
}
