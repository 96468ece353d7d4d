use tollgate_types::Date;
use tollgate_upstream::search::{SearchBackend, SearchHit, SearchQuery};

use super::fixture::{Fixture, context, paths, search};

#[tokio::test]
async fn hits_describe_documents() {
    let fixture = Fixture::new(&[(
        "a b/pier ü.md",
        "---\ntitle: The pier\ndate: 2024-05-06\n---\nThe *pier* is [long](https://x.example).\n\n",
    )]);
    let corpus = fixture.built().await;
    assert_eq!(corpus.name(), "corpus/handbook");
    assert!(SearchBackend::is_private(&corpus));
    let expected = SearchHit {
        url: "corpus://handbook/a%20b/pier%20%C3%BC.md".to_owned(),
        title: "The pier".to_owned(),
        snippet: "The pier is long.".to_owned(),
        date: Date::new(2024, 5, 6),
        text: None,
        is_readable: true,
        is_date_filtered: false,
    };
    assert_eq!(search(&corpus, "Piers!").await, [expected]);
}

#[tokio::test]
async fn hits_are_documents_by_relevance() {
    let filler = "Other words fill this part of the text. ".repeat(40);
    let long =
        format!("lighthouse keeper\n\n{filler}\n\n{filler}\n\n{filler} lighthouse lighthouse lighthouse");
    let fixture = Fixture::new(&[
        ("long.txt", long.as_str()),
        ("title.md", "# Lighthouse\n\nA tower with a lamp."),
        ("body.md", "# Tower\n\nA lighthouse with a lamp."),
        ("other.md", "# Café\n\nCoffee, 東京都."),
    ]);
    let corpus = fixture.built().await;
    assert!(corpus.status().passages > 5);
    assert_eq!(
        paths(&corpus, "lighthouse lamp").await,
        ["title.md", "body.md", "long.txt"]
    );
    assert_eq!(
        paths(&corpus, "lighthouse").await,
        ["title.md", "long.txt", "body.md"]
    );
    assert_eq!(paths(&corpus, "cafe").await, ["other.md"]);
    assert_eq!(paths(&corpus, "京都").await, ["other.md"]);
    let hit = &search(&corpus, "lighthouse").await[1];
    assert!(hit.snippet.contains("lighthouse lighthouse") && hit.snippet.chars().count() <= 400);
}

#[tokio::test]
async fn the_number_of_hits_is_limited() {
    let fixture = Fixture::new(&[]);
    for number in 0..30 {
        fixture.write(
            &format!("{number:02}.txt"),
            format!("{} common", "x ".repeat(number)),
        );
    }
    let corpus = fixture.built().await;
    for (max_hits, expected) in [(0, 0), (1, 1), (7, 7), (u32::MAX, 30)] {
        let query = SearchQuery {
            text: "common".to_owned(),
            max_hits,
            ..SearchQuery::default()
        };
        let hits = corpus.search(&context(), &query).await.unwrap();
        assert_eq!(hits.len(), expected);
        let shortest_first: Vec<String> = (0..expected)
            .map(|n| format!("corpus://handbook/{n:02}.txt"))
            .collect();
        let urls: Vec<&str> = hits.iter().map(|hit| hit.url.as_str()).collect();
        assert_eq!(urls[..expected.min(7)], shortest_first[..expected.min(7)]);
    }
}

#[tokio::test]
async fn hostile_queries_are_words() {
    let corpus = Fixture::new(&[("a.md", "title and author"), ("b.md", "harbour")])
        .built()
        .await;
    for (text, expected) in [
        ("", &[][..]),
        (" \n\t", &[]),
        ("title:* AND (", &["a.md"]),
        ("text:harbour", &["b.md"]),
        ("-harbour", &["b.md"]),
        ("\"harbour", &["b.md"]),
        ("harbour~2^9 OR [a TO z]", &["b.md"]),
        ("harb*", &[]),
        ("/.*/", &[]),
        ("🦀🏴\u{200d}☠️", &[]),
        ("\u{202e}harbour\u{0}", &["b.md"]),
        ("IN [1 2", &[]),
    ] {
        assert_eq!(paths(&corpus, text).await, expected, "{text:?}");
    }
    for unit in ["\"", "(", "harbour ", "x", "東", "a\u{301}"] {
        let hits = search(&corpus, &unit.repeat(100_000)).await;
        assert_eq!(hits.len(), usize::from(unit == "harbour "), "{unit:?}");
    }
}
