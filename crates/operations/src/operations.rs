//! The state that commands need.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tollgate_accounts::{Admins, Keys, Limiter, SignIns, Vault, WebhookSecrets};
use tollgate_billing::test_clock::TestClocks;
use tollgate_billing::{Notices, Plans, TopUps};
use tollgate_catalog::{Catalog, Snapshot};
use tollgate_jobs::Jobs;
use tollgate_storage::{Job, Storage};
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, Error, Timestamp};

use crate::batches::BatchView;
use crate::research::SourcesView;
use crate::sessions::SessionSource;
use crate::view::providers::{ProviderView, ServerView};

/// Default limits of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultLimits {
    /// Maximum number of unrevoked keys.
    pub keys: u32,
    /// Maximum number of saved chats.
    pub chats: u32,
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

/// Reader of the research that this process serves.
pub trait ResearchSource: Send + Sync {
    /// Returns the kind of research jobs, as stored.
    fn kind(&self) -> &'static str;

    /// Returns the search services and corpora of the server in this process; empty if this process
    /// has no server.
    fn sources(&self) -> SourcesView;
}

/// Addresses of the consoles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleUrls {
    /// The public URL of the settings, without a trailing slash.
    pub public: Option<String>,
    /// Address of the public listener in the settings.
    pub listen: SocketAddr,
    /// Address of the admin listener in the settings.
    pub admin: SocketAddr,
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
    /// Sign-in to the console.
    pub sign_ins: Arc<SignIns>,
    /// Addresses of the consoles.
    pub console_urls: ConsoleUrls,
    /// Plans that accounts can subscribe to.
    pub plans: Arc<Plans>,
    /// Credit sales; `None` if no payment provider is configured.
    pub top_ups: Option<Arc<TopUps>>,
    /// Sender of low-balance alerts to accounts.
    pub notices: Notices,
    /// Vault that has sealed the webhook URLs of jobs.
    pub vault: Vault,
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
    /// Reader of research.
    pub research: Arc<dyn ResearchSource>,
    /// Open realtime sessions of the server in this process.
    pub sessions: Arc<dyn SessionSource>,
    /// The status of the server in this process.
    pub server: Arc<dyn ServerStatus>,
}

impl Operations {
    /// Returns the URL of the console's sign-in page for a link with this token. The token is in
    /// the fragment, which browsers do not send to servers.
    pub fn sign_in_url(&self, is_admin: bool, token: &str) -> String {
        let (server, urls) = (self.server.addresses(), &self.console_urls);
        let address = match is_admin {
            true => server.map_or(urls.admin, |server| server.admin),
            false => server.map_or(urls.listen, |server| server.listen),
        };
        let origin = match &urls.public {
            Some(public) if !is_admin => public.clone(),
            _ if address.ip().is_loopback() || address.ip().is_unspecified() => {
                format!("http://localhost:{}", address.port())
            }
            _ => format!("http://{address}"),
        };
        format!("{origin}/console/sign-in#{token}")
    }

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
