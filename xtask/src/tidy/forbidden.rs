//! Forbids attributes and macros in all Rust files of the repository, tests and tools included.

use super::Fault;
use super::rust::{Keep, blank, line_of};
use super::tree::Tree;

const FORBIDDEN: &[(&str, &str)] = &[
    (
        "#[allow(",
        "use #[expect(lint, reason = \"…\")]: it warns when it is no longer needed",
    ),
    (
        "#![allow(",
        "use #![expect(lint, reason = \"…\")]: it warns when it is no longer needed",
    ),
    ("todo!(", "implement it or remove it"),
    ("unimplemented!(", "implement it or remove it"),
    ("dbg!(", "remove it"),
];

/// Lists the forbidden attributes and macros in all Rust files.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let code = blank(&file.text, Keep::Code);
        for (what, why) in FORBIDDEN {
            for (offset, _) in code.match_indices(what) {
                faults.push(Fault::at(
                    &file.path,
                    line_of(&code, offset),
                    format!("`{what}`: {why}"),
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_code_is_found_wherever_it_stands() {
        for (text, expected) in [
            ("#[allow(dead_code)]\nfn f() {}", 1),
            ("#![allow(missing_docs)]", 1),
            ("fn f() { todo!() }", 1),
            ("fn f() { unimplemented!(\"later\") }\nfn g() { dbg!(1); }", 2),
            ("#[expect(dead_code, reason = \"why\")]", 0),
            ("// todo!() and #[allow(x)] in a comment", 0),
            ("let s = \"todo!()\";", 0),
        ] {
            assert_eq!(
                check(&Tree::of(&[("bench/src/main.rs", text)])).len(),
                expected,
                "{text}"
            );
        }
    }
}
