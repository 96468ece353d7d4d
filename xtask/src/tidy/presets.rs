//! Every preset of the compatible providers must be documented.

use super::Fault;
use super::rust::{Keep, blank, line_of};
use super::tree::Tree;

const PRESETS: &str = "crates/providers/src/openai_compatible/presets.rs";
const PAGE: &str = "docs/providers.md";

/// Checks that docs/providers.md names each preset in backticks.
pub fn check(tree: &Tree) -> Vec<Fault> {
    // The rule applies only after both files exist.
    let (Some(presets), Some(page)) = (tree.file(PRESETS), tree.file(PAGE)) else {
        return Vec::new();
    };
    let code = blank(&presets.text, Keep::CodeAndLiterals);
    let names: Vec<(usize, &str)> = names(&code).collect();
    if names.is_empty() {
        return vec![Fault::new(
            PRESETS,
            "no presets found: expected fields like `name: \"acme\"`",
        )];
    }
    let missing = names
        .into_iter()
        .filter(|(_, name)| !page.text.contains(&format!("`{name}`")));
    missing
        .map(|(at, name)| Fault::at(PRESETS, line_of(&code, at), format!("`{name}` is not in {PAGE}")))
        .collect()
}

/// Iterates over the values that name a preset, with their offsets: its id, or its name if it has
/// no id.
fn names(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let field = if code.contains(" id: \"") {
        " id: \""
    } else {
        " name: \""
    };
    code.match_indices(field).filter_map(|(at, field)| {
        let value = &code[at + field.len()..];
        Some((at, &value[..value.find('"')?]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(presets: &str, page: &str) -> usize {
        check(&Tree::of(&[(PRESETS, presets), (PAGE, page)])).len()
    }

    #[test]
    fn presets_are_documented() {
        let presets = "Preset { name: \"acme\", x: 1 },\nPreset { name: \"zenith\" },";
        assert_eq!(faults(presets, "| `acme` | `zenith` |"), 0);
        assert_eq!(faults(presets, "| `acme` | zenith |"), 1);
        assert_eq!(
            faults("Preset { id: \"acme\", name: \"Acme Inc.\" }", "| `acme` |"),
            0
        );
        assert_eq!(faults("const NONE: u8 = 0;", "| `acme` |"), 1);
    }

    #[test]
    fn a_page_that_is_not_written_yet_is_no_fault() {
        assert!(check(&Tree::of(&[(PRESETS, "name: \"acme\"")])).is_empty());
    }
}
