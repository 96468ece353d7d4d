//! Front matter: fields between two lines `---` at the start of a Markdown document.

#[cfg(test)]
mod tests;

use tollgate_types::Date;

/// Fields of a document. Empty fields are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontMatter {
    /// Title of the document.
    pub title: Option<String>,
    /// Author of the document.
    pub author: Option<String>,
    /// Publication date, if it is written as `YYYY-MM-DD`.
    pub date: Option<Date>,
    /// URL of the document. It is not verified.
    pub url: Option<String>,
}

/// Splits a document into the fields of its front matter and the rest.
pub fn split(document: &str) -> (FrontMatter, &str) {
    let (lines, body) = split_lines(document);
    let mut fields = FrontMatter::default();
    for line in lines.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = unquote(value.trim());
        if value.is_empty() {
            continue;
        }
        match name.trim().to_ascii_lowercase().as_str() {
            "title" => fields.title = Some(value.to_owned()),
            "date" => fields.date = Date::parse(value),
            "author" => fields.author = Some(value.to_owned()),
            "url" => fields.url = Some(value.to_owned()),
            _ => {}
        }
    }
    (fields, body)
}

/// Splits the lines between `---` and `---` at the start from the rest.
fn split_lines(document: &str) -> (&str, &str) {
    let after = document.strip_prefix("---").and_then(|rest| {
        let rest = rest.strip_prefix('\r').unwrap_or(rest);
        rest.strip_prefix('\n')
    });
    let Some(after) = after else {
        return ("", document);
    };
    let mut end = 0;
    for line in after.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return (&after[..end], &after[end + line.len()..]);
        }
        end += line.len();
    }
    ("", document)
}

fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = value
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.trim();
        }
    }
    value
}
