//! `tollgate serve`: starts the gateway from its settings and shuts it down.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::routing::get;
use axum::{Router, middleware};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_accounts::KeyParams;
use tollgate_backends::Migrated;
use tollgate_console::operators::OperatorConsole;
use tollgate_console::{Console, ConsoleApi, Live, SavedChats, ServiceBody};
use tollgate_edge::failed_keys::FailedKeys;
use tollgate_edge::session::{self, SessionGate, Site};
use tollgate_edge::websocket::Sessions;
use tollgate_edge::{AccessLog, Authenticator, Idempotency, OperatorAuthenticator, PublicUrl, RequestLayer};
use tollgate_inference::Inference;
use tollgate_inference::decisions::Calibrations;
use tollgate_inference::research::LONGEST_WAIT;
use tollgate_media::MediaState;
use tollgate_providers::HttpClient;
use tollgate_realtime::Realtime;
use tollgate_storage::{Grant, LotKind, LotTerms};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits};

use crate::admin::host::{self, Names};
use crate::admin::{self, AdminApi, SettingsFile};
use crate::assemble::{Assembled, assemble, http_client};
use crate::config::file::AccessLogSetting;
use crate::config::{Config, Flags, StorageUrl};
use crate::console::start_links::{self, StartLinks};
use crate::control::socket;
use crate::media_quotes::MediaQuotes;
use crate::router::Health;
use crate::shutdown::{Stop, StopSignals};
use crate::wiring::{self, AppState, Services};
use crate::{
    background, console, corpora, maintenance, reload, router, secrets, self_test, telemetry, web_search,
};
use tollgate_listener::{App, ListenSettings, Workers};
use tollgate_operations::view::providers::ServerView;

/// Credits that the account of the first start receives.
const FIRST_START_CREDITS: i64 = 10;
/// Time that a request may take beyond its longest wait for a report.
const WAIT_MARGIN: Duration = Duration::from_mins(5);
/// Maximum time to wait for running calls after the second stop signal, and for background tasks.
pub(crate) const FORCED_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves requests until a stop signal. Blocks the calling thread. Calls `on_start` when the server
/// has started.
pub fn run(flags: &Flags, config: Config, on_start: fn()) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(serve(flags, config, on_start));
    // After a second signal, a thread may still wait for connections that never end. This thread
    // must not block the exit.
    runtime.shutdown_background();
    ended
}

/// Migrates the database schema to the current version. Blocks the calling thread.
pub fn migrate(config: &Config) -> Result<Migrated> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(wiring::migrate(config))
}

