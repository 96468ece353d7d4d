//! Builds storage, domains and services from the settings. This module contains no domain logic.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use secrecy::ExposeSecret;
use tollgate_accounts::{
    Admins, ClientSecrets, KeyShape, Keys, KeysConfig, Limiter, MediaAddresses, Sessions, SignIns,
    TokenShape, Vault, WebhookSecrets,
};
use tollgate_backends::postgres::LeaseConfig;
use tollgate_backends::{Migrated, postgres, sqlite};
use tollgate_billing::{Notices, Plans, TopUps};
use tollgate_catalog::Catalog;
use tollgate_corpus::Corpus;
use tollgate_edge::Authenticator;
use tollgate_inference::batches::{BatchRecords, Batches, LineSlots, MessageBatches};
use tollgate_inference::files::Files;
use tollgate_inference::research::{Research, ResearchHandler, WebBackend};
use tollgate_inference::responses::{Background, Responses};
use tollgate_jobs::webhooks::{self, RendererChain, Webhooks};
use tollgate_jobs::{Handler, JobViews, Jobs, Worker};
use tollgate_listener::Vitals;
use tollgate_media::{MediaJobs, MediaStorage, Recipes, Records};
use tollgate_media_tools::Tools;
use tollgate_operations::{ConsoleUrls, DefaultLimits, Operations};
use tollgate_pipeline::{MediaSources, Pipeline, Providers};
use tollgate_providers::egress::SystemResolver;
use tollgate_providers::extractive::Extractive;
use tollgate_providers::{EgressClient, EgressSettings, HttpClient};
use tollgate_storage::{BlobStore, FileSource, FileUse, Storage, StorageError};
use tollgate_types::clock::SystemClock;
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, WorkerId};

use crate::assemble::http_client;
use crate::batches::OperatorBatches;
use crate::config::{Config, StorageUrl};
use crate::corpora;
use crate::counters::Counting;
use crate::inspector::StudioInspector;
use crate::mail;
use crate::media;
use crate::pages;
use crate::payments::{self, Sales};
use crate::provider_status::ProviderStatus;
use crate::research_status::ResearchStatus;
use crate::secrets;
use crate::session_status::SessionStatus;
use crate::time::ClockSync;
use crate::web_search::Servers;

/// Maximum time that a cached key is used without a new lookup. Every node is notified of changes;
/// this limit applies if a node misses a notification.
const KEY_TTL: Duration = Duration::from_secs(5);
/// Directory of the lease journals within the data directory.
const LEASES: &str = "leases";

/// State that requests and commands share.
pub struct AppState {
    /// The installation's clock.
    pub clock: Arc<dyn Clock>,
    /// Synchronization of the clock with the storage engine.
    pub time: ClockSync,
    /// Source of new ids, one per process.
    pub ids: Arc<IdSource>,
    /// The stores of the storage engine.
    pub storage: Storage,
    /// The store of media bytes.
    pub blobs: Arc<dyn BlobStore>,
    /// Signer of media URLs.
    pub addresses: MediaAddresses,
    /// Files that accounts have uploaded.
    pub files: Arc<Files>,
    /// Batch summaries for webhooks and the admin API.
    pub batch_records: Arc<BatchRecords>,
    /// API keys and their cache.
    pub keys: Arc<Keys>,
    /// Client secrets of realtime sessions.
    pub client_secrets: Arc<ClientSecrets>,
    /// Executor of the commands of operators.
    pub operations: Arc<Operations>,
    /// Administrators and their tokens.
    pub admins: Arc<Admins>,
    /// Sign-in to the console.
    pub sign_ins: Arc<SignIns>,
    /// Vault that encrypts stored data of accounts.
    pub vault: Vault,
    /// Store of the secrets that sign webhooks.
    pub webhook_secrets: WebhookSecrets,
    /// Plans that accounts can subscribe to.
    pub plans: Arc<Plans>,
    /// Credit sales; `None` if no payment provider is configured.
    pub top_ups: Option<Arc<TopUps>>,
    /// The model catalog.
    pub catalog: Arc<Catalog>,
    /// Providers in use; empty in a process that serves no requests.
    pub provider_status: Arc<ProviderStatus>,
    /// Research that this process serves; empty in a process without a server.
    pub research_status: Arc<ResearchStatus>,
    /// Open realtime sessions of this process; empty in a process without a server.
    pub session_status: Arc<SessionStatus>,
    /// Storage and notifications of asynchronous jobs.
    pub jobs: Arc<Jobs>,
    /// Rate limiter for requests and tokens.
    pub limiter: Arc<Limiter>,
    /// The counters of the rate limiter, in memory or in Redis.
    pub counting: Counting,
}

