//! Language rules: standard terms and comments with content. CONTRIBUTING.md explains them.

mod comments;
pub mod sample;
mod terms;

use super::Fault;
use super::tree::Tree;

/// The code of these checks, which names the forbidden words.
const SELF: &str = "xtask/src/tidy/language";

/// A place that violates a language rule.
#[derive(Debug)]
pub struct Finding {
    /// Path of the file from the repository's root.
    pub path: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// The words found and their replacement.
    pub what: String,
}

/// Collects all findings, in the order of files.
pub fn findings(tree: &Tree) -> Vec<Finding> {
    let terms = terms::Terms::shipped();
    let files = tree.files.iter().filter(|file| !file.path.starts_with(SELF));
    files
        .flat_map(|file| {
            let mut found = terms.check(file);
            found.extend(comments::check(file));
            found.sort_by_key(|finding| finding.line);
            found
        })
        .collect()
}

/// Converts every finding into a fault.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let faults = findings(tree).into_iter();
    faults
        .map(|finding| Fault::at(&finding.path, finding.line, &finding.what))
        .collect()
}
