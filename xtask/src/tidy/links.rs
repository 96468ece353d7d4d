//! Relative links in Markdown must refer to files of the repository.

use super::Fault;
use super::tree::Tree;

/// Checks every link that has no scheme.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let mut code_block = false;
        for (index, line) in file.text.lines().enumerate() {
            code_block ^= line.trim_start().starts_with("```");
            if code_block {
                continue;
            }
            for target in targets(line) {
                if !resolve(&file.path, target).is_some_and(|path| tree.has(&path)) {
                    faults.push(Fault::at(&file.path, index + 1, format!("broken link: {target}")));
                }
            }
        }
    }
    faults
}

/// Iterates over the relative targets of the links in a line, without their anchors.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}

/// Returns the target's path from the root; `None` if it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files() {
        for (text, expected) in [
            ("[a](b.md#part) and [root](../README.md)", 0),
            ("[folder](../docs/)", 0),
            (
                "[web](https://example.com/x) [here](#part) [mail](mailto:a@example.com)",
                0,
            ),
            ("[lost](c.md)", 1),
            ("[outside](../../elsewhere.md)", 1),
            ("```\n[lost](c.md)\n```", 0),
        ] {
            let tree = Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")]);
            assert_eq!(check(&tree).len(), expected, "{text}");
        }
    }
}