/// Services that serve requests and run jobs, in addition to [`AppState`].
pub struct Services {
    /// State that requests and commands share.
    pub app_state: Arc<AppState>,
    /// The providers in use.
    pub providers: Arc<Providers>,
    /// HTTP client that the providers share.
    pub http: Arc<HttpClient>,
    /// The pipeline of metered calls.
    pub pipeline: Arc<Pipeline>,
    /// Responses that callers have stored.
    pub responses: Arc<Responses>,
    /// Runner of responses with `background: true`.
    pub background: Arc<Background>,
    /// Runner of the requests of batches.
    pub batches: Arc<Batches>,
    /// Runner of image, video and audio jobs.
    pub media_jobs: Arc<MediaJobs>,
    /// Acceptor and runner of research jobs.
    pub research: Arc<Research>,
    /// State that the realtime sessions of this process share.
    pub realtime: Arc<tollgate_realtime::Shared>,
    /// Configured document collections.
    pub corpora: Vec<Corpus>,
    /// Builder of job records for their owners.
    pub records: Arc<Records>,
    /// Worker that leases and runs jobs of every kind.
    pub worker: Arc<Worker>,
    /// Sender of webhooks when jobs end.
    pub webhooks: Arc<Webhooks>,
    /// Authenticator of callers by their API keys.
    pub authenticator: Arc<Authenticator>,
    /// The engine and tasks that the process depends on.
    pub vitals: Vitals,
}

/// Builds the state of a command. It counts rate limits in memory, because commands are not
/// limited.
pub async fn app_state(config: &Config) -> Result<AppState> {
    let time = ClockSync::new(config.pipeline_settings().hold_lifetime());
    let clock = time.clock();
    build_app_state(config, time, async { Ok(Counting::in_process(&clock)) }, None).await
}

/// Builds the state of a server, with the counters and balance leases that the settings select.
pub async fn serving_app_state(config: &Config) -> Result<AppState> {
    let longest_call = config.pipeline_settings().hold_lifetime();
    let time = ClockSync::new(longest_call);
    let clock = time.clock();
    let leases = LeaseConfig::new(config.data.join(LEASES), longest_call, clock.clone());
    let leases = config.file.storage.leases.then_some(leases);
    build_app_state(config, time, Counting::open(config, &clock), leases).await
}

/// Builds the state of a worker. It has no balance leases, because the nodes that accept jobs
/// create the holds of those jobs.
pub async fn worker_app_state(config: &Config) -> Result<AppState> {
    let time = ClockSync::new(config.pipeline_settings().hold_lifetime());
    let clock = time.clock();
    build_app_state(config, time, Counting::open(config, &clock), None).await
}

