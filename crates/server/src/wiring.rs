//! Builds everything from the settings. Nothing here decides; it only connects.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use tollgate_accounts::{
    Admins, KeyShape, Keys, KeysConfig, Limiter, MediaAddresses, TokenShape, Vault, WebhookSecrets,
};
use tollgate_backends::postgres::LeaseConfig;
use tollgate_backends::{postgres, sqlite};
use tollgate_billing::test_clock::TestClocks;
use tollgate_billing::{Notices, Plans, TopUps};
use tollgate_catalog::Catalog;
use tollgate_edge::Gate;
use tollgate_inference::batches::{BatchRecords, Batches, LineRoom, MessageBatches};
use tollgate_inference::files::Files;
use tollgate_inference::responses::{Background, Kept};
use tollgate_jobs::webhooks::{self, Renderers, Webhooks};
use tollgate_jobs::{Handler, Jobs, Worker};
use tollgate_media::{Recipes, Records, Shelf, Studio};
use tollgate_pipeline::{MediaSources, Pipeline, Providers};
use tollgate_providers::egress::SystemResolver;
use tollgate_providers::{EgressClient, EgressSettings, HttpClient};
use tollgate_storage::{BlobStore, FileSource, FileUse, Storage};
use tollgate_studio::Tools;
use tollgate_types::clock::SystemClock;
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, WorkerId};

use crate::assemble::http_client;
use crate::config::{Config, StorageUrl};
use crate::counters::Counting;
use crate::gauge::StudioGauge;
use crate::mail;
use crate::media;
use crate::payments::{self, Sales};
use crate::roster::Roster;
use crate::secrets;
use crate::time::TimeKeeper;

/// How long what was read of a key is believed without another look. What is changed is told to every node; this bounds
/// how late a node notices that is told nothing.
const KEY_TTL: Duration = Duration::from_secs(5);
/// The directory of leases' journals within the data directory.
const LEASES: &str = "leases";

/// What commands and requests have in common.
pub struct Domains {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What it is set by.
    pub time: TimeKeeper,
    /// Makes ids.
    pub ids: Arc<IdSource>,
    /// Everything that is kept.
    pub storage: Storage,
    /// The bytes of media.
    pub blobs: Arc<dyn BlobStore>,
    /// Signs their addresses.
    pub addresses: MediaAddresses,
    /// What accounts have uploaded.
    pub files: Arc<Files>,
    /// What is told of their batches.
    pub batch_records: Arc<BatchRecords>,
    /// Keys.
    pub keys: Arc<Keys>,
    /// Administrators.
    pub admins: Arc<Admins>,
    /// Seals what is kept for tenants.
    pub vault: Vault,
    /// What posts to accounts are signed with.
    pub webhook_secrets: WebhookSecrets,
    /// Plans that can be subscribed to.
    pub plans: Arc<Plans>,
    /// Sells credits, if they are sold.
    pub top_ups: Option<Arc<TopUps>>,
    /// Tells accounts what they want to know.
    pub notices: Notices,
    /// Models.
    pub catalog: Arc<Catalog>,
    /// Providers in use; none in a process that serves nobody.
    pub roster: Roster,
    /// What goes on after its request was answered.
    pub jobs: Arc<Jobs>,
    /// Limits.
    pub limiter: Arc<Limiter>,
    /// What they are counted by.
    pub counting: Counting,
}

impl Domains {
    /// What moves test clocks.
    pub fn test_clocks(&self) -> TestClocks<'_> {
        TestClocks {
            storage: &self.storage,
            plans: &self.plans,
            ids: &self.ids,
            clock: &*self.clock,
        }
    }
}

/// What serving requests needs beside that.
pub struct Services {
    /// The common part.
    pub domains: Arc<Domains>,
    /// The other side of calls.
    pub providers: Arc<Providers>,
    /// What they share.
    pub http: Arc<HttpClient>,
    /// Makes calls.
    pub pipeline: Arc<Pipeline>,
    /// Keeps responses.
    pub kept: Arc<Kept>,
    /// Makes those whose callers do not wait.
    pub background: Arc<Background>,
    /// Carries out many requests in one file.
    pub batches: Arc<Batches>,
    /// Makes pictures and films.
    pub studio: Arc<Studio>,
    /// Writes down what owners see of jobs.
    pub records: Arc<Records>,
    /// Carries jobs out, of every kind.
    pub worker: Arc<Worker>,
    /// Tells who wants to know that a job has ended.
    pub webhooks: Arc<Webhooks>,
    /// Who is calling.
    pub gate: Arc<Gate>,
}

/// The domains of a command, which no limit concerns.
pub async fn domains(config: &Config) -> Result<Domains> {
    let time = TimeKeeper::new(config.pipeline_settings().hold_lifetime());
    let clock = time.clock();
    domains_with(config, time, async { Ok(Counting::alone(&clock)) }, None).await
}

