//! Words of a Markdown text (CommonMark 0.31 and GitHub's tables), without what is not spoken:
//! markers, code, link targets, addresses and emoji.

use super::{Gap, Word};

/// Bytes after which a word without white space ends.
const MAX_WORD_BYTES: usize = 240;
/// Bytes of a line in a code block that are compared with its closing fence.
const MAX_FENCE_BYTES: usize = 100;
/// Backticks or tildes that open a code block.
const MIN_FENCE: usize = 3;

/// Characters of headings, quotes, bullets, rules and rows that only separate cells.
const BLOCK_MARKS: [char; 11] = ['#', '>', '-', '*', '+', '•', '◦', ':', '_', '=', '~'];
/// Punctuation without a space before it.
const CLOSING_MARKS: [char; 15] = [
    '.', ',', ';', ':', '!', '?', '…', ')', '。', '！', '？', '、', '，', '；', '：',
];
/// Punctuation of scripts without spaces, after which a word ends.
const WIDE_MARKS: [char; 7] = ['。', '！', '？', '、', '，', '；', '：'];

/// Reads a text character by character.
#[derive(Debug)]
pub(super) struct Markdown {
    word: String,
    /// White space before the word.
    gap: Gap,
    /// Whether the line has only white space and block markers so far.
    is_line_start: bool,
    /// Whether a lower-case word continues the sentence of the line before.
    is_continuation: bool,
    code: Option<Code>,
    block: Option<CodeBlock>,
}

/// Inline code that is not closed yet, or the first line of a code block.
#[derive(Debug)]
struct Code {
    mark: char,
    /// Text with the opening marks.
    text: String,
    is_line_start: bool,
}

/// A fenced code block.
#[derive(Debug)]
struct CodeBlock {
    mark: char,
    /// Number of the opening marks.
    fence: usize,
    /// Start of the running line.
    line: String,
}

impl Default for Markdown {
    fn default() -> Self {
        Self {
            word: String::new(),
            gap: Gap::None,
            is_line_start: true,
            is_continuation: false,
            code: None,
            block: None,
        }
    }
}

impl Markdown {
    /// Reads a character and appends the word that it ends.
    pub(super) fn push(&mut self, c: char, words: &mut Vec<Word>) {
        if let Some(block) = &mut self.block {
            if block.closes_with(c) {
                self.block = None;
            }
            return;
        }
        match self.code.take() {
            Some(code) => self.push_code(code, c, words),
            None => self.push_text(c, words),
        }
    }

    /// Appends the words of the rest. Unclosed inline code is text; an unclosed code block is code.
    pub(super) fn finish(mut self, words: &mut Vec<Word>) {
        self.push('\n', words);
    }

    fn push_text(&mut self, c: char, words: &mut Vec<Word>) {
        let opens_line = self.is_line_start && self.word.is_empty();
        match c {
            '`' => self.code = Some(Code::new(c, opens_line)),
            '~' if opens_line => self.code = Some(Code::new(c, opens_line)),
            '\n' => {
                self.end_word(words);
                self.is_continuation = !self.is_line_start;
                self.is_line_start = true;
                self.gap = Gap::Line;
            }
            // Pipes separate the cells of tables.
            c if c.is_whitespace() || c == '|' => {
                self.end_word(words);
                self.is_continuation &= c != '|';
                self.gap = self.gap.max(Gap::Space);
            }
            c => {
                self.word.push(c);
                let is_long = self.word.len() > MAX_WORD_BYTES && address(&self.word).is_none();
                if WIDE_MARKS.contains(&c) || is_long {
                    self.end_word(words);
                }
            }
        }
    }

    fn push_code(&mut self, mut code: Code, c: char, words: &mut Vec<Word>) {
        if c != code.mark && code.is_closed() {
            return self.push_text(c, words);
        }
        if c == '\n' && code.opens_block() {
            self.block = Some(CodeBlock {
                mark: code.mark,
                fence: code.fence(),
                line: String::new(),
            });
            (self.gap, self.is_continuation) = (Gap::Line, false);
            return;
        }
        if c == '\n' || (c != code.mark && code.is_strikethrough()) {
            self.push_unclosed(&code, words);
            return self.push(c, words);
        }
        code.text.push(c);
        self.code = Some(code);
    }

    /// Reads the text after marks that turned out to open no code.
    fn push_unclosed(&mut self, code: &Code, words: &mut Vec<Word>) {
        self.is_line_start = false;
        for c in code.text.chars().skip(code.fence()) {
            self.push(c, words);
        }
    }

    fn end_word(&mut self, words: &mut Vec<Word>) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if self.is_line_start && is_block_marker(&word) {
            self.is_continuation = false;
            return;
        }
        self.is_line_start = false;
        let text = spoken(&word);
        if text.is_empty() {
            return;
        }
        let continues = self.is_continuation && text.starts_with(char::is_lowercase);
        let gap = match std::mem::take(&mut self.gap) {
            _ if text.chars().all(|c| CLOSING_MARKS.contains(&c)) => Gap::None,
            Gap::Line if continues => Gap::Space,
            gap => gap,
        };
        words.push(Word { text, gap });
    }
}

