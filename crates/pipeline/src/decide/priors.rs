//! What models prefer whatever is asked, kept while the process runs. It is learned from answers themselves, so another
//! process learns its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_estimate::{LabelPrior, Lesson};

/// Provider and the model's name there.
pub(super) type PriorKey = (Arc<str>, Arc<str>);

/// Models that are known at once; beyond them all are forgotten.
const MOST: usize = 1_000;

/// What each model prefers.
#[derive(Default)]
pub(crate) struct Priors {
    by_model: Mutex<HashMap<PriorKey, Arc<LabelPrior>>>,
}

impl Priors {
    /// What is known of a model.
    pub(super) fn of(&self, key: &PriorKey) -> Option<Arc<LabelPrior>> {
        let known = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).cloned()
    }

    /// Learns from a question.
    pub(super) fn learn(&self, key: PriorKey, lesson: &Lesson) {
        let mut known = self.by_model.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST && !known.contains_key(&key) {
            known.clear();
        }
        Arc::make_mut(known.entry(key).or_default()).learn(lesson);
    }
}
