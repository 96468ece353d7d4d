//! Outline of a report: notes by question, and by similarity within a question.

use serde::{Deserialize, Serialize};

use super::similarity::{Profile, common, terms_of};

/// Similarity of notes that state the same.
const SAME_STATEMENT: f32 = 0.8;

/// Minimum similarity of neighbours in a section.
const RELATED: f32 = 0.2;

/// Maximum notes of a section.
const MAX_SECTION_NOTES: usize = 12;

/// Maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 80;

/// A note to arrange.
#[derive(Clone, Copy, Debug)]
pub struct OutlineNote<'n> {
    /// Text of the claim, one sentence.
    pub text: &'n str,
    /// Number of the source.
    pub source: usize,
    /// Number of its question, if known. Otherwise the question with the most common terms counts.
    pub question: Option<usize>,
    /// Relevance for the question, 0 to 1.
    pub relevance: f32,
}

/// A planned section with the notes that it cites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutlineSection {
    /// Title, at most 80 characters.
    pub title: String,
    /// Numbers of its notes in the argument list; never empty.
    pub notes: Vec<usize>,
}

/// Arranges notes in at most `max_sections` sections in the order of the questions, with similar
/// notes side by side. Each note is in at most one section. A note that repeats another one of its
/// source is left out; the same statement of another source follows the first. Notes of questions
/// beyond the maximum are in the last section. A section has the 12 most relevant of its notes. The
/// time grows with the square of the number of notes.
pub fn outline(questions: &[String], notes: &[OutlineNote], max_sections: usize) -> Vec<OutlineSection> {
    if max_sections == 0 {
        return Vec::new();
    }
    let profiles: Vec<Profile> = notes.iter().map(|note| Profile::new(note.text)).collect();
    let question_terms: Vec<Vec<u64>> = questions.iter().map(|question| terms_of(question)).collect();
    let mut sections: Vec<Vec<usize>> = vec![Vec::new(); questions.len().max(1)];
    for number in distinct(notes, &profiles) {
        let question = notes[number]
            .question
            .filter(|question| *question < questions.len());
        let question = question.unwrap_or_else(|| closest(&profiles[number], &question_terms));
        if sections[question].len() < MAX_SECTION_NOTES {
            sections[question].push(number);
        }
    }
    let titles = questions
        .iter()
        .map(|question| title(question))
        .chain(["Findings".to_owned()]);
    let sections = titles.zip(sections).filter(|(_, notes)| !notes.is_empty());
    let mut outline: Vec<OutlineSection> = Vec::new();
    for (title, numbers) in sections {
        let numbers = arranged(numbers, notes, &profiles);
        if outline.len() == max_sections {
            let last = &mut outline[max_sections - 1].notes;
            let free = MAX_SECTION_NOTES - last.len();
            last.extend(numbers.into_iter().take(free));
        } else {
            outline.push(OutlineSection {
                title,
                notes: numbers,
            });
        }
    }
    outline
}

/// Returns the numbers of notes that repeat no other note of their source; the more relevant one
/// remains.
fn distinct(notes: &[OutlineNote], profiles: &[Profile]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..notes.len()).collect();
    order.sort_by(|&one, &two| {
        notes[two]
            .relevance
            .total_cmp(&notes[one].relevance)
            .then(one.cmp(&two))
    });
    let mut distinct: Vec<usize> = Vec::new();
    for number in order {
        let repeats = |&other: &usize| {
            notes[other].source == notes[number].source
                && profiles[other].agrees(&profiles[number], SAME_STATEMENT)
        };
        if !distinct.iter().any(repeats) {
            distinct.push(number);
        }
    }
    distinct
}

/// Returns the question with the most common terms; the first of equals.
fn closest(note: &Profile, questions: &[Vec<u64>]) -> usize {
    let affinities = questions
        .iter()
        .map(|question| common(question, &note.terms))
        .enumerate();
    affinities
        .rev()
        .max_by_key(|(_, affinity)| *affinity)
        .map_or(0, |(number, _)| number)
}

/// Orders notes so that each follows the most similar one before it: the most relevant note first,
/// then its relatives, then the most relevant one of the others.
fn arranged(mut numbers: Vec<usize>, notes: &[OutlineNote], profiles: &[Profile]) -> Vec<usize> {
    numbers.sort_by(|&one, &two| {
        notes[two]
            .relevance
            .total_cmp(&notes[one].relevance)
            .then(one.cmp(&two))
    });
    let mut arranged: Vec<usize> = Vec::with_capacity(numbers.len());
    while !numbers.is_empty() {
        let related = arranged.last().and_then(|&last| {
            let similarity = |number: usize| profiles[last].similarity(&profiles[number]);
            let others = numbers.iter().map(|&number| similarity(number)).enumerate();
            let related = others.filter(|(_, similarity)| *similarity >= RELATED);
            related.rev().max_by(|one, two| one.1.total_cmp(&two.1))
        });
        let place = related.map_or(0, |(place, _)| place);
        arranged.push(numbers.remove(place));
    }
    arranged
}

/// Returns a question as a title: on one line, without a question mark, shortened between words.
fn title(question: &str) -> String {
    let mut title = String::new();
    for word in question.split_whitespace() {
        let is_long = title.chars().count() + word.chars().count() >= MAX_TITLE_CHARS;
        if is_long && !title.is_empty() {
            break;
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.extend(word.chars().take(MAX_TITLE_CHARS));
    }
    let title = title.trim_end_matches(['?', '？', '.', ',', ';', ':', '!']);
    let mut chars = title.chars();
    let first = chars.next().map(|first| first.to_uppercase().collect::<String>());
    first.unwrap_or_default() + chars.as_str()
}
