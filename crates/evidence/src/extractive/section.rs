//! Sentences of a section, and contradictions between notes.

use serde::{Deserialize, Serialize};

use super::similarity::Profile;
use crate::fold::fold;

/// Similarity of claims that are merged.
const SAME_STATEMENT: f32 = 0.6;

/// Introduction of the first of two contradictory claims.
const DISAGREEMENT: &str = "Sources disagree: ";

/// A sentence of a section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentence {
    /// A claim, verbatim; the first of two contradictory ones begins with "Sources disagree: ".
    pub text: String,
    /// Numbers of the notes that state it, in the order of the arguments.
    pub notes: Vec<usize>,
}

/// Writes a section from notes, each a number for citations and a claim. Claims that agree in most
/// terms and all figures are one sentence with several notes. Contradictory claims are side by
/// side. A claim that only repeats the title is left out. The time grows with the square of the
/// number of notes.
pub fn section(title: &str, notes: &[(usize, &str)]) -> Vec<Sentence> {
    let title = fold(title);
    let mut sentences: Vec<(Sentence, Profile)> = Vec::new();
    for &(number, claim) in notes.iter().filter(|(_, claim)| fold(claim) != title) {
        let profile = Profile::new(claim);
        let same = sentences
            .iter_mut()
            .find(|(_, other)| other.agrees(&profile, SAME_STATEMENT));
        match same {
            Some((sentence, _)) if sentence.notes.contains(&number) => {}
            Some((sentence, _)) => sentence.notes.push(number),
            None => sentences.push((
                Sentence {
                    text: claim.to_owned(),
                    notes: vec![number],
                },
                profile,
            )),
        }
    }
    let mut section = Vec::with_capacity(sentences.len());
    while !sentences.is_empty() {
        let (mut first, profile) = sentences.remove(0);
        let second = sentences.iter().position(|(_, other)| profile.contradicts(other));
        if second.is_some() {
            first.text.insert_str(0, DISAGREEMENT);
        }
        section.push(first);
        section.extend(second.map(|place| sentences.remove(place).0));
    }
    section
}

/// Returns the pairs of sentences about the same subject with different figures, each with the
/// lower number first. The time grows with the square of the number of sentences.
pub fn contradictions(notes: &[&str]) -> Vec<(usize, usize)> {
    let profiles: Vec<Profile> = notes.iter().map(|note| Profile::new(note)).collect();
    let mut pairs = Vec::new();
    for (one, profile) in profiles.iter().enumerate() {
        let others = profiles.iter().enumerate().skip(one + 1);
        pairs.extend(
            others
                .filter(|(_, other)| profile.contradicts(other))
                .map(|(two, _)| (one, two)),
        );
    }
    pairs
}
