//! Forbids file names without meaning, since such files collect unrelated code.

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
const API_CRATES: &[&str] = &["inference", "media", "realtime", "compute", "console"];

/// Checks the names of all Rust files and of their folders.
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
    let api_crate = API_CRATES
        .iter()
        .any(|api_crate| path.starts_with(&format!("crates/{api_crate}/")));
    (api_crate && name == "types.rs")
        .then(|| Fault::new(path, "put bodies into wire.rs and the rest into service.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catch_all_names_are_rejected() {
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
