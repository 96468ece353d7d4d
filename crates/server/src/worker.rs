//! `tollgate worker`: a process that carries jobs out and serves no callers, beside nodes that accept them.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::routing::get;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assemble::{assemble, http_client};
use crate::config::file::MediaStoreSetting;
use crate::config::{Config, ConfigError, Flags, StorageUrl};
use crate::router::{Health, health};
use crate::serve::{HASTY_STOP, begin, bind_admin};
use crate::shutdown::StopSignals;
use crate::wiring::Services;
use crate::{background, chores, media, telemetry, wiring};

/// Whether these settings can have a worker of its own.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    if let StorageUrl::Sqlite(_) = config.storage {
        let message = "a worker needs PostgreSQL: an embedded database belongs to one process, and `tollgate serve` carries its \
             jobs out itself. Set storage.url = \"postgres://…\" (docs/operations/moving.md), or start `tollgate serve` alone.";
        return Err(ConfigError::new("storage.url", message));
    }
    if config.file.jobs.concurrency == 0 {
        let message =
            "must be above 0 for a worker; for nodes that only accept jobs set jobs.run_here = false instead";
        return Err(ConfigError::new("jobs.concurrency", message));
    }
    Ok(())
}

/// Carries jobs out until a signal asks to stop. Blocks.
pub fn run(flags: &Flags, config: Config) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(work(flags, config));
    runtime.shutdown_background();
    ended
}

async fn work(flags: &Flags, config: Config) -> Result<()> {
    let mut signals = StopSignals::new()?;
    let metrics = telemetry::start_metrics()?;
    // Before anything is made or opened: settings with a fault leave no trace.
    let http = http_client(&config);
    let assembled = assemble(&config, &http).await?;
    let domains = Arc::new(wiring::working_domains(&config).await?);
    let services = begin(&config, &domains, http, assembled).await?;

    if config.file.media.store == MediaStoreSetting::Files {
        let folder = config.data.join(media::FOLDER);
        tracing::warn!(
            "media are kept in {}: every node and worker must see the same directory, or set media.store = \"s3\"",
            folder.display()
        );
    }
    let listener = bind_admin(config.admin).await?;
    let address = listener.local_addr()?;
    let (stop, draining) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let probes = Health {
        engine: domains.storage.engine.clone(),
        draining: draining.clone(),
    };
    let rendered = metrics.clone();
    let routes = Router::new()
        .route("/metrics", get(move || async move { rendered.render() }))
        .merge(health(probes));
    let tasks = TaskTracker::new();
    // Probes and metrics are answered until the last job has ended.
    let ended = CancellationToken::new();
    let serving = axum::serve(listener, routes).with_graceful_shutdown(ended.clone().cancelled_owned());
    tasks.spawn(async move { serving.await });
    background::start(&tasks, flags, &config, &services, metrics, &stop);
    tasks.spawn(services.webhooks.clone().run(stop.clone()));
    let jobs = TaskTracker::new();
    jobs.spawn(services.worker.clone().run(stop.clone()));
    jobs.close();
    announce(&config, address)?;

    signals.next().await;
    tracing::info!("stopping: jobs that run are finished, new ones are not taken");
    draining.store(true, Ordering::Relaxed);
    stop.cancel();
    tokio::select! {
        () = jobs.wait() => {}
        _ = signals.next() => {
            tracing::warn!("jobs that run are given back: another worker goes on with them");
            services.worker.give_back();
            let _ = tokio::time::timeout(HASTY_STOP, jobs.wait()).await;
        }
    }
    ended.cancel();
    end(&config, &services, &tasks).await
}

/// Waits for calls that jobs have left behind, and for what is still to be noted; then closes everything.
async fn end(config: &Config, services: &Services, tasks: &TaskTracker) -> Result<()> {
    services.pipeline.calls.close();
    let patience = HASTY_STOP.min(Duration::from_millis(config.file.timeouts.shutdown_ms));
    let _ = tokio::time::timeout(patience, services.pipeline.calls.wait()).await;
    tasks.close();
    let _ = tokio::time::timeout(HASTY_STOP, tasks.wait()).await;
    services.domains.counting.close().await;
    chores::keep_preferences(&services.domains, &services.pipeline).await;
    services.domains.storage.engine.close().await?;
    Ok(())
}

/// The bound address is the first line; what follows is for people.
fn announce(config: &Config, address: SocketAddr) -> Result<()> {
    let jobs = config.file.jobs.concurrency;
    let mut out = std::io::stdout().lock();
    write!(
        out,
        "{address}\n\nTollgate carries out jobs, up to {jobs} at once, and serves no callers\n  \
         metrics        http://{address}/metrics\n  ready          http://{address}/readyz\n"
    )?;
    out.flush()?;
    Ok(())
}
