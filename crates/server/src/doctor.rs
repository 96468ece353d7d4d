//! Says what is reachable and what to do about what is not. `run` looks at everything, beside a running server or
//! without one; `check_settings` at the settings alone.
//!
//! Suggested reading order: [`Finding`], [`run`], then a module for each part of the world.

mod data;
mod limits;
mod machine;
mod media;
mod models;
mod network;
mod payments;
mod providers;
mod storage;

use serde::Serialize;
use tollgate_types::clock::SystemClock;

use crate::assemble::{Assembled, assemble, http_client};
use crate::config::{Config, ConfigError};
use crate::control::socket;

/// What a look at one thing found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, such as `storage` or `provider acme`.
    pub what: String,
    /// How it is.
    pub state: State,
    /// What was seen. It holds no secret.
    pub detail: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Fine,
    /// Not wrong, and worth knowing.
    Note,
    /// To be repaired.
    Fault,
}

impl Finding {
    /// Something is as it should be.
    pub fn fine(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state: State::Fine,
            detail: detail.into(),
            remedy: None,
        }
    }

    /// Something is worth knowing.
    pub fn note(what: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state: State::Note,
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// Something is to be repaired.
    pub fn fault(what: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            state: State::Fault,
            detail: detail.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// Looks at everything: settings, data directory, storage, media, limits, ports, providers, models, this machine. Takes up to
/// half a minute when something does not answer.
pub async fn run(config: &Config) -> Vec<Finding> {
    let mut findings = vec![readable(config)];
    let served = match config.home() {
        Some(home) => socket::is_served(home).await,
        None => false,
    };
    findings.extend(data::look(config, &SystemClock::default()));
    findings.push(storage::look(config, served).await);
    findings.push(media::look(config).await);
    findings.push(limits::look(config).await);
    findings.push(network::listener(config, served).await);
    findings.push(network::admin(config, served));
    findings.extend(payments::look(config).await);
    match assemble(config, &http_client(config)).await {
        Ok(assembled) => {
            let Assembled {
                providers,
                snapshot,
                notes,
                ..
            } = &assembled;
            let asked = providers::ask(providers).await;
            findings.extend(providers::look(config, &asked, notes));
            findings.extend(models::look(config, snapshot, &asked));
        }
        Err(error) => {
            findings.push(unreadable(&error));
            // A model whose only provider has no key is such an error: this says where it comes from.
            findings.extend(providers::keyless(config));
        }
    }
    findings.extend(machine());
    findings
}

/// Looks at the settings as far as that needs no storage and no port: it is what a start or a reload would do with
/// them. Model servers and providers with a default price are asked for their models, as at a start.
pub async fn check_settings(config: &Config) -> Vec<Finding> {
    let mut findings = vec![readable(config)];
    findings.extend(data::shared_secret(config));
    findings.push(limits::stated(config));
    match assemble(config, &http_client(config)).await {
        Ok(assembled) => {
            findings.extend(assembled.notes.iter().map(|note| providers::noted(note)));
            findings.push(models::counted(&assembled.snapshot));
        }
        Err(error) => findings.push(unreadable(&error)),
    }
    findings
}

/// Settings that could not be read at all.
pub fn unreadable(error: &ConfigError) -> Finding {
    Finding::fault(
        "settings",
        error.to_string(),
        "correct the place that is named; tollgate.example.toml shows every key with what it does",
    )
}

/// Looks at this machine: clock and limits. Needs no settings.
pub fn machine() -> Vec<Finding> {
    vec![machine::clock(&SystemClock::default()), machine::descriptors()]
}

fn readable(config: &Config) -> Finding {
    match &config.path {
        Some(path) => Finding::fine("settings", format!("{} can be read", path.display())),
        None => Finding::fine("settings", "no settings file: defaults, environment and flags"),
    }
}

#[cfg(test)]
mod tests;
