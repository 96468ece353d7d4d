//! Tests of the requests: path, headers, and query or JSON body.

use serde_json::{Value, json};
use tollgate_testkit::upstream::ReceivedRequest;
use tollgate_types::Date;
use tollgate_upstream::{Recency, SearchFilters};
use url::form_urlencoded;

use super::{Fixture, KEY, KINDS, filtered, query, sites};

/// Returns the minimal response of a kind without results.
pub(super) fn nothing_found(kind: &str) -> Value {
    match kind {
        "brave" => json!({"type": "search", "query": {"original": "pier"}}),
        "serper" => json!({"searchParameters": {"q": "pier"}, "credits": 1}),
        "mediawiki" => json!({"batchcomplete": true, "query": {
            "general": {"server": "https://wiki.example.com", "articlepath": "/wiki/$1"}, "search": []
        }}),
        _ => json!({"results": []}),
    }
}

/// Returns the parameters of a request as an object: of the query, or of the JSON body.
fn parameters(request: &ReceivedRequest) -> Value {
    match request.path.split_once('?') {
        Some((_, query)) => form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        None => request.json().unwrap(),
    }
}

#[tokio::test]
async fn requests_have_the_path_and_the_headers_of_the_service() {
    for kind in KINDS {
        let fixture = Fixture::of(kind.name).await;
        fixture.reply_json(&nothing_found(kind.name));
        assert_eq!(fixture.backend.name(), format!("my-{}", kind.name));
        assert_eq!(fixture.search(&query("long pier")).await.unwrap(), []);
        let request = fixture.last_request();
        let (method, path, header, value) = match kind.name {
            "brave" => ("GET", "/base/web/search", "x-subscription-token", KEY),
            "exa" => ("POST", "/base/search", "x-api-key", KEY),
            "mediawiki" => ("GET", "/base/api.php", "authorization", "Bearer"),
            "perplexity" => ("POST", "/base/search", "authorization", "Bearer"),
            "searxng" => ("GET", "/base/search", "authorization", "Bearer"),
            "serper" => ("POST", "/base/search", "x-api-key", KEY),
            _ => ("POST", "/base/search", "authorization", "Bearer"),
        };
        let value = match value {
            "Bearer" => format!("Bearer {KEY}"),
            key => key.to_owned(),
        };
        let sent_path = request.path.split('?').next().unwrap();
        assert_eq!((request.method.as_str(), sent_path), (method, path));
        assert_eq!(request.header(header), Some(value.as_str()), "{}", kind.name);
        assert_eq!(request.header("accept"), Some("application/json"));
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        if method == "POST" {
            assert_eq!(request.header("content-type"), Some("application/json"));
        }
    }
}

