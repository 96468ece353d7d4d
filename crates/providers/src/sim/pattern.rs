//! Texts that match a regular expression: the shortest, or a longer one.

use regex_syntax::Parser;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The longest text that is made.
const LONGEST: usize = 4_096;

/// A text that matches the pattern and has `least` to `most` characters, as far as that can be found by repeating more
/// of it. `variant` asks for another one than those before. `None` for a pattern that is not understood.
pub(super) fn matching(pattern: &str, least: usize, most: usize, variant: usize) -> Option<String> {
    let hir = Parser::new().parse(pattern).ok()?;
    // Without an end, anything may follow what matches.
    let is_open = !pattern.ends_with('$');
    for more in 0..=least.min(LONGEST) {
        let mut maker = Maker {
            more,
            variant,
            text: String::new(),
        };
        maker.write(&hir)?;
        let length = maker.text.chars().count();
        if length > most {
            return None;
        }
        if length < least && is_open {
            maker.text.extend(std::iter::repeat_n('x', least - length));
        } else if length < least {
            continue;
        }
        return Some(maker.text);
    }
    None
}

struct Maker {
    /// How often more than necessary everything is repeated that may be.
    more: usize,
    variant: usize,
    text: String,
}

impl Maker {
    fn write(&mut self, hir: &Hir) -> Option<()> {
        if self.text.len() > LONGEST {
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
                let least = repeated.min as usize;
                let most = repeated.max.map_or(usize::MAX, |most| most as usize);
                for _ in 0..least.saturating_add(self.more).min(most) {
                    self.write(&repeated.sub)?;
                }
            }
            HirKind::Capture(group) => self.write(&group.sub)?,
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.write(part))?,
            HirKind::Alternation(options) => self.write(options.first()?)?,
        }
        Some(())
    }

    /// A letter of the class that can be read, if there is one.
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