async fn serve(flags: &Flags, config: Config, on_start: fn()) -> Result<()> {
    let mut signals = StopSignals::new()?;
    let metrics = telemetry::start_metrics()?;
    // Settings are validated before any file is created or opened, so invalid settings create no
    // files.
    let http = http_client(&config);
    let assembled = assemble(&config, &http, &[]).await?;
    let app_state = Arc::new(wiring::serving_app_state(&config).await?);
    let services = start_services(&config, &app_state, http, assembled).await?;

    // The command socket opens before the port, so a client that detects the open port can send
    // commands. The server executes them after it has created the first account.
    let socket = command_socket(&config).await?;
    let has_socket = socket.is_some();
    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        format!(
            "cannot listen on {}; if another server uses it, choose another address with --listen",
            config.listen
        )
    })?;
    let address = listener.local_addr()?;
    let admin = bind_admin(config.admin).await?;
    let admin_address = admin.local_addr()?;
    app_state.provider_status.listen(ServerView {
        listen: address,
        admin: admin_address,
    });
    let first_key = first_start(&config, &app_state).await?;
    let commands = Commands::serve(socket, &app_state);
    let (stop, draining) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let workers = start_workers(&config, &services, &draining, &stop)?;
    let background = TaskTracker::new();
    if config.file.jobs.run_here {
        // The worker counts as a running call, so a shutdown waits for its jobs.
        let worker = services.worker.clone().run(stop.clone());
        services.pipeline.calls.spawn(
            services
                .vitals
                .clone()
                .guard("the job worker", stop.clone(), worker),
        );
        // The sender ends after `stop` is cancelled and it has recorded its deliveries.
        let webhooks = services.webhooks.clone().run(stop.clone());
        background.spawn(
            services
                .vitals
                .clone()
                .guard("the webhook sender", stop.clone(), webhooks),
        );
    }
    start_background(&background, flags, &config, &services, admin, metrics, &stop);
    let links = start_links::create(&config, &app_state, first_key.is_some()).await?;
    announce(
        &config,
        address,
        admin_address,
        &services,
        first_key.as_deref(),
        &links,
    );
    on_start();

    let asked = tokio::select! {
        () = workers.accept(listener) => Stop::Interrupt,
        asked = drain_delay(&mut signals, &config, &draining) => asked,
        cause = services.vitals.failed() => {
            draining.store(true, Ordering::Relaxed);
            stop.cancel();
            services.pipeline.calls.close();
            // The engine is not closed. The next start treats it as the engine of a crashed process
            // and releases the holds of its calls.
            let _ = tokio::time::timeout(FORCED_STOP_TIMEOUT, services.pipeline.calls.wait()).await;
            return Err(restart_needed(cause));
        }
    };
    tracing::info!(
        signal = asked.as_str(),
        "stopping: waiting for running calls; new calls are not accepted"
    );
    let is_clean = stop_gracefully(&config, &mut signals, &services, workers, &stop).await;
    background.close();
    let _ = tokio::time::timeout(FORCED_STOP_TIMEOUT, background.wait()).await;
    commands.end().await;
    app_state.counting.close().await;
    maintenance::save_label_priors(&app_state, &services.pipeline).await;
    if is_clean {
        app_state.storage.engine.close().await?;
    }
    if has_socket {
        let _ = std::fs::remove_file(socket::path(config.socket_home()));
    }
    Ok(())
}

/// The task that serves the command socket, and the commands that it executes.
struct Commands {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Commands {
    fn serve(socket: Option<UnixListener>, app_state: &Arc<AppState>) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        if let Some(socket) = socket {
            let commands = socket::serve(socket, app_state.operations.clone(), tasks.clone());
            let stopped = stop.clone().cancelled_owned();
            tasks.spawn(async move {
                tokio::select! { () = commands => {}, () = stopped => {} }
            });
        }
        Self { tasks, stop }
    }

    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(FORCED_STOP_TIMEOUT, self.tasks.wait()).await;
    }
}

/// Opens the command socket. Nodes with a shared database may also share a directory; the first one
/// owns the socket. Returns `None` if another server owns it, or if a node with a shared database
/// cannot open it.
async fn command_socket(config: &Config) -> Result<Option<UnixListener>> {
    let home = config.socket_home();
    let is_alone = config.home().is_some();
    if !is_alone && socket::is_served(home).await {
        tracing::info!(directory = %home.display(), "another server owns the command socket in this directory");
        return Ok(None);
    }
    secrets::make_private_dir(home)?;
    match socket::open(home) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if is_alone => Err(error).context("cannot open the command socket"),
        Err(error) => {
            tracing::warn!(%error, "no command socket: `tollgate providers list` cannot query this server");
            Ok(None)
        }
    }
}

/// Logs and returns the error of a process that has to be restarted.
pub(crate) fn restart_needed(cause: String) -> anyhow::Error {
    let error = anyhow::anyhow!("{cause}; the process exits and must be restarted");
    tracing::error!("{error:#}");
    error
}

/// Builds the services of a server or worker after its storage was opened. Runs the self-test,
/// activates the settings, runs one maintenance sweep and loads the label priors.
pub(crate) async fn start_services(
    config: &Config,
    app_state: &Arc<AppState>,
    http: Arc<HttpClient>,
    assembled: Assembled,
) -> Result<Arc<Services>> {
    secrets::make_private_dir(&config.data)?;
    self_test::prove(app_state).await?;
    let corpora = corpora::open(config, &app_state.clock)?;
    let web = web_search::build(config, &http, &app_state.clock)?;
    web_search::record_prices(&web, &*app_state.storage.prices, &*app_state.clock)
        .await
        .context("cannot record the prices of searches")?;
    let files = app_state.files.clone();
    let services = wiring::services(config, app_state.clone(), http, files, corpora, web);
    let services = Arc::new(services);
    reload::install(&services, assembled).await?;
    maintenance::sweep(app_state).await;
    maintenance::load_label_priors(app_state, &services.pipeline).await;
    Ok(services)
}

