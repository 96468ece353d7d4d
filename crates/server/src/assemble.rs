//! Builds the providers and the catalog from the settings, at the start and at every reload.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use secrecy::SecretString;
use tollgate_catalog::{
    CatalogInput, Discovered, EnabledProvider, Modality, ModelKind, PricesEntry, Snapshot, TargetEntry, load,
};
use tollgate_pipeline::Policy;
use tollgate_providers::discover::{self, LocalServer};
use tollgate_providers::extractive::Extractive;
use tollgate_providers::registry::{self, ProviderConfig};
use tollgate_providers::{HttpClient, HttpSettings};
use tollgate_types::clock::SystemClock;
use tollgate_types::{Clock, Credits};
use tollgate_upstream::{ErrorText, ListedModel, Provider};

use crate::config::effective::shown_address;
use crate::config::file::{
    AnswersSetting, BatchesSetting, DisconnectSetting, ErrorTextSetting, ProviderSection,
};
use crate::config::{Config, ConfigError};
use crate::provider_status::ProviderEntry;
use crate::{mail, media, payments, policy, web_search};

/// Provider of research without a model, and its key in the default catalog.
const EXTRACTIVE: &str = "tollgate";
/// Timeout of a request for a provider's model list.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// Providers, catalog and policy that were built from the settings.
pub struct Assembled {
    /// Providers, by the name of their block.
    pub providers: HashMap<Arc<str>, Arc<dyn Provider>>,
    /// Names of the providers whose streams are stopped when callers disconnect.
    pub stop_on_disconnect: HashSet<Arc<str>>,
    pub snapshot: Snapshot,
    /// The content policy; `None` if none is configured.
    pub policy: Option<Arc<Policy>>,
    /// The providers as the admin API shows them.
    pub provider_status: Vec<ProviderEntry>,
    /// Notes about unusable settings and unreachable providers, for the log and the doctor.
    pub notes: Vec<String>,
}

struct Enabled {
    provider: Arc<dyn Provider>,
    preset: String,
    base_url: Option<String>,
    default_price: Option<PricesEntry>,
    stops_on_disconnect: bool,
    /// Whether the server was discovered on a default port of model servers on this machine.
    is_local: bool,
}

/// The configured providers: the usable ones, and by block name the reason why a provider is
/// unusable.
struct Configured {
    enabled: Vec<Enabled>,
    unavailable: BTreeMap<String, String>,
}

/// Creates the HTTP client that all providers of this process share. Reloads reuse it and its
/// connections.
pub fn http_client(config: &Config) -> Arc<HttpClient> {
    let connect_timeout = Duration::from_millis(config.file.timeouts.connect_ms);
    let defaults = HttpSettings::default();
    let tls_timeout = defaults.tls_timeout.max(connect_timeout);
    HttpClient::new(HttpSettings {
        connect_timeout,
        tls_timeout,
        ..defaults
    })
}

