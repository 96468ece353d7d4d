//! Lines of text: white space is collapsed, and blocks are separated.

/// Maximum size of a text, in bytes. Its cleaning shortens it further.
const MAX_BYTES: usize = 8 << 20;

/// Separation before the next word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    /// A cell of a table.
    Cell,
    Line,
    Paragraph,
}

/// A text that is being written.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: String,
    gap: Gap,
}

impl Lines {
    /// Appends text. Its white space is collapsed unless it is verbatim.
    pub(super) fn write(&mut self, text: &str, is_verbatim: bool) {
        for character in text.chars() {
            if self.text.len() >= MAX_BYTES {
                return;
            }
            match character {
                '\n' if is_verbatim => self.text.push('\n'),
                _ if character.is_whitespace() && !is_verbatim => self.gap = self.gap.max(Gap::Space),
                _ => {
                    self.separate();
                    self.text.push(character);
                }
            }
        }
    }

    fn separate(&mut self) {
        let gap = match self.gap {
            _ if self.text.is_empty() => "",
            Gap::None => "",
            Gap::Space => " ",
            Gap::Cell => " | ",
            Gap::Line => "\n",
            Gap::Paragraph => "\n\n",
        };
        self.text.push_str(gap);
        self.gap = Gap::None;
    }

    /// Begins a cell of a table, on the same line as the previous one.
    pub(super) fn cell(&mut self) {
        self.gap = self.gap.max(Gap::Cell);
    }

    /// Begins a line.
    pub(super) fn line(&mut self) {
        self.gap = self.gap.max(Gap::Line);
    }

    /// Begins a paragraph.
    pub(super) fn paragraph(&mut self) {
        self.gap = Gap::Paragraph;
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