impl Code {
    fn new(mark: char, is_line_start: bool) -> Self {
        let text = mark.to_string();
        Self {
            mark,
            text,
            is_line_start,
        }
    }

    /// Returns the number of opening marks.
    fn fence(&self) -> usize {
        self.text.chars().take_while(|c| *c == self.mark).count()
    }

    /// Returns whether the text ends with as many backticks as it begins with.
    fn is_closed(&self) -> bool {
        let closing = self.text.chars().rev().take_while(|c| *c == self.mark).count();
        self.mark == '`' && closing == self.fence() && closing < self.text.len()
    }

    /// Returns whether the line begins a code block, whose language has no backticks.
    fn opens_block(&self) -> bool {
        let language = self.text.trim_start_matches(self.mark);
        let is_language = self.mark == '~' || !language.contains(self.mark);
        self.is_line_start && self.fence() >= MIN_FENCE && is_language
    }

    /// Returns whether the marks are too few tildes for a code block.
    fn is_strikethrough(&self) -> bool {
        self.mark == '~' && self.fence() < MIN_FENCE
    }
}

impl CodeBlock {
    /// Reads a character. Returns whether it ends the closing fence.
    fn closes_with(&mut self, c: char) -> bool {
        if c != '\n' {
            if self.line.len() < MAX_FENCE_BYTES {
                self.line.push(c);
            }
            return false;
        }
        let line = std::mem::take(&mut self.line);
        let line = line.trim();
        line.len() >= self.fence && line.chars().all(|c| c == self.mark)
    }
}

fn is_block_marker(word: &str) -> bool {
    word.chars().all(|c| BLOCK_MARKS.contains(&c)) || matches!(word, "[x]" | "[X]")
}

/// Returns the spoken part of a word.
fn spoken(word: &str) -> String {
    let word = without_markup(&without_link_targets(word));
    let Some(start) = address(&word) else {
        return word;
    };
    let before = word.get(..start).unwrap_or_default();
    let before = before.trim_end_matches(['(', '<', '"', '“']);
    let end = word
        .trim_end_matches(|c| CLOSING_MARKS.contains(&c) || ">\"”".contains(c))
        .len();
    let after = word.get(end.max(start)..).unwrap_or_default();
    let after = after.chars().filter(|c| *c != ')' && CLOSING_MARKS.contains(c));
    before.chars().chain(after).collect()
}

/// Returns a word without the targets of links, `](…)`.
fn without_link_targets(word: &str) -> String {
    let mut parts = word.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(part.split_once(')').map_or("", |(_, after)| after));
    }
    text
}

/// Returns a word without emphasis, brackets of links, escapes and emoji.
fn without_markup(word: &str) -> String {
    let word = word.replace("![", "").replace("~~", "");
    let mut text = String::with_capacity(word.len());
    let mut before = ' ';
    let mut chars = word.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let is_markup = match c {
            '*' | '[' | ']' => true,
            '_' => !before.is_alphanumeric() || !next.is_alphanumeric(),
            '\\' => next.is_ascii_punctuation(),
            c => is_emoji(c),
        };
        if !is_markup {
            text.push(c);
        }
        before = c;
    }
    text
}

/// Returns where a URL or an e-mail address begins in a word.
fn address(word: &str) -> Option<usize> {
    if let Some(end) = word.find("://") {
        let before = word.get(..end)?;
        let scheme = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric());
        return (scheme.len() < end).then_some(scheme.len());
    }
    let start = word.find(char::is_alphanumeric)?;
    let core = word.get(start..)?;
    let has_www = core
        .get(..4)
        .is_some_and(|begin| begin.eq_ignore_ascii_case("www."));
    let is_email = core.split_once('@').is_some_and(|(name, domain)| {
        let ends = domain
            .split_once('.')
            .map(|(host, rest)| (host, rest.chars().next()));
        let has_domain =
            |(host, next): (&str, Option<char>)| !host.is_empty() && next.is_some_and(char::is_alphanumeric);
        !name.is_empty() && ends.is_some_and(has_domain)
    });
    (has_www || is_email).then_some(start)
}

/// Returns whether a character is an emoji or only changes one (Unicode Technical Standard #51).
/// Digits, letters and the signs ©, ® and ™ are none here.
const fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{200d}' | '\u{20e3}' | '\u{fe0e}' | '\u{fe0f}' | '\u{e0020}'..='\u{e007f}'
        | '\u{231a}' | '\u{231b}' | '\u{23e9}'..='\u{23fa}' | '\u{25aa}'..='\u{25fe}'
        | '\u{2600}'..='\u{27bf}' | '\u{2934}' | '\u{2935}' | '\u{2b05}'..='\u{2b55}'
        | '\u{1f000}'..='\u{1faff}')
}