/// Builds the providers and the catalog. A provider that does not respond remains included, because
/// it may recover. Its model list is that of `previous`, the entries of the last assembly.
///
/// # Errors
///
/// Returns the first error in the settings, with its block.
pub async fn assemble(
    config: &Config,
    http: &Arc<HttpClient>,
    previous: &[ProviderEntry],
) -> Result<Assembled, ConfigError> {
    let policy = policy::build(config, http)?;
    // These components are built later, with the storage. Building them here reports invalid
    // settings before the storage is opened.
    payments::build(config, http)?;
    mail::build(config)?;
    media::check(config)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    web_search::build(config, http, &clock)?;
    let mut notes = Vec::new();
    let Configured {
        mut enabled,
        unavailable,
    } = configured(config, http, &mut notes)?;
    enabled.extend(from_environment(config, http)?);
    let unused = config.unused_keys().into_iter();
    notes.extend(unused.map(|key| format!("{} {}", key.variable, key.reason)));
    if config.file.server.discover {
        enabled.extend(local_providers(config, http, previous).await?);
    }
    enabled.push(build(ProviderConfig::named("sim"), None, http)?);
    if !config.file.corpora.is_empty() || !config.file.search.is_empty() {
        enabled.push(extractive());
    }

    let entries = join_all(enabled.iter().map(|enabled| list(enabled, config, previous))).await;
    let mut described = Vec::with_capacity(enabled.len());
    for (enabled, entry) in enabled.iter().zip(&entries) {
        notes.extend(entry.note());
        described.push(EnabledProvider {
            name: enabled.provider.id().to_owned(),
            preset: enabled.preset.clone(),
            simulated: enabled.provider.is_simulated(),
            default_price: enabled.default_price.clone(),
            discovered: entry.models.clone(),
        });
    }
    let input = CatalogInput {
        providers: described,
        unavailable,
        models: config.file.models.clone(),
        aliases: config.file.aliases.clone(),
        plans: config
            .plans()
            .into_iter()
            .map(|plan| (plan.name.to_string(), plan.models))
            .collect(),
        templates: config.file.templates.clone(),
        research: config.file.research.roles(),
    };
    let snapshot = load(&input).map_err(|error| ConfigError::new(error.path, error.message))?;
    let stop_on_disconnect = enabled.iter().filter(|enabled| enabled.stops_on_disconnect);
    let stop_on_disconnect = stop_on_disconnect
        .map(|enabled| Arc::from(enabled.provider.id()))
        .collect();
    let providers = enabled
        .into_iter()
        .map(|enabled| (Arc::from(enabled.provider.id()), enabled.provider))
        .collect();
    Ok(Assembled {
        providers,
        stop_on_disconnect,
        snapshot,
        policy,
        provider_status: entries,
        notes,
    })
}

fn build(
    block: ProviderConfig,
    default_price: Option<PricesEntry>,
    http: &Arc<HttpClient>,
) -> Result<Enabled, ConfigError> {
    let preset = block.preset.clone().unwrap_or_else(|| block.name.to_string());
    let base_url = shown_address(&preset, block.base_url.as_deref());
    let provider = registry::build(&block, http)
        .map_err(|error| ConfigError::new(format!("providers.{}", error.block), error.message))?;
    Ok(Enabled {
        provider,
        preset,
        base_url,
        default_price,
        stops_on_disconnect: block.stops_on_disconnect(),
        is_local: false,
    })
}

/// Returns the provider of research without a model.
fn extractive() -> Enabled {
    Enabled {
        provider: Arc::new(Extractive::new(EXTRACTIVE)),
        preset: EXTRACTIVE.to_owned(),
        base_url: None,
        default_price: None,
        stops_on_disconnect: false,
        is_local: false,
    }
}

