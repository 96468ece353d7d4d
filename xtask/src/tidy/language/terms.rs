//! The words that this project avoids (`terms.txt`).

use regex::{Regex, RegexBuilder};

use super::Finding;
use crate::tidy::rust::{Part, parts};
use crate::tidy::tree::File;

const SHIPPED: &str = include_str!("terms.txt");

/// Scopes in which a word is forbidden.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Identifier,
    File,
    Prose,
    String,
}

const SCOPES: &[Scope] = &[Scope::Identifier, Scope::File, Scope::Prose, Scope::String];

struct Term {
    pattern: Regex,
    scopes: Vec<Scope>,
    instead: String,
}

struct Allowed {
    path: String,
    pattern: Regex,
}

/// The table of forbidden words.
pub struct Terms {
    terms: Vec<Term>,
    allowed: Vec<Allowed>,
    /// One combined expression per scope. It quickly skips texts without a term, which are the
    /// normal case.
    any: Vec<(Scope, Regex)>,
}

impl Terms {
    /// Returns the project's table. Malformed lines are skipped; a test checks that none exist.
    pub fn shipped() -> Self {
        Self::read(SHIPPED).0
    }

    /// Parses a table. Also returns the malformed lines.
    fn read(text: &str) -> (Self, Vec<&str>) {
        let mut table = Self {
            terms: Vec::new(),
            allowed: Vec::new(),
            any: Vec::new(),
        };
        let rows = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let bad = rows.filter(|line| table.add(line).is_none()).collect();
        table.any = SCOPES
            .iter()
            .filter_map(|scope| Some((*scope, table.any_of(*scope)?)))
            .collect();
        (table, bad)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let columns: Vec<&str> = line.split('\t').collect();
        match columns.as_slice() {
            ["term", pattern, scopes, instead] => self.terms.push(Term {
                pattern: whole_words(pattern)?,
                scopes: scopes.split(' ').map(scope).collect::<Option<_>>()?,
                instead: (*instead).to_owned(),
            }),
            ["allow", path, pattern, _] => self.allowed.push(Allowed {
                path: (*path).to_owned(),
                pattern: whole_words(pattern)?,
            }),
            _ => return None,
        }
        Some(())
    }

    fn any_of(&self, scope: Scope) -> Option<Regex> {
        let terms = self.terms.iter().filter(|term| term.scopes.contains(&scope));
        let patterns: Vec<&str> = terms.map(|term| term.pattern.as_str()).collect();
        whole_words(&patterns.join("|"))
    }

    /// Lists the terms in one file.
    pub fn check(&self, file: &File) -> Vec<Finding> {
        let mut found = Vec::new();
        self.look(file, Scope::File, 1, &words(&file.path), &mut found);
        if file.is_rust() {
            self.check_rust(file, &mut found);
        } else if file.path.ends_with(".md") {
            for (line, text) in prose_of_markdown(&file.text) {
                self.look(file, Scope::Prose, line, &text, &mut found);
            }
        } else if is_web_source(&file.path) {
            self.check_web(file, &mut found);
        }
        found
    }

    /// Checks comments as prose, and code with its texts as user-visible text.
    fn check_web(&self, file: &File, found: &mut Vec<Finding>) {
        let mut is_block = false;
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim();
            is_block |= line.starts_with("/*");
            let is_comment = is_block || line.starts_with("//");
            is_block &= !line.ends_with("*/");
            let scope = if is_comment { Scope::Prose } else { Scope::String };
            self.look(file, scope, index + 1, &without_code(line), found);
        }
    }

    fn check_rust(&self, file: &File, found: &mut Vec<Finding>) {
        let mut comment: Option<(usize, String)> = None;
        for (part, line, text) in parts(&file.text) {
            if part == Part::Comment {
                let text = text.trim_start_matches(['/', '!', '*']).trim();
                let (_, block) = comment.get_or_insert((line, String::new()));
                block.push_str(text);
                block.push(' ');
                continue;
            }
            if part == Part::Code && text.trim().is_empty() && text.matches('\n').count() < 2 {
                continue;
            }
            if let Some((line, block)) = comment.take() {
                self.look(file, Scope::Prose, line, &without_code(&block), found);
            }
            match part {
                Part::Code => self.check_code(file, line, text, found),
                Part::Literal if file.is_product() => self.look(file, Scope::String, line, text, found),
                _ => {}
            }
        }
        if let Some((line, block)) = comment {
            self.look(file, Scope::Prose, line, &without_code(&block), found);
        }
    }

    /// Checks the identifiers of code. Each use of an identifier counts, so that a common name has
    /// a high weight.
    fn check_code(&self, file: &File, first: usize, code: &str, found: &mut Vec<Finding>) {
        for (index, line) in code.lines().enumerate() {
            for name in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
                self.look(file, Scope::Identifier, first + index, &words(name), found);
            }
        }
    }

    fn look(&self, file: &File, scope: Scope, line: usize, text: &str, found: &mut Vec<Finding>) {
        let any = self.any.iter().find(|(of, _)| *of == scope);
        if text.is_empty() || any.is_some_and(|(_, any)| !any.is_match(text)) {
            return;
        }
        for term in self.terms.iter().filter(|term| term.scopes.contains(&scope)) {
            for hit in term.pattern.find_iter(text) {
                let allowed = self.allowed.iter().any(|allowed| {
                    matches_path(&allowed.path, &file.path)
                        && allowed
                            .pattern
                            .find_iter(text)
                            .any(|around| around.start() <= hit.start() && hit.end() <= around.end())
                });
                if !allowed {
                    found.push(Finding {
                        path: file.path.clone(),
                        line,
                        what: format!("\"{}\": write {}", hit.as_str(), term.instead),
                    });
                }
            }
        }
    }
}