/// Waits for a stop signal and marks the server as not ready. After SIGTERM, the server accepts
/// connections for the drain delay, or until another signal, so that load balancers can detect the
/// state.
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

/// Waits for the running calls and returns whether all have ended. The caller closes the storage
/// only in that case: the next start treats an engine that was not closed as one of a crashed
/// process and releases the holds of its calls.
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
    let shutdown_timeout = Duration::from_millis(config.file.timeouts.shutdown_ms);
    let has_timed_out = tokio::select! {
        () = &mut ended => return true,
        () = tokio::time::sleep(shutdown_timeout) => true,
        _ = signals.next() => false,
    };
    if !has_timed_out && tokio::time::timeout(FORCED_STOP_TIMEOUT, ended).await.is_ok() {
        return true;
    }
    tracing::warn!("stopped while calls were running; the next start releases their holds");
    false
}

/// Builds the public application: every API crate behind the request layer.
pub fn app(
    config: &Config,
    services: &Services,
    draining: &Arc<AtomicBool>,
    stop: &CancellationToken,
) -> App {
    let app_state = &services.app_state;
    let public_url: Option<Arc<str>> = config.file.server.public_url.as_deref().map(Arc::from);
    let media = MediaState {
        authenticator: services.authenticator.clone(),
        public_url: PublicUrl(public_url.clone()),
        jobs: app_state.jobs.clone(),
        records: services.records.clone(),
        media_jobs: services.media_jobs.clone(),
        storage: services.media_jobs.storage.clone(),
        previews: Arc::default(),
    };
    let sessions = Arc::new(Sessions::new(
        services.authenticator.clone(),
        app_state.clock.clone(),
        app_state.ids.clone(),
        stop.clone(),
        services.pipeline.calls.clone(),
    ));
    let addresses = app_state.operations.server.addresses();
    app_state
        .session_status
        .watch(&sessions, &app_state.clock, addresses.as_ref());
    let realtime = Realtime {
        authenticator: services.authenticator.clone(),
        sessions: sessions.clone(),
        shared: services.realtime.clone(),
    };
    let inference = Inference {
        public_url: PublicUrl(public_url),
        authenticator: services.authenticator.clone(),
        pipeline: services.pipeline.clone(),
        responses: services.responses.clone(),
        files: app_state.files.clone(),
        calibrations: Arc::new(Calibrations::new(
            app_state.storage.calibrations.clone(),
            app_state.clock.clone(),
        )),
        batches: services.batches.clone(),
        background: services.background.clone(),
        research: services.research.clone(),
        media_quotes: Arc::new(MediaQuotes(media.clone())),
        sessions: sessions.clone(),
    };
    let chats = SavedChats {
        store: app_state.storage.chats.clone(),
        vault: app_state.vault.clone(),
        clock: app_state.clock.clone(),
        default_limit: config.file.limits.chats,
    };
    let console = Console {
        authenticator: services.authenticator.clone(),
        catalog: app_state.catalog.clone(),
        ledger: app_state.storage.ledger.clone(),
        usage: app_state.storage.usage.clone(),
        subscriptions: app_state.storage.subscriptions.clone(),
        top_ups: app_state.top_ups.clone(),
        webhook_secrets: app_state.webhook_secrets.clone(),
        clock: app_state.clock.clone(),
        chats: chats.clone(),
    };
    let health = Health {
        engine: app_state.storage.engine.clone(),
        draining: draining.clone(),
        vitals: services.vitals.clone(),
    };
    let console_api = config.file.console.enabled.then(|| {
        let gate = Arc::new(session_gate(Some(&services.authenticator), config, app_state));
        let tasks = services.pipeline.calls.clone();
        let live = Live::new(
            app_state.storage.clone(),
            chats.clone(),
            gate.clone(),
            tasks.clone(),
            stop.clone(),
        );
        ConsoleApi {
            gate,
            operations: app_state.operations.clone(),
            chats,
            live: Arc::new(live),
            tasks,
            service: console_service(config, app_state.operations.sends_mail()),
        }
    });
    App {
        request_layer: request_layer(config, app_state),
        router: router::router(
            inference,
            media,
            realtime,
            console,
            console_api,
            health,
            config.file.service.support.as_deref(),
        ),
        idempotency: Idempotency::new(
            services.authenticator.clone(),
            app_state.storage.idempotency.clone(),
            app_state.vault.clone(),
            app_state.clock.clone(),
            services.pipeline.calls.clone(),
            config
                .pipeline_settings()
                .hold_lifetime()
                .max(LONGEST_WAIT + WAIT_MARGIN),
        ),
        calls: services.pipeline.calls.clone(),
        vitals: services.vitals.clone(),
    }
}

