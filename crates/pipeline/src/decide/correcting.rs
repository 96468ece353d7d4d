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
    /// Corrects the answer of a question, if the profile has learned from such questions; arguments of functions stay as they are.
    pub(super) fn correct(&self, decision: &mut Decision) {
        let kind = match decision.verdict {
            Verdict::Noul(_) => AnswerKind::Noul,
            Verdict::Choice(_) => AnswerKind::Choice,
            Verdict::Score(_) => AnswerKind::Score,
            Verdict::Tool { .. } => AnswerKind::Tool,
            Verdict::Refused | Verdict::Failed(_) => return,
        };
        if !self.profile.corrects(kind) {
            return;
        }
        match &mut decision.verdict {
            Verdict::Noul(yes) => {
                let corrected = self.profile.apply(kind, &[*yes, 1.0 - *yes]);
                *yes = corrected.first().copied().unwrap_or(*yes);
            }
            Verdict::Choice(probabilities)
            | Verdict::Score(probabilities)
            | Verdict::Tool { probabilities, .. } => {
                *probabilities = self.profile.apply(kind, probabilities);
            }
            Verdict::Refused | Verdict::Failed(_) => {}
        }
        if let Some(method) = &mut decision.method {
            method.calibrated = Some(self.id.clone());
        }
    }
}
