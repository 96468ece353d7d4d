//! Every provider: its key, whether it is reached, what it says it has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_providers::registry::{identity_variables, key_variables, preset_names, usual_key_variable};
use tollgate_upstream::error::{UpstreamCause, UpstreamErrorKind};
use tollgate_upstream::{ListedModel, Provider, UpstreamError};

use super::Finding;
use crate::config::Config;
use crate::config::file::ProviderSection;

/// How long a provider may take to list its models.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many variables are shown of those that switch a provider on.
const SHOWN: usize = 3;

/// A provider's answer to the question which models it has.
pub struct Asked {
    /// The name of its block.
    pub name: String,
    /// What it said.
    pub listed: Result<Vec<ListedModel>, UpstreamError>,
}

/// Asks every provider but the simulator, all at once. In the order of their names.
pub async fn ask(providers: &HashMap<Arc<str>, Arc<dyn Provider>>) -> Vec<Asked> {
    let mut real: Vec<_> = providers
        .values()
        .filter(|provider| !provider.is_simulated())
        .collect();
    real.sort_by_key(|provider| provider.id());
    let asked = real.into_iter().map(|provider| async move {
        Asked {
            name: provider.id().to_owned(),
            listed: provider.list_models(PATIENCE).await,
        }
    });
    join_all(asked).await
}

/// One finding for each provider that is configured, switched on by a variable, or found on this machine.
pub fn look(config: &Config, asked: &[Asked], notes: &[String]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = asked.iter().map(|asked| reached(config, asked)).collect();
    let keyless = without_key(config);
    findings.extend(keyless.iter().map(|name| unusable_without_key(config, name)));
    // What the notes say about these, the findings above say better.
    let told = |note: &str| {
        let mut names = asked
            .iter()
            .map(|asked| asked.name.as_str())
            .chain(keyless.iter().copied());
        names.any(|name| note.starts_with(&format!("providers.{name}:")))
    };
    findings.extend(notes.iter().filter(|note| !told(note)).map(|note| noted(note)));
    if findings.is_empty() {
        findings.push(none_at_all(config.file.server.discover));
    }
    findings
}

/// The blocks that need a key and have none.
pub fn keyless(config: &Config) -> Vec<Finding> {
    without_key(config)
        .into_iter()
        .map(|name| unusable_without_key(config, name))
        .collect()
}

/// Something that the assembly of providers could not use.
pub fn noted(note: &str) -> Finding {
    Finding::note(
        "providers",
        note,
        "`tollgate doctor` asks every provider and says more",
    )
}

fn reached(config: &Config, asked: &Asked) -> Finding {
    let what = format!("provider {}", asked.name);
    let origin = origin(config, &asked.name);
    let error = match &asked.listed {
        Ok(models) => {
            return Finding::fine(
                what,
                format!("{} answers and lists {} models", origin.words(), models.len()),
            );
        }
        Err(error) => error,
    };
    if error.kind == UpstreamErrorKind::Credentials {
        return Finding::fault(
            what,
            format!("{} refuses {}: {}", origin.words(), origin.shown(), error.detail),
            origin.key_advice(&asked.name),
        );
    }
    if error.kind == UpstreamErrorKind::RateLimited {
        return Finding::note(
            what,
            format!("{} answers, and asks to call less often", origin.words()),
            "try again later",
        );
    }
    let block = format!("providers.{}", asked.name);
    match (error.cause, error.status) {
        (UpstreamCause::Connect, _) => Finding::fault(
            what,
            format!("{} cannot be reached: {}", origin.words(), error.detail),
            format!("check {block}.base_url, that the server runs, and what the network lets out"),
        ),
        (UpstreamCause::Timeout, _) => Finding::fault(
            what,
            format!(
                "{} does not answer within {} seconds",
                origin.words(),
                PATIENCE.as_secs()
            ),
            format!("check {block}.base_url, the load of the server, and what the network lets out"),
        ),
        // Not every server has a list of models; calls may work all the same.
        (UpstreamCause::Status, Some(status @ (404 | 405 | 501))) => Finding::note(
            what,
            format!(
                "{} answers, but lists no models (status {status})",
                origin.words()
            ),
            format!(
                "when calls fail, too, check the path of {block}.base_url; else name its models in [models] blocks"
            ),
        ),
        _ => Finding::fault(
            what,
            format!("{} answers wrongly: {error}", origin.words()),
            format!("check that {block}.base_url leads to the API and not to a web page or a proxy"),
        ),
    }
}

