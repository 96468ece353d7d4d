//! Restricts libraries to parts of the code. For example, only the edge may use HTTP, and only the
//! storage engines may use SQL.

use super::Fault;
use super::rust::{Keep, blank, find_word, line_of};
use super::tree::Tree;

struct Rule {
    /// Crates and modules, spelled as in code.
    libraries: &'static [&'static str],
    /// Paths that may name the libraries. `*` stands for any characters.
    allowed: &'static [&'static str],
    why: &'static str,
}

/// The rules. A comment states the reason for each exception.
const RULES: &[Rule] = &[
    Rule {
        libraries: &["axum"],
        allowed: &[
            "crates/edge/src/*",
            "crates/listener/src/*",
            "crates/server/src/*",
            "crates/*/routes.rs",
            "crates/realtime/src/socket.rs",
            "crates/compute/src/connect/*",
            // The state of an API crate, from which its handlers extract values.
            "crates/inference/src/lib.rs",
            "crates/media/src/lib.rs",
            "crates/realtime/src/lib.rs",
            "crates/compute/src/lib.rs",
            "crates/console/src/lib.rs",
        ],
        why: "handlers live in routes.rs, the shell in edge and listener, the composition in server",
    },
    Rule {
        libraries: &["http", "http_body", "http_body_util"],
        allowed: &[
            "crates/edge/src/*",
            "crates/listener/src/*",
            "crates/server/src/*",
            "crates/*/routes.rs",
            "crates/realtime/src/socket.rs",
            "crates/compute/src/connect/*",
            // The upstream client, and the adapters that read status and headers of a response.
            "crates/providers/src/*",
        ],
        why: "only edge, listener and providers use HTTP types",
    },
    Rule {
        libraries: &["sqlx"],
        allowed: &["crates/backends/src/*"],
        why: "other crates use the storage ports",
    },
    Rule {
        libraries: &["hyper", "hyper_util"],
        allowed: &[
            "crates/listener/src/*",
            "crates/providers/src/http.rs",
            "crates/providers/src/http/*",
            // Untrusted addresses are dialed differently from addresses of the operator.
            "crates/providers/src/egress/connection.rs",
        ],
        why: "one accept loop in listener, one client in providers/http.rs, one for callers' addresses in egress",
    },
    Rule {
        // Only the client modules are restricted; server code may use the other modules.
        libraries: &["hyper::client", "hyper_util::client", "hyper_rustls", "reqwest"],
        allowed: &[
            "crates/providers/src/http.rs",
            "crates/providers/src/http/*",
            "crates/providers/src/egress/connection.rs",
        ],
        why: "use the one upstream client, with its timeouts, pool, TLS and redaction",
    },
    Rule {
        libraries: &["object_store"],
        allowed: &["crates/backends/src/s3.rs"],
        why: "only the blob storage adapter uses buckets",
    },
];

/// Checks every product file against the table.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_product()) {
        let code = blank(&file.text, Keep::Code);
        for rule in RULES {
            if rule.allowed.iter().any(|pattern| matches(pattern, &file.path)) {
                continue;
            }
            for library in rule.libraries {
                let offset = find_word(&code, library)
                    .into_iter()
                    .find(|at| is_crate(&code, *at, library));
                if let Some(offset) = offset {
                    let line = line_of(&code, offset);
                    faults.push(Fault::at(
                        &file.path,
                        line,
                        format!("names `{library}`: {}", rule.why),
                    ));
                }
            }
        }
    }
    faults
}

/// Whether the word at `at` is the crate, and not a module, field or method of the same name.
fn is_crate(code: &str, at: usize, library: &str) -> bool {
    let before = code[..at].trim_end();
    let after = &code[at + library.len()..];
    let imported = before.ends_with("use") && (after.starts_with(';') || after.starts_with(" as "));
    let in_path = after.starts_with("::") && (!before.ends_with("::") || before.ends_with(" ::"));
    imported || in_path
}

/// Whether the path matches the pattern, in which `*` stands for any characters.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((head, "")) => path.starts_with(head),
        Some((head, tail)) => path.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|at| rest.is_char_boundary(*at))
                .any(|at| matches(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::expect_faults;
    use super::*;

    #[test]
    fn libraries_are_named_where_they_belong() {
        let cases = [
            ("crates/edge/src/auth.rs", "use axum::http::HeaderMap;", 0),
            (
                "crates/console/src/models/routes.rs",
                "use axum::Json; use http::StatusCode;",
                0,
            ),
            ("crates/console/src/models/service.rs", "use axum::Json;", 1),
            ("crates/console/src/lib.rs", "use axum::extract::FromRef;", 0),
            ("crates/billing/src/hold.rs", "fn f() -> http::StatusCode {}", 1),
            ("crates/billing/src/hold.rs", "let x = ::http::StatusCode::OK;", 1),
            ("crates/accounts/src/keys.rs", "use sqlx::Row;", 1),
            ("crates/accounts/src/keys.rs", "use sqlx;", 1),
            ("crates/backends/src/sqlite/key.rs", "use sqlx::Row;", 0),
            (
                "crates/listener/src/lib.rs",
                "use hyper_util::server::conn::auto;",
                0,
            ),
            (
                "crates/listener/src/lib.rs",
                "use hyper_util::client::legacy::Client;",
                1,
            ),
            (
                "crates/providers/src/http.rs",
                "use hyper_util::client::legacy::Client;",
                0,
            ),
            ("crates/providers/src/sim/text.rs", "use hyper_rustls::X;", 1),
        ];
        expect_faults(check, &cases);
    }

    #[test]
    fn words_that_are_no_crates_are_left_alone() {
        let words = [
            "// axum::Router",
            "\"sqlx::query\"",
            "use crate::http::Client;",
            "mod http;",
            "config.http.port",
        ];
        let cases = words.map(|text| ("crates/billing/src/lib.rs", text, 0));
        expect_faults(check, &cases);
    }

    #[test]
    fn tests_may_name_what_they_need() {
        expect_faults(
            check,
            &[("crates/console/src/models/tests.rs", "use axum::Router;", 0)],
        );
    }
}
