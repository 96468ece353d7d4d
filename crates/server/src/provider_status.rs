//! Runtime status of a server: its addresses, its providers, their model lists, and the results of
//! recent calls to each target. The status is empty in a process that serves no requests.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tollgate_catalog::{Candidate, Discovered, Snapshot};
use tollgate_operations::ServerStatus;
use tollgate_pipeline::Pipeline;
use tollgate_types::Timestamp;

use tollgate_operations::view::providers::{ProviderView, ServerView, TargetView};

/// A provider that this process uses.
#[derive(Clone, Debug)]
pub struct ProviderEntry {
    /// Name of the `[providers]` block.
    pub name: String,
    /// Name of the preset.
    pub preset: String,
    /// Base URL without a password.
    pub base_url: Option<String>,
    /// Whether the provider simulates its responses.
    pub simulated: bool,
    /// Whether a `default_price` offers all models that the provider lists.
    pub offers_all: bool,
    /// Whether the server was discovered on a default port of model servers on this machine.
    pub is_local: bool,
    /// Models in the last list that the provider returned; empty if no list was requested.
    pub models: Vec<Discovered>,
    /// Error of the last request for the list; `None` if it succeeded or no list was requested.
    pub list_error: Option<String>,
}

impl ProviderEntry {
    /// Whether both entries describe the same server.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.name, &self.preset, &self.base_url) == (&other.name, &other.preset, &other.base_url)
    }

    /// Returns a note about a failed request for the list, for the log and the doctor.
    pub fn note(&self) -> Option<String> {
        let error = self.list_error.as_ref()?;
        let effect = match (self.models.is_empty(), self.offers_all) {
            (false, _) => "its last list stays in use",
            (true, true) => "its models are offered once it answers",
            (true, false) => "the limits of its models are unknown until it answers",
        };
        Some(format!(
            "providers.{}: cannot list its models: {error}; {effect}",
            self.name
        ))
    }
}

/// The status of this process's server and its providers.
#[derive(Default)]
pub struct ProviderStatus {
    entries: ArcSwap<Vec<ProviderEntry>>,
    listening: OnceLock<ServerView>,
    pipeline: OnceLock<Arc<Pipeline>>,
}

impl ProviderStatus {
    /// Sets the pipeline that reports the health of targets. Only the first call has an effect.
    pub fn watch(&self, pipeline: &Arc<Pipeline>) {
        let _ = self.pipeline.set(pipeline.clone());
    }

    /// Sets the addresses of the server. Only the first call has an effect.
    pub fn listen(&self, server: ServerView) {
        let _ = self.listening.set(server);
    }

    /// Returns the entries of the last assembly.
    pub fn entries(&self) -> Arc<Vec<ProviderEntry>> {
        self.entries.load_full()
    }

    /// Replaces the entries with those of a new assembly.
    pub fn replace(&self, entries: Vec<ProviderEntry>) {
        self.entries.store(Arc::new(entries));
    }

    fn view(&self, entry: &ProviderEntry, snapshot: &Snapshot) -> ProviderView {
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
        let is_listed = entry.offers_all && (entry.list_error.is_none() || !entry.models.is_empty());
        let names = || entry.models.iter().map(|found| found.name.clone()).collect();
        ProviderView {
            name: entry.name.clone(),
            preset: entry.preset.clone(),
            base_url: entry.base_url.clone(),
            simulated: entry.simulated,
            models_found: is_listed.then(names),
            listing_error: entry.list_error.clone(),
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

impl ServerStatus for ProviderStatus {
    fn providers(&self, snapshot: &Snapshot) -> Vec<ProviderView> {
        let entries = self.entries.load();
        entries.iter().map(|entry| self.view(entry, snapshot)).collect()
    }

    fn addresses(&self) -> Option<ServerView> {
        self.listening.get().cloned()
    }
}
