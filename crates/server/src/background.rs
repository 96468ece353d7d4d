//! Starts the background tasks of a process, which run until the process stops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_billing::usage_hours::sum_usage_hours;

use crate::config::{Config, Flags};
use crate::wiring::Services;
use crate::{cause, corpora, maintenance, reload};

/// Interval of the sweep, which releases abandoned holds.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Interval of the task that sums the usage of hours that have ended.
const USAGE_INTERVAL: Duration = Duration::from_mins(10);
/// Interval of the tasks that depend on external services.
const OUTBOUND_INTERVAL: Duration = Duration::from_secs(30);

/// Starts the notification listener, the clock synchronization, the maintenance tasks and the watch
/// of the settings file.
pub(crate) fn start(
    tasks: &TaskTracker,
    flags: &Flags,
    config: &Config,
    services: &Arc<Services>,
    metrics: PrometheusHandle,
    stop: &CancellationToken,
) {
    let run = |name, task: BoxFuture<'static, ()>| {
        let stopped = stop.clone().cancelled_owned();
        let task = async move {
            tokio::select! { () = task => {}, () = stopped => {} }
        };
        tasks.spawn(services.vitals.clone().guard(name, stop.clone(), task));
    };
    let app_state = services.app_state.clone();
    run(
        "the notification listener",
        Box::pin(async move { maintenance::listen_for_notifications(&app_state).await }),
    );

    let app_state = services.app_state.clone();
    run(
        "the clock synchronization",
        Box::pin(async move { app_state.time.follow(&*app_state.storage.engine).await }),
    );

    let app_state = services.app_state.clone();
    let (worker, pipeline) = (services.worker.clone(), services.pipeline.clone());
    let sweeps = async move {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            maintenance::sweep(&app_state).await;
            worker.tidy().await;
            maintenance::save_label_priors(&app_state, &pipeline).await;
            metrics.run_upkeep();
        }
    };
    run("the maintenance sweep", Box::pin(sweeps));

    let app_state = services.app_state.clone();
    let sums = async move {
        loop {
            tokio::time::sleep(USAGE_INTERVAL).await;
            // A clock that is ahead would end hours too early.
            if app_state.time.is_trusted() {
                sum_usage_hours(&*app_state.storage.usage_hours, &*app_state.clock).await;
            }
        }
    };
    run("the sums of usage", Box::pin(sums));

    let app_state = services.app_state.clone();
    let rounds = async move {
        loop {
            maintenance::run_outbound_tasks(&app_state).await;
            tokio::time::sleep(OUTBOUND_INTERVAL).await;
        }
    };
    run("the alert sender", Box::pin(rounds));

    let corpora = services.corpora.clone();
    run(
        "the index of corpora",
        Box::pin(corpora::update_regularly(corpora)),
    );

    let (flags, config, services, stopped) = (flags.clone(), config.clone(), services.clone(), stop.clone());
    let reloads = async move {
        if let Err(error) = reload::watch(flags, config, services, stopped.clone()).await {
            tracing::error!("automatic reload of settings stopped: {}", cause::chain(&error));
        }
        stopped.cancelled().await;
    };
    run("the settings watcher", Box::pin(reloads));
}