/// Each case: kind, filters, expected parameters, and whether they contain all date filters.
#[tokio::test]
async fn filters_become_parameters() {
    let date = |text: &str| Date::parse(text);
    let recency = |recency| SearchFilters {
        recency: Some(recency),
        ..SearchFilters::default()
    };
    let dates = |after: &str, before: &str| SearchFilters {
        after: date(after),
        before: date(before),
        ..SearchFilters::default()
    };
    let language = |tag: &str| SearchFilters {
        language: Some(tag.to_owned()),
        ..SearchFilters::default()
    };
    let both = SearchFilters {
        include: sites(&["example.com", "https://*.example.org/docs/"]),
        exclude: sites(&["ads.example.com", "example.org/old"]),
        ..SearchFilters::default()
    };
    let excluded = SearchFilters {
        exclude: both.exclude.clone(),
        ..SearchFilters::default()
    };
    let narrowed = SearchFilters {
        recency: Some(Recency::Month),
        ..dates("2026-03-01", "2026-03-10")
    };
    let none = SearchFilters::default;
    let brave = |more: Value| {
        merged(
            json!({"q": "long pier", "count": "20", "text_decorations": "false",
                "result_filter": "web", "extra_snippets": "true"}),
            more,
        )
    };
    let exa = |more: Value| {
        merged(
            json!({"query": "long pier", "numResults": 20,
                "contents": {"text": {"maxCharacters": 20_000}, "highlights": true}}),
            more,
        )
    };
    let tavily = |more: Value| {
        merged(
            json!({"query": "long pier", "max_results": 20, "include_raw_content": "text"}),
            more,
        )
    };
    let serper = |more: Value| merged(json!({"q": "long pier", "num": 10}), more);
    let perplexity = |more: Value| merged(json!({"query": "long pier", "max_results": 20}), more);
    let searxng = |more: Value| merged(json!({"q": "long pier", "format": "json", "pageno": "1"}), more);
    let mediawiki = json!({"action": "query", "list": "search", "srsearch": "long pier", "srlimit": "20",
        "srprop": "snippet|timestamp", "meta": "siteinfo", "siprop": "general", "format": "json",
        "formatversion": "2"});
    let site_query = "long pier site:example.com OR site:example.org -site:ads.example.com";
    let cases = [
        ("brave", none(), brave(json!({})), false),
        (
            "brave",
            recency(Recency::Hour),
            brave(json!({"freshness": "pd"})),
            true,
        ),
        (
            "brave",
            recency(Recency::Week),
            brave(json!({"freshness": "pw"})),
            true,
        ),
        (
            "brave",
            recency(Recency::Month),
            brave(json!({"freshness": "pm"})),
            true,
        ),
        (
            "brave",
            recency(Recency::Year),
            brave(json!({"freshness": "py"})),
            true,
        ),
        (
            "brave",
            dates("2025-01-31", ""),
            brave(json!({"freshness": "2025-01-31to2026-03-15"})),
            true,
        ),
        (
            "brave",
            dates("", "2025-01-31"),
            brave(json!({"freshness": "1970-01-01to2025-01-31"})),
            true,
        ),
        (
            "brave",
            narrowed.clone(),
            brave(json!({"freshness": "2026-03-01to2026-03-10"})),
            true,
        ),
        ("brave", both.clone(), brave(json!({"q": site_query})), false),
        (
            "brave",
            language("ja"),
            brave(json!({"search_lang": "jp"})),
            false,
        ),
        (
            "brave",
            language("zh-Hant-TW"),
            brave(json!({"search_lang": "zh-hant"})),
            false,
        ),
        (
            "brave",
            language("pt-PT"),
            brave(json!({"search_lang": "pt-pt"})),
            false,
        ),
        (
            "brave",
            language("de-AT"),
            brave(json!({"search_lang": "de"})),
            false,
        ),
        ("brave", language("sw"), brave(json!({})), false),
        ("exa", none(), exa(json!({})), false),
        (
            "exa",
            recency(Recency::Day),
            exa(json!({"startPublishedDate": "2026-03-14T00:00:00.000Z"})),
            true,
        ),
        (
            "exa",
            dates("2025-01-31", "2025-02-01"),
            exa(
                json!({"startPublishedDate": "2025-01-31T00:00:00.000Z", "endPublishedDate": "2025-02-01T23:59:59.999Z"}),
            ),
            true,
        ),
        (
            "exa",
            both.clone(),
            exa(json!({"includeDomains": ["example.com", "example.org"]})),
            false,
        ),
        (
            "exa",
            excluded.clone(),
            exa(json!({"excludeDomains": ["ads.example.com"]})),
            false,
        ),
        ("tavily", none(), tavily(json!({})), false),
        (
            "tavily",
            recency(Recency::Hour),
            tavily(json!({"time_range": "day"})),
            true,
        ),
        (
            "tavily",
            recency(Recency::Year),
            tavily(json!({"time_range": "year"})),
            true,
        ),
        (
            "tavily",
            narrowed.clone(),
            tavily(json!({"start_date": "2026-03-01", "end_date": "2026-03-10"})),
            true,
        ),
        (
            "tavily",
            both.clone(),
            tavily(
                json!({"include_domains": ["example.com", "example.org"], "exclude_domains": ["ads.example.com"]}),
            ),
            false,
        ),
        ("serper", none(), serper(json!({})), false),
        (
            "serper",
            recency(Recency::Hour),
            serper(json!({"tbs": "qdr:h"})),
            true,
        ),
        (
            "serper",
            recency(Recency::Day),
            serper(json!({"tbs": "qdr:d"})),
            true,
        ),
        (
            "serper",
            dates("2025-01-31", "2025-02-01"),
            serper(json!({"tbs": "cdr:1,cd_min:1/31/2025,cd_max:2/1/2025"})),
            true,
        ),
        (
            "serper",
            dates("", "2025-02-01"),
            serper(json!({"tbs": "cdr:1,cd_max:2/1/2025"})),
            true,
        ),
        (
            "serper",
            language("pt-BR"),
            serper(json!({"hl": "pt", "gl": "br"})),
            false,
        ),
        (
            "serper",
            language("zh-Hans"),
            serper(json!({"hl": "zh-cn"})),
            false,
        ),
        (
            "serper",
            both.clone(),
            serper(json!({"q": "long pier site:example.com OR site:example.org/docs -site:ads.example.com"})),
            false,
        ),
        ("perplexity", none(), perplexity(json!({})), false),
        (
            "perplexity",
            recency(Recency::Hour),
            perplexity(json!({"search_recency_filter": "hour"})),
            true,
        ),
        (
            "perplexity",
            narrowed.clone(),
            perplexity(
                json!({"search_after_date_filter": "3/1/2026", "search_before_date_filter": "3/10/2026"}),
            ),
            true,
        ),
        (
            "perplexity",
            both.clone(),
            perplexity(json!({"search_domain_filter": ["example.com", "example.org"]})),
            false,
        ),
        (
            "perplexity",
            excluded,
            perplexity(json!({"search_domain_filter": ["-ads.example.com"]})),
            false,
        ),
        (
            "perplexity",
            language("de-CH"),
            perplexity(json!({"search_language_filter": ["de"]})),
            false,
        ),
        ("perplexity", language("gsw"), perplexity(json!({})), false),
        ("searxng", none(), searxng(json!({})), false),
        (
            "searxng",
            recency(Recency::Hour),
            searxng(json!({"time_range": "day"})),
            true,
        ),
        (
            "searxng",
            recency(Recency::Week),
            searxng(json!({"time_range": "month"})),
            false,
        ),
        (
            "searxng",
            recency(Recency::Month),
            searxng(json!({"time_range": "month"})),
            true,
        ),
        (
            "searxng",
            recency(Recency::Year),
            searxng(json!({"time_range": "year"})),
            true,
        ),
        (
            "searxng",
            narrowed,
            searxng(json!({"time_range": "month"})),
            false,
        ),
        (
            "searxng",
            dates("2025-06-01", ""),
            searxng(json!({"time_range": "year"})),
            false,
        ),
        ("searxng", dates("2020-06-01", ""), searxng(json!({})), false),
        (
            "searxng",
            language("de-AT"),
            searxng(json!({"language": "de"})),
            false,
        ),
        ("searxng", both.clone(), searxng(json!({"q": site_query})), false),
        ("mediawiki", none(), mediawiki.clone(), false),
        ("mediawiki", recency(Recency::Day), mediawiki.clone(), false),
        ("mediawiki", both, mediawiki, false),
    ];
    for (kind, filters, expected, is_date_filtered) in cases {
        let fixture = Fixture::of(kind).await;
        fixture.reply_json(&super::responses::two_hits(kind));
        let hits = fixture
            .search(&filtered("long pier", filters.clone()))
            .await
            .unwrap();
        assert_eq!(
            parameters(&fixture.last_request()),
            expected,
            "{kind} {filters:?}"
        );
        let marks: Vec<bool> = hits.iter().map(|hit| hit.is_date_filtered).collect();
        assert_eq!(marks, [is_date_filtered; 2], "{kind} {filters:?}");
    }
}

