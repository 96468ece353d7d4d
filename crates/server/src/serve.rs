//! `tollgate serve`: from settings to a running gateway, and down again.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_accounts::KeyWish;
use tollgate_console::Console;
use tollgate_edge::websocket::Sessions;
use tollgate_edge::{AccessLog, Idempotency, OperatorGate, PublicUrl, Shell};
use tollgate_inference::Inference;
use tollgate_inference::decisions::Calibrations;
use tollgate_media::MediaRoom;
use tollgate_providers::HttpClient;
use tollgate_storage::{Grant, LotKind, LotTerms};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits};

use crate::admin::{self, AdminApi, SettingsFile};
use crate::assemble::{Assembled, assemble, http_client};
use crate::config::file::AccessLogSetting;
use crate::config::{Config, Flags, StorageUrl};
use crate::control::socket;
use crate::listen::{App, ListenSettings, Workers};
use crate::router::Health;
use crate::shutdown::{Stop, StopSignals};
use crate::wiring::{self, Domains, Services};
use crate::{background, chores, reload, router, secrets, self_test, telemetry};

/// Credits of the account that the first start makes.
const FIRST_CREDITS: i64 = 10;
/// How long calls may take after the second signal.
pub(crate) const HASTY_STOP: Duration = Duration::from_secs(5);

/// Serves until a signal asks to stop. Blocks.
pub fn run(flags: &Flags, config: Config) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(serve(flags, config));
    // After a second signal, a thread still waits for connections that may never end: it must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Brings the database's schema up to date. Blocks.
pub fn migrate(config: &Config) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(wiring::migrate(config))
}

async fn serve(flags: &Flags, config: Config) -> Result<()> {
    let mut signals = StopSignals::new()?;
    let metrics = telemetry::start_metrics()?;
    // Before anything is made or opened: settings with a fault leave no trace.
    let http = http_client(&config);
    let assembled = assemble(&config, &http).await?;
    let domains = Arc::new(wiring::serving_domains(&config).await?);
    let services = begin(&config, &domains, http, assembled).await?;

    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        format!(
            "cannot listen on {}; is another server there? Choose another with --listen",
            config.listen
        )
    })?;
    let address = listener.local_addr()?;
    let admin = bind_admin(config.admin).await?;
    let admin_address = admin.local_addr()?;
    let first_key = first_start(&config, &domains).await?;
    let (stop, draining) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let workers = start_workers(&config, &services, &draining, &stop)?;
    let background = TaskTracker::new();
    if config.file.jobs.run_here {
        // It counts as a call that runs, so that a shutdown waits for what it has begun.
        services
            .pipeline
            .calls
            .spawn(services.worker.clone().run(stop.clone()));
        // It ends by itself when it is told to stop, so that what was sent is noted.
        background.spawn(services.webhooks.clone().run(stop.clone()));
    }
    start_background(&background, flags, &config, &services, admin, metrics, &stop).await?;
    announce(&config, address, admin_address, &services, first_key.as_deref())?;

    let asked = tokio::select! {
        () = workers.accept(listener) => Stop::Interrupt,
        asked = drain_delay(&mut signals, &config, &draining) => asked,
    };
    tracing::info!(
        ?asked,
        "stopping: calls that run are finished, new ones are not taken"
    );
    let in_order = stop_gracefully(&config, &mut signals, &services, workers, &stop).await;
    background.close();
    let _ = tokio::time::timeout(HASTY_STOP, background.wait()).await;
    domains.counting.close().await;
    chores::keep_preferences(&domains, &services.pipeline).await;
    if in_order {
        domains.storage.engine.close().await?;
    }
    if let Some(home) = config.home() {
        let _ = std::fs::remove_file(socket::path(home));
    }
    Ok(())
}

/// What any process is made of, once its storage is open: proved, with what is configured in force, and what is due cleared away.
pub(crate) async fn begin(
    config: &Config,
    domains: &Arc<Domains>,
    http: Arc<HttpClient>,
    assembled: Assembled,
) -> Result<Arc<Services>> {
    secrets::make_private_dir(&config.data)?;
    self_test::prove(domains).await?;
    let services = wiring::services(config, domains.clone(), http, domains.files.clone());
    let services = Arc::new(services);
    reload::install(&services, assembled).await?;
    chores::sweep(domains).await;
    chores::recall_preferences(domains, &services.pipeline).await;
    Ok(services)
}

/// Waits for the signal; then says "not ready" while load balancers notice, and connections are still taken.
async fn drain_delay(signals: &mut StopSignals, config: &Config, draining: &AtomicBool) -> Stop {
    let asked = signals.next().await;
    draining.store(true, Ordering::Relaxed);
    if asked == Stop::Terminate {
        let delay = Duration::from_millis(config.file.timeouts.drain_delay_ms);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = signals.next() => {}
        }
    }
    asked
}

