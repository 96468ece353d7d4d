//! Token and time limits of sampled answers, per question and per call.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_upstream::Draw;

/// Maximum number of output tokens of an answer that is a bare label or a label in JSON.
pub(super) const LABEL_TOKENS: u64 = 16;
/// Maximum number of output tokens of an answer of a reasoning model.
pub(super) const REASONED_TOKENS: u64 = 4_096;
/// Maximum number of output tokens of all draws of a question.
const QUESTION_TOKENS: u64 = 16_384;
/// Maximum number of output tokens of all draws of a call, divided equally among its questions.
const CALL_TOKENS: u64 = 65_536;
/// Maximum total duration of the draws of a question. When they reach it, no other draw of the
/// question starts.
const QUESTION_TIME: Duration = Duration::from_secs(60);
/// Time after which all draws of a call end.
const CALL_TIME: Duration = Duration::from_secs(300);

/// Remaining token and time budget of a call's draws.
pub(super) struct DrawBudget {
    until: Instant,
    questions: Mutex<Vec<Remaining>>,
}

/// Remaining budget of a question.
#[derive(Clone, Copy)]
struct Remaining {
    tokens: u64,
    time: Duration,
}

impl DrawBudget {
    /// Creates the budget of a call with this number of questions. Its deadline is [`CALL_TIME`]
    /// from now.
    pub(super) fn new(questions: usize) -> Self {
        let share = CALL_TOKENS / (questions.max(1) as u64);
        let left = Remaining {
            tokens: share.min(QUESTION_TOKENS),
            time: QUESTION_TIME,
        };
        Self {
            until: Instant::now() + CALL_TIME,
            questions: Mutex::new(vec![left; questions]),
        }
    }

    /// Returns the deadline of all draws of the call.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Reserves up to `wanted` answers of a question, each of at most `max_tokens`. `None` if the
    /// budget is spent.
    pub(super) fn reserve(&self, question: usize, wanted: u32, max_tokens: u64) -> Option<Draw> {
        let mut questions = self.questions();
        let left = questions.get_mut(question)?;
        let max_tokens = max_tokens.min(left.tokens);
        if wanted == 0 || max_tokens < LABEL_TOKENS || left.time.is_zero() {
            return None;
        }
        let affordable = u32::try_from(left.tokens / max_tokens).unwrap_or(u32::MAX);
        let draw = Draw {
            answers: wanted.min(affordable),
            max_tokens,
        };
        left.tokens -= reserved(draw);
        Some(draw)
    }

    /// Replaces a reservation by the reported tokens, and deducts the duration of the draw. Without
    /// a report, the whole reservation counts.
    pub(super) fn settle(&self, question: usize, draw: Draw, used: Option<u64>, took: Duration) {
        let mut questions = self.questions();
        let Some(left) = questions.get_mut(question) else {
            return;
        };
        let reserved = reserved(draw);
        left.tokens = (left.tokens + reserved).saturating_sub(used.unwrap_or(reserved));
        left.time = left.time.saturating_sub(took);
    }

    fn questions(&self) -> MutexGuard<'_, Vec<Remaining>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reserved(draw: Draw) -> u64 {
    u64::from(draw.answers).saturating_mul(draw.max_tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(answers: u32, max_tokens: u64) -> Option<Draw> {
        Some(Draw { answers, max_tokens })
    }

    #[test]
    fn a_question_has_its_share_of_tokens() {
        // questions, draw of labels, draw of a reasoning model
        for (questions, labels, reasoned) in [
            (1, draw(1_024, 16), draw(4, 4_096)),
            (4, draw(1_024, 16), draw(4, 4_096)),
            (8, draw(512, 16), draw(2, 4_096)),
            (128, draw(32, 16), draw(1, 512)),
        ] {
            let max_draw = |tokens| DrawBudget::new(questions).reserve(questions - 1, u32::MAX, tokens);
            assert_eq!(max_draw(LABEL_TOKENS), labels, "{questions}");
            assert_eq!(max_draw(REASONED_TOKENS), reasoned, "{questions}");
            assert_eq!(DrawBudget::new(questions).reserve(questions, 1, 16), None);
        }
    }

    #[test]
    fn reported_tokens_replace_the_reservation() {
        let budget = DrawBudget::new(128);
        let first = budget.reserve(0, 20, 16).unwrap();
        assert_eq!(budget.reserve(0, 20, 16), draw(12, 16));
        assert_eq!(budget.reserve(0, 20, 16), None);
        budget.settle(0, first, Some(40), Duration::ZERO);
        assert_eq!(budget.reserve(0, 20, 16), draw(17, 16));
        assert_eq!(budget.reserve(1, 20, 16), draw(20, 16), "another question");
        // Without a report the whole reservation counts. A server that ignores its cap consumes the
        // rest.
        for used in [None, Some(1_000_000)] {
            let budget = DrawBudget::new(128);
            let all = budget.reserve(0, 32, 16).unwrap();
            budget.settle(0, all, used, Duration::ZERO);
            assert_eq!(budget.reserve(0, 1, 16), None, "{used:?}");
        }
    }

    #[test]
    fn a_question_has_its_time() {
        let budget = DrawBudget::new(1);
        for (took, is_left) in [
            (QUESTION_TIME - Duration::from_millis(1), true),
            (Duration::from_millis(1), false),
        ] {
            let one = budget.reserve(0, 1, 16).unwrap();
            budget.settle(0, one, Some(1), took);
            assert_eq!(budget.reserve(0, 1, 16).is_some(), is_left, "{took:?}");
        }
    }
}
