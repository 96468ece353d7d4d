//! What goes on in a process beside its calls and its jobs, until it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, Flags};
use crate::wiring::Services;
use crate::{chores, reload};

/// Between two looks for holds that nobody resolved.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// Between two rounds of what payment providers and those who are told something have a part in.
const REACH_OUT_EVERY: Duration = Duration::from_secs(30);

/// Starts hearing of what others change, keeping the time, the chores, and following the settings file.
pub(crate) fn start(
    tasks: &TaskTracker,
    flags: &Flags,
    config: &Config,
    services: &Arc<Services>,
    metrics: PrometheusHandle,
    stop: &CancellationToken,
) {
    let until_stop = || stop.clone().cancelled_owned();
    let (domains, stopped) = (services.domains.clone(), until_stop());
    tasks.spawn(async move {
        tokio::select! { () = chores::hear_news(&domains) => {}, () = stopped => {} }
    });

    let (domains, stopped) = (services.domains.clone(), until_stop());
    tasks.spawn(async move {
        let follow = domains.time.follow(&*domains.storage.engine);
        tokio::select! { () = follow => {}, () = stopped => {} }
    });

    let (domains, stopped) = (services.domains.clone(), until_stop());
    let (worker, pipeline) = (services.worker.clone(), services.pipeline.clone());
    tasks.spawn(async move {
        let chores = async {
            loop {
                tokio::time::sleep(SWEEP_EVERY).await;
                chores::sweep(&domains).await;
                worker.tidy().await;
                chores::keep_preferences(&domains, &pipeline).await;
                metrics.run_upkeep();
            }
        };
        tokio::select! { () = chores => {}, () = stopped => {} }
    });

    let (domains, stopped) = (services.domains.clone(), until_stop());
    tasks.spawn(async move {
        let chores = async {
            loop {
                chores::reach_out(&domains).await;
                tokio::time::sleep(REACH_OUT_EVERY).await;
            }
        };
        tokio::select! { () = chores => {}, () = stopped => {} }
    });

    let (flags, config, services, stop) = (flags.clone(), config.clone(), services.clone(), stop.clone());
    tasks.spawn(async move {
        if let Err(error) = reload::watch(flags, config, services, stop).await {
            tracing::error!("settings are not reloaded any more: {error:#}");
        }
    });
}