/// Opens the storage and then the counters of rate limits, and builds the domains on top of them.
/// The catalog is empty at first.
async fn build_app_state(
    config: &Config,
    time: ClockSync,
    counting: impl Future<Output = Result<Counting>>,
    leases: Option<LeaseConfig>,
) -> Result<AppState> {
    let mut seed = [0_u8; 8];
    getrandom::fill(&mut seed).map_err(|error| anyhow::anyhow!("cannot obtain random bytes: {error}"))?;
    let ids = Arc::new(IdSource::new(u64::from_ne_bytes(seed)));
    let pepper = secrets::pepper(config)?;
    let vault = Vault::new(pepper.clone());
    let http = http_client(config);
    let payments = payments::build(config, &http)?;
    let mailer = mail::build(config)?;
    let blobs = media::open(config, &pepper).context("cannot open the media store")?;
    let addresses = media::addresses(config, &pepper)?;
    let clock = time.clock();
    let storage = open_storage(config, &clock, leases).await?;
    time.start(&*storage.engine).await;
    let sessions = Sessions::new(
        storage.sessions.clone(),
        pepper.clone(),
        clock.clone(),
        ids.clone(),
        config.session_lifetimes(),
    );
    let sign_ins = Arc::new(SignIns::new(storage.people.clone(), Arc::new(sessions)));
    let admins = Admins::new(
        TokenShape::new(&config.file.service.slug),
        pepper.clone(),
        storage.admins.clone(),
        clock.clone(),
        ids.clone(),
    );
    let keys = KeysConfig {
        shape: KeyShape::new(&config.file.service.slug),
        pepper: pepper.clone(),
        ttl: KEY_TTL,
        quota: config.file.limits.keys,
    };
    let keys = Arc::new(Keys::new(keys, storage.keys.clone(), clock.clone(), ids.clone()));
    let client_secrets = ClientSecrets::new(
        &storage,
        keys.clone(),
        sign_ins.sessions.clone(),
        pepper,
        clock.clone(),
        ids.clone(),
    );
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
        vault: vault.clone(),
        blobs: blobs.clone(),
        limit: FileUse {
            files: config.file.limits.files,
            bytes: config.file.limits.files_gib.saturating_mul(1 << 30),
        },
        ids: ids.clone(),
        clock: clock.clone(),
    };
    let batch_records = Arc::new(BatchRecords {
        vault: vault.clone(),
        store: storage.batches.clone(),
    });
    let plans = Arc::new(Plans::default());
    plans.replace(config.plans());
    let limits = config.file.limits;
    let (admins, catalog) = (Arc::new(admins), Arc::<Catalog>::default());
    let jobs = Arc::new(Jobs::new(storage.jobs.clone()));
    let provider_status = Arc::new(ProviderStatus::default());
    let research_status = Arc::new(ResearchStatus::default());
    let session_status = Arc::new(SessionStatus::default());
    let operations = Operations {
        storage: storage.clone(),
        clock: clock.clone(),
        ids: ids.clone(),
        keys: keys.clone(),
        admins: admins.clone(),
        sign_ins: sign_ins.clone(),
        console_urls: ConsoleUrls {
            public: config.public_url().map(str::to_owned),
            listen: config.listen,
            admin: config.admin,
        },
        plans: plans.clone(),
        top_ups: top_ups.clone(),
        notices,
        vault: vault.clone(),
        webhook_secrets: webhook_secrets.clone(),
        catalog: catalog.clone(),
        jobs: jobs.clone(),
        limiter: limiter.clone(),
        default_limits: DefaultLimits {
            keys: limits.keys,
            chats: limits.chats,
            files: limits.files,
            files_gib: limits.files_gib,
            batch_tokens: limits.batch_tokens,
        },
        batches: Arc::new(OperatorBatches(batch_records.clone())),
        research: research_status.clone(),
        sessions: session_status.clone(),
        server: provider_status.clone(),
    };
    Ok(AppState {
        operations: Arc::new(operations),
        jobs,
        plans,
        top_ups,
        clock,
        time,
        ids,
        storage,
        blobs,
        addresses,
        files: Arc::new(files),
        batch_records,
        keys,
        client_secrets: Arc::new(client_secrets),
        admins,
        sign_ins,
        vault,
        webhook_secrets,
        catalog,
        provider_status,
        research_status,
        session_status,
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
            let opened = sqlite::open(settings).await;
            Ok(opened.map_err(|error| with_disk_full_hint(error, directory))?)
        }
        StorageUrl::Postgres(url) => {
            if leases.is_some() {
                // The lease journal is stored in this directory.
                secrets::make_private_dir(&config.data)?;
            }
            let mut settings = postgres::PostgresConfig::new(url.expose_secret());
            settings.max_connections = config.file.storage.max_connections;
            settings.leases = leases;
            postgres::open(settings)
                .await
                .context("cannot open the PostgreSQL database")
        }
    }
}

