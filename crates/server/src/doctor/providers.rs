//! Checks of the providers: key, reachability and model list.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_providers::registry::{default_key_variable, identity_variables, key_variables, preset_names};
use tollgate_upstream::error::{UpstreamCause, UpstreamErrorKind};
use tollgate_upstream::{ListedModel, Provider, UpstreamError};

use super::Finding;
use crate::config::Config;
use crate::config::file::ProviderSection;

/// Timeout of a request for a model list.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of key variables that a finding lists as examples.
const SHOWN: usize = 3;

/// The model list that a provider returned.
pub struct ProviderListing {
    /// Name of the `[providers]` block.
    pub name: String,
    /// The listed models, or the error of the request.
    pub listed: Result<Vec<ListedModel>, UpstreamError>,
}

/// Requests the model lists of all providers except the simulator, concurrently. Returns them in
/// the order of the provider names.
pub async fn list_all(providers: &HashMap<Arc<str>, Arc<dyn Provider>>) -> Vec<ProviderListing> {
    let mut real: Vec<_> = providers
        .values()
        .filter(|provider| !provider.is_simulated())
        .collect();
    real.sort_by_key(|provider| provider.id());
    let listing = real.into_iter().map(|provider| async move {
        ProviderListing {
            name: provider.id().to_owned(),
            listed: provider.list_models(LIST_TIMEOUT).await,
        }
    });
    join_all(listing).await
}

/// Returns a finding for each provider that is configured, enabled by a variable or discovered on
/// this machine, for each unused key variable, and for each of the `notes` that these findings do
/// not cover.
pub fn check(config: &Config, listing: &[ProviderListing], notes: &[String]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = listing.iter().map(|listing| reached(config, listing)).collect();
    let keyless = without_key(config);
    findings.extend(keyless.iter().map(|name| unusable_without_key(config, name)));
    let unused = config.unused_keys();
    findings.extend(unused.iter().map(|key| {
        Finding::note(
            "providers",
            format!("{} {}", key.variable, key.reason),
            &key.remedy,
        )
    }));
    findings.extend(without_variable(config, listing));
    // The findings above describe these notes in more detail.
    let is_reported = |note: &str| {
        let mut names = listing
            .iter()
            .map(|listing| listing.name.as_str())
            .chain(keyless.iter().copied());
        let mut variables = unused.iter().map(|key| key.variable);
        names.any(|name| note.starts_with(&format!("providers.{name}:")))
            || variables.any(|variable| note.starts_with(&format!("{variable} ")))
    };
    findings.extend(
        notes
            .iter()
            .filter(|note| !is_reported(note))
            .map(|note| noted(note)),
    );
    if findings.is_empty() {
        findings.push(none_at_all(config.file.server.discover));
    }
    findings
}

/// Reports blocks whose key variable is not set, unless the provider rejected the credentials of
/// the request for its model list.
fn without_variable<'a>(
    config: &'a Config,
    listing: &'a [ProviderListing],
) -> impl Iterator<Item = Finding> + 'a {
    let is_refused = |error: &UpstreamError| error.kind == UpstreamErrorKind::Credentials;
    let answered = listing
        .iter()
        .filter(move |listing| !listing.listed.as_ref().is_err_and(is_refused));
    answered.filter_map(|listing| {
        let section = config.file.providers.get(&listing.name)?;
        let variable = config.unset_key_variable(section)?;
        Some(Finding::note(
            format!("provider {}", listing.name),
            format!("requests are sent without a key: the variable {variable} is not set"),
            format!("set {variable}, or remove providers.{}.api_key_env", listing.name),
        ))
    })
}

/// Reports the blocks that need a key and have none.
pub fn keyless(config: &Config) -> Vec<Finding> {
    without_key(config)
        .into_iter()
        .map(|name| unusable_without_key(config, name))
        .collect()
}

/// Creates the finding for a note of `assemble`, such as an unusable setting.
pub fn noted(note: &str) -> Finding {
    Finding::note(
        "providers",
        note,
        "run `tollgate doctor`, which checks every provider",
    )
}

