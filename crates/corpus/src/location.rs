//! URLs of documents: the prefix of the corpus and the encoded path in its folder.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that are encoded: all but `/` and the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the URL prefix of a corpus whose settings have none: `corpus://NAME/`.
pub(crate) fn default_prefix(name: &str) -> String {
    format!("corpus://{name}/")
}

/// Returns the URL of a path in the corpus.
pub(crate) fn url(prefix: &str, path: &str) -> String {
    format!("{prefix}{}", utf8_percent_encode(path, ENCODED))
}

/// Returns the same URL in the form of the index: with the usual encoding, if it has the prefix.
pub(crate) fn normalize(prefix: &str, given: &str) -> String {
    let path = given.strip_prefix(prefix).map(percent_decode_str);
    match path.and_then(|path| path.decode_utf8().ok()) {
        Some(path) => url(prefix, &path),
        None => given.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{normalize, url};

    #[test]
    fn paths_are_encoded() {
        for (path, expected) in [
            ("a/b.md", "corpus://x/a/b.md"),
            ("a b/ü?#%.txt", "corpus://x/a%20b/%C3%BC%3F%23%25.txt"),
        ] {
            let encoded = url("corpus://x/", path);
            assert_eq!(encoded, expected);
            assert_eq!(normalize("corpus://x/", &encoded), encoded);
        }
        for (given, expected) in [
            ("corpus://x/%61%2Fb.md", "corpus://x/a/b.md"),
            ("corpus://x/ü", "corpus://x/%C3%BC"),
            ("corpus://x/%ff", "corpus://x/%ff"),
            ("corpus://y/%61", "corpus://y/%61"),
        ] {
            assert_eq!(normalize("corpus://x/", given), expected);
        }
    }
}