/// Waits for the calls that run; answers whether all have ended. Storage is closed only then: to the next start, an
/// engine that was not closed is one whose process died, and it voids the calls that were open.
async fn stop_gracefully(
    config: &Config,
    signals: &mut StopSignals,
    services: &Services,
    workers: Workers,
    stop: &CancellationToken,
) -> bool {
    stop.cancel();
    services.pipeline.calls.close();
    let calls = services.pipeline.calls.clone();
    let ended = async move {
        let connections = tokio::task::spawn_blocking(move || workers.join());
        calls.wait().await;
        let _ = connections.await;
    };
    let mut ended = std::pin::pin!(ended);
    let patience = Duration::from_millis(config.file.timeouts.shutdown_ms);
    let hasty = tokio::select! {
        () = &mut ended => return true,
        () = tokio::time::sleep(patience) => true,
        _ = signals.next() => false,
    };
    if !hasty && tokio::time::timeout(HASTY_STOP, ended).await.is_ok() {
        return true;
    }
    tracing::warn!("stopped with calls running; their holds are released at the next start");
    false
}

/// What serves requests over these services: every room behind the shell.
pub fn app(
    config: &Config,
    services: &Services,
    draining: &Arc<AtomicBool>,
    stop: &CancellationToken,
) -> App {
    let domains = &services.domains;
    let public_url: Option<Arc<str>> = config.file.server.public_url.as_deref().map(Arc::from);
    let inference = Inference {
        public_url: PublicUrl(public_url.clone()),
        gate: services.gate.clone(),
        pipeline: services.pipeline.clone(),
        kept: services.kept.clone(),
        files: domains.files.clone(),
        calibrations: Arc::new(Calibrations::new(
            domains.storage.calibrations.clone(),
            domains.clock.clone(),
        )),
        batches: services.batches.clone(),
        background: services.background.clone(),
        sessions: Arc::new(Sessions::new(
            services.gate.clone(),
            domains.clock.clone(),
            domains.ids.clone(),
            stop.clone(),
            services.pipeline.calls.clone(),
        )),
    };
    let media = MediaRoom {
        gate: services.gate.clone(),
        public_url: PublicUrl(public_url),
        jobs: domains.jobs.clone(),
        records: services.records.clone(),
        studio: services.studio.clone(),
        shelf: services.studio.shelf.clone(),
        previews: Arc::default(),
    };
    let console = Console {
        gate: services.gate.clone(),
        catalog: domains.catalog.clone(),
        ledger: domains.storage.ledger.clone(),
        usage: domains.storage.usage.clone(),
        subscriptions: domains.storage.subscriptions.clone(),
        top_ups: domains.top_ups.clone(),
        webhook_secrets: domains.webhook_secrets.clone(),
        clock: domains.clock.clone(),
    };
    let health = Health {
        engine: domains.storage.engine.clone(),
        draining: draining.clone(),
    };
    App {
        shell: shell(config, domains),
        router: router::router(
            inference,
            media,
            console,
            health,
            config.file.service.support.as_deref(),
        ),
        idempotency: Idempotency::new(
            services.gate.clone(),
            domains.storage.idempotency.clone(),
            domains.vault.clone(),
            domains.clock.clone(),
            services.pipeline.calls.clone(),
            config.pipeline_settings().hold_lifetime(),
        ),
        calls: services.pipeline.calls.clone(),
    }
}

/// The admin API over these domains, behind a shell of its own.
pub fn admin_router(flags: &Flags, config: &Config, services: &Services) -> Router {
    let domains = &services.domains;
    let settings = SettingsFile::new(flags.clone(), config.clone(), services.http.clone());
    let api = AdminApi {
        settings: Arc::new(settings),
        domains: domains.clone(),
        gate: Arc::new(OperatorGate::new(domains.admins.clone(), domains.clock.clone())),
    };
    admin::router(api, Arc::new(shell(config, domains)))
}

fn shell(config: &Config, domains: &Domains) -> Shell {
    let server = &config.file.server;
    let access_log = match server.access_log {
        AccessLogSetting::Errors => AccessLog::Errors,
        AccessLogSetting::All => AccessLog::All,
    };
    Shell::new(
        domains.clock.clone(),
        domains.ids.clone(),
        access_log,
        server.trusted_proxies.clone(),
        Duration::from_millis(config.file.timeouts.request_body_ms),
    )
}

fn start_workers(
    config: &Config,
    services: &Services,
    draining: &Arc<AtomicBool>,
    stop: &CancellationToken,
) -> Result<Workers> {
    let app = app(config, services, draining, stop);
    let server = &config.file.server;
    let settings = ListenSettings {
        head_timeout: Duration::from_millis(config.file.timeouts.request_headers_ms),
        per_address: server.connections_per_address,
        trusted: server.trusted_proxies.clone(),
    };
    let count = match server.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    Workers::start(count, Arc::new(app), settings, stop)
}

