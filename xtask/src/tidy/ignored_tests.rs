//! A target must run every test. `make prove` runs the ignored tests named `prove_…`, `make
//! measure` those named `bench_…`, and a test of the same file may start another as a separate
//! process. No target runs examples in doc comments, because `cargo test --doc` takes long.

use super::Fault;
use super::rust::{Keep, blank, functions, line_of};
use super::tree::Tree;

/// Info strings of code blocks that rustdoc runs as tests, beside the empty one.
const DOC_TESTS: &[&str] = &[
    "rust",
    "should_panic",
    "no_run",
    "ignore",
    "compile_fail",
    "edition",
];

/// Checks that the name of every ignored test matches one of the targets, and that no doc comment
/// contains a test.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = ignored(tree);
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        faults.extend(doc_tests(&file.text).map(|line| {
            let what = "no target runs this example: move it into a test, or mark the block as `text`";
            Fault::at(&file.path, line, what.to_owned())
        }));
    }
    faults
}

/// Returns the lines that begin a code block that rustdoc runs as a test.
fn doc_tests(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut is_open = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(info) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else {
            is_open &= comment.is_some();
            return None;
        };
        is_open = !is_open;
        let is_test = info.is_empty() || DOC_TESTS.iter().any(|known| info.starts_with(known));
        (is_open && is_test).then_some(index + 1)
    })
}

fn ignored(tree: &Tree) -> Vec<Fault> {
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
    fn doc_comments_contain_no_tests() {
        let fence = "```";
        for (text, lines) in [
            (
                format!("//! {fence}text\n//! a\n//! {fence}\nfn f() {{}}\n"),
                vec![],
            ),
            (
                format!("/// {fence}\n/// f();\n/// {fence}\nfn f() {{}}\n"),
                vec![1],
            ),
            (
                format!("/// A.\n///\n/// {fence}rust\n/// f();\n/// {fence}\nfn f() {{}}\n"),
                vec![3],
            ),
            (
                format!("/// {fence}text\nfn f() {{}}\n/// {fence}no_run\n"),
                vec![3],
            ),
            (format!("// {fence}\n"), vec![]),
        ] {
            assert_eq!(doc_tests(&text).collect::<Vec<_>>(), lines, "{text}");
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
