//! Classes of HTML elements.

use html5ever::tokenizer::states::RawKind;

/// Whether an element has no content and no end tag.
pub(super) fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "basefont"
            | "bgsound"
            | "br"
            | "col"
            | "embed"
            | "frame"
            | "hr"
            | "image"
            | "img"
            | "input"
            | "keygen"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

/// Whether the content of an element is no text for readers: code, drawings, choices, and the
/// fallback of media.
pub(super) fn is_dropped(name: &str) -> bool {
    matches!(
        name,
        "applet"
            | "audio"
            | "canvas"
            | "datalist"
            | "iframe"
            | "math"
            | "noembed"
            | "noframes"
            | "noscript"
            | "object"
            | "script"
            | "select"
            | "style"
            | "svg"
            | "template"
            | "textarea"
            | "title"
            | "video"
    )
}

/// Whether the content of an element is parsed by other rules than HTML.
pub(super) fn is_foreign(name: &str) -> bool {
    matches!(name, "svg" | "math")
}

/// Whether a parser inserts the element itself. Its tags are ignored.
pub(super) fn is_document(name: &str) -> bool {
    matches!(name, "html" | "head" | "body" | "frameset")
}

/// Returns how the content of an element is divided into tokens, if it contains no elements.
pub(super) fn raw_content(name: &str) -> Option<RawKind> {
    match name {
        "title" | "textarea" => Some(RawKind::Rcdata),
        "style" | "xmp" | "iframe" | "noembed" | "noframes" | "noscript" => Some(RawKind::Rawtext),
        "script" => Some(RawKind::ScriptData),
        _ => None,
    }
}

/// Whether an element only formats text. A parser opens it again in the next block if it was not
/// closed.
pub(super) fn is_formatting(name: &str) -> bool {
    matches!(
        name,
        "a" | "b"
            | "big"
            | "code"
            | "em"
            | "font"
            | "i"
            | "nobr"
            | "s"
            | "small"
            | "strike"
            | "strong"
            | "tt"
            | "u"
    )
}

/// Whether an element is inside lines, and separates no words.
pub(super) fn is_inline(name: &str) -> bool {
    is_formatting(name)
        || matches!(
            name,
            "abbr"
                | "acronym"
                | "bdi"
                | "bdo"
                | "cite"
                | "data"
                | "del"
                | "dfn"
                | "ins"
                | "kbd"
                | "label"
                | "mark"
                | "q"
                | "rb"
                | "rp"
                | "rt"
                | "ruby"
                | "samp"
                | "span"
                | "sub"
                | "sup"
                | "time"
                | "var"
        )
        || name.contains('-')
}

/// Whether the end tag of an inline element has no effect beyond this element.
pub(super) fn is_special(name: &str) -> bool {
    !is_inline(name)
}

/// Whether an empty line separates an element from the text before and after it.
pub(super) fn is_paragraph(name: &str) -> bool {
    matches!(
        name,
        "p" | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "blockquote"
            | "pre"
            | "ul"
            | "ol"
            | "dl"
            | "table"
            | "figure"
            | "article"
            | "section"
            | "header"
            | "footer"
            | "nav"
            | "aside"
            | "main"
            | "hr"
            | "details"
            | "form"
            | "fieldset"
    )
}

/// Whether the start tag of an element closes an open `p` element.
pub(super) fn closes_paragraph(name: &str) -> bool {
    is_paragraph(name)
        || matches!(
            name,
            "address"
                | "center"
                | "dialog"
                | "dir"
                | "div"
                | "figcaption"
                | "hgroup"
                | "listing"
                | "menu"
                | "plaintext"
                | "search"
                | "summary"
                | "xmp"
                | "li"
                | "dd"
                | "dt"
        )
}

/// Whether the end tag of another element has no effect beyond this element.
pub(super) fn is_scope(name: &str) -> bool {
    matches!(
        name,
        "applet" | "caption" | "marquee" | "object" | "table" | "td" | "template" | "th" | "svg" | "math"
    )
}

/// Whether an element is a part of a table. Its tags close the open elements of a cell.
pub(super) fn is_table_part(name: &str) -> bool {
    matches!(
        name,
        "caption" | "colgroup" | "tbody" | "td" | "tfoot" | "th" | "thead" | "tr"
    )
}

/// Returns the parts of a table that the start tag of an element closes.
pub(super) fn closed_by_table_part(name: &str) -> &'static [&'static str] {
    match name {
        "td" | "th" => &["td", "th", "caption"],
        "tr" => &["tr", "td", "th", "caption"],
        "tbody" | "thead" | "tfoot" | "caption" | "colgroup" => {
            &["tbody", "thead", "tfoot", "tr", "td", "th", "caption", "colgroup"]
        }
        _ => &[],
    }
}