/// Builds the admin API behind its own request layer.
pub fn admin_router(flags: &Flags, config: &Config, services: &Services) -> Router {
    let app_state = &services.app_state;
    let settings = SettingsFile::new(flags.clone(), config.clone(), services.http.clone());
    let api = AdminApi {
        settings: Arc::new(settings),
        app_state: app_state.clone(),
        authenticator: Arc::new(OperatorAuthenticator::new(
            app_state.admins.clone(),
            app_state.clock.clone(),
        )),
    };
    let console = config.file.console.enabled.then(|| OperatorConsole {
        gate: Arc::new(session_gate(None, config, app_state)),
        admins: app_state.admins.clone(),
        operations: app_state.operations.clone(),
        service: console_service(config, app_state.operations.sends_mail()),
    });
    admin::router(api, console, Arc::new(request_layer(config, app_state)))
}

/// Creates the authenticator of sessions: of members, if there is an authenticator of callers, or
/// of administrators.
fn session_gate(
    authenticator: Option<&Arc<Authenticator>>,
    config: &Config,
    app_state: &AppState,
) -> SessionGate {
    let (console, site) = match authenticator {
        Some(_) => (
            session::Console::Accounts,
            Site {
                public_url: config.public_url().and_then(|url| url.parse().ok()),
                ..Site::default()
            },
        ),
        None => (
            session::Console::Operators,
            Site {
                hosts: config.file.server.admin_hosts.clone().into(),
                ..Site::default()
            },
        ),
    };
    SessionGate {
        console,
        site,
        sign_ins: app_state.sign_ins.clone(),
        authenticator: authenticator.cloned(),
        accounts: app_state.storage.accounts.clone(),
        members: app_state.storage.members.clone(),
        admins: app_state.admins.clone(),
        failed: FailedKeys::new(app_state.clock.clone()),
        clock: app_state.clock.clone(),
    }
}

fn console_service(config: &Config, sends_mail: bool) -> ServiceBody {
    let service = &config.file.service;
    console::service(&service.slug, service.support.as_deref(), sends_mail)
}

