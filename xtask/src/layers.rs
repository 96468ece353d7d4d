//! The layers of the crates, and the rule that a crate may depend only on crates of strictly lower
//! layers.
//!
//! This table states the intended layers; `cargo metadata` reports the actual dependencies.
//! ARCHITECTURE.md explains the layers.

use serde_json::Value;

use crate::tidy::Fault;

/// Role of a crate, in addition to its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Crate that every crate above may depend on.
    Open,
    /// Storage engine or provider adapter. Only the composition crate may depend on it, except in
    /// tests.
    Adapter,
    /// Parsers of hostile content, which run in a separate process. Only the binary may depend on
    /// it.
    Isolated,
    /// Group of API endpoints. API crates must not depend on each other.
    ApiCrate,
    /// Development tool or test crate above all layers. Shipped crates may use it only as a
    /// dev-dependency.
    Development,
    /// Tests that start the binary. They depend only on the testkit, so that a change of the
    /// product does not recompile them.
    BinaryTests,
}

struct Member {
    package: &'static str,
    layer: u8,
    kind: Kind,
}

const fn member(package: &'static str, layer: u8, kind: Kind) -> Member {
    Member { package, layer, kind }
}

/// The crate that composes all others.
const COMPOSITION: &str = "tollgate-server";

/// The crate of the command line.
const BINARY: &str = "tollgate";

/// Every crate of the workspace, including planned ones that do not exist yet.
const LAYERS: &[Member] = &[
    member("tollgate-types", 0, Kind::Open),
    member("tollgate-formats", 1, Kind::Open),
    member("tollgate-storage", 1, Kind::Open),
    member("tollgate-upstream", 1, Kind::Open),
    member("tollgate-tokens", 1, Kind::Open),
    member("tollgate-media-tools", 1, Kind::Open),
    member("tollgate-probability", 1, Kind::Open),
    member("tollgate-evidence", 1, Kind::Open),
    member("tollgate-web", 1, Kind::Open),
    member("tollgate-catalog", 2, Kind::Open),
    member("tollgate-accounts", 2, Kind::Open),
    member("tollgate-extract", 2, Kind::Isolated),
    member("tollgate-backends", 2, Kind::Adapter),
    member("tollgate-corpus", 2, Kind::Adapter),
    member("tollgate-providers", 2, Kind::Adapter),
    member("tollgate-billing", 3, Kind::Open),
    member("tollgate-jobs", 3, Kind::Open),
    member("tollgate-edge", 3, Kind::Open),
    member("tollgate-listener", 4, Kind::Open),
    member("tollgate-operations", 4, Kind::Open),
    member("tollgate-pipeline", 4, Kind::Open),
    member("tollgate-inference", 5, Kind::ApiCrate),
    member("tollgate-media", 5, Kind::ApiCrate),
    member("tollgate-realtime", 5, Kind::ApiCrate),
    member("tollgate-compute", 5, Kind::ApiCrate),
    member("tollgate-console", 5, Kind::ApiCrate),
    member(COMPOSITION, 6, Kind::Open),
    member(BINARY, 7, Kind::Open),
    member("tollgate-testkit", u8::MAX, Kind::Development),
    member("tollgate-api-tests", u8::MAX, Kind::BinaryTests),
    member("tollgate-bench", u8::MAX, Kind::Development),
    member("tollgate-replay", u8::MAX, Kind::Development),
    member("xtask", u8::MAX, Kind::Development),
];

fn find(package: &str) -> Option<&'static Member> {
    LAYERS.iter().find(|member| member.package == package)
}