/// The domains of a server.
pub async fn serving_domains(config: &Config) -> Result<Domains> {
    let longest_call = config.pipeline_settings().hold_lifetime();
    let time = TimeKeeper::new(longest_call);
    let clock = time.clock();
    let leases = LeaseConfig::new(config.data.join(LEASES), longest_call, clock.clone());
    let leases = config.file.storage.leases.then_some(leases);
    domains_with(config, time, Counting::open(config, &clock), leases).await
}

/// The domains of a process that carries out jobs. What they may cost was held where they were accepted: it needs no leases.
pub async fn working_domains(config: &Config) -> Result<Domains> {
    let time = TimeKeeper::new(config.pipeline_settings().hold_lifetime());
    let clock = time.clock();
    domains_with(config, time, Counting::open(config, &clock), None).await
}

/// Opens storage, then what limits are counted by, and builds the domains over them. The catalog is empty.
async fn domains_with(
    config: &Config,
    time: TimeKeeper,
    counting: impl Future<Output = Result<Counting>>,
    leases: Option<LeaseConfig>,
) -> Result<Domains> {
    let mut seed = [0_u8; 8];
    getrandom::fill(&mut seed).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    let ids = Arc::new(IdSource::new(u64::from_ne_bytes(seed)));
    let pepper = secrets::pepper(config)?;
    let vault = Vault::new(pepper.clone());
    let http = http_client(config);
    let payments = payments::build(config, &http)?;
    let mailer = mail::build(config)?;
    let blobs = media::open(config).context("cannot open what media are kept in")?;
    let addresses = media::addresses(config, &pepper)?;
    let clock = time.clock();
    let storage = open_storage(config, &clock, leases).await?;
    time.start(&*storage.engine).await;
    let admins = Admins::new(
        TokenShape::new(&config.file.service.slug),
        pepper.clone(),
        storage.admins.clone(),
        clock.clone(),
        ids.clone(),
    );
    let keys = KeysConfig {
        shape: KeyShape::new(&config.file.service.slug),
        pepper,
        ttl: KEY_TTL,
        quota: config.file.limits.keys,
    };
    let keys = Arc::new(Keys::new(keys, storage.keys.clone(), clock.clone(), ids.clone()));
    let counting = counting.await?;
    let limiter = Arc::new(Limiter::new(
        counting.counters.clone(),
        config.file.limits.rpm,
        config.file.limits.tpm,
    ));
    let top_ups = payments.map(|Sales { provider, settings }| {
        let (clock, ids) = (clock.clone(), ids.clone());
        Arc::new(TopUps::new(provider, settings, storage.clone(), clock, ids))
    });
    let webhook_secrets = WebhookSecrets::new(storage.webhooks.clone(), vault.clone());
    let notices = Notices {
        storage: storage.clone(),
        secrets: webhook_secrets.clone(),
        poster: Arc::new(egress(config, &http)),
        mailer,
        sender: config.file.service.slug.clone(),
        clock: clock.clone(),
        ids: ids.clone(),
    };
    let files = Files {
        store: storage.files.clone(),
        blobs: blobs.clone(),
        most: FileUse {
            files: config.file.limits.files,
            bytes: config.file.limits.files_gib.saturating_mul(1 << 30),
        },
        ids: ids.clone(),
        clock: clock.clone(),
    };
    let batch_records = BatchRecords {
        vault: vault.clone(),
        store: storage.batches.clone(),
    };
    let plans = Arc::new(Plans::default());
    plans.replace(config.plans());
    Ok(Domains {
        jobs: Arc::new(Jobs::new(storage.jobs.clone())),
        plans,
        top_ups,
        notices,
        clock,
        time,
        ids,
        storage,
        blobs,
        addresses,
        files: Arc::new(files),
        batch_records: Arc::new(batch_records),
        keys,
        admins: Arc::new(admins),
        vault,
        webhook_secrets,
        catalog: Arc::default(),
        roster: Roster::default(),
        limiter,
        counting,
    })
}

async fn open_storage(
    config: &Config,
    clock: &Arc<dyn Clock>,
    leases: Option<LeaseConfig>,
) -> Result<Storage> {
    match &config.storage {
        StorageUrl::Sqlite(path) => {
            let directory = path.parent().unwrap_or(&config.data);
            secrets::make_private_dir(directory)?;
            let settings = sqlite::SqliteConfig::new(directory, clock.clone());
            Ok(sqlite::open(settings).await?)
        }
        StorageUrl::Postgres(url) => {
            let mut settings = postgres::PostgresConfig::new(url.expose_secret());
            settings.max_connections = config.file.storage.max_connections;
            settings.leases = leases;
            postgres::open(settings)
                .await
                .context("cannot open the PostgreSQL database")
        }
    }
}

