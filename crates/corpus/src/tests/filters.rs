use tollgate_types::Date;
use tollgate_upstream::search::{Recency, SearchFilters};

use super::fixture::{Fixture, search_with};

const FILES: &[(&str, &str)] = &[
    ("today.md", "---\ndate: 2026-06-30\n---\nferry"),
    ("week/old.md", "---\ndate: 2026-06-24\n---\nferry"),
    ("spring.md", "---\ndate: 2026-04-01\n---\nferry"),
    ("ancient.md", "---\ndate: 1899-12-31\n---\nferry"),
    ("undated.md", "ferry"),
    (
        "linked.md",
        "---\nurl: https://news.example.org/a/b\ndate: 2026-06-29\n---\nferry",
    ),
];

fn date(text: &str) -> Option<Date> {
    (!text.is_empty()).then(|| Date::parse(text).unwrap())
}

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

async fn check(fixture: &Fixture, cases: &[(SearchFilters, &[&str])]) {
    let corpus = fixture.built().await;
    for (filters, expected) in cases {
        let hits = search_with(&corpus, "ferry", filters.clone()).await;
        let name = |url: &str| url.rsplit('/').next().unwrap().trim_end_matches(".md").to_owned();
        let mut found: Vec<String> = hits.iter().map(|hit| name(&hit.url)).collect();
        found.sort();
        assert_eq!(found, *expected, "{filters:?}");
        for hit in hits {
            assert!(hit.is_readable);
            assert_eq!(hit.is_date_filtered, filters.restricts_date());
        }
    }
}

#[tokio::test]
async fn dates_are_filtered() {
    let dates = |after: &str, before: &str, recency| SearchFilters {
        after: date(after),
        before: date(before),
        recency,
        ..SearchFilters::default()
    };
    let all = &["ancient", "b", "old", "spring", "today", "undated"][..];
    check(
        &Fixture::new(FILES),
        &[
            (dates("", "", None), all),
            (
                dates("0001-01-01", "", None),
                &["ancient", "b", "old", "spring", "today"],
            ),
            (dates("2026-06-24", "", None), &["b", "old", "today"]),
            (dates("2026-06-25", "", None), &["b", "today"]),
            (dates("", "2026-04-01", None), &["ancient", "spring"]),
            (dates("2026-04-01", "2026-06-24", None), &["old", "spring"]),
            (dates("2026-06-24", "2026-04-01", None), &[]),
            (dates("", "", Some(Recency::Hour)), &["b", "today"]),
            (dates("", "", Some(Recency::Week)), &["b", "old", "today"]),
            (dates("", "", Some(Recency::Month)), &["b", "old", "today"]),
            (
                dates("", "", Some(Recency::Year)),
                &["b", "old", "spring", "today"],
            ),
            (dates("2026-06-30", "", Some(Recency::Year)), &["today"]),
            (dates("", "2026-06-29", Some(Recency::Week)), &["b", "old"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn sites_are_filtered() {
    let sites = |include: &[&str], exclude: &[&str]| SearchFilters {
        include: strings(include),
        exclude: strings(exclude),
        ..SearchFilters::default()
    };
    let own = &["ancient", "old", "spring", "today", "undated"][..];
    let cases: &[(SearchFilters, &[&str])] = &[
        (sites(&["example.org"], &[]), &["b"]),
        (sites(&["example.org/a"], &[]), &["b"]),
        (sites(&["example.org/b"], &[]), &[]),
        (sites(&[], &["example.org"]), own),
        (sites(&["handbook"], &[]), own),
        (
            sites(&["corpus/handbook"], &["handbook/week"]),
            &["ancient", "spring", "today", "undated"],
        ),
        (sites(&["other"], &[]), &[]),
    ];
    check(&Fixture::new(FILES), cases).await;
    let prefixed: &[(SearchFilters, &[&str])] = &[
        (sites(&["handbook"], &[]), &[]),
        (sites(&["example.com"], &[]), own),
        (sites(&["docs.example.com/guide/week"], &[]), &["old"]),
        (sites(&["example.com"], &["docs.example.com/guide"]), &[]),
    ];
    check(
        &Fixture::with_prefix("https://docs.example.com/guide", FILES),
        prefixed,
    )
    .await;
}

#[tokio::test]
async fn filters_combine() {
    let filters = SearchFilters {
        include: strings(&["example.org", "handbook/week"]),
        recency: Some(Recency::Week),
        before: date("2026-06-28"),
        language: Some("en".to_owned()),
        ..SearchFilters::default()
    };
    check(&Fixture::new(FILES), &[(filters, &["old"])]).await;
    let none = Fixture::new(&[("a.md", "ferry")]);
    let filters = SearchFilters {
        after: date("2020-01-01"),
        ..SearchFilters::default()
    };
    check(&none, &[(filters, &[])]).await;
}
