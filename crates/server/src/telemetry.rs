//! Logs on stderr, JSON unless a person is watching; metrics for Prometheus. Logs hold no prompt text and no secrets:
//! nothing logs a body, and secret types cannot be formatted.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::env::Environment;

/// Starts logging. `TOLLGATE_LOG` filters it, such as `warn` or `tollgate_pipeline=debug`.
pub fn start_logs(environment: &Environment, default: &str) -> Result<()> {
    let wanted = environment.get("TOLLGATE_LOG").unwrap_or(default);
    let filter =
        EnvFilter::try_new(wanted).context("TOLLGATE_LOG is not a filter; write a level such as 'info'")?;
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if std::io::stderr().is_terminal() {
        builder.compact().with_target(false).try_init()
    } else {
        builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init()
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

/// Bounds of the gateway's own overhead, in seconds.
const OVERHEAD_BUCKETS: [f64; 10] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.005, 0.02, 0.1, 1.0,
];

/// Starts metrics.
pub fn start_metrics() -> Result<PrometheusHandle> {
    let overhead = Matcher::Full("tollgate_overhead_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(overhead, &OVERHEAD_BUCKETS)?;
    builder.install_recorder().context("cannot start metrics")
}
