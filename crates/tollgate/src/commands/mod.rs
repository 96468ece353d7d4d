//! One module per group of commands: the arguments for clap, and the functions that call the server
//! crate and print the reply. None contains business logic.

pub mod accounts;
pub mod admin;
pub mod alerts;
mod arguments;
pub mod batches;
pub mod check;
pub mod console;
pub mod corpus;
pub mod credits;
pub mod decisions;
pub mod export;
mod extract;
mod gateway_access;
pub mod keys;
pub mod ledger;
pub mod models;
pub mod moving;
mod openapi;
pub mod research;
mod send;
pub mod serve;
pub mod sessions;
pub mod statements;
pub mod subscriptions;
pub mod top_ups;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use tollgate_operations::export::Kind;
use tollgate_server::config::env::Environment;
use tollgate_server::{Config, ConfigError, Flags, telemetry};

use self::export::Usage;
use self::ledger::Ledger;
use crate::cli::{Cli, Command, Place};
use crate::failure::{Exit, Failure};
use crate::print::Printer;

/// Runs a command line, whose first element is the program's name. Prints failures on stderr.
pub fn run(arguments: Vec<OsString>) -> Exit {
    // Read before parsing, so that parse errors are also printed as JSON.
    let json = arguments.iter().any(|argument| argument == "--json");
    let outcome = match Cli::try_parse_from(arguments) {
        Ok(cli) => execute(cli),
        Err(error) if error.use_stderr() && json => Err(Failure::usage(error.render().to_string())),
        Err(error) => {
            // clap prints help and version on stdout and errors on stderr. A closed pipe is no
            // failure.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Fine
            };
        }
    };
    outcome.unwrap_or_else(|failure| {
        Printer { json }.complain(&failure);
        failure.exit
    })
}

fn execute(cli: Cli) -> Result<Exit, Failure> {
    let (place, printer) = (cli.place, Printer { json: cli.json });
    match cli.command {
        Command::Serve(command) => serve::serve(place, command, &printer),
        Command::Worker(command) => serve::work(place, command),
        Command::Migrate => serve::migrate(place, &printer),
        Command::Move(command) => moving::run(place, &command, &printer),
        Command::Accounts(command) => accounts::accounts(place, command, &printer),
        Command::Keys(command) => keys::keys(place, command, &printer),
        Command::Credits(command) => credits::credits(place, command, &printer),
        Command::TopUps(command) => top_ups::top_ups(place, command, &printer),
        Command::Alerts(command) => alerts::alerts(place, command, &printer),
        Command::Console(command) => console::console(place, command, &printer),
        Command::Batches(command) => batches::batches(place, command, &printer),
        Command::Decisions(command) => decisions::decisions(command, &printer),
        Command::Research(command) => research::research(place, command, &printer),
        Command::Sessions(command) => sessions::sessions(place, command, &printer),
        Command::Plans(command) => subscriptions::plans(place, command, &printer),
        Command::Subscriptions(command) => subscriptions::subscriptions(place, command, &printer),
        Command::Models(command) => models::models(place, command, &printer),
        Command::Corpus(command) => corpus::corpus(place, command, &printer),
        Command::Ledger(Ledger::Export(command)) => export::export(place, &command, Kind::Transfers),
        Command::Ledger(Ledger::Audit(scope)) => ledger::audit(place, scope, &printer),
        Command::Ledger(Ledger::Receipt(command)) => ledger::receipt(place, command, &printer),
        Command::Ledger(Ledger::Verify(command)) => ledger::verify(&command, &printer),
        Command::Ledger(Ledger::Check { reprice }) => ledger::check_ledger(place, reprice, &printer),
        Command::Usage(Usage::Export(command)) => export::export(place, &command, Kind::Usage),
        Command::Statements(command) => statements::statements(place, command, &printer),
        Command::Providers(command) => admin::providers(place, command, &printer),
        Command::Prices(command) => admin::prices(place, command, &printer),
        Command::Members(command) => admin::members(place, command, &printer),
        Command::Admins(command) => admin::admins(place, command, &printer),
        Command::Audit(command) => admin::audit(place, command, &printer),
        Command::Config(command) => check::settings(place, command, &printer),
        Command::Doctor => check::doctor(place, &printer),
        Command::Extract => extract::extract(),
        Command::Openapi { admin, console } => openapi::document(admin, console, &printer),
    }
}

impl Place {
    fn flags(self) -> Flags {
        Flags {
            config: self.config,
            data: self.data,
            program: program(),
            ..Flags::default()
        }
    }
}

/// Returns the path of this program, which starts itself as `tollgate extract`. On Linux, the path
/// is that of the running program, even if an upgrade has replaced its file.
fn program() -> Option<PathBuf> {
    match cfg!(target_os = "linux") {
        true => Some("/proc/self/exe".into()),
        false => std::env::current_exe().ok(),
    }
}

/// Loads the settings without starting the gateway.
fn load(flags: &Flags) -> Result<Config, ConfigError> {
    Config::load(flags, Environment::of_process())
}

/// Loads the settings for a command that runs to completion. Logs only errors, since the command
/// prints its own messages on stderr.
fn start(place: Place) -> Result<Config, Failure> {
    let config = load(&place.flags())?;
    start_logs(&config, "error")?;
    Ok(config)
}

/// Starts logging with the filter from `TOLLGATE_LOG`, or `default` if it is not set.
fn start_logs(config: &Config, default: &str) -> Result<(), Failure> {
    let started = telemetry::start_logs(&config.environment, default, &config.file.service.slug);
    started.map_err(|error| ConfigError::new("TOLLGATE_LOG", format!("{error:#}")).into())
}
