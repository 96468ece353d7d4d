//! What models prefer whatever is asked. It is learned from answers themselves, and kept, so that a process that starts goes
//! on from what was learned before.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_estimate::{LabelPrior, Lesson};
use tollgate_storage::{LabelPriorStore, Result, StorageError, StorageErrorKind, StoredLabelPrior};

/// Provider and the model's name there.
pub(super) type PriorKey = (Arc<str>, Arc<str>);

/// Models that are known at once; beyond them all are forgotten.
const MOST: usize = 1_000;

/// What each model prefers.
#[derive(Default)]
pub(crate) struct Priors {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_model: HashMap<PriorKey, Arc<LabelPrior>>,
    /// Of whom more is known than was kept.
    unkept: HashSet<PriorKey>,
}

impl Priors {
    /// What is known of a model.
    pub(super) fn of(&self, key: &PriorKey) -> Option<Arc<LabelPrior>> {
        self.known().by_model.get(key).cloned()
    }

    /// Learns from a question.
    pub(super) fn learn(&self, key: PriorKey, lesson: &Lesson) {
        let mut known = self.known();
        known.make_room(&key);
        known.unkept.insert(key.clone());
        Arc::make_mut(known.by_model.entry(key).or_default()).learn(lesson);
    }

    /// Reads what was kept; what was learned in the meantime stays.
    pub(crate) async fn recall(&self, store: &dyn LabelPriorStore) -> Result<()> {
        for StoredLabelPrior {
            provider,
            model,
            prior,
        } in store.all().await?
        {
            match serde_json::from_str::<LabelPrior>(&prior) {
                Ok(prior) => {
                    let key = (provider.into(), model.into());
                    let mut known = self.known();
                    known.make_room(&key);
                    known.by_model.entry(key).or_insert_with(|| Arc::new(prior));
                }
                Err(error) => {
                    tracing::warn!(provider, model, %error, "what was learned of a model cannot be read: it is learned again");
                }
            }
        }
        Ok(())
    }

    /// Keeps what was learned since the last time.
    pub(crate) async fn keep(&self, store: &dyn LabelPriorStore) -> Result<()> {
        let unkept: Vec<PriorKey> = self.known().unkept.iter().cloned().collect();
        for key in unkept {
            // Before it is written: a lesson that comes meanwhile is kept the next time.
            self.known().unkept.remove(&key);
            let Some(prior) = self.of(&key) else { continue };
            if let Err(error) = keep_one(store, &key, &prior).await {
                self.known().unkept.insert(key);
                return Err(error);
            }
        }
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn make_room(&mut self, key: &PriorKey) {
        if self.by_model.len() >= MOST && !self.by_model.contains_key(key) {
            self.by_model.clear();
            self.unkept.clear();
        }
    }
}

async fn keep_one(
    store: &dyn LabelPriorStore,
    (provider, model): &PriorKey,
    prior: &LabelPrior,
) -> Result<()> {
    let prior = serde_json::to_string(prior)
        .map_err(|error| StorageError::new(StorageErrorKind::Corrupt, error.to_string()))?;
    store
        .save(StoredLabelPrior {
            provider: provider.as_ref().to_owned(),
            model: model.as_ref().to_owned(),
            prior,
        })
        .await
}

#[cfg(test)]
mod tests;
