//! Rules for comments: short lines, a concrete first word, and more information than the item's
//! name.

use super::Finding;
use crate::tidy::tree::File;

/// Maximum length of a line of a comment or of Markdown, in columns.
const MAX_COLUMNS: usize = 100;

/// Words that must not begin a documentation comment.
const BEGINNINGS: &[&str] = &["What", "Who", "Whoever", "Whose", "Whether nobody"];

/// Checks the comments of a Rust file, or the lines of a Markdown file.
pub fn check(file: &File) -> Vec<Finding> {
    if file.is_rust() {
        let mut found = long_comments(file);
        found.extend(documentation(file));
        return found;
    }
    if file.path.ends_with(".md") {
        return long_lines(file);
    }
    Vec::new()
}

fn finding(file: &File, index: usize, what: impl Into<String>) -> Finding {
    Finding {
        path: file.path.clone(),
        line: index + 1,
        what: what.into(),
    }
}

/// Whether a line is too long. A line without a space to break at, such as a URL, is allowed.
fn is_long(line: &str) -> bool {
    let columns = line.chars().count();
    columns > MAX_COLUMNS
        && line
            .trim_start_matches(['/', '!', ' ', '-', '*'])
            .trim_end()
            .contains(' ')
}

fn long_comments(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.trim_start().starts_with("//") && is_long(line))
        .map(|(index, _)| {
            finding(
                file,
                index,
                format!("a comment of more than {MAX_COLUMNS} columns"),
            )
        })
        .collect()
}

/// Checks the lines of a Markdown file. Tables, code and headings cannot be wrapped.
fn long_lines(file: &File) -> Vec<Finding> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !start.starts_with(['|', '#', '<', '[']) && is_long(line) {
            found.push(finding(
                file,
                index,
                format!("a line of more than {MAX_COLUMNS} columns"),
            ));
        }
    }
    found
}

/// Checks each documentation comment together with the item below it.
fn documentation(file: &File) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    let mut first = None;
    let (mut in_attribute, mut is_test) = (false, false);
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with("///") && !line.starts_with("////") {
            first.get_or_insert(index);
            continue;
        }
        // Attributes stand between a comment and its item.
        if first.is_some() && (in_attribute || line.starts_with("#[")) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            in_attribute = !line.ends_with(']');
            continue;
        }
        let is_test = std::mem::take(&mut is_test);
        let Some(start) = first.take() else { continue };
        let text: Vec<&str> = lines[start..index]
            .iter()
            .filter_map(|line| line.strip_prefix("///"))
            .map(str::trim)
            .collect();
        let text = text.join(" ");
        let what = fault(&text, line).or_else(|| verbless(&text, line).filter(|_| !is_test));
        if let Some(what) = what {
            found.push(finding(file, start, what));
        }
    }
    found
}

/// Returns the fault in the documentation of an item; `item` is the first line of its code.
fn fault(text: &str, item: &str) -> Option<String> {
    let text = text.trim();
    let begins = |word: &&&str| {
        text.strip_prefix(**word)
            .is_some_and(|rest| rest.starts_with(' '))
    };
    if let Some(word) = BEGINNINGS.iter().find(begins) {
        return Some(format!(
            "documentation begins with \"{word}\": name the thing itself"
        ));
    }
    let said = plain_words(text);
    if said.len() <= 2 && !text.contains('`') {
        return Some(format!(
            "\"{text}\" says too little: add a unit, a range or a reason, or delete it"
        ));
    }
    let name = plain_words(&separate(name_of(item)?));
    let adds = said
        .iter()
        .any(|word| !FILLERS.contains(&word.as_str()) && !is_in(word, &name));
    (!adds).then(|| format!("\"{text}\" repeats the name: add to it or delete it"))
}

