//! Checks an installation and suggests a remedy for each problem. `run` checks everything, with or
//! without a running server; `check_settings` checks the settings only.
//!
//! Suggested reading order: [`Finding`], [`run`], then one module for each area.

mod corpora;
mod data;
mod limits;
mod machine;
mod media;
mod models;
mod network;
mod pages;
mod payments;
mod providers;
mod search;
mod storage;

use serde::Serialize;
use tollgate_types::clock::SystemClock;

use crate::assemble::{Assembled, assemble, http_client};
use crate::config::{Config, ConfigError, start_only_keys};
use crate::control::socket;
use tollgate_operations::ShowServer;
use tollgate_operations::view::providers::ServerView;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject of the check, such as `storage` or `provider acme`.
    pub what: String,
    pub state: State,
    /// The observation, without secrets.
    pub detail: String,
    /// The suggested fix; `None` if `state` is `Fine`.
    pub remedy: Option<String>,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The check found no problem.
    Fine,
    /// The check found no error, but a condition that the operator should know.
    Note,
    /// The check found an error that must be fixed. The command then exits with an error status.
    Fault,
}

impl Finding {
    /// Creates a finding of a check without a problem.
    pub fn fine(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state: State::Fine,
            detail: detail.into(),
            remedy: None,
        }
    }

    /// Creates a finding that the operator should know.
    pub fn note(what: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state: State::Note,
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// Creates a finding of an error that must be fixed.
    pub fn fault(what: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state: State::Fault,
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// Checks settings, data directory, storage, media, corpora, web search, web pages, limits, ports,
/// payments, providers, models and this machine. Takes up to half a minute if a service does not
/// respond.
pub async fn run(config: &Config) -> Vec<Finding> {
    let mut findings = vec![readable(config)];
    let server = running(config).await;
    let served = server.is_some();
    let is_known = matches!(server, Some(Some(_)));
    // A running server may have been started with addresses that differ from the settings.
    let config = &match server {
        Some(Some(server)) => Config {
            listen: server.listen,
            admin: server.admin,
            ..config.clone()
        },
        _ => config.clone(),
    };
    findings.extend(data::check(config, &SystemClock::default()));
    findings.push(storage::check(config, served).await);
    findings.push(media::check(config).await);
    findings.push(media::programs());
    findings.extend(corpora::check(config));
    findings.extend(search::check(config).await);
    findings.extend(pages::check(config, &SystemClock::default()).await);
    findings.push(limits::check(config).await);
    findings.push(network::listener(config, served).await);
    findings.push(network::admin(config, is_known));
    findings.extend(payments::check(config).await);
    match assemble(config, &http_client(config), &[]).await {
        Ok(assembled) => {
            let Assembled {
                providers,
                snapshot,
                notes,
                ..
            } = &assembled;
            let listing = providers::list_all(providers).await;
            findings.extend(providers::check(config, &listing, notes));
            findings.extend(models::check(config, snapshot, &listing));
        }
        Err(error) => {
            findings.push(unreadable(&error));
            // A model whose only provider has no key causes such an error, so these findings name
            // the provider.
            findings.extend(providers::keyless(config));
        }
    }
    findings.extend(machine());
    findings
}

/// Returns the addresses of the server that owns the command socket: `None` if no server is
/// running, `Some(None)` if the server did not report its addresses.
async fn running(config: &Config) -> Option<Option<ServerView>> {
    let home = config.socket_home();
    if !socket::is_served(home).await {
        return None;
    }
    Some(socket::send(home, &ShowServer).await.ok())
}

/// Checks the settings without opening storage or ports, to the extent that a start or reload
/// depends on the settings only. Like a start, requests the model lists of model servers and of
/// providers with a default price.
pub async fn check_settings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![readable(config)];
    findings.extend(data::shared_secret(config));
    findings.push(limits::stated(config));
    findings.extend(list_start_only(config));
    match assemble(config, &http_client(config), &[]).await {
        Ok(assembled) => {
            findings.extend(assembled.notes.iter().map(|note| providers::noted(note)));
            findings.push(models::counted(&assembled.snapshot));
            findings.extend(models::collisions(&assembled.snapshot));
        }
        Err(error) => findings.push(unreadable(&error)),
    }
    findings
}

/// Creates the finding for settings that cannot be used.
pub fn unreadable(error: &ConfigError) -> Finding {
    Finding::fault(
        "settings",
        error.to_string(),
        "correct the named setting; tollgate.example.toml documents every key",
    )
}

/// Checks the clock and the limit on open files, for which no settings are required.
pub fn machine() -> Vec<Finding> {
    vec![machine::clock(&SystemClock::default()), machine::descriptors()]
}

fn readable(config: &Config) -> Finding {
    match &config.path {
        Some(path) => Finding::fine("settings", format!("{} can be read", path.display())),
        None => Finding::fine(
            "settings",
            "no settings file; defaults, environment variables and flags apply",
        ),
    }
}

/// Reports settings that a reload does not apply; `None` if all of them have their defaults.
fn list_start_only(config: &Config) -> Option<Finding> {
    let keys = start_only_keys(&config.file);
    let detail = || format!("read at start only: {} (restart to change)", keys.join(", "));
    (!keys.is_empty()).then(|| Finding::fine("reload", detail()))
}

#[cfg(test)]
mod tests;
