use tollgate_upstream::search::SearchFilters;

use super::Sites;

#[test]
fn sites_match_hosts_and_paths() {
    for (include, exclude, url, is_permitted) in [
        (&["example.com"][..], &[][..], "https://example.com/a", true),
        (&["example.com"], &[], "https://WWW.Example.com:8443/a?b", true),
        (&["EXAMPLE.com."], &[], "http://user@example.com", true),
        (&["example.com"], &[], "https://notexample.com/", false),
        (&["example.com"], &[], "https://example.com.evil.example/", false),
        (&["www.example.com"], &[], "https://example.com/", false),
        (&["example.com/docs"], &[], "https://example.com/docs/a", true),
        (&["example.com/docs/"], &[], "https://example.com/docs", true),
        (&["example.com/docs"], &[], "https://example.com/docsearch", false),
        (
            &["https://example.com/docs"],
            &[],
            "https://example.com/docs?q=1",
            true,
        ),
        (
            &["other.example", "example.com"],
            &[],
            "https://example.com",
            true,
        ),
        (
            &["example.com"],
            &["example.com/private"],
            "https://example.com/private/x",
            false,
        ),
        (&["example.com"], &["example.com"], "https://example.com/", false),
        (&[], &["example.com"], "https://example.org/", true),
        (&[], &["example.com"], "https://a.example.com/", false),
        (&[""], &[], "https://example.com/", false),
        (&["example.com"], &[], "corpus://handbook/a.md", false),
        (&["handbook"], &[], "corpus://handbook/a.md", true),
        (&["corpus/handbook"], &[], "corpus://handbook/a.md", true),
        (&["corpus://handbook/b"], &[], "corpus://handbook/a.md", false),
        (&["corpus"], &[], "corpus://handbook/a.md", false),
        (&[], &["handbook"], "corpus://handbook/a.md", false),
        (&["[::1]"], &[], "http://[::1]:80/x", true),
    ] {
        let strings = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let filters = SearchFilters {
            include: strings(include),
            exclude: strings(exclude),
            ..SearchFilters::default()
        };
        let sites = Sites::of(&filters).unwrap();
        assert_eq!(sites.permit(url), is_permitted, "{include:?} {exclude:?} {url}");
    }
    assert_eq!(Sites::of(&SearchFilters::default()), None);
}
