//! One metered call: route → admit → dispatch → meter → settle. No HTTP, no SQL, no company's name.
//!
//! Each stage consumes the value of the one before it: [`Routed`] → [`Admission`] → (inside [`Pipeline::run`])
//! `Dispatched` → `Charge`. An operation, such as text generation or embeddings, says only how one candidate is tried
//! and how its answer is delivered; the stages are the same for all. The only way to an upstream is a live hold, because
//! only an [`Admission`] makes the context that an upstream asks for. From dispatch to settlement a call goes on by
//! itself when its caller leaves (`owned`), so that it ends properly.

pub mod admit;
pub mod batch;
mod ceiling;
pub mod counting;
pub mod decide;
pub mod dispatch;
pub mod embed;
mod generate;
pub mod health;
pub mod job;
pub mod making;
pub mod media;
mod meter;
mod meters;
mod moderate;
mod operation;
mod owned;
pub mod policy;
pub mod route;
pub mod run;
pub mod settings;
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
pub use batch::{BatchAt, BatchedCall, Unsubmitted};
pub use decide::{DecideCall, Decided, DecisionInput, NamedProfile};
pub use embed::Embedded;
pub use health::Health;
pub use making::{Conclusion, MakerCall};
pub use media::{MediaSources, NamesMedia};
pub use moderate::Moderated;
pub use policy::Policy;
pub use route::{Providers, Route, Routed};
pub use run::{Delivered, DeliveredStream, Piece, Served};
pub use settings::{Drain, Retries, Settings, Timeouts};
pub use speech::{Transcribed, Voice};
pub use structured::{Structure, Structured};

/// Everything that a call needs. A copy shares all of it.
#[derive(Clone)]
pub struct Pipeline {
    /// Models and where they are reached.
    pub catalog: Arc<Catalog>,
    /// The other side of calls.
    pub providers: Arc<Providers>,
    /// Tokens per minute.
    pub limiter: Arc<Limiter>,
    /// The books.
    pub ledger: Arc<dyn LedgerStore>,
    /// Where media are that callers name instead of sending them.
    pub media: MediaSources,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Time-outs, retries, drain.
    pub settings: Settings,
    /// What may be sent and shown, when something is configured.
    policy: Arc<ArcSwapOption<Policy>>,
    /// What is known about each candidate.
    pub health: Arc<Health>,
    /// The same of those that are asked for counts: their limits are others, and some cannot count.
    counters: Arc<Health>,
    /// Calls that run; awaited at shutdown.
    pub calls: TaskTracker,
    drains: Arc<Semaphore>,
    counting: Arc<Semaphore>,
    meters: Arc<meters::Meters>,
    /// What models prefer whatever they are asked.
    priors: Arc<decide::Priors>,
}

impl Pipeline {
    /// A pipeline over these parts.
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
        let drains = Arc::new(Semaphore::new(settings.drain.most));
        Self {
            catalog,
            providers,
            limiter,
            ledger,
            media,
            clock,
            settings,
            policy: Arc::new(ArcSwapOption::empty()),
            health: Arc::new(health),
            counters: Arc::new(counters),
            calls: TaskTracker::new(),
            drains,
            counting: Arc::new(counting::room()),
            meters: Arc::new(meters::Meters::new()),
            priors: Arc::new(decide::Priors::default()),
        }
    }

    /// The same, with books of its own.
    pub(crate) fn with_ledger(&self, ledger: Arc<dyn LedgerStore>) -> Arc<Self> {
        Arc::new(Self {
            ledger,
            ..self.clone()
        })
    }

    /// Reads what was learned earlier of what models prefer whatever typed decisions ask of them.
    pub async fn recall_preferences(&self, store: &dyn LabelPriorStore) -> Result<(), StorageError> {
        self.priors.recall(store).await
    }

    /// Keeps what was learned of it since the last time.
    pub async fn keep_preferences(&self, store: &dyn LabelPriorStore) -> Result<(), StorageError> {
        self.priors.keep(store).await
    }

    /// The same for answers that are there already: nothing is tried again, and what they say tells nothing of anybody's health now.
    pub(crate) fn with_answers(&self) -> Self {
        let mut settings = self.settings;
        settings.retries.extra_attempts = 0;
        Self {
            health: Arc::new(Health::new(self.clock.clone(), settings.retries)),
            settings,
            ..self.clone()
        }
    }

    /// The content policy, when there is one.
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.load_full()
    }

    /// Replaces the content policy. Calls that run keep theirs.
    pub fn set_policy(&self, policy: Option<Arc<Policy>>) {
        self.policy.store(policy);
    }
}
