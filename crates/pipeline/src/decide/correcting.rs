//! Probabilities corrected by a profile of the account's.

use tollgate_estimate::{AnswerKind, Profile};
use tollgate_types::decide::{Decision, Verdict};

/// A profile, and its name.
#[derive(Clone, Debug)]
pub struct NamedProfile {
    /// Its id.
    pub id: String,
    /// What it does.
    pub profile: Profile,
}

impl NamedProfile {
    /// Corrects the answer of a question; arguments of functions stay as they are.
    pub(super) fn correct(&self, decision: &mut Decision) {
        let apply = |kind: AnswerKind, probabilities: &mut Vec<f64>| {
            *probabilities = self.profile.apply(kind, probabilities);
        };
        match &mut decision.verdict {
            Verdict::Noul(yes) => {
                let corrected = self.profile.apply(AnswerKind::Noul, &[*yes, 1.0 - *yes]);
                *yes = corrected.first().copied().unwrap_or(*yes);
            }
            Verdict::Choice(probabilities) => apply(AnswerKind::Choice, probabilities),
            Verdict::Score(probabilities) => apply(AnswerKind::Score, probabilities),
            Verdict::Tool { probabilities, .. } => apply(AnswerKind::Tool, probabilities),
            Verdict::Refused | Verdict::Failed(_) => return,
        }
        if let Some(method) = &mut decision.method {
            method.calibrated = Some(self.id.clone());
        }
    }
}