fn configured(
    config: &Config,
    http: &Arc<HttpClient>,
    notes: &mut Vec<String>,
) -> Result<Configured, ConfigError> {
    let mut enabled = Vec::new();
    let mut unavailable = BTreeMap::new();
    for (name, section) in &config.file.providers {
        check_name(name)?;
        if section.enabled == Some(false) {
            unavailable.insert(name.clone(), format!("providers.{name}.enabled is false"));
            continue;
        }
        let preset = section.preset.as_deref().unwrap_or(name);
        check_access_keys(name, preset, section)?;
        let signs = section.access_key_id_env.is_some();
        let default_variables = registry::key_variables(preset).filter(|_| !signs);
        let api_key = key_of(config, name, default_variables, section)?;
        let access_keys = config.access_keys_of(name, section);
        let needs_key = registry::default_key_variable(preset).is_some();
        let unset = config.unset_key_variable(section);
        if let Some(variable) = unset.filter(|_| access_keys.is_none()) {
            notes.push(format!("providers.{name}: the variable {variable} is not set"));
        }
        if api_key.is_none() && access_keys.is_none() && needs_key {
            let why = match unset {
                Some(variable) => format!("the variable {variable} is not set"),
                None => "no key; set api_key_env or api_key_file".to_owned(),
            };
            if unset.is_none() {
                notes.push(format!("providers.{name}: {why}"));
            }
            unavailable.insert(name.clone(), why);
            continue;
        }
        let block = ProviderConfig {
            preset: section.preset.clone(),
            base_url: section.base_url.clone(),
            api_key,
            access_keys,
            region: config.region_of(name, section),
            project: config.project_of(name, section),
            identity: config.identity_of(name, section)?,
            workflows: section.workflows.as_ref().map(PathBuf::from),
            stops_on_disconnect: section.on_disconnect.map(|what| what == DisconnectSetting::Stop),
            separate_answers: section.answers.map(|how| how == AnswersSetting::Separately),
            error_text: section.error_text.map(|setting| match setting {
                ErrorTextSetting::Hide => ErrorText::Hide,
                ErrorTextSetting::Log => ErrorText::Log,
                ErrorTextSetting::Pass => ErrorText::Pass,
            }),
            native_batches: section.batches.map(|who| who == BatchesSetting::Native),
            ..ProviderConfig::named(name.as_str())
        };
        enabled.push(build(block, section.default_price.clone(), http)?);
    }
    Ok(Configured { enabled, unavailable })
}

/// Validates the name of a block, which is the first part of model ids and appears in URLs.
fn check_name(name: &str) -> Result<(), ConfigError> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_valid) {
        return Ok(());
    }
    let message = "use only letters, digits, '.', '_' and '-' in the name of a provider";
    Err(ConfigError::new(format!("providers.{name:?}"), message))
}

/// Validates that a block sets the access key id and the secret together, and only with a preset
/// that signs requests.
fn check_access_keys(name: &str, preset: &str, section: &ProviderSection) -> Result<(), ConfigError> {
    let (id, secret) = (&section.access_key_id_env, &section.secret_access_key_env);
    let has_any = id.is_some() || secret.is_some() || section.session_token_env.is_some();
    let place = || format!("providers.{name}");
    if has_any && registry::access_key_variables(preset).is_none() {
        let message = format!(
            "the preset `{preset}` does not sign requests: remove access_key_id_env, secret_access_key_env and session_token_env"
        );
        return Err(ConfigError::new(place(), message));
    }
    if has_any && (id.is_none() || secret.is_none()) {
        let message = "access_key_id_env and secret_access_key_env must be set together";
        return Err(ConfigError::new(place(), message));
    }
    Ok(())
}

fn key_of(
    config: &Config,
    name: &str,
    default_variables: impl Iterator<Item = &'static str>,
    section: &ProviderSection,
) -> Result<Option<SecretString>, ConfigError> {
    let place = format!("providers.{name}.api_key_file");
    let file = section.api_key_file.as_deref();
    match section.api_key_env.as_deref() {
        Some(variable) => config.key(&place, [variable], file),
        None => config.key(&place, default_variables, file),
    }
}

/// Builds the providers whose default key variable is set and that no block configures.
fn from_environment(config: &Config, http: &Arc<HttpClient>) -> Result<Vec<Enabled>, ConfigError> {
    let wanted = config.providers_by_environment().into_iter();
    wanted.map(|block| build(block, None, http)).collect()
}

