//! A minimal Rust lexer that separates code from comments and strings.

/// The parts of the source that remain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Code only: comments, strings and characters become spaces.
    Code,
    /// Code and literals: only comments become spaces.
    CodeAndLiterals,
}

/// Replaces the other parts of the source by spaces. Lines and byte offsets stay unchanged.
pub fn blank(text: &str, keep: Keep) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, hidden) = match token(rest, out.chars().next_back()) {
            Token::Comment(length) => (length, true),
            Token::Literal(length) => (length, keep == Keep::Code),
            Token::Other => (first.len_utf8(), false),
        };
        let (part, after) = rest.split_at(length);
        if hidden {
            out.extend(part.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        } else {
            out.push_str(part);
        }
        rest = after;
    }
    out
}

/// The kind of a part of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Code, including white space.
    Code,
    /// One comment, including its markers.
    Comment,
    /// A string or character literal, including its quotes.
    Literal,
}

/// Splits the source into parts, each with its first line, counted from 1.
pub fn parts(text: &str) -> Vec<(Part, usize, &str)> {
    let mut found = Vec::new();
    let (mut at, mut start, mut line, mut start_line) = (0, 0, 1, 1);
    while let Some(first) = text[at..].chars().next() {
        let before = text[..at].chars().next_back();
        let (part, length) = match token(&text[at..], before) {
            Token::Comment(length) => (Part::Comment, length),
            Token::Literal(length) => (Part::Literal, length),
            Token::Other => {
                line += usize::from(first == '\n');
                at += first.len_utf8();
                continue;
            }
        };
        if start < at {
            found.push((Part::Code, start_line, &text[start..at]));
        }
        found.push((part, line, &text[at..at + length]));
        line += text[at..at + length].matches('\n').count();
        at += length;
        (start, start_line) = (at, line);
    }
    if start < at {
        found.push((Part::Code, start_line, &text[start..at]));
    }
    found
}

enum Token {
    Comment(usize),
    Literal(usize),
    Other,
}

/// Returns the token at the start of `rest`, with its length in bytes. `before` is the preceding
/// character.
fn token(rest: &str, before: Option<char>) -> Token {
    if rest.starts_with("//") {
        return Token::Comment(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Token::Comment(block_comment(rest));
    }
    if before.is_some_and(is_word) {
        // The `r` of `for"…"` does not start a raw string; Rust 2021 forbids such prefixes.
        return if rest.starts_with('"') {
            Token::Literal(quoted(rest, '"'))
        } else {
            Token::Other
        };
    }
    let prefix = rest.find(|c| !matches!(c, 'b' | 'c' | 'r')).unwrap_or(rest.len());
    let (letters, body) = rest.split_at(prefix);
    let hashes = body.len() - body.trim_start_matches('#').len();
    if letters.ends_with('r') && body[hashes..].starts_with('"') {
        return Token::Literal(prefix + raw(body, hashes));
    }
    if prefix <= 1 && body.starts_with('"') {
        return Token::Literal(prefix + quoted(body, '"'));
    }
    if prefix <= 1 && is_character(body) {
        return Token::Literal(prefix + quoted(body, '\''));
    }
    Token::Other
}

/// Returns the length of a block comment, including nested ones.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Returns the length of a literal between two quotes, with escapes.
fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if !escaped && c == mark {
            return at + c.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// Returns the length of a raw string with this number of hashes.
fn raw(text: &str, hashes: usize) -> usize {
    let end = format!("\"{}", "#".repeat(hashes));
    let start = hashes + 1;
    text[start..]
        .find(&end)
        .map_or(text.len(), |at| start + at + end.len())
}

/// Whether the text starts a character literal and not a lifetime.
fn is_character(text: &str) -> bool {
    let mut chars = text.chars();
    if chars.next() != Some('\'') {
        return false;
    }
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the byte offsets of `word` as a whole identifier or path.
pub fn find_word(code: &str, word: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(word) {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        if !before.is_some_and(is_word) && !after.is_some_and(is_word) {
            found.push(at);
        }
    }
    found
}

/// Returns the line, from 1, of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// A function with its position and length.
#[derive(Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Name of the function, without the module path.
    pub name: &'a str,
    /// The line of `fn`, from 1.
    pub line: usize,
    /// Number of lines from `fn` to the closing brace.
    pub lines: usize,
}

/// Finds every function with a body, including nested ones. Comments and strings must be blanked in
/// `code`.
pub fn functions(code: &str) -> Vec<Function<'_>> {
    find_word(code, "fn")
        .into_iter()
        .filter_map(|at| function(code, at))
        .collect()
}

fn function(code: &str, at: usize) -> Option<Function<'_>> {
    let rest = &code[at + 2..];
    let signature = rest.trim_start();
    let name = &signature[..signature.find(|c| !is_word(c)).unwrap_or(signature.len())];
    // `fn(u8) -> u8` is a type, not a function.
    if name.is_empty() {
        return None;
    }
    let open = body(rest)?;
    let close = open + matching_brace(&rest[open..])?;
    Some(Function {
        name,
        line: line_of(code, at),
        lines: rest[..close].matches('\n').count() + 1,
    })
}

/// Returns the offset of the brace that opens the body; `None` for a trait method without a body.
fn body(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.checked_sub(1)?,
            '{' if depth == 0 => return Some(at),
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns the offset of the brace that closes the first brace of `code`.
fn matching_brace(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            _ => continue,
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (source, expected) in [
            ("a // b", "a     "),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("a \" b") g"#, "f(        ) g"),
            (r##"r#"a " b"# x"##, "           x"),
            (r#"br"a" x"#, "      x"),
            ("'a' 'b: &'static x", "    'b: &'static x"),
            (r"'\'' x '\\' y", "     x      y"),
            ("\"é\" x", "     x"),
            ("\"a\nb\" x", "  \n   x"),
        ] {
            assert_eq!(blank(source, Keep::Code), expected, "{source}");
        }
    }

    #[test]
    fn literals_stay_when_asked_for() {
        assert_eq!(
            blank("x(\"a // b\") // c", Keep::CodeAndLiterals),
            "x(\"a // b\")     "
        );
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(find_word("http::x my_http http2 http", "http"), [0, 22]);
    }

    #[test]
    fn functions_have_a_body() {
        let code = "trait T { fn none(); }\nfn one(a: [u8; 4]) {\n  if a { b }\n}\ntype F = fn(u8) -> u8;\n";
        assert_eq!(
            functions(code),
            [Function {
                name: "one",
                line: 2,
                lines: 3
            }]
        );
    }
}
