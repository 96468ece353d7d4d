//! One pass over the tokens of a page: its metadata, its visible text, and its visible HTML with
//! few attributes and a limited depth.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::{Attribute, LocalName, TokenizerResult, local_name};

use super::elements::{is_document, is_dropped, is_foreign, is_inline, is_paragraph, is_void, raw_content};
use super::lines::Lines;
use super::metadata::Metadata;
use super::style::is_hiding;
use super::tree::{Tree, Visibility};

/// Maximum size of the visible HTML, in bytes. It is incomplete beyond.
const MAX_VISIBLE_BYTES: usize = 4 << 20;
/// Attributes that the search for an article uses.
const RETAINED_ATTRIBUTES: [&str; 6] = ["class", "href", "id", "itemprop", "rel", "role"];
/// Maximum size of an attribute that is retained, in bytes.
const MAX_ATTRIBUTE_BYTES: usize = 300;
/// Maximum size of a heading that may be the title, in bytes.
const MAX_HEADING_BYTES: usize = 1_000;
/// Minimum number of letters in hidden elements that are reported. Pages often hide single words.
const MIN_HIDDEN_LETTERS: usize = 40;

/// Result of the pass.
#[derive(Debug)]
pub(super) struct Scan {
    /// HTML of the visible elements.
    pub visible: String,
    /// Number of elements in `visible`.
    pub elements: usize,
    /// Text that readers of the page see.
    pub text: String,
    /// First heading of the highest level.
    pub heading: Option<String>,
    pub metadata: Metadata,
    pub has_hidden_text: bool,
}

/// Reads a page once.
pub(super) fn scan(html: &str) -> Scan {
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    tokenizer.sink.0.into_inner().finish()
}

#[derive(Default)]
struct Sink(RefCell<Scanner>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut scanner = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return scanner.start(&tag),
            Token::TagToken(tag) => scanner.end(&tag.name),
            Token::CharacterTokens(text) => scanner.text(&text),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.0.borrow().is_foreign()
    }
}

/// Use of the text that follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Capture {
    #[default]
    None,
    Title,
    LinkedData,
}

#[derive(Default)]
struct Scanner {
    tree: Tree,
    visible: String,
    elements: usize,
    lines: Lines,
    heading: String,
    has_heading: bool,
    metadata: Metadata,
    capture: Capture,
    hidden_letters: usize,
}

