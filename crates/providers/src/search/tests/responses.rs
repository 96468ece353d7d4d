//! Tests of the responses of the services.

use serde_json::{Value, json};
use tollgate_types::Date;
use tollgate_upstream::{MAX_HIT_TEXT_CHARS, SearchHit};

use super::{Fixture, KINDS, query};

/// Returns a response with two results, in the form of the service's documentation.
pub(super) fn two_hits(kind: &str) -> Value {
    match kind {
        "brave" => json!({
            "type": "search",
            "query": {"original": "long pier", "more_results_available": true},
            "mixed": {"type": "mixed", "main": []},
            "web": {"type": "search", "family_friendly": true, "results": [
                {"title": "The <strong>pier</strong> &amp; the sea", "url": "https://example.com/pier",
                 "description": "It is <strong>long</strong>.", "page_age": "2026-03-01T08:00:00",
                 "age": "March 1, 2026", "language": "en", "extra_snippets": ["It is old."],
                 "profile": {"name": "Example"}, "meta_url": {"hostname": "example.com"}},
                {"title": "Harbour", "url": "https://example.org/", "description": "A harbour."}
            ]}
        }),
        "exa" => json!({
            "requestId": "b5947044", "resolvedSearchType": "neural", "costDollars": {"total": 0.007},
            "results": [
                {"id": "https://example.com/pier", "title": "The pier & the sea",
                 "url": "https://example.com/pier", "publishedDate": "2026-03-01T08:00:00.000Z",
                 "author": "Ann", "text": "The pier\r\n\r\n\r\nIt is long.", "score": 0.3,
                 "highlights": ["It is long.", "It is old."], "highlightScores": [0.4, 0.3]},
                {"id": "https://example.org/", "title": null, "url": "https://example.org/",
                 "publishedDate": null, "author": null, "text": "", "highlights": []}
            ]
        }),
        "tavily" => json!({
            "query": "long pier", "follow_up_questions": null, "answer": null, "images": [],
            "results": [
                {"url": "https://example.com/pier", "title": "The pier & the sea", "score": 0.9,
                 "content": "It is long. … It is old.", "raw_content": "The pier\n\nIt is long.",
                 "published_date": "Sun, 01 Mar 2026 08:00:00 GMT"},
                {"url": "https://example.org/", "title": "Harbour", "score": 0.1,
                 "content": "A harbour.", "raw_content": null}
            ],
            "response_time": 1.2, "request_id": "1"
        }),
        "serper" => json!({
            "searchParameters": {"q": "long pier", "type": "search", "num": 10, "engine": "google"},
            "organic": [
                {"title": "The pier & the sea", "link": "https://example.com/pier",
                 "snippet": "It is long. … It is old.", "date": "2 weeks ago", "position": 1},
                {"title": "Harbour", "link": "https://example.org/", "snippet": "A harbour.", "position": 2}
            ],
            "peopleAlsoAsk": [], "credits": 1
        }),
        "perplexity" => json!({
            "results": [
                {"title": "The pier & the sea", "url": "https://example.com/pier",
                 "snippet": "It is long. … It is old.", "date": "2026-03-01", "last_updated": "2026-03-02"},
                {"title": "Harbour", "url": "https://example.org/", "snippet": "A harbour.",
                 "date": null, "last_updated": null}
            ],
            "id": "e38104d5", "server_time": null
        }),
        "searxng" => json!({
            "query": "long pier", "number_of_results": 0,
            "results": [
                {"template": "default.html", "url": "https://example.com/pier", "engine": "brave",
                 "title": "The pier & the sea", "content": "It is long. … It is old.", "score": 4.0,
                 "publishedDate": "2026-03-01T08:00:00", "engines": ["brave", "bing"], "positions": [1, 2],
                 "parsed_url": ["https", "example.com", "/pier", "", "", ""], "category": "general"},
                {"url": "https://example.org/", "title": "Harbour", "content": "A harbour.",
                 "publishedDate": null, "engine": "bing"}
            ],
            "answers": [], "corrections": [], "infoboxes": [], "suggestions": [],
            "unresponsive_engines": [["duckduckgo", "CAPTCHA"]]
        }),
        _ => json!({
            "batchcomplete": true, "continue": {"sroffset": 2, "continue": "-||"},
            "query": {
                "general": {"sitename": "Wiki", "server": "//wiki.example.com", "articlepath": "/wiki/$1",
                    "mainpage": "Main Page"},
                "searchinfo": {"totalhits": 2},
                "search": [
                    {"ns": 0, "title": "Pier & sea/Ö", "pageid": 1, "timestamp": "2026-03-01T08:00:00Z",
                     "snippet": "It is <span class=\"searchmatch\">long</span>. &quot;Old&quot;"},
                    {"ns": 0, "title": "Harbour", "pageid": 2, "timestamp": "2026-02-01T08:00:00Z",
                     "snippet": "A harbour."}
                ]
            }
        }),
    }
}