/// Builds providers for the model servers that are discovered on their default ports on this
/// machine and that no block configures. Their models are free of charge. A server of the previous
/// assembly that does not respond remains included, so that its model names stay valid.
async fn local_providers(
    config: &Config,
    http: &Arc<HttpClient>,
    previous: &[ProviderEntry],
) -> Result<Vec<Enabled>, ConfigError> {
    let mut found = discover::local_servers(http, config.listen.port(), LIST_TIMEOUT).await;
    for entry in previous.iter().filter(|entry| entry.is_local) {
        let last = LocalServer::of(&entry.name, &entry.preset, entry.base_url.as_deref());
        found.extend(last.filter(|last| found.iter().all(|server| !server.is_same(last))));
    }
    let wanted = found
        .into_iter()
        .filter(|server| !config.is_configured_server(server));
    let free = ["input", "output"].map(|class| (class.to_owned(), Credits::ZERO));
    wanted
        .map(|server| {
            let enabled = build(server.config, Some(free.clone().into()), http)?;
            Ok(Enabled {
                is_local: true,
                ..enabled
            })
        })
        .collect()
}

/// Returns the status entry of a provider. Requests its model list if its `default_price` offers
/// all models, or if a `[models]` block omits facts that the list supplies.
async fn list(enabled: &Enabled, config: &Config, previous: &[ProviderEntry]) -> ProviderEntry {
    let id = enabled.provider.id();
    let mut entry = ProviderEntry {
        name: id.to_owned(),
        preset: enabled.preset.clone(),
        base_url: enabled.base_url.clone(),
        simulated: enabled.provider.is_simulated(),
        offers_all: enabled.default_price.is_some(),
        is_local: enabled.is_local,
        models: Vec::new(),
        list_error: None,
    };
    if !entry.offers_all && !leaves_facts_to(id, &enabled.preset, config) {
        return entry;
    }
    match enabled.provider.list_models(LIST_TIMEOUT).await {
        Ok(models) => entry.models = models.into_iter().map(discovered).collect(),
        // Some servers have no model list. That is an error only if a `default_price` offers all
        // models.
        Err(error) if !entry.offers_all && is_final(error.status) => {
            tracing::debug!(provider = %id, %error, "model limits are unknown: the provider refused to list its models");
        }
        Err(error) => {
            let last = previous.iter().find(|last| last.is_same(&entry));
            entry.models = last.map(|last| last.models.clone()).unwrap_or_default();
            entry.list_error = Some(error.to_string());
        }
    }
    entry
}

/// Whether the provider would refuse a further request for its model list with the same status.
fn is_final(status: Option<u16>) -> bool {
    status.is_some_and(|status| (400..500).contains(&status) && status != 429)
}

/// Presets whose model lists report the input types of a model. Without this list, an image for a
/// text model would cause an error of the server.
const PRESETS_LISTING_INPUT: &[&str] = &["llama.cpp"];

/// Returns whether the block of a chat model at this provider omits the context window, or `input`
/// if the preset's list reports it. Calls of other kinds have no output cap.
fn leaves_facts_to(provider: &str, preset: &str, config: &Config) -> bool {
    let lists_input = PRESETS_LISTING_INPUT.contains(&preset);
    let is_at = |target: &TargetEntry| match target {
        TargetEntry::Short(text) => text.split_once('/').is_some_and(|(name, _)| name == provider),
        TargetEntry::Long { provider: name, .. } => name == provider,
    };
    let mut blocks = config.file.models.values();
    blocks.any(|block| {
        let is_offered = block.enabled != Some(false);
        let is_chat = block.kind.is_none_or(|kind| kind == ModelKind::Chat);
        let is_incomplete = block.limits.context_window.is_none() || (lists_input && block.input.is_none());
        is_offered && is_chat && is_incomplete && block.targets.iter().any(is_at)
    })
}

fn discovered(model: ListedModel) -> Discovered {
    let modality = |word: &String| match word.as_str() {
        "text" => Some(Modality::Text),
        "image" => Some(Modality::Image),
        "audio" => Some(Modality::Audio),
        "file" => Some(Modality::File),
        "video" => Some(Modality::Video),
        _ => None,
    };
    Discovered {
        name: model.name,
        context_window: model.context_window,
        max_output_tokens: model.max_output_tokens,
        input: model
            .input
            .map(|words| words.iter().filter_map(modality).collect()),
    }
}
