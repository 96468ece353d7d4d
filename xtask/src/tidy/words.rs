//! The repository must contain only the project: no paths of a particular machine, and no notes
//! about the assignment of work.

use super::Fault;
use super::tree::Tree;

/// The path of this file, which contains the forbidden words.
const SELF: &str = "xtask/src/tidy/words.rs";

/// Folders at the top of a developer's machine, as parts of a path.
const FOLDERS: &[&str] = &["work", "root", "home"];

/// Forbidden texts in lower case.
const FORBIDDEN: &[&str] = &["../shared", "the brief", "workplace", "co-authored-by"];

/// Lists the forbidden texts in all text files.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != SELF) {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.to_lowercase();
            let phrase = FORBIDDEN.iter().find(|phrase| line.contains(**phrase)).copied();
            let phrase = phrase
                .or_else(|| names_a_folder(&line).then_some("a folder of one machine"))
                .or_else(|| names_an_issue(&line).then_some("the number of an issue"));
            if let Some(phrase) = phrase {
                faults.push(Fault::at(
                    &file.path,
                    index + 1,
                    format!("{phrase}: remove it: not every reader can use it"),
                ));
            }
        }
    }
    faults
}

fn names_a_folder(line: &str) -> bool {
    FOLDERS.iter().any(|folder| line.contains(&path_in(folder)))
}

fn path_in(folder: &str) -> String {
    format!("/{folder}/")
}

/// Whether a line contains `issue 7` or `issue #7` without a link, which a reader elsewhere cannot
/// look up.
fn names_an_issue(line: &str) -> bool {
    line.match_indices("issue ").any(|(at, word)| {
        let number = line[at + word.len()..].trim_start_matches('#');
        number.starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_machine_are_found() {
        for folder in FOLDERS {
            let text = format!("see {}notes.md", path_in(folder));
            assert_eq!(check(&Tree::of(&[("docs/a.md", &text)])).len(), 1, "{text}");
        }
        for (text, expected) in [
            ("cd /home/someone/tollgate", 1),
            ("as ../shared/spec says", 1),
            ("As issue #7 says", 1),
            ("done for Issue 7", 1),
            ("an issue with 7 parts; /workspace; network/", 0),
        ] {
            assert_eq!(check(&Tree::of(&[("docs/a.md", text)])).len(), expected, "{text}");
        }
    }

    #[test]
    fn only_this_table_may_name_them() {
        assert_eq!(
            check(&Tree::of(&[
                (SELF, "../shared"),
                ("xtask/src/main.rs", "../shared")
            ]))
            .len(),
            1
        );
    }
}