#[tokio::test]
async fn results_become_hits() {
    for kind in KINDS {
        let fixture = Fixture::of(kind.name).await;
        fixture.reply_json(&two_hits(kind.name));
        let hits = fixture.search(&query("long pier")).await.unwrap();
        let mut first = SearchHit {
            url: "https://example.com/pier".to_owned(),
            title: "The pier & the sea".to_owned(),
            snippet: "It is long. … It is old.".to_owned(),
            date: Date::parse("2026-03-01"),
            text: None,
            is_readable: false,
            is_date_filtered: false,
        };
        let mut second = SearchHit {
            url: "https://example.org/".to_owned(),
            title: "Harbour".to_owned(),
            snippet: "A harbour.".to_owned(),
            date: None,
            ..first.clone()
        };
        match kind.name {
            "exa" => {
                first.text = Some("The pier\n\nIt is long.".to_owned());
                second.title.clear();
                second.snippet.clear();
            }
            "tavily" => first.text = Some("The pier\n\nIt is long.".to_owned()),
            "mediawiki" => {
                first.url = "http://wiki.example.com/wiki/Pier_%26_sea/%C3%96".to_owned();
                first.title = "Pier & sea/Ö".to_owned();
                first.snippet = "It is long. \"Old\"".to_owned();
                second.url = "http://wiki.example.com/wiki/Harbour".to_owned();
                second.date = Date::parse("2026-02-01");
            }
            _ => {}
        }
        assert_eq!(hits, [first, second], "{}", kind.name);
    }
}

#[tokio::test]
async fn results_that_are_no_pages_are_dropped() {
    let fixture = Fixture::of("searxng").await;
    let long = format!("https://example.com/{}", "a".repeat(2_048));
    let longest = format!("https://example.com/{}", "a".repeat(2_028));
    fixture.reply_json(&json!({"results": [
        {"url": "javascript:alert(1)", "title": "no"},
        {"url": "magnet:?xt=1", "title": "no"},
        {"url": "file:///etc/passwd", "title": "no"},
        {"url": "not a url", "title": "no"},
        {"url": null, "title": "no"},
        {"url": 5, "title": "no"},
        "text",
        {"title": "no"},
        {"url": long, "title": "no"},
        {"url": longest, "title": 7, "content": {"x": 1}, "publishedDate": "soon"},
        {"url": " https://example.com/a ", "title": "t".repeat(301), "content": "s".repeat(2_001)},
    ]}));
    let hits = fixture.search(&query("pier")).await.unwrap();
    assert_eq!(hits.len(), 2);
    assert_eq!(hits[0].url, longest);
    assert_eq!((hits[0].title.as_str(), hits[0].date), ("", None));
    assert_eq!(hits[1].url, "https://example.com/a");
    assert_eq!((hits[1].title.len(), hits[1].snippet.len()), (300, 2_000));
}

#[tokio::test]
async fn texts_are_cut_at_the_maximum() {
    let fixture = Fixture::of("tavily").await;
    let fits = "ä".repeat(MAX_HIT_TEXT_CHARS);
    let result =
        |text: &str| json!({"url": "https://example.com/", "title": "", "content": "", "raw_content": text});
    fixture.reply_json(&json!({"results": [result(&fits), result(&format!("{fits}x"))]}));
    for hit in fixture.search(&query("pier")).await.unwrap() {
        assert_eq!(hit.text.as_deref(), Some(fits.as_str()));
    }
}
