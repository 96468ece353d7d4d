//! Calibration of probabilities with a profile of the account.

use tollgate_probability::{AnswerKind, Profile};
use tollgate_types::decide::{Decision, Verdict};

/// A calibration profile with its id.
#[derive(Clone, Debug)]
pub struct NamedProfile {
    /// Id of the profile, reported with each corrected answer.
    pub id: String,
    /// Calibration maps by kind of question.
    pub profile: Profile,
}

impl NamedProfile {
    /// Corrects the answer of a question, if the profile was fitted on questions of its kind.
    /// Probabilities of function arguments remain unchanged.
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
