//! The state that commands need.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_accounts::{Admins, Keys, Limiter, WebhookSecrets};
use tollgate_billing::test_clock::TestClocks;
use tollgate_billing::{Notices, Plans, TopUps};
use tollgate_catalog::{Catalog, Snapshot};
use tollgate_jobs::Jobs;
use tollgate_storage::{Job, Storage};
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, Error, Timestamp};

use crate::batches::BatchView;
use crate::view::providers::{ProviderView, ServerView};

/// Default limits of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultLimits {
    /// Maximum number of unrevoked keys.
    pub keys: u32,
    /// Maximum number of stored files.
    pub files: u64,
    /// Maximum total size of stored files, in GiB.
    pub files_gib: u64,
    /// Maximum sum of the estimated tokens of all unfinished batches.
    pub batch_tokens: u64,
}

/// The status of the server in this process.
pub trait ServerStatus: Send + Sync {
    /// Returns the configured providers with their targets in the snapshot and their health.
    fn providers(&self, snapshot: &Snapshot) -> Vec<ProviderView>;

    /// Returns the addresses of the server; `None` if this process has no server.
    fn addresses(&self) -> Option<ServerView>;
}

/// Reader of batches, whose jobs are encrypted.
#[async_trait]
pub trait BatchSource: Send + Sync {
    /// Returns the job kinds of batches.
    fn kinds(&self) -> &'static [&'static str];

    /// Returns the view of a batch without the name of its account; `None` if the job is not a
    /// batch.
    async fn view(&self, job: &Job, now: Timestamp) -> Result<Option<BatchView>, Error>;
}

/// Executes the commands of operators.
pub struct Operations {
    /// The stores of the storage engine.
    pub storage: Storage,
    /// The installation's clock.
    pub clock: Arc<dyn Clock>,
    /// Source of new ids, one per process.
    pub ids: Arc<IdSource>,
    /// API keys and their cache.
    pub keys: Arc<Keys>,
    /// Administrators and their tokens.
    pub admins: Arc<Admins>,
    /// Plans that accounts can subscribe to.
    pub plans: Arc<Plans>,
    /// Credit sales; `None` if no payment provider is configured.
    pub top_ups: Option<Arc<TopUps>>,
    /// Sender of low-balance alerts to accounts.
    pub notices: Notices,
    /// Store of the secrets that sign webhooks.
    pub webhook_secrets: WebhookSecrets,
    /// The model catalog.
    pub catalog: Arc<Catalog>,
    /// Storage and notifications of asynchronous jobs.
    pub jobs: Arc<Jobs>,
    /// Rate limiter, for the effective limits of accounts.
    pub limiter: Arc<Limiter>,
    /// Default limits of accounts, except those for requests and tokens per minute, which the
    /// limiter has.
    pub default_limits: DefaultLimits,
    /// Reader of batches.
    pub batches: Arc<dyn BatchSource>,
    /// The status of the server in this process.
    pub server: Arc<dyn ServerStatus>,
}

impl Operations {
    /// Returns the service that advances test clocks.
    pub fn test_clocks(&self) -> TestClocks<'_> {
        TestClocks {
            storage: &self.storage,
            plans: &self.plans,
            ids: &self.ids,
            clock: &*self.clock,
        }
    }
}
