//! Logs on stderr, as JSON unless stderr is a terminal, and Prometheus metrics. Logs contain no
//! prompts and no secrets: no code logs a body, and secret types cannot be formatted.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use axum::http::header::CONTENT_TYPE;
use axum::routing::{MethodRouter, get};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::env::Environment;

/// Starts logging. `TOLLGATE_LOG` sets the filter, such as `warn` or `tollgate_pipeline=debug`.
/// Keys and admin tokens with this slug are redacted in every line.
pub fn start_logs(environment: &Environment, default: &str, slug: &str) -> Result<()> {
    let wanted = environment.get("TOLLGATE_LOG").unwrap_or(default);
    let filter = EnvFilter::try_new(wanted)
        .context("TOLLGATE_LOG is not a valid filter; use a level such as 'info'")?;
    // The prefixes are needed until the process ends, so they are leaked.
    let prefixes: &'static [String; 2] = Box::leak(Box::new([format!("sk-{slug}-"), format!("adm-{slug}-")]));
    // Internal errors are not logged: the library would report a failed write on stderr, which
    // panics if stderr itself failed.
    let builder = fmt()
        .with_env_filter(filter)
        .with_writer(move || LogWriter { prefixes })
        .log_internal_errors(false);
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

/// Metric: log lines that could not be written.
const LINES_LOST: &str = "tollgate_log_lines_lost_total";
/// Metric: panics of any thread or task.
const PANICS: &str = "tollgate_panics_total";

/// Writer of log lines to stderr that never fails. A line that cannot be written, such as on a full
/// disk, is dropped and counted.
#[derive(Clone, Copy)]
struct LogWriter {
    /// Prefixes of the keys and admin tokens that are redacted.
    prefixes: &'static [String; 2],
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let redacted = redacted(line, self.prefixes);
        if io::stderr().write_all(&redacted).is_err() {
            metrics::counter!(LINES_LOST).increment(1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Replaces the part of each key after its prefix with `…`, because callers may send a key in a URL
/// path.
fn redacted<'l>(line: &'l [u8], prefixes: &[String]) -> Cow<'l, [u8]> {
    let is_of_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let mut shown = Cow::Borrowed(line);
    for prefix in prefixes.iter().map(String::as_bytes) {
        let mut from = 0;
        while let Some(at) = shown[from..]
            .windows(prefix.len())
            .position(|window| window == prefix)
        {
            from += at + prefix.len();
            let length = shown[from..].iter().take_while(|byte| is_of_key(byte)).count();
            if length > 0 {
                shown.to_mut().splice(from..from + length, "…".bytes());
            }
        }
    }
    shown
}

/// Upper bounds of the histogram buckets of the gateway's overhead, in seconds.
const OVERHEAD_BUCKETS: [f64; 10] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.005, 0.02, 0.1, 1.0,
];
/// Upper bounds of the buckets of `tollgate_search_seconds`.
const SEARCH_BUCKETS: [f64; 8] = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
/// Upper bounds of the buckets of `tollgate_realtime_first_audio_seconds`.
const FIRST_AUDIO_BUCKETS: [f64; 8] = [0.1, 0.2, 0.4, 0.6, 0.8, 1.2, 2.0, 5.0];

/// Returns the route that serves the metrics in the Prometheus text format.
pub fn metrics_route<S: Clone + Send + Sync + 'static>(metrics: PrometheusHandle) -> MethodRouter<S> {
    let content_type = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    get(move || async move { (content_type, metrics.render()) })
}

/// Installs the metrics recorder.
///
/// # Errors
///
/// Fails if a recorder is already installed.
pub fn start_metrics() -> Result<PrometheusHandle> {
    let overhead = Matcher::Full("tollgate_overhead_seconds".to_owned());
    let searches = Matcher::Full(tollgate_pipeline::SEARCH_SECONDS.to_owned());
    let first_audio = Matcher::Full(tollgate_realtime::FIRST_AUDIO_SECONDS.to_owned());
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(overhead, &OVERHEAD_BUCKETS)?
        .set_buckets_for_metric(searches, &SEARCH_BUCKETS)?
        .set_buckets_for_metric(first_audio, &FIRST_AUDIO_BUCKETS)?;
    let metrics = builder.install_recorder().context("cannot start metrics")?;
    metrics::describe_counter!(LINES_LOST, "Log lines that could not be written to stderr");
    metrics::counter!(LINES_LOST).absolute(0);
    count_panics();
    Ok(metrics)
}

/// Counts every panic, even if it is caught. The message is still printed to stderr.
fn count_panics() {
    metrics::describe_counter!(PANICS, "Panics of any thread or task");
    let panics = metrics::counter!(PANICS);
    panics.absolute(0);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        panics.increment(1);
        report(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_replaced_wherever_they_stand() {
        let prefixes = ["sk-acme-".to_owned(), "adm-acme-".to_owned()];
        for (line, expected) in [
            ("plain", "plain"),
            (r#"{"path":"/sk-acme-aB3_x-9"}"#, r#"{"path":"/sk-acme-…"}"#),
            (
                "adm-acme-1 sk-acme-2,sk-acme-test-3",
                "adm-acme-… sk-acme-…,sk-acme-…",
            ),
            ("keys begin with 'sk-acme-'", "keys begin with 'sk-acme-'"),
            ("sk-other-1", "sk-other-1"),
            ("sk-acme-", "sk-acme-"),
        ] {
            let shown = redacted(line.as_bytes(), &prefixes);
            assert_eq!(String::from_utf8_lossy(&shown), expected);
        }
    }
}
