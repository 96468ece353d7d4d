//! A reader can paste the shell blocks of a page: the page sets each variable before it uses it.

use std::collections::HashSet;

use super::Fault;
use super::tree::Tree;

/// Variables that every shell sets.
const PREDEFINED: [&str; 2] = ["HOME", "PWD"];
const LANGUAGES: [&str; 3] = ["```sh", "```bash", "```console"];

/// Checks every shell block of the README and of the documentation.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let is_page = |path: &str| path.ends_with(".md") && (path.starts_with("docs/") || path == "README.md");
    for file in tree.files.iter().filter(|file| is_page(&file.path)) {
        let mut set = HashSet::from(PREDEFINED);
        let mut shell_block = false;
        for (index, line) in file.text.lines().enumerate() {
            let text = line.trim_start();
            if text.starts_with("```") {
                shell_block = !shell_block && LANGUAGES.contains(&text.trim_end());
                continue;
            }
            if !shell_block {
                continue;
            }
            set.extend(assigned(line));
            for name in used(line).filter(|name| !set.contains(name)) {
                let what = format!("the page does not set the variable {name}");
                faults.push(Fault::at(&file.path, index + 1, what));
            }
        }
    }
    faults
}

/// Iterates over the names before a `=` and after `for` or `read`.
fn assigned(line: &str) -> impl Iterator<Item = &str> {
    let mut before = "";
    line.split_whitespace().filter_map(move |word| {
        let keyword = std::mem::replace(&mut before, word);
        let name = match word.split_once('=') {
            Some((name, _)) => name,
            None if ["for", "read", "-r"].contains(&keyword) => word.trim_end_matches(';'),
            None => return None,
        };
        (!name.is_empty() && name.chars().all(is_of_name)).then_some(name)
    })
}

/// Iterates over the variables after a `$`, with or without braces.
fn used(line: &str) -> impl Iterator<Item = &str> {
    line.split('$').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            .then_some(name)
    })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_blocks_set_their_variables() {
        for (text, expected) in [
            ("```sh\ncurl \"$URL/v1\"\n```", 1),
            (
                "```sh\nexport URL=http://127.0.0.1 KEY=a\ncurl \"${URL}/v1\" $KEY\n```",
                0,
            ),
            ("```sh\nURL=a; curl $URL\n```\n\n```sh\ncurl $URL\n```", 0),
            ("```sh\ncurl $URL\n```\n\n```sh\nURL=a\n```", 1),
            (
                "```sh\nfor id in 1 2; do echo $id; done\nls $PWD $1 $(pwd)\n```",
                0,
            ),
            ("```sh\nwhile read -r row; do echo $row; done\n```", 0),
            ("```toml\nkey = \"$KEY\"\n```\n`$KEY`", 0),
        ] {
            let tree = Tree::of(&[("docs/a.md", text), ("notes/b.md", "```sh\necho $A\n```")]);
            assert_eq!(check(&tree).len(), expected, "{text}");
        }
    }
}
