//! `serve`, `worker` and `migrate`.

use serde_json::json;
use tollgate_server::config::StorageUrl;
use tollgate_server::{Config, Flags, serve, worker};

use super::{load, start, start_logs};
use crate::cli::{Place, Serve, Worker};
use crate::failure::{Exit, Failure};
use crate::print::Printer;

/// Serves until a signal asks to stop.
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

/// Carries jobs out until a signal asks to stop.
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
        Some(path) => format!("From {}, the environment and flags", path.display()),
        None => "No settings file: from the environment and flags".to_owned(),
    };
    // What cannot be a setting of a file is said in the comment.
    let more = if config.file.server.discover {
        " and the model servers that a start finds on this machine"
    } else {
        ""
    };
    printer.answer(&settings, || {
        format!(
            "# {origin}.\n# Data directory: {}\n# Beside the providers below: the simulator sim{more}.\n\n{text}",
            config.data.display()
        )
    })?;
    Ok(Exit::Fine)
}

/// Brings the database's schema up to date.
pub fn migrate(place: Place, printer: &Printer) -> Result<Exit, Failure> {
    let config = start(place)?;
    serve::migrate(&config)?;
    let (engine, shown) = match &config.storage {
        StorageUrl::Sqlite(path) => ("sqlite", path.display().to_string()),
        // The address may hold a password.
        StorageUrl::Postgres(_) => ("postgres", "the PostgreSQL database".to_owned()),
    };
    printer.answer(&json!({"storage": engine, "schema": "current"}), || {
        format!("The schema of {shown} is up to date.\n")
    })?;
    Ok(Exit::Fine)
}
