use std::collections::BTreeSet;

use tollgate_types::Date;
use tollgate_upstream::search::{SearchBackend, SearchFilters};

use super::fixture::{clock, proceed, read, search, search_with};
use crate::{contradictions, demo, facts};

/// Hits of a search in which one of the documents must be.
const FIRST_HITS: usize = 5;

#[tokio::test]
async fn planted_facts_are_found() {
    let corpus = demo(clock());
    let facts = facts();
    let mut missed = Vec::new();
    for fact in &facts {
        let hits = search(&corpus, &fact.question).await;
        if !hits
            .iter()
            .take(FIRST_HITS)
            .any(|hit| fact.documents.contains(&hit.url))
        {
            missed.push(&fact.question);
        }
    }
    assert!(missed.len() * 20 <= facts.len(), "{missed:#?}");
}

#[tokio::test]
async fn both_sides_of_contradictions_are_found() {
    let corpus = demo(clock());
    for contradiction in contradictions() {
        let hits = search(&corpus, &contradiction.question).await;
        for (answer, url) in &contradiction.answers {
            assert!(
                hits.iter().any(|hit| hit.url == *url),
                "{}: {answer}",
                contradiction.question
            );
            assert!(read(&corpus, url).await.unwrap().text.contains(answer));
        }
    }
}

#[tokio::test]
async fn the_built_in_corpus_needs_no_build() {
    let corpus = demo(clock());
    assert_eq!(
        (
            corpus.name(),
            corpus.corpus_name(),
            SearchBackend::is_private(&corpus)
        ),
        ("corpus/demo", "demo", false)
    );
    assert_eq!(corpus.update(proceed).await.unwrap(), None);
    assert_eq!(corpus.rebuild(proceed).await.unwrap().documents, 200);
    let status = corpus.status();
    assert!(status.is_built && status.passages >= 200 && status.built_at.is_none());
    let document = read(&corpus, "corpus://demo/marit-aspen").await.unwrap();
    assert_eq!(document.title, "Marit Aspen");
    assert_eq!(document.author.as_deref(), Some("Orsel Encyclopedia"));
    assert_eq!(read(&corpus, "corpus://demo/../marit-aspen").await, None);
}

#[tokio::test]
async fn the_built_in_corpus_is_filtered() {
    let corpus = demo(clock());
    let filters = SearchFilters {
        include: vec!["demo".to_owned()],
        before: Date::new(2016, 12, 31),
        ..SearchFilters::default()
    };
    let hits = search_with(&corpus, "ferry passengers", filters).await;
    assert!(
        !hits.is_empty()
            && hits
                .iter()
                .all(|hit| hit.date < Date::new(2017, 1, 1) && hit.date.is_some())
    );
    let years: BTreeSet<String> = hits.iter().map(|hit| hit.url.clone()).collect();
    assert!(years.contains("corpus://demo/ferries-2015"), "{years:?}");
}
