//! Names and contents of the fragments in `changes/`, as its README describes them.

use super::Fault;
use super::tree::{File, Tree};

const FOLDER: &str = "changes/";
const KINDS: &[&str] = &["added", "changed", "fixed", "removed", "security"];
const MAX_COLUMNS: usize = 100;

/// Checks the name and the content of every fragment.
pub fn check(tree: &Tree) -> Vec<Fault> {
    tree.paths
        .iter()
        .filter_map(|path| Some((path, path.strip_prefix(FOLDER)?)))
        .filter(|(_, name)| *name != "README.md")
        .filter_map(|(path, name)| {
            let what = fault_of_name(name).or_else(|| tree.file(path).and_then(fault_of_text))?;
            Some(Fault::new(path, what))
        })
        .collect()
}

fn fault_of_name(name: &str) -> Option<&'static str> {
    let is_plain = |subject: &str| {
        !subject.is_empty()
            && subject
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
    };
    let parts = name.strip_suffix(".md").and_then(|stem| stem.split_once('-'));
    let is_valid = parts.is_some_and(|(kind, subject)| KINDS.contains(&kind) && is_plain(subject));
    (!is_valid).then_some("the name is `<kind>-<subject>.md`; changes/README.md lists the kinds")
}

fn fault_of_text(file: &File) -> Option<&'static str> {
    let lines: Vec<&str> = file.text.lines().collect();
    let is_short = lines.iter().all(|line| line.chars().count() <= MAX_COLUMNS);
    let is_valid = is_short
        && match lines.as_slice() {
            [change] => !change.is_empty(),
            [change, link] => !change.is_empty() && link.contains("]("),
            _ => false,
        };
    (!is_valid).then_some("a fragment is one line of at most 100 columns, and a second one with a link")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_kind_and_a_subject() {
        let line = "Videos with `extend_from` have the price of their source's size.\n";
        for (path, expected) in [
            ("changes/README.md", 0),
            ("changes/fixed-price-of-extended-videos.md", 0),
            ("changes/fixed-.md", 1),
            ("changes/price.md", 1),
            ("changes/repaired-price.md", 1),
            ("changes/fixed-Price.md", 1),
            ("changes/fixed-price.txt", 1),
            ("docs/price.md", 0),
        ] {
            assert_eq!(check(&Tree::of(&[(path, line)])).len(), expected, "{path}");
        }
    }

    #[test]
    fn fragments_have_one_line_and_a_link() {
        let (full, long) = ("a".repeat(100), "a".repeat(101));
        for (text, expected) in [
            ("One line.\n", 0),
            ("One line.\n[Videos](../docs/videos.md)\n", 0),
            (&*full, 0),
            (&*long, 1),
            ("", 1),
            ("One line.\nAnother line.\n", 1),
            ("One line.\n[Videos](../docs/videos.md)\nThird.\n", 1),
        ] {
            let tree = Tree::of(&[("changes/added-videos.md", text)]);
            assert_eq!(check(&tree).len(), expected, "{text}");
        }
    }
}