async fn start_background(
    tasks: &TaskTracker,
    flags: &Flags,
    config: &Config,
    services: &Arc<Services>,
    admin: TcpListener,
    metrics: PrometheusHandle,
    stop: &CancellationToken,
) -> Result<()> {
    // With PostgreSQL commands open the database themselves.
    if let Some(home) = config.home() {
        let listener = socket::open(home).context("cannot open the command socket")?;
        let commands = socket::serve(listener, services.domains.clone(), tasks.clone());
        let stopped = stop.clone().cancelled_owned();
        tasks.spawn(async move {
            tokio::select! { () = commands => {}, () = stopped => {} }
        });
    }

    let rendered = metrics.clone();
    let routes = Router::new()
        .route("/metrics", get(move || async move { rendered.render() }))
        .route("/healthz", get(|| async { "ok" }))
        .merge(admin_router(flags, config, services));
    let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
    let stopped = stop.clone().cancelled_owned();
    tasks.spawn(async move { axum::serve(admin, routes).with_graceful_shutdown(stopped).await });

    background::start(tasks, flags, config, services, metrics, stop);
    Ok(())
}

/// The admin listener; another port when its own is taken by another server on this machine.
pub(crate) async fn bind_admin(wanted: SocketAddr) -> Result<TcpListener> {
    match TcpListener::bind(wanted).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let other = SocketAddr::new(wanted.ip(), 0);
            let listener = TcpListener::bind(other).await?;
            tracing::warn!(
                "the admin address {wanted} is taken; listening on {} instead",
                listener.local_addr()?
            );
            Ok(listener)
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on the admin address {wanted}")),
    }
}

/// On the embedded default, the first start makes an account with credits and a key.
async fn first_start(config: &Config, domains: &Domains) -> Result<Option<String>> {
    let empty = domains.storage.accounts.list(None, 1).await?.is_empty();
    if !empty || !matches!(config.storage, StorageUrl::Sqlite(_)) {
        return Ok(None);
    }
    let now = domains.clock.now();
    let id = AccountId::from_u128(domains.ids.next(now));
    let account = tollgate_storage::Account {
        id,
        name: "default".to_owned(),
        state: tollgate_storage::AccountState::Active,
        limits: tollgate_storage::Limits::default(),
        test_clock: None,
        created_at: now,
    };
    domains.storage.accounts.create(account).await?;
    let amount = Credits::from_whole(FIRST_CREDITS).unwrap_or_default();
    let grant = Grant {
        id: TransferId::from_u128(domains.ids.next(now)),
        account: id,
        amount,
        at: now,
        terms: LotTerms {
            kind: LotKind::Promotion,
            ..LotTerms::default()
        },
    };
    domains.storage.ledger.grant(grant).await?;
    let (_, secret) = domains
        .keys
        .create(id, KeyWish::plain("first"))
        .await
        .map_err(anyhow::Error::from)?;
    Ok(Some(secret.reveal().to_owned()))
}

/// The bound address is the first line; what follows is for people.
fn announce(
    config: &Config,
    address: SocketAddr,
    admin: SocketAddr,
    services: &Services,
    first_key: Option<&str>,
) -> Result<()> {
    let snapshot = services.domains.catalog.current().clone();
    let models = snapshot.models();
    let url = config
        .file
        .server
        .public_url
        .clone()
        .unwrap_or_else(|| format!("http://{address}"));
    let mut text = format!("{address}\n\nTollgate listens on {url}\n  documentation  {url}/docs\n");
    let real = models.iter().filter(|model| !model.simulated).count();
    let shown: Vec<&str> = models
        .iter()
        .filter(|model| !model.simulated)
        .take(4)
        .map(|model| &*model.id)
        .collect();
    match real {
        0 => text.push_str(
            "  models         sim/chat (the simulator). For real ones set OPENAI_API_KEY or add a [providers.x] block; `tollgate doctor` helps\n",
        ),
        _ => {
            let more = if real > shown.len() { ", …" } else { "" };
            text.push_str(&format!("  models         {real} and the simulator: {}{more}, sim/chat\n", shown.join(", ")));
        }
    }
    text.push_str(&format!("  metrics        http://{admin}/metrics\n"));
    text.push_str(&format!(
        "  data           {}\n",
        shown_path(config.home().unwrap_or(&config.data))
    ));
    let key = match first_key {
        Some(key) => {
            text.push_str(&format!(
                "  first key      {key}   (shown this once; its account has {FIRST_CREDITS} credits)\n"
            ));
            key
        }
        None => "$KEY",
    };
    text.push_str(&format!(
        "\nTry it:\n  curl {url}/v1/chat/completions -H \"Authorization: Bearer {key}\" -H 'Content-Type: application/json' \\\n    -d '{{\"model\":\"sim/chat\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hello!\"}}]}}'\n"
    ));
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn shown_path(path: &Path) -> String {
    path.canonicalize()
        .unwrap_or_else(|_| path.to_owned())
        .display()
        .to_string()
}
