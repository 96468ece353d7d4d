//! An ignored test must be run by a target: `make prove` runs those named `prove_…`, `make measure`
//! those named `bench_…`, and a test of the same file may start another as a separate process.

use super::Fault;
use super::rust::{Keep, blank, functions, line_of};
use super::tree::Tree;

/// Checks that the name of every ignored test matches one of the targets.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let code = blank(&file.text, Keep::Code);
        for (offset, _) in code.match_indices("#[ignore") {
            let line = line_of(&code, offset);
            let test = functions(&code)
                .into_iter()
                .find(|function| function.line >= line);
            let is_run = |name: &str| {
                let by_target = ["prove_", "bench_"].iter().any(|known| name.starts_with(known));
                by_target || file.text.contains(&format!("::{name}\""))
            };
            if let Some(test) = test.filter(|test| !is_run(test.name)) {
                let what = format!(
                    "`{}` is ignored and never run: name it `prove_…` or `bench_…`, or run it",
                    test.name
                );
                faults.push(Fault::at(&file.path, line, what));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_tests_are_named_as_proofs() {
        let attribute = "#[test]\n#[ignore = \"long\"]\n";
        for (name, expected) in [("prove_no_overspending", 0), ("bench_hold", 0), ("flaky", 1)] {
            let text = format!("fn before() {{}}\n{attribute}fn {name}() {{}}\n");
            assert_eq!(
                check(&Tree::of(&[("crates/billing/tests/all.rs", &text)])).len(),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn a_test_may_be_started_by_another() {
        let ignored = "#[test]\n#[ignore = \"a child\"]\nfn child() {}\n";
        for (other, expected) in [("run(\"module::child\")", 0), ("run(child)", 1)] {
            let text = format!("{ignored}#[test]\nfn parent() {{ {other} }}\n");
            let tree = Tree::of(&[("crates/billing/tests/all.rs", &text)]);
            assert_eq!(check(&tree).len(), expected, "{other}");
        }
    }
}
