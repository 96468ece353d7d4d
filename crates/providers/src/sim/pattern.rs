//! Generates a text that matches a regular expression, with as few repetitions as the minimum
//! length allows.

use regex_syntax::Parser;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Length in bytes above which the generation of a text fails.
const MAX_CHARS: usize = 4_096;

/// Returns a text that matches the pattern and has at least `min` and at most `max` characters. A
/// different `variant` selects a different text, if possible. `None` if the pattern is unsupported
/// or no such text was found.
pub(super) fn matching(pattern: &str, min: usize, max: usize, variant: usize) -> Option<String> {
    let hir = Parser::new().parse(pattern).ok()?;
    // Without `$`, any text may follow the match.
    let is_open = !pattern.ends_with('$');
    for more in 0..=min.min(MAX_CHARS) {
        let mut writer = PatternWriter {
            more,
            variant,
            text: String::new(),
        };
        writer.write(&hir)?;
        let length = writer.text.chars().count();
        if length > max {
            return None;
        }
        if length < min && is_open {
            writer.text.extend(std::iter::repeat_n('x', min - length));
        } else if length < min {
            continue;
        }
        return Some(writer.text);
    }
    None
}

struct PatternWriter {
    /// Additional repetitions of each part that may be repeated.
    more: usize,
    variant: usize,
    text: String,
}

impl PatternWriter {
    fn write(&mut self, hir: &Hir) -> Option<()> {
        if self.text.len() > MAX_CHARS {
            return None;
        }
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => self.text.push_str(std::str::from_utf8(&literal.0).ok()?),
            HirKind::Class(class) => {
                let letter = self.letter(class)?;
                self.text.push(letter);
            }
            HirKind::Repetition(repeated) => {
                let min = repeated.min as usize;
                let max = repeated.max.map_or(usize::MAX, |max| max as usize);
                for _ in 0..min.saturating_add(self.more).min(max) {
                    self.write(&repeated.sub)?;
                }
            }
            HirKind::Capture(group) => self.write(&group.sub)?,
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.write(part))?,
            HirKind::Alternation(options) => self.write(options.first()?)?,
        }
        Some(())
    }

    /// Returns a character of the class, a letter or digit if possible; `None` for a class of
    /// bytes.
    fn letter(&mut self, class: &Class) -> Option<char> {
        let Class::Unicode(class) = class else {
            return None;
        };
        let holds = |letter: char| {
            class
                .iter()
                .any(|range| (range.start()..=range.end()).contains(&letter))
        };
        let readable: Vec<char> = ('a'..='z')
            .chain('0'..='9')
            .chain('A'..='Z')
            .filter(|letter| holds(*letter))
            .collect();
        if readable.is_empty() {
            let printable = ('!'..='~').find(|letter| holds(*letter));
            return printable.or_else(|| class.iter().next().map(|range| range.start()));
        }
        let chosen = readable.get(self.variant % readable.len()).copied();
        self.variant /= readable.len();
        chosen
    }
}
