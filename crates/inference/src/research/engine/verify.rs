//! Verification of the sentences of a section: every figure, date, unit and quoted name of a
//! sentence must be in the quotes of its notes.

use tollgate_evidence::bm25::Bm25;
use tollgate_evidence::figures::unsupported;
use tollgate_upstream::SectionSentence;

use super::super::payload::Note;

/// Number of other notes that may support a sentence which its own notes do not.
const MAX_REPAIRS: usize = 5;
/// Maximum number of notes for the correction of a sentence.
const MAX_CANDIDATES: usize = 8;
/// Minimum probability that the quotes support a claim, for a verified claim.
const MIN_SUPPORT: f64 = 0.7;

/// Result of the verification of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimStatus {
    Verified,
    /// Verified by a note that the writer did not cite, or after a correction.
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
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) text: String,
    /// Positions of the supporting notes in the list of all notes.
    pub(crate) notes: Vec<usize>,
    pub(crate) status: ClaimStatus,
    /// Reason why the claim is not verified.
    pub(crate) reason: Option<String>,
    /// Probability that the quotes support the claim, as the judge decided; `None` without a
    /// decision.
    pub(crate) support: Option<f64>,
    /// Whether a new paragraph begins with the claim.
    pub(crate) starts_paragraph: bool,
}

/// Notes of a report, indexed for the verification of its sentences.
pub(super) struct Evidence<'n> {
    pub(super) notes: &'n [Note],
    index: Bm25,
}

impl<'n> Evidence<'n> {
    pub(super) fn new(notes: &'n [Note]) -> Self {
        Self {
            notes,
            index: Bm25::new(notes.iter().map(|note| &note.quote)),
        }
    }

    /// Verifies a sentence by the quotes of its notes, else with the quote of another note. A
    /// sentence that no quotes support is unverified.
    pub(super) fn claim(&self, sentence: SectionSentence, cited: Vec<usize>) -> Claim {
        let (text, starts_paragraph) = (sentence.text, sentence.starts_paragraph);
        let claim = |notes, status, reason| Claim {
            text: text.clone(),
            notes,
            status,
            reason,
            support: None,
            starts_paragraph,
        };
        let missing = missing(&text, &cited, self.notes);
        if missing.is_empty() {
            return claim(cited, ClaimStatus::Verified, None);
        }
        for other in self.related(&text) {
            let mut more = cited.clone();
            more.push(other);
            if !cited.contains(&other) && self::missing(&text, &more, self.notes).is_empty() {
                return claim(more, ClaimStatus::Repaired, None);
            }
        }
        let reason = format!("not in the quotes: {}", missing.join(", "));
        claim(cited, ClaimStatus::Unverified, Some(reason))
    }

    /// Returns the positions of the notes with the most similar quotes.
    fn related(&self, text: &str) -> impl Iterator<Item = usize> {
        let ranked = self.index.rank(text, MAX_REPAIRS);
        ranked.into_iter().map(|(position, _)| position)
    }

    /// Returns the positions of the notes that may support a corrected sentence.
    pub(super) fn candidates(&self, claim: &Claim) -> Vec<usize> {
        let mut candidates = claim.notes.clone();
        for other in self.related(&claim.text) {
            if !candidates.contains(&other) {
                candidates.push(other);
            }
        }
        candidates.truncate(MAX_CANDIDATES);
        candidates
    }
}

/// Returns the positions of notes in a list of notes, without repetitions. `places` are positions
/// in `positions`.
pub(super) fn cited(places: &[u32], positions: &[usize]) -> Vec<usize> {
    let mut cited: Vec<usize> = Vec::new();
    for place in places {
        let position = positions.get(*place as usize).copied();
        cited.extend(position.filter(|position| !cited.contains(position)));
    }
    cited
}

impl Claim {
    /// Applies the decision of the judge: a claim with too little support is unverified.
    pub(super) fn judge(&mut self, support: Option<f64>) {
        self.support = support;
        if support.is_some_and(|support| support < MIN_SUPPORT) {
            self.status = ClaimStatus::Unverified;
            self.reason = Some("the quotes do not support it".to_owned());
        }
    }

    /// Returns the claim as the report shows it: an unverified claim has no citations, and is
    /// removed unless it is marked.
    pub(super) fn shown(mut self, marks_unverified: bool) -> Self {
        if self.status == ClaimStatus::Unverified {
            self.notes.clear();
            if !marks_unverified {
                self.status = ClaimStatus::Removed;
            }
        }
        self
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
            date: None,
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
                starts_paragraph: false,
            };
            let positions = super::cited(&sentence.notes, &[0, 1]);
            let claim = Evidence::new(&notes).claim(sentence, positions).shown(false);
            assert_eq!((claim.status, &claim.notes), (status, &expected), "{text}");
        }
    }

    #[test]
    fn the_judge_decides_whether_quotes_support_a_claim() {
        let notes = [note("The ferry carried 41,200 passengers in the year 2021.")];
        let sentence = SectionSentence {
            text: "In 2021, 41,200 people took the ferry.".to_owned(),
            notes: vec![0],
            starts_paragraph: false,
        };
        let claim = Evidence::new(&notes).claim(sentence, vec![0]);
        for (support, marks, status) in [
            (Some(0.7), false, ClaimStatus::Verified),
            (None, false, ClaimStatus::Verified),
            (Some(0.69), true, ClaimStatus::Unverified),
            (Some(0.69), false, ClaimStatus::Removed),
        ] {
            let mut claim = claim.clone();
            claim.judge(support);
            assert_eq!(claim.shown(marks).status, status, "{support:?}");
        }
    }
}
