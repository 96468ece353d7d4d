use proptest::prelude::*;

use super::*;

#[test]
fn addresses_have_one_form() {
    for (url, expected) in [
        ("https://Example.COM", Some("https://example.com")),
        ("https://example.com/", Some("https://example.com")),
        ("https://example.com./a/b/#part", Some("https://example.com/a/b")),
        ("http://example.com:80/a", Some("http://example.com/a")),
        ("http://example.com:8080/a", Some("http://example.com:8080/a")),
        ("https://user:secret@example.com/a", Some("https://example.com/a")),
        (
            "https://example.com/a?utm_source=x&UTM_Medium=y&gclid=1&fbclid=2",
            Some("https://example.com/a"),
        ),
        (
            "https://example.com/a/?b=2&a=1&&c",
            Some("https://example.com/a?a=1&b=2&c"),
        ),
        (
            "https://example.com/a?x=2&x=1",
            Some("https://example.com/a?x=2&x=1"),
        ),
        ("https://example.com/a/../b/./c", Some("https://example.com/b/c")),
        (
            "https://bücher.example/ä",
            Some("https://xn--bcher-kva.example/%C3%A4"),
        ),
        ("  https://example.com/a\n", Some("https://example.com/a")),
        ("https://[2001:DB8::1]/a", Some("https://[2001:db8::1]/a")),
        ("corpus://handbook/A/B/", Some("corpus://handbook/A/B/")),
        ("file://ID", Some("file://ID")),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("ftp://example.com/a", None),
        ("example.com", None),
        ("https://", None),
        ("", None),
    ] {
        assert_eq!(canonical(url).as_deref(), expected, "{url}");
    }
}

#[test]
fn hosts_are_read() {
    for (url, expected) in [
        ("https://WWW.Example.com:8080/a", Some("www.example.com")),
        ("https://example.com./a", Some("example.com")),
        ("http://bücher.example", Some("xn--bcher-kva.example")),
        ("https://good.example@evil.example/", Some("evil.example")),
        ("corpus://Handbook/a", Some("handbook")),
        ("http://127.1/", Some("127.0.0.1")),
        ("mailto:a@example.com", None),
        ("no url", None),
    ] {
        assert_eq!(host(url).as_deref(), expected, "{url}");
    }
}

#[test]
fn sites_are_matched() {
    for (url, filter, expected) in [
        ("https://example.com/a", "example.com", true),
        ("https://www.example.com/a", "example.com", true),
        ("https://www.example.com/a", "EXAMPLE.com.", true),
        ("https://example.com/a", "https://example.com/", true),
        ("https://example.com/a", "*.example.com", true),
        ("https://nasa.gov/a", ".gov", true),
        ("https://badexample.com/", "example.com", false),
        ("https://example.com.evil.example/", "example.com", false),
        ("https://example.com@evil.example/", "example.com", false),
        ("https://evil.example/example.com", "example.com", false),
        ("https://example.com/", "www.example.com", false),
        ("https://example.com/docs/a", "example.com/docs", true),
        ("https://example.com/docs", "example.com/docs/", true),
        ("https://sub.example.com/docs/a?b#c", "example.com/docs", true),
        ("https://example.com/docs2", "example.com/docs", false),
        ("https://example.com/a/../docs/b", "example.com/docs", true),
        ("https://example.com/%64ocs/b", "example.com/docs", true),
        ("https://example.com//docs//b", "example.com/docs", true),
        ("https://example.com/a%2Fdocs", "example.com/a/docs", false),
        ("https://bücher.example/ä/b", "xn--bcher-kva.example/ä", true),
        ("https://xn--bcher-kva.example/", "bücher.example", true),
        ("http://10.0.0.1/", "0.0.1", false),
        ("http://10.0.0.1/", "10.0.0.1", true),
        ("https://example.com:8443/", "example.com", true),
        ("https://example.com/", "example.com:8443", false),
        ("https://example.com/", "", false),
        ("https://example.com/", "ftp://example.com", false),
        ("corpus://example.com/a", "example.com", false),
        ("no url", "example.com", false),
    ] {
        assert_eq!(site_matches(url, filter), expected, "{url} {filter}");
    }
}

proptest! {
    #[test]
    fn canonical_forms_are_stable(url in "https?://[a-zA-Z.]{1,9}(:[0-9]{1,4})?[/a-z.%?&=#+ü]{0,30}|\\PC{0,20}") {
        if let Some(once) = canonical(&url) {
            prop_assert_eq!(canonical(&once), Some(once.clone()));
            prop_assert_eq!(host(&once), host(&url));
        }
    }
}
