//! Label priors: each model's preference for labels, regardless of the question. They are learned
//! from answers and stored, so that they survive a restart.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_probability::{LabelPrior, PriorObservation};
use tollgate_storage::{LabelPriorStore, Result, StorageError, StorageErrorKind, StoredLabelPrior};

/// Name of the provider, and the provider's name of the model.
pub(super) type PriorKey = (Arc<str>, Arc<str>);

/// Maximum number of models in a table, which is cleared before another one is added.
const MAX_MODELS: usize = 1_000;

/// Label priors and traits by model.
#[derive(Default)]
pub(crate) struct Priors {
    table: Mutex<PriorTable>,
}

#[derive(Default)]
struct PriorTable {
    by_model: HashMap<PriorKey, Arc<LabelPrior>>,
    /// Models whose prior has changed since it was stored.
    unsaved: HashSet<PriorKey>,
    traits: HashMap<PriorKey, ModelTraits>,
}

/// Properties observed in a model's sampled answers since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelTraits {
    /// Whether the model reasons before it answers.
    pub(super) reasons: bool,
    /// Whether the model returns different answers to the same prompt.
    pub(super) varies: bool,
}

impl Priors {
    /// Returns the prior of a model, if one is known.
    pub(super) fn of(&self, key: &PriorKey) -> Option<Arc<LabelPrior>> {
        self.table().by_model.get(key).cloned()
    }

    /// Updates a model's prior with the answers to one question.
    pub(super) fn learn(&self, key: PriorKey, observation: &PriorObservation) {
        let mut table = self.table();
        table.evict_if_full(&key);
        table.unsaved.insert(key.clone());
        Arc::make_mut(table.by_model.entry(key).or_default()).learn(observation);
    }

    /// Returns the observed traits of a model; all `false` if none has been observed.
    pub(super) fn traits(&self, key: &PriorKey) -> ModelTraits {
        self.table().traits.get(key).copied().unwrap_or_default()
    }

    /// Records that the model reasons before it answers.
    pub(super) fn note_reasoning(&self, key: PriorKey) {
        self.note_trait(key, |traits| traits.reasons = true);
    }

    /// Records that the model returns different answers to the same prompt.
    pub(super) fn note_variety(&self, key: PriorKey) {
        self.note_trait(key, |traits| traits.varies = true);
    }

    fn note_trait(&self, key: PriorKey, change: impl FnOnce(&mut ModelTraits)) {
        let mut table = self.table();
        if table.traits.len() >= MAX_MODELS && !table.traits.contains_key(&key) {
            table.traits.clear();
        }
        change(table.traits.entry(key).or_default());
    }

    /// Loads stored priors. Priors that were learned in the meantime take precedence.
    pub(crate) async fn load(&self, store: &dyn LabelPriorStore) -> Result<()> {
        for StoredLabelPrior {
            provider,
            model,
            prior,
        } in store.all().await?
        {
            match serde_json::from_str::<LabelPrior>(&prior) {
                Ok(prior) => {
                    let key = (provider.into(), model.into());
                    let mut table = self.table();
                    table.evict_if_full(&key);
                    table.by_model.entry(key).or_insert_with(|| Arc::new(prior));
                }
                Err(error) => {
                    tracing::warn!(provider, model, %error, "cannot read the stored priors of a model; learning them again");
                }
            }
        }
        Ok(())
    }

    /// Stores the priors that changed since the last save.
    pub(crate) async fn save(&self, store: &dyn LabelPriorStore) -> Result<()> {
        let unsaved: Vec<PriorKey> = self.table().unsaved.iter().cloned().collect();
        for key in unsaved {
            // The key is removed before the write, so that the next save stores an update during
            // the write.
            self.table().unsaved.remove(&key);
            let Some(prior) = self.of(&key) else { continue };
            if let Err(error) = save_one(store, &key, &prior).await {
                self.table().unsaved.insert(key);
                return Err(error);
            }
        }
        Ok(())
    }

    fn table(&self) -> MutexGuard<'_, PriorTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PriorTable {
    fn evict_if_full(&mut self, key: &PriorKey) {
        if self.by_model.len() >= MAX_MODELS && !self.by_model.contains_key(key) {
            self.by_model.clear();
            self.unsaved.clear();
        }
    }
}

async fn save_one(
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