fn merged(mut whole: Value, more: Value) -> Value {
    let (Value::Object(fields), Value::Object(more)) = (&mut whole, more) else {
        panic!("both are objects");
    };
    fields.extend(more);
    whole
}

#[tokio::test]
async fn queries_stay_within_the_limits_of_the_service() {
    let many: Vec<String> = (0..20).map(|n| format!("site-{n:02}.example.com")).collect();
    let filters = SearchFilters {
        exclude: many,
        ..SearchFilters::default()
    };
    let longest = "pier ".repeat(40).trim().to_owned();
    for (kind, name, max_chars, max_words) in [
        ("brave", "q", 400, 50),
        ("searxng", "q", 400, 40),
        ("serper", "q", 2_000, 40),
    ] {
        let fixture = Fixture::of(kind).await;
        fixture.reply_json(&nothing_found(kind));
        for text in [&longest, "pier"] {
            fixture.search(&filtered(text, filters.clone())).await.unwrap();
            let sent = parameters(&fixture.last_request())[name]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(sent.starts_with(text), "{kind}: {sent}");
            assert!(sent.chars().count() <= max_chars, "{kind}: {sent}");
            assert!(sent.split_whitespace().count() <= max_words, "{kind}: {sent}");
            // The 16th operator would exceed 400 characters.
            let has = |number: u32| sent.contains(&format!("-site:site-{number}.example.com"));
            assert_eq!(has(14), text == "pier", "{kind}: {sent}");
            assert_eq!(has(15), text == "pier" && kind == "serper", "{kind}: {sent}");
        }
    }
}

#[tokio::test]
async fn words_that_are_commands_of_the_server_are_searched_as_words() {
    let fixture = Fixture::of("searxng").await;
    fixture.reply_json(&nothing_found("searxng"));
    fixture
        .search(&query("!!g :de pier ??what <3 length! ! a:b"))
        .await
        .unwrap();
    let sent = parameters(&fixture.last_request());
    assert_eq!(sent["q"], "g de pier what 3 length! a:b");
}

#[tokio::test]
async fn a_query_without_hits_is_not_sent() {
    let fixture = Fixture::of("tavily").await;
    let mut none = query("pier");
    none.max_hits = 0;
    assert_eq!(fixture.search(&none).await.unwrap(), []);
    assert_eq!(fixture.server.request_count(), 0);
    fixture.reply_json(&super::responses::two_hits("tavily"));
    none.max_hits = 1;
    assert_eq!(fixture.search(&none).await.unwrap().len(), 1);
}
