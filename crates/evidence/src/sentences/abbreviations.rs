//! Full stops that do not end a sentence.

use crate::months::month_of;

/// Abbreviations that a name, a number or another word always follows.
const NEVER_LAST: &str = " dr mr mrs ms prof gen sen rep gov col lt capt sgt rev hon vs nr fig figs eq vol \
    p pp cf ca approx est bzw ggf evtl mme mlle sr sra dra ed eds abb tab jan feb apr jun jul aug sep sept \
    oct okt nov dec dez st e.g i.e z.b d.h u.a p.ex viz resp mt ft ";

/// Abbreviations that may end a sentence.
const MAYBE_LAST: &str = " no etc inc ltd co corp jr al a.m p.m u.s u.k u.n e.u ch art sec mar dept \
    usw cie bros s.a ph.d b.c a.d ";

/// Words that begin sentences, and rarely follow an abbreviation within one.
const STARTERS: &str = " the a an it its in he she they we i this these those that there however but and at \
    on for if when while after before since as by with from to some many most all both each its his her \
    their our you what why how no not one two der die das ein eine es er sie wir dies diese im in am auf bei \
    le la les un une il elle ils elles ce cette ces el los las una en ";

fn has(list: &str, word: &str) -> bool {
    !word.is_empty() && list.contains(&format!(" {word} "))
}

/// Whether a full stop between two words belongs to an abbreviation, an initial or an ordinal.
pub(crate) fn is_abbreviation(before: &str, after: &str) -> bool {
    let word = before.to_lowercase();
    let is_start = has(STARTERS, &after.to_lowercase());
    if !word.is_empty() && word.chars().all(|c| c.is_ascii_digit()) {
        let is_ordinal = month_of(after).is_some() || matches!(after, "Jahrhundert" | "Jahrhunderts");
        return word.len() <= 2 && is_ordinal;
    }
    let mut letters = before.chars();
    let is_initial = letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
    let has_dots = word.contains('.')
        && word
            .split('.')
            .all(|part| part.chars().count() <= 2 && part.chars().all(char::is_alphabetic));
    let is_doubtful = is_initial || has_dots || has(MAYBE_LAST, &word);
    has(NEVER_LAST, &word) || (is_doubtful && !is_start)
}
