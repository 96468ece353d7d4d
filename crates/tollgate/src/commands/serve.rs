//! The commands `serve`, `worker` and `migrate`.

use clap::Args;
use serde_json::json;
use tollgate_server::config::StorageUrl;
use tollgate_server::{Config, Flags, serve, worker};

use super::{load, start, start_logs};
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::memory;
use crate::print::Printer;

/// Arguments of `tollgate serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate serve
  tollgate serve --listen 127.0.0.1:0 --data /var/lib/tollgate
  tollgate serve --print-config

The first line on stdout is the listen address. Logs go to stderr. The environment variable \
TOLLGATE_LOG filters them, such as TOLLGATE_LOG=warn.
On SIGTERM, the gateway fails its readiness probe and accepts calls for another \
timeouts.drain_delay_ms; a second signal ends this delay. Then, or immediately on SIGINT, it \
finishes running calls, for at most timeouts.shutdown_ms, and stops; a further signal stops it \
within seconds. On SIGHUP, it reloads the settings.")]
pub struct Serve {
    /// Listen address of the public API [default: 127.0.0.1:8080]; port 0 selects a free port.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Listen address of metrics and the admin API [default: 127.0.0.1:9464]; if the port is in
    /// use, a free port is selected.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Print the effective settings, without secrets, and exit.
    #[arg(long)]
    pub print_config: bool,
}

/// Arguments of `tollgate worker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate worker
  tollgate worker --config /etc/tollgate/tollgate.toml --admin 127.0.0.1:9465

Images, videos, batches and background responses are jobs: a node accepts them, and any process on \
the same PostgreSQL database runs them. `tollgate serve` runs jobs too, unless its settings contain

  [jobs]
  run_here = false

Then only workers run them. Start as many as you like, on any machine, with the same settings \
file, pepper and [media] store (s3, or a shared directory). When a worker dies, another one \
continues its jobs after 30 seconds; requests that may have reached a provider are not repeated. \
Workers need PostgreSQL.

The first line on stdout is the listen address, which serves /metrics, /healthz and /readyz. Logs \
go to stderr. On SIGTERM or SIGINT, the worker finishes running jobs, for at most \
timeouts.shutdown_ms; on a second signal, it hands them over to other workers immediately.")]
pub struct Worker {
    /// Listen address of metrics and probes [default: 127.0.0.1:9464]; if the port is in use, a
    /// free port is selected.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
}

/// Runs the gateway until SIGTERM or SIGINT.
pub fn serve(place: Place, command: Serve, printer: &Printer) -> Result<Exit, Failure> {
    let flags = Flags {
        listen: command.listen,
        admin: command.admin,
        ..place.flags()
    };
    let config = load(&flags)?;
    if command.print_config {
        return print_config(&config, printer);
    }
    start_logs(&config, "info")?;
    serve::run(&flags, config, memory::release_unused)?;
    Ok(Exit::Fine)
}

/// Runs jobs until SIGTERM or SIGINT.
pub fn work(place: Place, command: Worker) -> Result<Exit, Failure> {
    let flags = Flags {
        admin: command.admin,
        ..place.flags()
    };
    let config = load(&flags)?;
    worker::check(&config)?;
    start_logs(&config, "info")?;
    worker::run(&flags, config)?;
    Ok(Exit::Fine)
}

fn print_config(config: &Config, printer: &Printer) -> Result<Exit, Failure> {
    let unprintable =
        |error: &dyn std::fmt::Display| Failure::failed(format!("cannot print the settings: {error}"));
    let text = config.printed().map_err(|error| unprintable(&error))?;
    let settings: toml::Table = text.parse().map_err(|error| unprintable(&error))?;
    let origin = match &config.path {
        Some(path) => format!("Sources: {}, the environment and flags", path.display()),
        None => "Sources: the environment and flags; no settings file".to_owned(),
    };
    // A settings file cannot express these providers, so the printed comment lists them.
    let more = if config.file.server.discover {
        " and the model servers discovered on this machine at startup"
    } else {
        ""
    };
    printer.answer(&settings, || {
        format!(
            "# {origin}.\n# Data directory: {}\n# Providers not listed below: the simulator sim{more}.\n\n{text}",
            config.data.display()
        )
    })?;
    Ok(Exit::Fine)
}

/// Creates or updates the database schema.
pub fn migrate(place: Place, printer: &Printer) -> Result<Exit, Failure> {
    let config = start(place)?;
    let done = serve::migrate(&config)?;
    let (engine, shown) = match &config.storage {
        StorageUrl::Sqlite(path) => ("sqlite", path.display().to_string()),
        // The URL may contain a password.
        StorageUrl::Postgres(_) => ("postgres", "the PostgreSQL database".to_owned()),
    };
    let (from, to) = (done.from, done.to);
    let answer = json!({"storage": engine, "schema": "current", "from": from, "to": to});
    printer.answer(&answer, || match from {
        0 => format!("Created the schema of {shown} (version {to}).\n"),
        from if from == to => format!("The schema of {shown} is up to date (version {to}).\n"),
        from => format!("Updated the schema of {shown} from version {from} to version {to}.\n"),
    })?;
    Ok(Exit::Fine)
}