fn scope(name: &str) -> Option<Scope> {
    match name {
        "identifier" => Some(Scope::Identifier),
        "file" => Some(Scope::File),
        "prose" => Some(Scope::Prose),
        "string" => Some(Scope::String),
        _ => None,
    }
}

fn whole_words(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(&format!(r"\b(?:{pattern})\b"))
        .case_insensitive(true)
        .build()
        .ok()
}

/// Splits names into words: `crates/media/film_job.rs` becomes "crates media film job rs", and
/// `FilmJob` becomes "film job".
fn words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 8);
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_alphanumeric() {
            words.push(' ');
        } else {
            if c.is_uppercase() && (before.is_lowercase() || before.is_numeric()) {
                words.push(' ');
            }
            words.extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

/// Removes the text between backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Collects the paragraphs and table rows outside code, each with its first line.
fn prose_of_markdown(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut in_code, mut goes_on) = (false, false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            goes_on = false;
        } else if in_code || line.trim().is_empty() {
            goes_on = false;
        } else if let (true, Some((_, paragraph))) = (goes_on, found.last_mut()) {
            paragraph.push(' ');
            paragraph.push_str(line);
        } else {
            found.push((index + 1, line.to_owned()));
            goes_on = true;
        }
    }
    for (_, paragraph) in &mut found {
        *paragraph = without_code(paragraph);
    }
    found
}

/// Whether a path matches a pattern in which `*` stands for any characters.
fn matches_path(pattern: &str, path: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = path.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut rest = rest;
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = part;
    }
    rest.is_empty() || (pattern.ends_with('*') && last.is_empty())
}

/// Whether a file is source of the web console, and neither vendored nor generated.
fn is_web_source(path: &str) -> bool {
    let is_source = [".ts", ".tsx", ".css", ".mjs", ".html"]
        .iter()
        .any(|extension| path.ends_with(extension));
    path.starts_with("web/") && !path.starts_with("web/vendor/") && is_source
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let file = File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Terms::shipped().check(&file).len()
    }

    #[test]
    fn every_row_can_be_read() {
        assert_eq!(Terms::read(SHIPPED).1, Vec::<&str>::new());
    }

    #[test]
    fn terms_are_found_in_their_scopes() {
        for (path, text, expected) in [
            ("crates/a/src/film.rs", "", 1),
            ("crates/a/src/a.rs", "// Makes a film\n// of pictures.\n", 2),
            ("crates/a/src/a.rs", "// Runs them at\n// once.\n", 1),
            ("crates/a/src/a.rs", "// Reads `film` and [`a`].\n", 0),
            ("crates/a/src/a.rs", "struct FilmJob;\nfn film() {}\n", 2),
            ("crates/a/src/a.rs", "fn f() { g(\"no film\") }\n", 1),
            ("crates/a/tests/a.rs", "fn f() { g(\"no film\") }\n", 0),
            ("crates/a/src/a.rs", "const MOST: u8 = 1; // at most one\n", 1),
            ("docs/a.md", "A film,\nat\nonce.\n\n```\nfilm\n```\n`film`\n", 2),
            ("docs/a.json", "film", 0),
        ] {
            assert_eq!(found(path, text), expected, "{path}: {text}");
        }
    }

    #[test]
    fn exceptions_cover_the_words_around_a_term() {
        let text = "term\tfilms?\tprose\tvideo\nallow\tdocs/*.md\tfilm grain\ta filter of ffmpeg\n";
        let (table, _) = Terms::read(text);
        for (path, text, expected) in [
            ("docs/a.md", "film grain", 0),
            ("docs/a.md", "film", 1),
            ("README.md", "film grain", 1),
        ] {
            let file = File {
                path: path.to_owned(),
                text: text.to_owned(),
            };
            assert_eq!(table.check(&file).len(), expected, "{path}: {text}");
        }
    }

    #[test]
    fn paths_match_with_stars() {
        for (pattern, path, expected) in [
            ("docs/a.md", "docs/a.md", true),
            ("docs/*", "docs/a/b.md", true),
            ("crates/*/wire.rs", "crates/a/src/wire.rs", true),
            ("crates/*/wire.rs", "crates/a/src/wires.rs", false),
            ("docs/a", "docs/a.md", false),
        ] {
            assert_eq!(matches_path(pattern, path), expected, "{pattern} {path}");
        }
    }
}
