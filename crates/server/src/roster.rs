//! What is known of providers while a server runs: what their blocks say, which models they said they have, and how the
//! last calls to each target went. There is nothing to know in a process that serves nobody.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tollgate_catalog::{Candidate, Snapshot};
use tollgate_pipeline::Pipeline;
use tollgate_types::Timestamp;

use crate::control::view::providers::{ProviderView, TargetView};

/// A provider in use.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of its block.
    pub name: String,
    /// Its preset.
    pub preset: String,
    /// Where it is, without a password.
    pub base_url: Option<String>,
    /// Whether its answers are simulated.
    pub simulated: bool,
    /// The models that it said it has, or why it did not say; `None` when it was not asked.
    pub listed: Option<Result<Vec<String>, String>>,
}

/// The providers in use.
#[derive(Default)]
pub struct Roster {
    entries: ArcSwap<Vec<Entry>>,
    pipeline: OnceLock<Arc<Pipeline>>,
}

impl Roster {
    /// Calls are made by this pipeline.
    pub fn watch(&self, pipeline: &Arc<Pipeline>) {
        let _ = self.pipeline.set(pipeline.clone());
    }

    /// Replaces the providers.
    pub fn replace(&self, entries: Vec<Entry>) {
        self.entries.store(Arc::new(entries));
    }

    /// Every provider, with the targets that the models of the snapshot have there.
    pub fn views(&self, snapshot: &Snapshot) -> Vec<ProviderView> {
        let entries = self.entries.load();
        entries.iter().map(|entry| self.view(entry, snapshot)).collect()
    }

    fn view(&self, entry: &Entry, snapshot: &Snapshot) -> ProviderView {
        let mut targets: Vec<TargetView> = Vec::new();
        for model in snapshot.models() {
            let here = model.candidates.iter();
            for candidate in here.filter(|candidate| *candidate.provider == *entry.name) {
                let known = targets
                    .iter_mut()
                    .find(|target| *target.upstream_model == *candidate.upstream_model);
                match known {
                    Some(target) => target.models.push(model.id.to_string()),
                    None => targets.push(self.target(candidate, &model.id)),
                }
            }
        }
        let listed = entry.listed.as_ref();
        ProviderView {
            name: entry.name.clone(),
            preset: entry.preset.clone(),
            base_url: entry.base_url.clone(),
            simulated: entry.simulated,
            models_found: listed.and_then(|listed| listed.as_ref().ok()).cloned(),
            listing_error: listed.and_then(|listed| listed.as_ref().err()).cloned(),
            targets,
        }
    }

    fn target(&self, candidate: &Candidate, model: &str) -> TargetView {
        let report = self
            .pipeline
            .get()
            .and_then(|pipeline| pipeline.health.report(candidate));
        let report = report.unwrap_or_default();
        TargetView {
            upstream_model: candidate.upstream_model.to_string(),
            models: vec![model.to_owned()],
            breaker: report.breaker.as_str().to_owned(),
            failures_in_a_row: report.failures_in_a_row,
            retry_in_ms: u64::try_from(report.retry_in.as_millis()).unwrap_or(u64::MAX),
            last_error: report.last_error.as_ref().map(|last| last.what.clone()),
            last_error_at: report.last_error.map(|last| Timestamp::to_rfc3339(last.at)),
        }
    }
}
