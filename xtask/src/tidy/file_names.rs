//! Names that say nothing about what is inside become drawers for everything.

use super::Fault;
use super::tree::Tree;

const BANNED: &[&str] = &[
    "utils.rs",
    "util.rs",
    "common.rs",
    "helpers.rs",
    "helper.rs",
    "misc.rs",
];
const BANNED_FOLDERS: &[&str] = &["utils", "util", "common", "helpers", "misc"];
const ROOMS: &[&str] = &["inference", "media", "realtime", "compute", "console"];

/// Checks the names of all Rust files and of the folders they lie in.
pub fn check(tree: &Tree) -> Vec<Fault> {
    tree.paths
        .iter()
        .filter(|path| path.ends_with(".rs"))
        .filter_map(|path| fault(path))
        .collect()
}

fn fault(path: &str) -> Option<Fault> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    if BANNED.contains(&name) {
        return Some(Fault::new(path, "name the file after what is in it"));
    }
    if folders.split('/').any(|folder| BANNED_FOLDERS.contains(&folder)) {
        return Some(Fault::new(path, "name the folder after what is in it"));
    }
    let room = ROOMS
        .iter()
        .any(|room| path.starts_with(&format!("crates/{room}/")));
    (room && name == "types.rs")
        .then(|| Fault::new(path, "a room has wire.rs for bodies and service.rs for the rest"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawers_are_refused() {
        for (path, expected) in [
            ("crates/edge/src/utils.rs", 1),
            ("crates/edge/src/helpers.rs", 1),
            ("crates/edge/src/common/mod.rs", 1),
            ("crates/console/src/models/types.rs", 1),
            ("crates/types/src/types.rs", 0),
            ("crates/edge/src/auth.rs", 0),
            ("sdk-tests/python/utils.py", 0),
        ] {
            assert_eq!(check(&Tree::of(&[(path, "")])).len(), expected, "{path}");
        }
    }
}
