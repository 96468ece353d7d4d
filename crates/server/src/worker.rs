//! `tollgate worker`: a process that runs jobs and serves no callers, in addition to nodes that
//! accept jobs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assemble::{assemble, http_client};
use crate::config::file::MediaStoreSetting;
use crate::config::{Config, ConfigError, Flags, StorageUrl};
use crate::router::{Health, health};
use crate::serve::{FORCED_STOP_TIMEOUT, bind_admin, print, restart_needed, start_services, with_host_check};
use crate::shutdown::StopSignals;
use crate::wiring::Services;
use crate::{background, maintenance, media, telemetry, wiring};

/// Validates that the settings are suitable for a worker process.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    if let StorageUrl::Sqlite(_) = config.storage {
        let message = "a worker requires PostgreSQL: an embedded database belongs to one process, and `tollgate serve` runs its \
             jobs. Set storage.url = \"postgres://…\" (docs/operations/moving.md), or start `tollgate serve` alone.";
        return Err(ConfigError::new("storage.url", message));
    }
    if config.file.jobs.concurrency == 0 {
        let message =
            "must be above 0 for a worker; for nodes that only accept jobs set jobs.run_here = false";
        return Err(ConfigError::new("jobs.concurrency", message));
    }
    Ok(())
}

/// Runs jobs until a stop signal. Blocks the calling thread.
pub fn run(flags: &Flags, config: Config) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(work(flags, config));
    runtime.shutdown_background();
    ended
}

async fn work(flags: &Flags, config: Config) -> Result<()> {
    let mut signals = StopSignals::new()?;
    let metrics = telemetry::start_metrics()?;
    // Settings are validated before any file is created or opened, so invalid settings create no
    // files.
    let http = http_client(&config);
    let assembled = assemble(&config, &http, &[]).await?;
    let app_state = Arc::new(wiring::worker_app_state(&config).await?);
    let services = start_services(&config, &app_state, http, assembled).await?;

    if config.file.media.store == MediaStoreSetting::Files {
        let folder = config.data.join(media::FOLDER);
        tracing::warn!(
            "media are stored in {}: share this directory between all nodes and workers, or set media.store = \"s3\"",
            folder.display()
        );
    }
    let listener = bind_admin(config.admin).await?;
    let address = listener.local_addr()?;
    let (stop, draining) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let probes = Health {
        engine: app_state.storage.engine.clone(),
        draining: draining.clone(),
        vitals: services.vitals.clone(),
    };
    let routes = Router::new()
        .route("/metrics", telemetry::metrics_route(metrics.clone()))
        .merge(health(probes));
    let routes = with_host_check(&config, routes);
    let tasks = TaskTracker::new();
    // Probes and metrics are served until the last job has ended.
    let ended = CancellationToken::new();
    let serving = axum::serve(listener, routes).with_graceful_shutdown(ended.clone().cancelled_owned());
    tasks.spawn(async move { serving.await });
    background::start(&tasks, flags, &config, &services, metrics, &stop);
    let guard = |name, task| services.vitals.clone().guard(name, stop.clone(), task);
    tasks.spawn(guard(
        "the webhook sender",
        services.webhooks.clone().run(stop.clone()).boxed(),
    ));
    let jobs = TaskTracker::new();
    jobs.spawn(guard(
        "the job worker",
        services.worker.clone().run(stop.clone()).boxed(),
    ));
    jobs.close();
    announce(&config, address);

    tokio::select! {
        _ = signals.next() => {}
        cause = services.vitals.failed() => return Err(restart_needed(cause)),
    }
    tracing::info!("stopping: waiting for running jobs; new jobs are not started");
    draining.store(true, Ordering::Relaxed);
    stop.cancel();
    tokio::select! {
        () = jobs.wait() => {}
        _ = signals.next() => {
            tracing::warn!("running jobs are released: another worker continues them");
            services.worker.release_jobs();
            let _ = tokio::time::timeout(FORCED_STOP_TIMEOUT, jobs.wait()).await;
        }
    }
    ended.cancel();
    end(&config, &services, &tasks).await
}

/// Waits for the remaining calls of jobs and for the background tasks, then closes the storage.
async fn end(config: &Config, services: &Services, tasks: &TaskTracker) -> Result<()> {
    services.pipeline.calls.close();
    let shutdown_timeout = FORCED_STOP_TIMEOUT.min(Duration::from_millis(config.file.timeouts.shutdown_ms));
    let _ = tokio::time::timeout(shutdown_timeout, services.pipeline.calls.wait()).await;
    tasks.close();
    let _ = tokio::time::timeout(FORCED_STOP_TIMEOUT, tasks.wait()).await;
    services.app_state.counting.close().await;
    maintenance::save_label_priors(&services.app_state, &services.pipeline).await;
    services.app_state.storage.engine.close().await?;
    Ok(())
}

/// Prints the startup banner. The first line is the bound address, for scripts.
fn announce(config: &Config, address: SocketAddr) {
    let jobs = config.file.jobs.concurrency;
    print(&format!(
        "{address}\n\nTollgate worker runs up to {jobs} jobs concurrently and serves no callers\n  \
         metrics        http://{address}/metrics\n  ready          http://{address}/readyz\n"
    ));
}