/// Returns the fault in the documentation of a function that does not begin with a verb.
fn verbless(text: &str, item: &str) -> Option<String> {
    const NO_VERBS: &[&str] = &["This", "Its", "As", "Always", "Settings", "Bytes", "Tokens"];
    let before = |word: &&str| {
        ["pub", "async", "const", "unsafe", "extern"].contains(word) || word.starts_with("pub(")
    };
    let is_function = item.split_whitespace().find(|word| !before(word)) == Some("fn");
    let word = text.split([' ', ',', '.', ':']).next().unwrap_or_default();
    let is_verb = word.ends_with('s') && !NO_VERBS.contains(&word);
    let is_allowed = is_verb || ["Whether", "Like", "See"].contains(&word);
    (is_function && !is_allowed).then(|| {
        format!("documentation of a function begins with \"{word}\": begin with a verb, such as \"Returns\"")
    })
}

const FILLERS: &[&str] = &[
    "a", "an", "the", "of", "its", "this", "that", "is", "for", "to", "in", "by",
];

/// Whether a word is part of the name, in singular or plural.
fn is_in(word: &str, name: &[String]) -> bool {
    let stem = |word: &str| word.trim_end_matches('s').to_owned();
    name.iter().any(|part| stem(part) == stem(word))
}

fn plain_words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Separates the words of a name with spaces: `MediaState` becomes "Media State".
fn separate(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// Returns the name of the item that a line of code declares.
fn name_of(line: &str) -> Option<&str> {
    const KEYWORDS: &[&str] = &["fn", "struct", "enum", "trait", "const", "static", "type", "mod"];
    const BEFORE: &[&str] = &["pub", "async", "unsafe", "extern"];
    let mut words = line.split_whitespace().peekable();
    while words
        .peek()
        .is_some_and(|word| BEFORE.contains(word) || word.starts_with("pub("))
    {
        words.next();
    }
    let mut name = words.next()?;
    if KEYWORDS.contains(&name) {
        name = words.next()?;
        // The item is a `const fn`.
        if name == "fn" {
            name = words.next()?;
        }
    }
    let end = name
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(name.len());
    (end > 0).then(|| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        check(&file).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn documentation_says_more_than_the_name() {
        for (text, expected) in [
            ("/// The account.\npub account: AccountId,\n", 1),
            ("/// Which one.\npub account: AccountId,\n", 1),
            ("/// The id of the account.\npub account_id: AccountId,\n", 1),
            ("/// The account that pays.\npub account: AccountId,\n", 0),
            ("/// What it costs, in credits.\nfn cost() {}\n", 1),
            ("/// Whoever sends it.\nfn cost() {}\n", 1),
            ("/// Whether it has ended.\nfn has_ended() {}\n", 0),
            ("/// Media state.\n#[derive(Clone)]\npub struct MediaState;\n", 1),
            ("/// See `hold`.\npub const fn a() {}\n", 0),
            ("// The account.\nlet account = 1;\n", 0),
            ("/// The price of a call.\npub fn price() {}\n", 1),
            ("/// Returns the price of a call.\npub fn price() {}\n", 0),
            ("/// Like [`b`], but for calls.\nasync fn a() {}\n", 0),
            ("/// The price of a call.\ntype A = fn(u8);\n", 0),
            ("/// A call costs more.\n#[test]\nfn costs() {}\n", 0),
            ("/// The price of a call.\n#[path(\n  get\n)]\nfn a() {}\n", 1),
        ] {
            assert_eq!(found("crates/a/src/a.rs", text).len(), expected, "{text}");
        }
    }

    #[test]
    fn lines_are_at_most_a_hundred_columns() {
        let comment = |columns: usize| format!("// a {}\n", "b".repeat(columns - 5));
        assert_eq!(found("crates/a/src/a.rs", &comment(100)).len(), 0);
        assert_eq!(found("crates/a/src/a.rs", &comment(101)).len(), 1);
        let address = format!("// https://{}\n", "b".repeat(100));
        assert_eq!(found("crates/a/src/a.rs", &address).len(), 0);
        let line = format!("a {}", "b".repeat(99));
        for (text, expected) in [
            (format!("{line}\n"), 1),
            (format!("| {line} |\n"), 0),
            (format!("```\n{line}\n```\n"), 0),
        ] {
            assert_eq!(found("docs/a.md", &text).len(), expected, "{text}");
        }
    }
}
