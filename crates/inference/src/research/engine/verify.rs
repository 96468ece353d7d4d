//! Verification of the sentences of a section: every figure, date, unit and quoted name of a
//! sentence must be in the quotes of its notes.

use tollgate_evidence::bm25::Bm25;
use tollgate_evidence::figures::unsupported;
use tollgate_upstream::SectionSentence;

use super::super::payload::Note;

/// Number of other notes that may support a sentence which its own notes do not.
const MAX_REPAIRS: usize = 5;

/// Result of the verification of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimStatus {
    Verified,
    /// Verified by a note that the writer did not cite.
    Repaired,
    /// Not verified; the report shows it without a citation.
    Unverified,
    /// Not verified and not in the report.
    Removed,
}

impl ClaimStatus {
    /// Returns the name used in results and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ClaimStatus::Verified | ClaimStatus::Repaired => "verified",
            ClaimStatus::Unverified => "unverified",
            ClaimStatus::Removed => "removed",
        }
    }
}

/// A sentence with the result of its verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) text: String,
    /// Positions of the supporting notes in the list of all notes.
    pub(crate) notes: Vec<usize>,
    pub(crate) status: ClaimStatus,
    /// Parts of the sentence that the quotes do not support.
    pub(crate) reason: Option<String>,
}

/// Verifies the sentences of a section. `positions` are its notes in the list of all notes.
pub(super) fn claims(
    sentences: Vec<SectionSentence>,
    positions: &[usize],
    notes: &[Note],
    marks_unverified: bool,
) -> Vec<Claim> {
    let index = Bm25::new(notes.iter().map(|note| &note.quote));
    let sentences = sentences
        .into_iter()
        .filter(|sentence| !sentence.text.trim().is_empty());
    sentences
        .map(|sentence| {
            let mut cited: Vec<usize> = Vec::new();
            for place in &sentence.notes {
                let position = positions.get(*place as usize).copied();
                cited.extend(position.filter(|position| !cited.contains(position)));
            }
            claim(sentence.text, cited, notes, &index, marks_unverified)
        })
        .collect()
}

fn claim(text: String, cited: Vec<usize>, notes: &[Note], index: &Bm25, marks_unverified: bool) -> Claim {
    let missing = missing(&text, &cited, notes);
    if missing.is_empty() {
        return Claim {
            text,
            notes: cited,
            status: ClaimStatus::Verified,
            reason: None,
        };
    }
    for (other, _) in index.rank(&text, MAX_REPAIRS) {
        let mut more = cited.clone();
        more.push(other);
        if !cited.contains(&other) && self::missing(&text, &more, notes).is_empty() {
            return Claim {
                text,
                notes: more,
                status: ClaimStatus::Repaired,
                reason: None,
            };
        }
    }
    Claim {
        text,
        notes: Vec::new(),
        status: match marks_unverified {
            true => ClaimStatus::Unverified,
            false => ClaimStatus::Removed,
        },
        reason: Some(format!("not in the quotes: {}", missing.join(", "))),
    }
}

/// Returns what the quotes of the notes do not support. A sentence without notes is not supported.
fn missing(text: &str, cited: &[usize], notes: &[Note]) -> Vec<String> {
    let quotes: Vec<&str> = cited
        .iter()
        .filter_map(|position| notes.get(*position))
        .map(|note| &*note.quote)
        .collect();
    match quotes.is_empty() {
        true => vec!["the sentence".to_owned()],
        false => unsupported(text, &quotes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(quote: &str) -> Note {
        Note {
            source: 1,
            claim: quote.to_owned(),
            quote: quote.to_owned(),
            start: 0,
            end: quote.chars().count() as u64,
            matched: "exact".to_owned(),
        }
    }

    #[test]
    fn sentences_need_quotes_with_their_figures() {
        let notes = [
            note("The ferry carried 41,200 passengers in the year 2021."),
            note("The harbour of Veld was rebuilt in 1987 after the great storm."),
        ];
        for (text, cited, status, expected) in [
            (
                "The ferry carried 41,200 passengers in 2021.",
                vec![0],
                ClaimStatus::Verified,
                vec![0],
            ),
            (
                "The harbour of Veld was rebuilt in 1987.",
                vec![0],
                ClaimStatus::Repaired,
                vec![0, 1],
            ),
            (
                "The harbour was rebuilt in 1988.",
                vec![1],
                ClaimStatus::Removed,
                vec![],
            ),
            (
                "The harbour is beautiful.",
                vec![],
                ClaimStatus::Repaired,
                vec![1],
            ),
            ("Everything is unknown.", vec![9], ClaimStatus::Removed, vec![]),
        ] {
            let sentence = SectionSentence {
                text: text.to_owned(),
                notes: cited,
            };
            let claims = claims(vec![sentence], &[0, 1], &notes, false);
            assert_eq!(
                (claims[0].status, &claims[0].notes),
                (status, &expected),
                "{text}"
            );
        }
    }
}
