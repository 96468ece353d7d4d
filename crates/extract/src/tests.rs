//! Tests of whole pages, and of hostile ones.

mod hostile;
mod pdf;

use tollgate_types::Date;
use tollgate_upstream::{ExtractError, ExtractedPage, PageHead};

use crate::extract;

/// Extracts content of a media type.
pub(crate) fn extracted(media_type: &str, bytes: impl AsRef<[u8]>) -> Result<ExtractedPage, ExtractError> {
    let head = PageHead {
        url: "https://www.example.com/a/page?x=1".to_owned(),
        media_type: media_type.to_owned(),
        charset: None,
        today: Date::new(2026, 11, 29).unwrap(),
    };
    extract(&head, bytes.as_ref())
}

/// Extracts an HTML page.
pub(crate) fn page(html: &str) -> ExtractedPage {
    extracted("text/html", html).unwrap_or_else(|error| panic!("{error}: {html:.200}"))
}

#[test]
fn kinds_come_from_type_and_content() {
    for (media_type, content, text) in [
        ("text/html", "<p>One<p>Two", "One\n\nTwo"),
        ("application/xhtml+xml", "<p>One</p>", "One"),
        ("", "<!DOCTYPE html><p>One", "One"),
        ("application/octet-stream", " <HTML><p>One", "One"),
        ("text/plain", "<!doctype html><p>One", "One"),
        ("text/plain", "a < b\r\n\r\n\r\nc", "a < b\n\nc"),
        ("text/csv", "a,b\n1,2", "a,b\n1,2"),
        ("text/markdown", "# One\n\n*two* [three](u)", "One\n\ntwo three"),
        ("text/xml", "<html><p>One", "One"),
        (
            "application/json",
            r#"{"a":{"b":[1,"x",null]},"c":true}"#,
            "a.b: 1\na.b: x\n\nc: true",
        ),
        ("application/ld+json", r#"["x","y"]"#, "x\ny"),
    ] {
        let page = extracted(media_type, content).unwrap_or_else(|error| panic!("{media_type}: {error}"));
        assert_eq!(page.text, text, "{media_type}: {content}");
    }
    for (media_type, content, error) in [
        ("image/png", &b"\x89PNG\r\n"[..], ExtractError::UnsupportedType),
        ("text/html", b"\x89PNG\r\n", ExtractError::UnsupportedType),
        ("text/plain", b"a\0\0\0b", ExtractError::UnsupportedType),
        ("application/zip", b"abc", ExtractError::UnsupportedType),
        ("application/pdf", b"no document", ExtractError::UnsupportedType),
        (
            "text/xml",
            b"<rss><item>a</item></rss>",
            ExtractError::UnsupportedType,
        ),
        ("application/json", b"{\"a\":", ExtractError::Malformed),
        ("text/plain", b" \n ", ExtractError::NoText),
        ("text/html", b"", ExtractError::NoText),
        (
            "text/html",
            b"<p>---</p><script>var a</script>",
            ExtractError::NoText,
        ),
    ] {
        assert_eq!(
            extracted(media_type, content),
            Err(error),
            "{media_type}: {content:?}"
        );
    }
}

#[test]
fn articles_are_separated_from_navigation() {
    let links = "<li><a href='/x'>A link of the menu to another page</a></li>".repeat(30);
    let sentence = "The ferry crosses the strait twice a day, in summer and in winter. ";
    let paragraphs = format!("<p>{}</p>", sentence.repeat(5)).repeat(8);
    let html = format!(
        "<html lang=en><title>The ferry | Harbour</title><body><nav><ul>{links}</ul></nav>\
         <div class=content><h1>The ferry</h1>{paragraphs}<h2>Prices</h2><ul><li>Adults: 12 euros</li>\
         <li>Children: 6 euros</li></ul>{paragraphs}</div><footer><ul>{links}</ul></footer></body></html>"
    );
    let page = page(&html);
    assert!(!page.text.contains("A link of the menu"), "{:.500}", page.text);
    assert!(
        page.text
            .contains("\n\nPrices\n\nAdults: 12 euros\nChildren: 6 euros\n\n"),
        "{}",
        page.text
    );
    assert_eq!(page.text.matches("The ferry crosses").count(), 80);
    assert_eq!(page.language.as_deref(), Some("en"));
    assert_eq!(page.title, "The ferry | Harbour");
}

#[test]
fn pages_without_an_article_are_read_whole() {
    let rows: String = (0..40)
        .map(|row| format!("<tr><td>Station {row}<td>{}&nbsp;m</tr>", row * 10))
        .collect();
    let page = page(&format!("<h1>Heights</h1><table>{rows}</table>"));
    assert!(
        page.text
            .starts_with("Heights\n\nStation 0 | 0 m\nStation 1 | 10 m\n"),
        "{}",
        page.text
    );
    assert_eq!(page.title, "Heights");
}

#[test]
fn metadata_is_read() {
    let page = page(
        r#"<html lang="de_DE"><head><meta property="og:title" content=" A &amp; B "><meta name=author content="Ann Lee">
        <meta name="article:author" content="https://example.com/ann">
        <meta property="article:published_time" content="2024-02-29T10:00:00+01:00">
        <link rel=canonical href="/a/page#x"><title>Other</title></head><body><p>Text"#,
    );
    assert_eq!(page.title, "A & B");
    assert_eq!(page.author.as_deref(), Some("Ann Lee"));
    assert_eq!(page.date, Date::new(2024, 2, 29));
    assert_eq!(page.language.as_deref(), Some("de-DE"));
    assert_eq!(
        page.canonical_url.as_deref(),
        Some("https://www.example.com/a/page")
    );
    assert!(!page.has_hidden_text && !page.is_truncated);
}

#[test]
fn dates_come_from_the_best_statement() {
    let linked = |json: &str| format!("<script type='application/ld+json'>{json}</script>");
    let graph = r#"{"@context":"x","@graph":[{"@type":"WebSite"},{"@type":"Article","headline":"H",
        "datePublished":"2023-05-06","author":[{"name":"Bo"},{"name":"Cy"}]}]}"#;
    for (html, date) in [
        (
            r#"<meta itemprop=datePublished content=2021-01-02>"#.to_owned(),
            Date::new(2021, 1, 2),
        ),
        (
            r#"<meta name=date content="Nov 3, 2025">"#.to_owned(),
            Date::new(2025, 11, 3),
        ),
        (linked(graph), Date::new(2023, 5, 6)),
        (
            linked(r#"[{"datePublished":"2022-01-01T00:00:00Z"}]"#),
            Date::new(2022, 1, 1),
        ),
        (linked("{broken"), None),
        (
            linked(r#"{"@type":"Article"}"#) + &linked(graph),
            Date::new(2023, 5, 6),
        ),
        (
            "<time datetime=2020-02-02>then</time>".to_owned(),
            Date::new(2020, 2, 2),
        ),
        ("<time datetime=2031-02-02>later</time>".to_owned(), None),
        (
            "<div hidden><time datetime=2020-02-02>x</time></div>".to_owned(),
            None,
        ),
        (
            linked(graph) + "<meta name=dc.date content=2019-01-01><time datetime=2020-02-02>x</time>",
            Date::new(2019, 1, 1),
        ),
        ("<p>On 2020-02-02 it rained".to_owned(), None),
    ] {
        assert_eq!(page(&format!("{html}<p>Text")).date, date, "{html}");
    }
    let page = page(&format!("{}<p>Text", linked(graph)));
    assert_eq!(
        (page.title.as_str(), page.author.as_deref()),
        ("H", Some("Bo, Cy"))
    );
}

#[test]
fn canonical_urls_stay_on_their_host() {
    for (href, expected) in [
        ("/b", Some("https://www.example.com/b")),
        ("https://example.com/b", Some("https://example.com/b")),
        ("//example.com/b", Some("https://example.com/b")),
        ("https://other.example/b", None),
        ("https://user@example.com/b", None),
        ("javascript:alert(1)", None),
        ("https://example.com:x/", None),
    ] {
        let page = page(&format!("<link rel=canonical href='{href}'><p>Text"));
        assert_eq!(page.canonical_url.as_deref(), expected, "{href}");
    }
}

#[test]
fn markdown_has_front_matter_and_no_hidden_html() {
    let page = extracted(
        "text/markdown",
        "---\ntitle: T\ndate: 2024-01-02\nauthor: Ann\n---\n# H\n\n- one\n- two\n\n<!-- secret -->\n\n\
         <div style=\"display:none\">secret</div>\n\n```\ncode  x\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    )
    .unwrap();
    assert_eq!((page.title.as_str(), page.date), ("T", Date::new(2024, 1, 2)));
    assert_eq!(page.text, "H\n\none\ntwo\n\ncode  x\n\na | b\n1 | 2");
}

#[test]
fn names_are_short_lines() {
    let page = page(&format!(
        "<title>a\u{202e}b\n c{}</title><p>Text",
        " x".repeat(400)
    ));
    assert!(page.title.starts_with("ab c x x"), "{}", page.title);
    assert!(page.title.chars().count() <= 300);
}
