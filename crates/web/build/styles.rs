//! Concatenates the style sheets, without comments and without optional white space.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Returns all sheets of a folder as one, in the order of their names.
pub fn bundle(folder: &Path) -> anyhow::Result<String> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut sheets = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<Vec<PathBuf>>>()?;
    sheets.retain(|path| path.extension().is_some_and(|extension| extension == "css"));
    sheets.sort();
    let mut out = String::new();
    for sheet in sheets {
        let text = fs::read_to_string(&sheet).with_context(|| format!("reading {}", sheet.display()))?;
        minify(&text, &mut out);
    }
    Ok(out)
}

/// Appends the sheet. White space stays between words, and around `+`, `-` and `:`, where it can
/// have a meaning.
fn minify(sheet: &str, out: &mut String) {
    let mut rest = sheet.chars().peekable();
    let mut is_space_pending = false;
    while let Some(c) = rest.next() {
        if c == '/' && rest.peek() == Some(&'*') {
            let mut previous = ' ';
            rest.next();
            for inner in rest.by_ref() {
                if previous == '*' && inner == '/' {
                    break;
                }
                previous = inner;
            }
            is_space_pending = true;
            continue;
        }
        if c.is_whitespace() {
            is_space_pending = true;
            continue;
        }
        let follows_mark = out.is_empty() || out.ends_with(['{', '}', ';', ',', '>']);
        if is_space_pending && !follows_mark && !matches!(c, '{' | '}' | ';' | ',' | '>') {
            out.push(' ');
        }
        is_space_pending = false;
        if c == '}' && out.ends_with(';') {
            out.pop();
        }
        out.push(c);
        if matches!(c, '"' | '\'') {
            copy_string(c, &mut rest, out);
        }
    }
}

fn copy_string(quote: char, rest: &mut impl Iterator<Item = char>, out: &mut String) {
    let mut is_escaped = false;
    for c in rest {
        out.push(c);
        if c == quote && !is_escaped {
            return;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
}