/// Checks every package of `cargo metadata --no-deps` against the layers.
pub fn check(metadata: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = format!("{name}/Cargo.toml");
        let Some(from) = find(name) else {
            faults.push(Fault::new(
                &manifest,
                format!("`{name}` has no layer: add it to xtask/src/layers.rs"),
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // Only crates of the workspace have a path; the others come from the registry.
            if dependency["path"].is_null() {
                continue;
            }
            let to = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"].as_str() == Some("dev");
            if let Some(reason) = refusal(from, to, for_tests) {
                faults.push(Fault::new(
                    &manifest,
                    format!("`{name}` may not depend on `{to}`: {reason}"),
                ));
            }
        }
    }
    faults
}

/// Returns the reason why the dependency is forbidden; `None` if it is allowed.
fn refusal(from: &Member, to: &str, for_tests: bool) -> Option<String> {
    let Some(to) = find(to) else {
        return Some("it has no layer in xtask/src/layers.rs".to_owned());
    };
    if from.kind == Kind::Development {
        return None;
    }
    if from.kind == Kind::BinaryTests {
        let is_testkit = to.package == "tollgate-testkit";
        return (!is_testkit).then(|| "tests of the binary depend on the testkit alone".to_owned());
    }
    if matches!(to.kind, Kind::Development | Kind::BinaryTests) {
        return (!for_tests).then(|| "development crates are dev-dependencies only".to_owned());
    }
    if from.kind == Kind::ApiCrate && to.kind == Kind::ApiCrate {
        return Some("API crates do not depend on each other".to_owned());
    }
    if to.layer >= from.layer {
        return Some(format!("layer {} is not below layer {}", to.layer, from.layer));
    }
    if to.kind == Kind::Isolated && from.package != BINARY {
        return Some(format!("only `{BINARY}` runs it, in a separate process"));
    }
    // Tests may run a domain on a real engine; shipped code may not.
    if to.kind == Kind::Adapter && from.package != COMPOSITION && !for_tests {
        return Some(format!("only `{COMPOSITION}` names adapters; use the port"));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults_of(from: &str, to: &str, kind: Value) -> usize {
        let dependency = json!({ "name": to, "kind": kind, "path": "somewhere" });
        check(&json!({ "packages": [{ "name": from, "dependencies": [dependency] }] })).len()
    }

    #[test]
    fn edges_go_to_a_strictly_lower_layer() {
        let normal = Value::Null;
        for (from, to, expected) in [
            ("tollgate-billing", "tollgate-types", 0),
            ("tollgate-server", "tollgate-backends", 0),
            ("tollgate", "tollgate-server", 0),
            ("tollgate-types", "tollgate-storage", 1),
            ("tollgate-storage", "tollgate-upstream", 1),
            ("tollgate-billing", "tollgate-edge", 1),
            ("tollgate-console", "tollgate-inference", 1),
            ("tollgate-pipeline", "tollgate-backends", 1),
            ("tollgate-inference", "tollgate-providers", 1),
            ("tollgate", "tollgate-backends", 1),
            ("tollgate", "tollgate-extract", 0),
            ("tollgate-server", "tollgate-extract", 1),
            ("tollgate-server", "tollgate-testkit", 1),
            ("tollgate-server", "xtask", 1),
            ("tollgate-newcomer", "tollgate-types", 1),
            ("tollgate-server", "tollgate-newcomer", 1),
        ] {
            assert_eq!(faults_of(from, to, normal.clone()), expected, "{from} -> {to}");
        }
    }

    #[test]
    fn tests_may_use_the_testkit_and_a_lower_adapter() {
        for (from, to, expected) in [
            ("tollgate-billing", "tollgate-testkit", 0),
            ("tollgate-billing", "tollgate-backends", 0),
            ("tollgate-testkit", "tollgate-server", 0),
            ("tollgate-console", "tollgate-inference", 1),
            ("tollgate-storage", "tollgate-backends", 1),
        ] {
            assert_eq!(faults_of(from, to, json!("dev")), expected, "{from} -> {to}");
        }
    }

    #[test]
    fn tests_of_the_binary_depend_on_the_testkit_alone() {
        for (to, expected) in [
            ("tollgate-testkit", 0),
            ("tollgate-types", 1),
            ("tollgate-server", 1),
            ("xtask", 1),
        ] {
            assert_eq!(
                faults_of("tollgate-api-tests", to, json!("dev")),
                expected,
                "{to}"
            );
        }
        assert_eq!(faults_of("tollgate-server", "tollgate-api-tests", Value::Null), 1);
    }

    #[test]
    fn crates_from_the_registry_are_left_alone() {
        let dependency = json!({ "name": "serde", "kind": null, "path": null });
        let metadata = json!({ "packages": [{ "name": "tollgate-types", "dependencies": [dependency] }] });
        assert!(check(&metadata).is_empty());
    }
}