fn without_key(config: &Config) -> Vec<&str> {
    let lacks_key = |name: &str, section: &ProviderSection| {
        let preset = section.preset.as_deref().unwrap_or(name);
        let is_set = |variable: &str| config.environment.get(variable).is_some();
        let set = match section.api_key_env.as_deref() {
            Some(variable) => is_set(variable),
            None => key_variables(preset).any(is_set),
        };
        let signs = || config.access_keys_of(name, section).is_some();
        usual_key_variable(preset).is_some() && section.api_key_file.is_none() && !set && !signs()
    };
    let enabled = config
        .file
        .providers
        .iter()
        .filter(|(_, section)| section.enabled != Some(false));
    enabled
        .filter(|(name, section)| lacks_key(name, section))
        .map(|(name, _)| name.as_str())
        .collect()
}

fn unusable_without_key(config: &Config, name: &str) -> Finding {
    let detail = "it has no key and is not used";
    Finding::fault(
        format!("provider {name}"),
        detail,
        origin(config, name).key_advice(name),
    )
}

fn none_at_all(discover: bool) -> Finding {
    let mut variables: Vec<&str> = preset_names().filter_map(usual_key_variable).collect();
    variables.truncate(SHOWN);
    let looked = if discover {
        "; no model server was found on this machine"
    } else {
        ""
    };
    Finding::note(
        "providers",
        format!("none is switched on{looked}: only the simulator can be called"),
        format!(
            "set the key of one ({}, …), start a model server on this machine, or add a [providers.NAME] block with a base_url",
            variables.join(", ")
        ),
    )
}

/// Why a provider is there.
enum Origin<'a> {
    /// A block of the settings; the variable that has its key, as far as that is known.
    Block(Option<&'a str>),
    /// The same for a block that is shown tokens and no key.
    Identity,
    /// Its usual variable is set.
    Variable(&'a str),
    /// It was found on this machine.
    Found,
}

fn origin<'a>(config: &'a Config, name: &'a str) -> Origin<'a> {
    if let Some(section) = config.file.providers.get(name) {
        let preset = section.preset.as_deref().unwrap_or(name);
        if identity_variables(preset).is_some() {
            return Origin::Identity;
        }
        return Origin::Block(
            section
                .api_key_env
                .as_deref()
                .or_else(|| usual_key_variable(preset)),
        );
    }
    match key_variables(name).find(|variable| config.environment.get(variable).is_some()) {
        Some(variable) => Origin::Variable(variable),
        None => Origin::Found,
    }
}

impl Origin<'_> {
    fn words(&self) -> String {
        match self {
            Origin::Block(_) | Origin::Identity => "the server of its block".to_owned(),
            Origin::Variable(variable) => format!("switched on by {variable}, it"),
            Origin::Found => "found on this machine, it".to_owned(),
        }
    }

    /// What it is shown.
    fn shown(&self) -> &'static str {
        match self {
            Origin::Identity => "the credentials",
            _ => "the key",
        }
    }

    fn key_advice(&self, name: &str) -> String {
        match self {
            Origin::Variable(variable) => format!("put a valid key into {variable}"),
            Origin::Block(Some(variable)) => {
                format!(
                    "put a valid key into {variable}, or name a file that holds one in providers.{name}.api_key_file"
                )
            }
            Origin::Identity => format!(
                "let providers.{name}.credentials_file or .credentials_env be the key of an account that may call it, and check the clock"
            ),
            Origin::Block(None) | Origin::Found => {
                format!(
                    "name the variable or the file that holds a valid key: providers.{name}.api_key_env or .api_key_file"
                )
            }
        }
    }
}