impl Scanner {
    fn is_foreign(&self) -> bool {
        self.tree.has(&local_name!("svg")) || self.tree.has(&local_name!("math"))
    }

    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name = &*tag.name;
        let is_visible = self.tree.visibility() == Visibility::Visible;
        if is_visible {
            self.metadata.element(tag);
        }
        if is_document(name) {
            return TokenSinkResult::Continue;
        }
        if is_void(name) {
            if is_visible && matches!(name, "br" | "hr") {
                self.separate(name);
                self.write_void(name);
            }
            return TokenSinkResult::Continue;
        }
        // Only elements of drawings and formulas can be empty by their own tag.
        if tag.self_closing && (is_foreign(name) || self.is_foreign()) {
            return TokenSinkResult::Continue;
        }
        for closed in self.tree.start(name) {
            self.write_end(&closed);
        }
        let is_visible = self.tree.visibility() == Visibility::Visible;
        if is_visible {
            self.capture = match name {
                "title" => Capture::Title,
                "script" if is_linked_data(tag) => Capture::LinkedData,
                _ => Capture::None,
            };
        }
        let own = own_visibility(tag);
        let is_shown = is_visible && own == Visibility::Visible;
        let is_written = is_shown && (!is_inline(name) || name == "a");
        // Visible elements within lines need no record: nothing depends on them.
        if is_written || !is_shown {
            let is_written = self.tree.open(&tag.name, own, is_written) && is_written;
            if is_written {
                self.write_start(tag);
            }
        }
        if is_shown {
            self.separate(name);
        }
        match raw_content(name) {
            Some(kind) => TokenSinkResult::RawData(kind),
            None if name == "plaintext" => TokenSinkResult::Plaintext,
            None => TokenSinkResult::Continue,
        }
    }

    fn end(&mut self, name: &LocalName) {
        self.capture = Capture::None;
        let was_visible = self.tree.visibility() == Visibility::Visible;
        if &**name == "h1" && !self.heading.trim().is_empty() {
            self.has_heading = true;
        }
        for closed in self.tree.end(name) {
            self.write_end(&closed);
        }
        if was_visible {
            self.separate(name);
            if &**name == "br" {
                self.write_void("br");
            }
        }
    }

    fn text(&mut self, text: &str) {
        match self.capture {
            Capture::Title => return self.metadata.title(text),
            Capture::LinkedData => return self.metadata.linked_data(text),
            Capture::None => {}
        }
        match self.tree.visibility() {
            Visibility::Dropped => {}
            Visibility::Concealed => {
                self.hidden_letters += text.chars().filter(|c| c.is_alphanumeric()).count();
            }
            Visibility::Visible => {
                let is_verbatim = self.tree.has(&local_name!("pre"))
                    || self.tree.has(&local_name!("listing"))
                    || self.tree.has(&local_name!("xmp"));
                self.lines.write(text, is_verbatim);
                if !self.has_heading
                    && self.heading.len() < MAX_HEADING_BYTES
                    && self.tree.has(&local_name!("h1"))
                {
                    self.heading.push_str(text);
                }
                if self.visible.len() < MAX_VISIBLE_BYTES {
                    escape(&mut self.visible, text);
                }
            }
        }
    }

    /// Separates the lines before or after an element.
    fn separate(&mut self, name: &str) {
        match name {
            "td" | "th" => self.lines.cell(),
            _ if is_paragraph(name) => self.lines.paragraph(),
            _ if !is_inline(name) && !is_document(name) && (!is_void(name) || name == "br") => {
                self.lines.line()
            }
            _ => {}
        }
    }

    fn write_start(&mut self, tag: &Tag) {
        if self.visible.len() >= MAX_VISIBLE_BYTES {
            return;
        }
        self.elements += 1;
        self.visible.push('<');
        self.visible.push_str(&tag.name);
        for name in RETAINED_ATTRIBUTES {
            let Some(value) = attribute(tag, name) else {
                continue;
            };
            self.visible.push(' ');
            self.visible.push_str(name);
            self.visible.push_str("=\"");
            escape(&mut self.visible, cut(value));
            self.visible.push('"');
        }
        self.visible.push('>');
    }

    fn write_end(&mut self, name: &str) {
        if self.visible.len() < MAX_VISIBLE_BYTES {
            self.visible.push_str("</");
            self.visible.push_str(name);
            self.visible.push('>');
        }
    }

    fn write_void(&mut self, name: &str) {
        if self.visible.len() < MAX_VISIBLE_BYTES {
            self.elements += 1;
            self.visible.push('<');
            self.visible.push_str(name);
            self.visible.push('>');
        }
    }

    fn finish(mut self) -> Scan {
        for closed in self.tree.close_all() {
            self.write_end(&closed);
        }
        let heading = self.heading.trim();
        Scan {
            heading: (!heading.is_empty()).then(|| heading.to_owned()),
            visible: self.visible,
            elements: self.elements,
            text: self.lines.into_text(),
            metadata: self.metadata,
            has_hidden_text: self.hidden_letters >= MIN_HIDDEN_LETTERS,
        }
    }
}

/// Returns the value of an attribute.
pub(super) fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a str> {
    let is_it = |attribute: &&Attribute| &*attribute.name.local == name;
    tag.attrs.iter().find(is_it).map(|attribute| &*attribute.value)
}

fn is_linked_data(tag: &Tag) -> bool {
    attribute(tag, "type").is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/ld+json"))
}

/// Returns the visibility of an element by its name and attributes.
fn own_visibility(tag: &Tag) -> Visibility {
    let name = &*tag.name;
    let is_concealed = || {
        attribute(tag, "hidden").is_some()
            || (name == "dialog" && attribute(tag, "open").is_none())
            || attribute(tag, "style").is_some_and(is_hiding)
    };
    match name {
        _ if is_dropped(name) => Visibility::Dropped,
        _ if is_concealed() => Visibility::Concealed,
        _ => Visibility::Visible,
    }
}

/// Returns the start of an attribute.
fn cut(value: &str) -> &str {
    value
        .get(..value.floor_char_boundary(MAX_ATTRIBUTE_BYTES))
        .unwrap_or(value)
}

fn escape(output: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => output.push_str("&amp;"),
            '<' => output.push_str("&lt;"),
            '>' => output.push_str("&gt;"),
            '"' => output.push_str("&quot;"),
            _ => output.push(character),
        }
    }
}