/// Migrates the database schema to the current version.
pub async fn migrate(config: &Config) -> Result<Migrated> {
    match &config.storage {
        // The embedded database is migrated each time it is opened.
        StorageUrl::Sqlite(path) => {
            let directory = path.parent().unwrap_or(&config.data);
            let from = sqlite::schema_version(directory).await?;
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
            open_storage(config, &clock, None).await?.engine.close().await?;
            let to = sqlite::schema_version(directory).await?;
            Ok(Migrated { from, to })
        }
        StorageUrl::Postgres(url) => Ok(postgres::migrate(url.expose_secret()).await?),
    }
}

/// Creates the HTTP client for caller-supplied URLs.
pub(crate) fn egress(config: &Config, http: &Arc<HttpClient>) -> EgressClient {
    let settings = EgressSettings {
        allow: config.egress.clone(),
        max_concurrent: config.file.egress.max_concurrent,
        ..EgressSettings::default()
    };
    EgressClient::new(settings, Arc::new(SystemResolver), http.clone())
}

/// Creates the HTTP client for webhooks. The timeout of a post prevents a slow receiver from
/// delaying others.
fn webhook_client(config: &Config, http: &Arc<HttpClient>) -> EgressClient {
    let settings = EgressSettings {
        allow: config.egress.clone(),
        max_concurrent: webhooks::MAX_CONCURRENT_POSTS,
        total: webhooks::POST_TIMEOUT,
        ..EgressSettings::default()
    };
    EgressClient::new(settings, Arc::new(SystemResolver), http.clone())
}

/// Adds a hint to the error of a start on a full disk. The start needs free disk space to complete
/// the calls of the previous process.
fn with_disk_full_hint(error: StorageError, directory: &Path) -> anyhow::Error {
    let cause = error.to_string();
    let error = anyhow::Error::from(error);
    match cause.contains("disk is full") || cause.contains("No space left") {
        true => error.context(format!(
            "the disk of {} is full; no data is lost: free at least 64 MiB and start again",
            directory.display()
        )),
        false => error,
    }
}