/// Brings the database's schema up to date.
pub async fn migrate(config: &Config) -> Result<()> {
    match &config.storage {
        // The embedded database is brought up to date whenever it is opened.
        StorageUrl::Sqlite(_) => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
            Ok(open_storage(config, &clock, None).await?.engine.close().await?)
        }
        StorageUrl::Postgres(url) => Ok(postgres::migrate(url.expose_secret()).await?),
    }
}

/// The client for what callers name by its address.
fn egress(config: &Config, http: &Arc<HttpClient>) -> EgressClient {
    let settings = EgressSettings {
        allow: config.egress.clone(),
        most_at_once: config.file.egress.most_at_once,
        ..EgressSettings::default()
    };
    EgressClient::new(settings, Arc::new(SystemResolver), http.clone())
}

/// The client for those who are told that a job has ended: who does not answer keeps nobody else waiting for long.
fn post_office(config: &Config, http: &Arc<HttpClient>) -> EgressClient {
    let settings = EgressSettings {
        allow: config.egress.clone(),
        most_at_once: webhooks::AT_ONCE,
        total: webhooks::PATIENCE,
        ..EgressSettings::default()
    };
    EgressClient::new(settings, Arc::new(SystemResolver), http.clone())
}

/// Builds what serves requests. `files` has what requests name by its id.
pub fn services(
    config: &Config,
    domains: Arc<Domains>,
    http: Arc<HttpClient>,
    files: Arc<dyn FileSource>,
) -> Services {
    let providers = Arc::new(Providers::default());
    let media = MediaSources {
        fetcher: Arc::new(egress(config, &http)),
        files,
        gauge: Arc::new(StudioGauge::new(Tools::find())),
    };
    let pipeline = Arc::new(Pipeline::new(
        domains.catalog.clone(),
        providers.clone(),
        domains.limiter.clone(),
        domains.storage.ledger.clone(),
        media,
        domains.clock.clone(),
        config.pipeline_settings(),
    ));
    domains.roster.watch(&pipeline);
    let gate = Arc::new(Gate::new(
        domains.keys.clone(),
        domains.limiter.clone(),
        domains.clock.clone(),
    ));
    let kept = Arc::new(Kept::new(
        domains.storage.responses.clone(),
        domains.vault.clone(),
        domains.clock.clone(),
    ));
    let background = Arc::new(Background {
        jobs: domains.jobs.clone(),
        pipeline: pipeline.clone(),
        kept: kept.clone(),
        vault: domains.vault.clone(),
        accounts: domains.storage.accounts.clone(),
        prices: domains.storage.prices.clone(),
        clock: domains.clock.clone(),
    });
    let shelf = Arc::new(Shelf {
        blobs: domains.blobs.clone(),
        media: domains.storage.media.clone(),
        addresses: domains.addresses.clone(),
        clock: domains.clock.clone(),
    });
    let records = Arc::new(Records {
        vault: domains.vault.clone(),
        shelf: shelf.clone(),
    });
    let webhooks = Arc::new(Webhooks {
        jobs: domains.jobs.clone(),
        store: domains.storage.webhooks.clone(),
        secrets: domains.webhook_secrets.clone(),
        vault: domains.vault.clone(),
        poster: Arc::new(post_office(config, &http)),
        renderer: Arc::new(Renderers(vec![domains.batch_records.clone(), records.clone()])),
        clock: domains.clock.clone(),
    });
    let batches = Arc::new(Batches {
        jobs: domains.jobs.clone(),
        store: domains.storage.batches.clone(),
        files: domains.files.clone(),
        pipeline: pipeline.clone(),
        vault: domains.vault.clone(),
        accounts: domains.storage.accounts.clone(),
        prices: domains.storage.prices.clone(),
        webhooks: webhooks.clone(),
        most_tokens: config.file.limits.batch_tokens,
        ids: domains.ids.clone(),
        clock: domains.clock.clone(),
        room: LineRoom::default(),
    });
    let studio = Arc::new(Studio {
        pipeline: pipeline.clone(),
        jobs: domains.jobs.clone(),
        webhooks: webhooks.clone(),
        shelf,
        vault: domains.vault.clone(),
        accounts: domains.storage.accounts.clone(),
        tools: Tools::find(),
        recipes: Recipes::load(),
        clock: domains.clock.clone(),
    });
    let mut handlers: Vec<Arc<dyn Handler>> = vec![
        background.clone(),
        batches.clone(),
        Arc::new(MessageBatches(batches.clone())),
    ];
    handlers.extend(tollgate_media::handlers(&studio));
    let worker = Worker::new(
        WorkerId::from_u128(domains.ids.next(domains.clock.now())),
        domains.jobs.clone(),
        domains.clock.clone(),
        handlers,
        config.worker_settings(),
    );
    Services {
        domains,
        providers,
        http,
        pipeline,
        kept,
        background,
        batches,
        studio,
        records,
        worker,
        webhooks,
        gate,
    }
}