fn reached(config: &Config, listing: &ProviderListing) -> Finding {
    let what = format!("provider {}", listing.name);
    let origin = origin(config, &listing.name);
    let error = match &listing.listed {
        Ok(models) => {
            return Finding::fine(
                what,
                match models.len() {
                    1 => format!("{} answers and lists one model", origin.words()),
                    count => format!("{} answers and lists {count} models", origin.words()),
                },
            );
        }
        Err(error) => error,
    };
    let unset = config.file.providers.get(&listing.name);
    if let Some(variable) = unset.and_then(|section| config.unset_key_variable(section))
        && error.kind == UpstreamErrorKind::Credentials
    {
        return Finding::fault(
            what,
            format!(
                "{} requires a key, but the variable {variable} is not set",
                origin.words()
            ),
            origin.key_advice(&listing.name),
        );
    }
    if error.kind == UpstreamErrorKind::Credentials {
        return Finding::fault(
            what,
            format!("{} rejects {}: {}", origin.words(), origin.shown(), error.detail),
            origin.key_advice(&listing.name),
        );
    }
    if error.kind == UpstreamErrorKind::RateLimited {
        return Finding::note(
            what,
            format!("{} answers, but its rate limit is exceeded", origin.words()),
            "try again later",
        );
    }
    let block = format!("providers.{}", listing.name);
    match (error.cause, error.status) {
        (UpstreamCause::Connect, _) => Finding::fault(
            what,
            format!("{} cannot be reached: {}", origin.words(), error.detail),
            format!("check {block}.base_url and the firewall, and that the server is running"),
        ),
        (UpstreamCause::Timeout, _) => Finding::fault(
            what,
            format!(
                "{} does not answer within {} seconds",
                origin.words(),
                LIST_TIMEOUT.as_secs()
            ),
            format!("check {block}.base_url, the load of the server, and the firewall"),
        ),
        // Some servers have no model list, but calls may still work.
        (UpstreamCause::Status, Some(status @ (404 | 405 | 501))) => Finding::note(
            what,
            format!(
                "{} answers, but has no model list (status {status})",
                origin.words()
            ),
            format!(
                "if calls fail too, check the path of {block}.base_url; otherwise list the provider's models in [models] blocks"
            ),
        ),
        _ => Finding::fault(
            what,
            format!("{} does not send a valid model list: {error}", origin.words()),
            format!("check that {block}.base_url is the API and not a web page or a proxy"),
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
        default_key_variable(preset).is_some() && section.api_key_file.is_none() && !set && !signs()
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
    let unset = config.file.providers.get(name);
    let detail = match unset.and_then(|section| config.unset_key_variable(section)) {
        Some(variable) => format!("disabled because it has no key: the variable {variable} is not set"),
        None => "disabled because it has no key".to_owned(),
    };
    Finding::fault(
        format!("provider {name}"),
        detail,
        origin(config, name).key_advice(name),
    )
}

fn none_at_all(discover: bool) -> Finding {
    let mut variables: Vec<&str> = preset_names().filter_map(default_key_variable).collect();
    variables.truncate(SHOWN);
    let looked = if discover {
        "; no model server was found on this machine"
    } else {
        ""
    };
    Finding::note(
        "providers",
        format!("no provider is enabled{looked}: only the simulator can be called"),
        format!(
            "set a provider's key ({}, …), start a model server on this machine, or add a [providers.NAME] block with a base_url",
            variables.join(", ")
        ),
    )
}

/// Source of a provider's configuration.
enum Origin<'a> {
    /// A block of the settings, with the name of its key variable if known.
    Block(Option<&'a str>),
    /// A block whose preset authenticates with access tokens instead of an API key.
    Identity,
    /// The preset's default key variable, which is set.
    Variable(&'a str),
    /// A model server that was discovered on this machine.
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
                .or_else(|| default_key_variable(preset)),
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
            Origin::Block(_) | Origin::Identity => "the configured server".to_owned(),
            Origin::Variable(variable) => format!("the provider enabled by {variable}"),
            Origin::Found => "the server discovered on this machine".to_owned(),
        }
    }

    /// Returns the kind of secret that the provider receives, for messages.
    fn shown(&self) -> &'static str {
        match self {
            Origin::Identity => "the credentials",
            _ => "the key",
        }
    }

    fn key_advice(&self, name: &str) -> String {
        match self {
            Origin::Variable(variable) => format!("set {variable} to a valid key"),
            Origin::Block(Some(variable)) => {
                format!(
                    "set {variable} to a valid key, or set providers.{name}.api_key_file to a file that contains one"
                )
            }
            Origin::Identity => format!(
                "set providers.{name}.credentials_file or .credentials_env to the key of an authorized service account, and check the clock"
            ),
            Origin::Block(None) | Origin::Found => {
                format!(
                    "set providers.{name}.api_key_env to a variable that contains a valid key, or .api_key_file to a file that contains one"
                )
            }
        }
    }
}
