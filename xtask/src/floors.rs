//! The floors of the house and the rule that every dependency goes to a strictly lower one.
//!
//! This table is the plan; `cargo metadata` is the fact. ARCHITECTURE.md explains the floors.

use serde_json::Value;

use crate::tidy::Fault;

/// What a crate is in the house, beside the floor it stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Everybody above may name it.
    Open,
    /// An engine or a maker's interface behind a port: only the composition names it.
    Adapter,
    /// A family of endpoints; rooms do not know each other.
    Room,
    /// Tools and tests: stands above all floors, and nothing that ships names it.
    Development,
}

struct Place {
    package: &'static str,
    floor: u8,
    kind: Kind,
}

const fn place(package: &'static str, floor: u8, kind: Kind) -> Place {
    Place { package, floor, kind }
}

/// The crate in which everything meets.
const COMPOSITION: &str = "tollgate-server";

/// Every crate of the workspace, also those that are planned and not yet begun.
const FLOORS: &[Place] = &[
    place("tollgate-types", 0, Kind::Open),
    place("tollgate-formats", 1, Kind::Open),
    place("tollgate-storage", 1, Kind::Open),
    place("tollgate-upstream", 1, Kind::Open),
    place("tollgate-tokens", 1, Kind::Open),
    place("tollgate-studio", 1, Kind::Open),
    place("tollgate-estimate", 1, Kind::Open),
    place("tollgate-catalog", 2, Kind::Open),
    place("tollgate-accounts", 2, Kind::Open),
    place("tollgate-backends", 2, Kind::Adapter),
    place("tollgate-providers", 2, Kind::Adapter),
    place("tollgate-billing", 3, Kind::Open),
    place("tollgate-jobs", 3, Kind::Open),
    place("tollgate-edge", 3, Kind::Open),
    place("tollgate-pipeline", 4, Kind::Open),
    place("tollgate-inference", 5, Kind::Room),
    place("tollgate-media", 5, Kind::Room),
    place("tollgate-realtime", 5, Kind::Room),
    place("tollgate-compute", 5, Kind::Room),
    place("tollgate-console", 5, Kind::Room),
    place(COMPOSITION, 6, Kind::Open),
    place("tollgate", 7, Kind::Open),
    place("tollgate-testkit", u8::MAX, Kind::Development),
    place("tollgate-bench", u8::MAX, Kind::Development),
    place("tollgate-replay", u8::MAX, Kind::Development),
    place("xtask", u8::MAX, Kind::Development),
];

fn find(package: &str) -> Option<&'static Place> {
    FLOORS.iter().find(|place| place.package == package)
}

/// Checks every package of `cargo metadata --no-deps` against the floors.
pub fn check(metadata: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = format!("{name}/Cargo.toml");
        let Some(from) = find(name) else {
            faults.push(Fault::new(
                &manifest,
                format!("`{name}` has no floor: give it one in xtask/src/floors.rs"),
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // Only crates of the workspace have a path; the rest come from the registry.
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

/// Why the edge is forbidden, or nothing when it is fine.
fn refusal(from: &Place, to: &str, for_tests: bool) -> Option<String> {
    let Some(to) = find(to) else {
        return Some("it has no floor in xtask/src/floors.rs".to_owned());
    };
    if from.kind == Kind::Development {
        return None;
    }
    if to.kind == Kind::Development {
        return (!for_tests).then(|| "development crates are dev-dependencies only".to_owned());
    }
    if from.kind == Kind::Room && to.kind == Kind::Room {
        return Some("rooms do not know each other".to_owned());
    }
    if to.floor >= from.floor {
        return Some(format!("floor {} is not below floor {}", to.floor, from.floor));
    }
    // Tests may run a domain on a real engine; what ships may not.
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
    fn edges_go_to_a_strictly_lower_floor() {
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
    fn crates_from_the_registry_are_left_alone() {
        let dependency = json!({ "name": "serde", "kind": null, "path": null });
        let metadata = json!({ "packages": [{ "name": "tollgate-types", "dependencies": [dependency] }] });
        assert!(check(&metadata).is_empty());
    }
}
