//! Reports the largest files and functions, with reference figures. No size is a fault, but an
//! outlier should be intentional.

use std::fmt::Write;

use super::rust::{Keep, blank, functions};
use super::tree::Tree;

/// Number of files, and of functions, in the report.
const SHOWN: usize = 8;

/// Median and ninth decile of the file lengths in a reference web application.
const ANCHOR: (usize, usize) = (77, 253);

/// Files that are long because they contain a table, with the reason.
const TABLES: &[(&str, &str)] = &[
    (
        "crates/providers/src/openai_compatible/presets.rs",
        "one row for each preset",
    ),
    ("crates/types/src/error.rs", "one arm for each code"),
];

/// Formats the report for printing.
pub fn report(tree: &Tree) -> String {
    let mut files: Vec<(usize, &str)> = Vec::new();
    let mut all_functions: Vec<(usize, String)> = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_product()) {
        files.push((file.text.lines().count(), &file.path));
        let code = blank(&file.text, Keep::Code);
        for function in functions(&code) {
            all_functions.push((
                function.lines,
                format!("{}:{} {}", file.path, function.line, function.name),
            ));
        }
    }
    files.sort_by(|a, b| b.cmp(a));
    all_functions.sort_by(|a, b| b.cmp(a));
    let mut out = String::new();
    let (median, decile) = (quantile(&files, 50), quantile(&files, 90));
    let _ = writeln!(
        out,
        "{} files: p50 {median} lines, p90 {decile} (anchor: {}, {})",
        files.len(),
        ANCHOR.0,
        ANCHOR.1
    );
    for (lines, path) in files.iter().take(SHOWN) {
        let reason = TABLES
            .iter()
            .find(|(table, _)| table == path)
            .map(|(_, reason)| format!("  ({reason})"));
        let _ = writeln!(out, "{lines:6} {path}{}", reason.unwrap_or_default());
    }
    let _ = writeln!(out, "longest functions (a screen is about 60 lines)");
    for (lines, place) in all_functions.iter().take(SHOWN) {
        let _ = writeln!(out, "{lines:6} {place}");
    }
    out
}

/// Returns the size that `percent` of the files do not exceed. The files must be in descending
/// order.
fn quantile(files: &[(usize, &str)], percent: usize) -> usize {
    let index = files.len() * (100 - percent) / 100;
    files
        .get(index.min(files.len().saturating_sub(1)))
        .map_or(0, |(lines, _)| *lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first_and_tests_do_not_count() {
        let tree = Tree::of(&[
            ("crates/edge/src/small.rs", "fn a() {}\n"),
            ("crates/edge/src/large.rs", "fn b() {\n\n\n}\n"),
            ("crates/edge/src/tests.rs", "\n\n\n\n\n\n\n\n"),
        ]);
        let report = report(&tree);
        assert!(report.starts_with("2 files: p50 1 lines, p90 4"), "{report}");
        let (large, small) = (
            report.find("4 crates/edge/src/large.rs"),
            report.find("1 crates/edge/src/small.rs"),
        );
        assert!(large.is_some() && large < small, "{report}");
        assert!(report.contains("4 crates/edge/src/large.rs:1 b"), "{report}");
        assert!(!report.contains("tests.rs"), "{report}");
    }

    #[test]
    fn an_empty_tree_has_a_report() {
        assert!(report(&Tree::default()).starts_with("0 files: p50 0 lines"));
    }
}
