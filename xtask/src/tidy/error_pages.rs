//! Every public error code must have a page in docs/errors and a row in its index, and every page
//! must belong to a code.

use std::collections::BTreeSet;

use super::Fault;
use super::rust::{Keep, blank};
use super::tree::Tree;

const CODES: &str = "crates/types/src/error.rs";
const FOLDER: &str = "docs/errors/";
const INDEX: &str = "docs/errors/README.md";

/// Compares the codes with the pages and the index.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let codes = tree.file(CODES).map(|file| codes(&file.text)).unwrap_or_default();
    if codes.is_empty() {
        return vec![Fault::new(
            CODES,
            "no error codes found: expected lines like `NotFound => \"not_found\",`",
        )];
    }
    let index = tree
        .file(INDEX)
        .map(|file| file.text.as_str())
        .unwrap_or_default();
    let mut faults = Vec::new();
    for code in &codes {
        match tree.file(&format!("{FOLDER}{code}.md")) {
            None => faults.push(Fault::new(
                format!("{FOLDER}{code}.md"),
                "missing: every error code has a page",
            )),
            Some(page) if !page.text.starts_with(&format!("# `{code}`\n")) => {
                faults.push(Fault::at(
                    &page.path,
                    1,
                    format!("the heading is the code: # `{code}`"),
                ));
            }
            Some(_) => {}
        }
        if !index.contains(&format!("]({code}.md)")) {
            faults.push(Fault::new(INDEX, format!("`{code}` has no row")));
        }
    }
    for path in tree
        .paths
        .iter()
        .filter(|path| path.starts_with(FOLDER) && *path != INDEX)
    {
        let stem = path.trim_start_matches(FOLDER).trim_end_matches(".md");
        if !codes.contains(stem) {
            faults.push(Fault::new(path, "there is no such error code"));
        }
    }
    faults
}

/// Collects the strings of all match arms of the form `Variant => "code"`.
fn codes(source: &str) -> BTreeSet<String> {
    let source = blank(source, Keep::CodeAndLiterals);
    source.lines().filter_map(code).map(str::to_owned).collect()
}

fn code(line: &str) -> Option<&str> {
    let (variant, text) = line.split_once("=>")?;
    let variant = variant.trim().rsplit("::").next()?;
    let code = text
        .trim()
        .strip_prefix('"')?
        .trim_end_matches(',')
        .strip_suffix('"')?;
    let is_variant =
        variant.starts_with(|c: char| c.is_ascii_uppercase()) && variant.chars().all(char::is_alphanumeric);
    let is_code = !code.is_empty()
        && code
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (is_variant && is_code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: (&str, &str) = (
        CODES,
        "/// Gone.\n    Gone => \"gone\",\n    Self::NotFound => \"not_found\",\n",
    );
    const GONE: (&str, &str) = ("docs/errors/gone.md", "# `gone`\n");
    const NOT_FOUND: (&str, &str) = ("docs/errors/not_found.md", "# `not_found`\n");
    const BOTH: (&str, &str) = (INDEX, "[`gone`](gone.md) [`not_found`](not_found.md)");

    fn faults(files: &[(&str, &str)]) -> String {
        check(&Tree::of(files))
            .iter()
            .map(|fault| format!("{fault}\n"))
            .collect()
    }

    #[test]
    fn codes_and_pages_agree() {
        assert_eq!(faults(&[SOURCE, GONE, NOT_FOUND, BOTH]), "");
    }

    #[test]
    fn a_code_without_a_page_is_a_fault() {
        assert!(faults(&[SOURCE, GONE, BOTH]).contains("not_found.md: missing"));
    }

    #[test]
    fn a_page_without_a_code_is_a_fault() {
        let stray = ("docs/errors/lost.md", "# `lost`\n");
        assert!(
            faults(&[SOURCE, GONE, NOT_FOUND, BOTH, stray]).contains("lost.md: there is no such error code")
        );
    }

    #[test]
    fn a_wrong_heading_is_a_fault() {
        let wrong = ("docs/errors/gone.md", "# Gone\n");
        assert!(faults(&[SOURCE, wrong, NOT_FOUND, BOTH]).contains("gone.md:1: the heading"));
    }

    #[test]
    fn the_index_has_a_row_for_each_code() {
        let short = (INDEX, "[`gone`](gone.md)");
        assert!(faults(&[SOURCE, GONE, NOT_FOUND, short]).contains("`not_found` has no row"));
    }

    #[test]
    fn codes_that_cannot_be_read_are_a_fault() {
        assert!(faults(&[(CODES, "pub enum ErrorCode {}"), BOTH]).contains("no error codes found"));
    }
}
