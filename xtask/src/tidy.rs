//! What the architecture stands on, checked. Each rule is a module with its own bad examples.

mod error_pages;
mod file_names;
mod forbidden;
mod ignored_tests;
mod links;
mod naming;
mod permits;
mod presets;
mod purity;
mod rust;
mod sizes;
mod tree;
mod vendors;
mod words;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::floors;
use tree::Tree;

/// One broken rule at one place.
#[derive(Debug)]
pub struct Fault {
    path: String,
    line: Option<usize>,
    what: String,
}

impl Fault {
    /// A fault of a file, or of something that is missing there.
    pub fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: None,
            what: what.into(),
        }
    }

    /// A fault in one line; lines count from 1.
    pub fn at(path: impl Into<String>, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: Some(line),
            what: what.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.what),
            None => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

/// A rule looks at the whole tree and says what is wrong.
type Rule = fn(&Tree) -> Vec<Fault>;

const RULES: &[(&str, Rule)] = &[
    ("who may name which library", naming::check),
    ("no maker's name in the core", vendors::check),
    ("the ground floor is pure", purity::check),
    ("only admission lets a call go upstream", permits::check),
    ("every error code has a page", error_pages::check),
    ("every preset is documented", presets::check),
    ("file names", file_names::check),
    ("forbidden attributes and macros", forbidden::check),
    ("ignored tests are proofs", ignored_tests::check),
    ("links lead somewhere", links::check),
    ("words of one machine", words::check),
];

/// Runs every rule, prints the faults and the sizes; false when there are faults.
pub fn run(root: &Path) -> anyhow::Result<bool> {
    let tree = Tree::read(root)?;
    let mut faults = floors::check(&cargo_metadata(root)?);
    print_rule("dependencies go down", &faults);
    for (name, rule) in RULES {
        let found = rule(&tree);
        print_rule(name, &found);
        faults.extend(found);
    }
    print!("\n{}", sizes::report(&tree));
    if !faults.is_empty() {
        println!("\ntidy: {} faults", faults.len());
    }
    Ok(faults.is_empty())
}

fn print_rule(name: &str, faults: &[Fault]) {
    println!("{} {name}", if faults.is_empty() { "ok  " } else { "FAIL" });
    for fault in faults {
        println!("     {fault}");
    }
}

fn cargo_metadata(root: &Path) -> anyhow::Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("reading what cargo metadata printed")
}

/// Runs a rule over single files and compares the number of faults: (path, text, expected).
#[cfg(test)]
fn expect_faults(rule: Rule, cases: &[(&str, &str, usize)]) {
    for (path, text, expected) in cases {
        let found = rule(&Tree::of(&[(path, text)]));
        assert_eq!(found.len(), *expected, "{path}: {text}: {found:?}");
    }
}