/// Builds the services that serve requests. `files` resolves the file ids in requests.
pub fn services(
    config: &Config,
    app_state: Arc<AppState>,
    http: Arc<HttpClient>,
    files: Arc<dyn FileSource>,
    corpora: Vec<Corpus>,
    web: Vec<WebBackend>,
) -> Services {
    let providers = Arc::new(Providers::default());
    let media = MediaSources {
        fetcher: Arc::new(egress(config, &http)),
        files,
        inspector: Arc::new(StudioInspector::new(Tools::find())),
    };
    let pipeline = Arc::new(Pipeline::new(
        app_state.catalog.clone(),
        providers.clone(),
        app_state.limiter.clone(),
        app_state.storage.ledger.clone(),
        media,
        app_state.clock.clone(),
        config.pipeline_settings(),
    ));
    app_state.provider_status.watch(&pipeline);
    let authenticator = Arc::new(Authenticator::new(
        app_state.keys.clone(),
        app_state.client_secrets.clone(),
        app_state.limiter.clone(),
        app_state.clock.clone(),
    ));
    let responses = Arc::new(Responses::new(
        app_state.storage.responses.clone(),
        app_state.vault.clone(),
        app_state.clock.clone(),
    ));
    let background = Arc::new(Background {
        jobs: app_state.jobs.clone(),
        pipeline: pipeline.clone(),
        responses: responses.clone(),
        vault: app_state.vault.clone(),
        accounts: app_state.storage.accounts.clone(),
        prices: app_state.storage.prices.clone(),
        clock: app_state.clock.clone(),
    });
    let storage = Arc::new(MediaStorage {
        blobs: app_state.blobs.clone(),
        media: app_state.storage.media.clone(),
        addresses: app_state.addresses.clone(),
        clock: app_state.clock.clone(),
    });
    let records = Arc::new(Records {
        vault: app_state.vault.clone(),
        views: job_views(&app_state.vault, &storage),
    });
    let webhooks = Arc::new(Webhooks {
        jobs: app_state.jobs.clone(),
        store: app_state.storage.webhooks.clone(),
        secrets: app_state.webhook_secrets.clone(),
        vault: app_state.vault.clone(),
        poster: Arc::new(webhook_client(config, &http)),
        renderer: Arc::new(RendererChain(vec![
            app_state.batch_records.clone(),
            records.clone(),
        ])),
        clock: app_state.clock.clone(),
    });
    let batches = Arc::new(Batches {
        jobs: app_state.jobs.clone(),
        store: app_state.storage.batches.clone(),
        files: app_state.files.clone(),
        pipeline: pipeline.clone(),
        vault: app_state.vault.clone(),
        accounts: app_state.storage.accounts.clone(),
        prices: app_state.storage.prices.clone(),
        webhooks: webhooks.clone(),
        max_open_tokens: config.file.limits.batch_tokens,
        ids: app_state.ids.clone(),
        clock: app_state.clock.clone(),
        slots: LineSlots::default(),
    });
    let media_jobs = Arc::new(MediaJobs {
        pipeline: pipeline.clone(),
        jobs: app_state.jobs.clone(),
        webhooks: webhooks.clone(),
        storage,
        vault: app_state.vault.clone(),
        accounts: app_state.storage.accounts.clone(),
        tools: Tools::find(),
        recipes: Recipes::load(),
        clock: app_state.clock.clone(),
    });
    let pages = pages::build(config, &http, &app_state.clock);
    let research = Arc::new(Research {
        jobs: app_state.jobs.clone(),
        pipeline: pipeline.clone(),
        vault: app_state.vault.clone(),
        accounts: app_state.storage.accounts.clone(),
        prices: app_state.storage.prices.clone(),
        usage: app_state.storage.usage.clone(),
        webhooks: webhooks.clone(),
        blobs: app_state.blobs.clone(),
        media: app_state.storage.media.clone(),
        corpora: corpora::backends(&corpora, &app_state.clock),
        web,
        servers: Arc::new(Servers {
            egress: Arc::new(egress(config, &http)),
            clock: app_state.clock.clone(),
        }),
        pages: pages.reader,
        extractor: pages.extractor,
        files: app_state.files.clone(),
        extractive: Arc::new(Extractive::new("tollgate")),
        clock: app_state.clock.clone(),
    });
    app_state.research_status.watch(&research, &corpora);
    let mut handlers: Vec<Arc<dyn Handler>> = vec![
        Arc::new(ResearchHandler::new(research.clone())),
        background.clone(),
        batches.clone(),
        Arc::new(MessageBatches(batches.clone())),
    ];
    handlers.extend(tollgate_media::handlers(&media_jobs));
    let realtime = Arc::new(tollgate_realtime::Shared::new(
        pipeline.clone(),
        config.file.realtime.settings(),
    ));
    let worker = Worker::new(
        WorkerId::from_u128(app_state.ids.next(app_state.clock.now())),
        app_state.jobs.clone(),
        app_state.clock.clone(),
        handlers,
        config.worker_settings(),
    );
    Services {
        vitals: Vitals::new(app_state.storage.engine.clone()),
        app_state,
        providers,
        http,
        pipeline,
        responses,
        background,
        batches,
        media_jobs,
        research,
        realtime,
        corpora,
        records,
        worker,
        webhooks,
        authenticator,
    }
}

/// Returns the views of all kinds of jobs whose results `/v1/jobs` shows.
fn job_views(vault: &Vault, storage: &Arc<MediaStorage>) -> JobViews {
    let mut views = tollgate_media::views(vault, storage);
    views.push(tollgate_inference::research::view(vault));
    JobViews::new(views)
}