fn request_layer(config: &Config, app_state: &AppState) -> RequestLayer {
    let server = &config.file.server;
    let access_log = match server.access_log {
        AccessLogSetting::Errors => AccessLog::Errors,
        AccessLogSetting::Identified => AccessLog::Identified,
        AccessLogSetting::All => AccessLog::All,
    };
    RequestLayer::new(
        app_state.clock.clone(),
        app_state.ids.clone(),
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

fn start_background(
    tasks: &TaskTracker,
    flags: &Flags,
    config: &Config,
    services: &Arc<Services>,
    admin: TcpListener,
    metrics: PrometheusHandle,
    stop: &CancellationToken,
) {
    let vitals = services.vitals.clone();
    let routes = Router::new()
        .route("/metrics", telemetry::metrics_route(metrics.clone()))
        .route("/healthz", get(move || async move { router::alive(&vitals) }))
        .merge(admin_router(flags, config, services));
    let routes = with_host_check(config, routes).into_make_service_with_connect_info::<SocketAddr>();
    let stopped = stop.clone().cancelled_owned();
    tasks.spawn(async move { axum::serve(admin, routes).with_graceful_shutdown(stopped).await });

    background::start(tasks, flags, config, services, metrics, stop);
}

/// Adds the host check, which refuses requests with an unknown host name, to the routes of the
/// admin listener.
pub(crate) fn with_host_check(config: &Config, routes: Router) -> Router {
    let names: Names = config.file.server.admin_hosts.clone().into();
    routes.layer(middleware::from_fn_with_state(names, host::check))
}

/// Binds the admin listener. If the address `wanted` is in use, binds a free port instead.
pub(crate) async fn bind_admin(wanted: SocketAddr) -> Result<TcpListener> {
    match TcpListener::bind(wanted).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let other = SocketAddr::new(wanted.ip(), 0);
            let listener = TcpListener::bind(other).await?;
            tracing::warn!(
                "the admin address {wanted} is in use; listening on {} instead",
                listener.local_addr()?
            );
            Ok(listener)
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen on the admin address {wanted}")),
    }
}

/// Creates an account with credits and a key if the storage is a SQLite database without accounts.
/// Returns the key.
async fn first_start(config: &Config, app_state: &AppState) -> Result<Option<String>> {
    let empty = app_state.storage.accounts.list(None, 1).await?.is_empty();
    if !empty || !matches!(config.storage, StorageUrl::Sqlite(_)) {
        return Ok(None);
    }
    let now = app_state.clock.now();
    let id = AccountId::from_u128(app_state.ids.next(now));
    let account = tollgate_storage::Account {
        id,
        name: "default".to_owned(),
        state: tollgate_storage::AccountState::Active,
        limits: tollgate_storage::Limits::default(),
        test_clock: None,
        created_at: now,
    };
    app_state.storage.accounts.create(account).await?;
    let amount = Credits::from_whole(FIRST_START_CREDITS).unwrap_or_default();
    let grant = Grant {
        id: TransferId::from_u128(app_state.ids.next(now)),
        account: id,
        amount,
        at: now,
        terms: LotTerms {
            kind: LotKind::Promotion,
            ..LotTerms::default()
        },
    };
    app_state.storage.ledger.grant(grant).await?;
    let (_, secret) = app_state
        .keys
        .create(id, KeyParams::plain("first"))
        .await
        .map_err(anyhow::Error::from)?;
    Ok(Some(secret.reveal().to_owned()))
}

/// Prints the startup banner. The first line is the bound address, for scripts.
fn announce(
    config: &Config,
    address: SocketAddr,
    admin: SocketAddr,
    services: &Services,
    first_key: Option<&str>,
    links: &StartLinks,
) {
    let snapshot = services.app_state.catalog.current().clone();
    let models = snapshot.models();
    let url = config
        .file
        .server
        .public_url
        .clone()
        .unwrap_or_else(|| format!("http://{address}"));
    let mut text = format!("{address}\n\nTollgate listens on {url}\n");
    for (name, link) in [("console ", &links.console), ("operator", &links.operator)] {
        if let Some(link) = link {
            text.push_str(&format!(
                "  {name}       {link}   (signs in once, within {})\n",
                links.lifetime
            ));
        }
    }
    text.push_str(&format!("  documentation  {url}/docs\n"));
    let real = models.iter().filter(|model| !model.simulated).count();
    let shown: Vec<&str> = models
        .iter()
        .filter(|model| !model.simulated)
        .take(4)
        .map(|model| &*model.id)
        .collect();
    match real {
        0 => text.push_str(
            "  models         sim/chat (the simulator). To add providers, set OPENAI_API_KEY or add a [providers.x] block; `tollgate doctor` helps\n",
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
                "  first key      {key}   (shown once; store it now; its account has {FIRST_START_CREDITS} credits)\n"
            ));
            key
        }
        None => "$TOLLGATE_API_KEY",
    };
    text.push_str(&format!(
        "\nTry it:\n  curl {url}/v1/chat/completions -H \"Authorization: Bearer {key}\" -H 'Content-Type: application/json' \\\n    -d '{{\"model\":\"sim/chat\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hello!\"}}]}}'\n"
    ));
    print(&text);
}

/// Prints to stdout. A failed write is logged and otherwise ignored.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = written {
        tracing::warn!(%error, "cannot write to stdout");
    }
}

fn shown_path(path: &Path) -> String {
    path.canonicalize()
        .unwrap_or_else(|_| path.to_owned())
        .display()
        .to_string()
}
