//! Stages of a metered call: route → admit → dispatch → meter → settle. This crate contains no
//! HTTP, no SQL and no provider names.
//!
//! Each stage consumes the result of the previous stage: [`Routed`] → [`Admission`] → (inside
//! [`Pipeline::run`]) `Dispatched` → `Charge`. An operation, such as text generation or embeddings,
//! defines only the attempt at one candidate and the delivery of the response; all operations share
//! the stages. A paid upstream call requires a hold: only an [`Admission`], or a job with its hold,
//! provides the context of the call. If the caller disconnects between dispatch and settlement, the
//! call continues until it is settled (`run_to_completion`).

pub mod admit;
pub mod batch;
mod cost_limit;
pub mod counting;
pub mod decide;
pub mod dispatch;
pub mod embed;
mod generate;
pub mod generation;
pub mod health;
mod hold_guard;
pub mod job;
mod json_prompt;
pub mod media;
mod meter;
mod meters;
mod moderate;
mod operation;
pub mod policy;
pub mod provider_job;
mod purse;
mod realtime;
mod research;
pub mod route;
pub mod run;
mod run_to_completion;
mod search;
pub mod separate;
mod session;
mod settings;
pub mod speech;
pub mod stream;
pub mod structured;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tollgate_accounts::Limiter;
use tollgate_catalog::Catalog;
use tollgate_storage::{LabelPriorStore, LedgerStore, StorageError};
use tollgate_types::Clock;

pub use admit::{Admission, CallRequest};
pub use batch::{BatchedCall, ProviderBatches, SubmitError};
pub use decide::{DecideCall, Decided, DecisionInput, NamedProfile};
pub use embed::Embedded;
pub use generation::Conclusion;
pub use health::Health;
pub use json_prompt::{JsonPrompt, answer_text};
pub use media::{MediaSources, ReferencesMedia};
pub use moderate::Moderated;
pub use policy::{OutputInspection, Policy};
pub use purse::{Purse, Reservation};
pub use realtime::{OpenedRealtime, OpenedTranscription, realtime_error, unsupported_realtime};
pub use route::{Providers, Route, Routed};
pub use run::{AnswerChunk, Delivered, DeliveredStream, Served};
pub use search::{GuardedSearch, SEARCH_SECONDS, test_search};
pub use session::{
    MICROS_PER_INPUT_TOKEN, MICROS_PER_OUTPUT_TOKEN, PaidTurn, SessionCall, TurnResult, audio_usage,
};
pub use settings::{Drain, Retries, Settings, Timeouts};
pub use speech::{DeliveredSpeech, Transcribed};
pub use structured::{Structure, Structured};

/// Shared state of all calls. Clones are cheap and share the state.
#[derive(Clone)]
pub struct Pipeline {
    /// Models and their candidates.
    pub catalog: Arc<Catalog>,
    /// Upstream providers by name.
    pub providers: Arc<Providers>,
    /// Rate limiter; the pipeline uses its limit of tokens per minute.
    pub limiter: Arc<Limiter>,
    /// Ledger of holds and settlements.
    pub ledger: Arc<dyn LedgerStore>,
    /// Whether the hold of a call that never runs is released; false for jobs, which own their
    /// holds.
    owns_holds: bool,
    /// Sources of media that callers reference by URL or file id.
    pub media: MediaSources,
    /// Clock of the deployment; accounts with a test clock add an offset.
    pub clock: Arc<dyn Clock>,
    /// Timeouts, retries and draining.
    pub settings: Settings,
    /// Content policy, if one is configured.
    policy: Arc<ArcSwapOption<Policy>>,
    /// Health of each candidate.
    pub health: Arc<Health>,
    /// Health of token-count endpoints, tracked separately because their rate limits differ and
    /// some upstreams cannot count.
    counters: Arc<Health>,
    /// Tracker of running calls, which a shutdown awaits.
    pub calls: TaskTracker,
    drains: Arc<Semaphore>,
    counting: Arc<Semaphore>,
    meters: Arc<meters::Meters>,
    /// Learned label preferences of models, for typed decisions.
    priors: Arc<decide::Priors>,
}

impl Pipeline {
    /// Creates a pipeline from its parts, without a content policy.
    pub fn new(
        catalog: Arc<Catalog>,
        providers: Arc<Providers>,
        limiter: Arc<Limiter>,
        ledger: Arc<dyn LedgerStore>,
        media: MediaSources,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let health = Health::new(clock.clone(), settings.retries);
        let counters = Health::new(clock.clone(), settings.retries);
        let drains = Arc::new(Semaphore::new(settings.drain.max_concurrent));
        Self {
            catalog,
            providers,
            limiter,
            ledger,
            owns_holds: true,
            media,
            clock,
            settings,
            policy: Arc::new(ArcSwapOption::empty()),
            health: Arc::new(health),
            counters: Arc::new(counters),
            calls: TaskTracker::new(),
            drains,
            counting: Arc::new(counting::count_slots()),
            meters: Arc::new(meters::Meters::new()),
            priors: Arc::new(decide::Priors::default()),
        }
    }

    /// Returns a copy for a job, with the given ledger.
    pub(crate) fn with_ledger(&self, ledger: Arc<dyn LedgerStore>) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            owns_holds: false,
            ..self.clone()
        })
    }

    /// Loads the stored label priors of typed decisions.
    pub async fn load_label_priors(&self, store: &dyn LabelPriorStore) -> Result<(), StorageError> {
        self.priors.load(store).await
    }

    /// Stores the label priors that changed since the last save.
    pub async fn save_label_priors(&self, store: &dyn LabelPriorStore) -> Result<(), StorageError> {
        self.priors.save(store).await
    }

    /// Returns a copy for stored responses: without retries, and with separate health data, since
    /// stored responses do not reflect the current health.
    pub(crate) fn with_replay(&self) -> Self {
        let mut settings = self.settings;
        settings.retries.extra_attempts = 0;
        Self {
            health: Arc::new(Health::new(self.clock.clone(), settings.retries)),
            settings,
            ..self.clone()
        }
    }

    /// Returns the current content policy, if one is configured.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.load_full()
    }

    /// Replaces the content policy. Running calls continue with the previous one.
    pub fn set_policy(&self, policy: Option<Arc<Policy>>) {
        self.policy.store(policy);
    }
}
