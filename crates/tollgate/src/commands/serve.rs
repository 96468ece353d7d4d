//! The commands `serve`, `worker` and `migrate`.

use serde_json::json;
use tollgate_server::config::StorageUrl;
use tollgate_server::{Config, Flags, serve, worker};

use super::{load, start, start_logs};
use crate::cli::{Place, Serve, Worker};
use crate::failure::{Exit, Failure};
use crate::print::Printer;

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
    serve::run(&flags, config)?;
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
