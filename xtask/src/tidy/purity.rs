//! The crates of the lowest layers contain only values and functions: no tasks, no input or output,
//! no clock.

use super::Fault;
use super::rust::{Keep, blank, find_word, line_of};
use super::tree::Tree;

/// Crates that only compute.
const PURE: &[&str] = &[
    "crates/types/",
    "crates/formats/",
    "crates/probability/",
    "crates/evidence/",
];

/// The one file that may read the time.
const CLOCK: &str = "crates/types/src/clock.rs";

const BANNED: &[(&str, &str)] = &[
    ("async", "no async code here"),
    ("await", "no async code here"),
    ("tokio", "no runtime here"),
    ("std::fs", "no input or output here"),
    ("std::net", "no input or output here"),
    ("std::process", "no input or output here"),
    ("std::env", "no settings here: pass the value in"),
    ("std::thread", "no threads here"),
];

const TIME: &[&str] = &["Instant::now", "SystemTime::now", "Timestamp::now", "Zoned::now"];

/// Checks the product files of the pure crates.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let pure = |path: &str| PURE.iter().any(|prefix| path.starts_with(prefix));
    for file in tree
        .files
        .iter()
        .filter(|file| file.is_product() && pure(&file.path))
    {
        let code = blank(&file.text, Keep::Code);
        let mut look_for = |word: &str, why: &str| {
            if let Some(offset) = find_word(&code, word).first() {
                faults.push(Fault::at(
                    &file.path,
                    line_of(&code, *offset),
                    format!("`{word}`: {why}"),
                ));
            }
        };
        for (word, why) in BANNED {
            look_for(word, why);
        }
        for word in TIME.iter().filter(|_| file.path != CLOCK) {
            look_for(word, "only the clock reads the time");
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::expect_faults;
    use super::*;

    #[test]
    fn bottom_layer_only_computes() {
        let cases = [
            ("crates/types/src/id.rs", "pub async fn f() {}", 1),
            ("crates/types/src/id.rs", "let t = SystemTime::now();", 1),
            ("crates/types/src/clock.rs", "let t = SystemTime::now();", 0),
            ("crates/formats/src/sse.rs", "use std::fs::File;", 1),
            ("crates/formats/src/sse.rs", "// async", 0),
            ("crates/types/src/id/tests.rs", "std::thread::spawn(f)", 0),
            ("crates/storage/src/job.rs", "async fn f();", 0),
        ];
        expect_faults(check, &cases);
    }
}
