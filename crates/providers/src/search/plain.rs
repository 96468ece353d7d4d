//! Plain text of HTML fragments, such as the snippets of search results.

use tollgate_evidence::text::clean;

/// Maximum size of a tag, in bytes. A `<` without a `>` within this size is text.
const MAX_TAG_BYTES: usize = 1_000;
/// Maximum size of an entity between `&` and `;`, in bytes.
const MAX_ENTITY_BYTES: usize = 10;

/// Names of entities that occur in titles and snippets.
const ENTITIES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("hellip", '…'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("middot", '·'),
    ("bull", '•'),
    ("euro", '€'),
    ("pound", '£'),
    ("deg", '°'),
    ("times", '×'),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("auml", 'ä'),
    ("ouml", 'ö'),
    ("uuml", 'ü'),
    ("Auml", 'Ä'),
    ("Ouml", 'Ö'),
    ("Uuml", 'Ü'),
    ("szlig", 'ß'),
    ("eacute", 'é'),
    ("egrave", 'è'),
    ("agrave", 'à'),
    ("ccedil", 'ç'),
    ("ntilde", 'ñ'),
];

/// Returns the text of an HTML fragment on one line: without tags, with decoded entities, and
/// without invisible characters. Text of the form `&lt;b&gt;` stays visible as `<b>`.
pub(crate) fn plain_text(html: &str) -> String {
    let text = clean(&decoded(&without_tags(html)));
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

fn without_tags(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        out.push_str(text);
        match tag_length(tag) {
            Some(length) => {
                if is_break(&tag[..length]) {
                    out.push(' ');
                }
                rest = &tag[length..];
            }
            None => {
                out.push('<');
                rest = &tag[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns the length of the tag or comment at the start of the text, in bytes; `None` if the `<`
/// is text.
fn tag_length(text: &str) -> Option<usize> {
    if let Some(comment) = text.strip_prefix("<!--") {
        return Some(comment.find("-->")? + "<!--".len() + "-->".len());
    }
    let first = text.as_bytes().get(1)?;
    if !first.is_ascii_alphabetic() && !b"/!".contains(first) {
        return None;
    }
    let end = text.bytes().take(MAX_TAG_BYTES).position(|byte| byte == b'>')?;
    Some(end + 1)
}

/// Whether a tag separates words.
fn is_break(tag: &str) -> bool {
    let name = tag.trim_start_matches(['<', '/']);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric());
    let name = &name[..end.unwrap_or(name.len())];
    let breaks = [
        "br", "p", "div", "li", "tr", "td", "h1", "h2", "h3", "h4", "h5", "h6",
    ];
    breaks.iter().any(|tag| tag.eq_ignore_ascii_case(name))
}

fn decoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        let (before, entity) = rest.split_at(start);
        out.push_str(before);
        let end = entity
            .bytes()
            .take(MAX_ENTITY_BYTES + 2)
            .position(|byte| byte == b';');
        match end.and_then(|end| Some((end, character(&entity[1..end])?))) {
            Some((end, c)) => {
                out.push(c);
                rest = &entity[end + 1..];
            }
            None => {
                out.push('&');
                rest = &entity[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns the character of an entity, without `&` and `;`.
fn character(entity: &str) -> Option<char> {
    if let Some(number) = entity.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        return char::from_u32(code.ok()?);
    }
    let (_, c) = ENTITIES.iter().find(|(name, _)| *name == entity)?;
    Some(*c)
}

#[cfg(test)]
mod tests {
    use super::plain_text;

    #[test]
    fn tags_and_entities_are_removed() {
        let long = format!("a <b {}>c", "x".repeat(1_100));
        for (html, text) in [
            ("The <strong>pier</strong> &amp; the sea", "The pier & the sea"),
            (
                "<span class=\"searchmatch\">Pier</span>s&#039;&nbsp;&#x2014; &hellip;",
                "Piers' — …",
            ),
            ("one<br/>two<!-- hidden > text -->three", "one twothree"),
            ("a < b and 3<4, b > a", "a < b and 3<4, b > a"),
            (
                "&lt;script&gt; &amp;lt; &unknown; R&D &#xFFFFFFFF; &",
                "<script> &lt; &unknown; R&D &#xFFFFFFFF; &",
            ),
            ("zero\u{200b}width\n\n lines", "zerowidth lines"),
            ("<unfinished", "<unfinished"),
            (&long, &long),
            ("", ""),
        ] {
            assert_eq!(plain_text(html), text, "{html}");
        }
    }
}
