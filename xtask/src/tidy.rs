//! Checks of the architecture. Each rule is a module with tests of its bad examples.

mod changes;
mod error_pages;
mod file_names;
mod forbidden;
mod ignored_tests;
mod language;
mod links;
mod naming;
mod permits;
mod presets;
mod purity;
mod rust;
mod shell_variables;
mod sizes;
mod tree;
mod vendors;
mod words;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::layers;
use tree::Tree;

/// Violation of a rule at one place.
#[derive(Debug)]
pub struct Fault {
    path: String,
    line: Option<usize>,
    what: String,
}

impl Fault {
    /// Creates a fault of a file, or of a missing element in it.
    pub fn new(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: None,
            what: what.into(),
        }
    }

    /// Creates a fault in one line, counted from 1.
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

/// A rule checks the whole tree and returns its faults.
type Rule = fn(&Tree) -> Vec<Fault>;

const RULES: &[(&str, Rule)] = &[
    ("who may name which library", naming::check),
    ("no provider names in the core", vendors::check),
    ("the lowest layer is pure", purity::check),
    ("only admission permits upstream calls", permits::check),
    ("every error code has a page", error_pages::check),
    ("every preset is documented", presets::check),
    ("file names", file_names::check),
    ("fragments of the changelog", changes::check),
    ("forbidden attributes and macros", forbidden::check),
    ("a target runs every test", ignored_tests::check),
    ("no broken links", links::check),
    ("shell blocks set their variables", shell_variables::check),
    ("words of one machine", words::check),
    ("standard terms and plain comments", language::check),
];

/// Runs every rule, and prints the faults and the sizes. Returns false if there are faults.
pub fn run(root: &Path) -> anyhow::Result<bool> {
    let tree = Tree::read(root)?;
    let mut faults = layers::check(&cargo_metadata(root)?);
    print_rule("dependencies point to lower layers", &faults);
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

/// Prints `count` comments and `count` user-visible texts, drawn with `seed`.
pub fn sample_language(root: &Path, count: &str, seed: &str) -> anyhow::Result<bool> {
    let count = count.parse().context("the number of samples")?;
    let seed = seed.parse().context("the seed")?;
    let tree = Tree::read(root)?;
    for (title, texts) in [
        ("Comments", language::sample::comments(&tree)),
        ("User-visible texts", language::sample::user_texts(&tree)),
    ] {
        println!("{title}: {count} of {}", texts.len());
        for (index, sample) in language::sample::draw(texts, count, seed).iter().enumerate() {
            println!("{:>4}. {}\n      {}", index + 1, sample.text, sample.place);
        }
    }
    Ok(true)
}

/// Prints every finding of [`language`] below a path.
pub fn print_language(root: &Path, below: &str) -> anyhow::Result<bool> {
    let found = language::findings(&Tree::read(root)?);
    let found: Vec<_> = found
        .iter()
        .filter(|finding| finding.path.starts_with(below))
        .collect();
    for finding in &found {
        println!("{}:{}: {}", finding.path, finding.line, finding.what);
    }
    println!("{} findings", found.len());
    Ok(true)
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
    serde_json::from_slice(&output.stdout).context("parsing the output of cargo metadata")
}

/// Runs a rule over single files and compares the number of faults: (path, text, expected).
#[cfg(test)]
fn expect_faults(rule: Rule, cases: &[(&str, &str, usize)]) {
    for (path, text, expected) in cases {
        let found = rule(&Tree::of(&[(path, text)]));
        assert_eq!(found.len(), *expected, "{path}: {text}: {found:?}");
    }
}
