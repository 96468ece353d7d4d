//! From the settings to providers and a catalog: at start, and again at every reload.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use secrecy::SecretString;
use tollgate_catalog::{
    COMPOSITION, CatalogInput, EnabledProvider, PricesEntry, Snapshot, composition_version, load,
};
use tollgate_pipeline::Policy;
use tollgate_providers::registry::{self, ProviderConfig};
use tollgate_providers::{HttpClient, HttpSettings, discover};
use tollgate_storage::PriceRecord;
use tollgate_types::{Credits, Prices, Timestamp};
use tollgate_upstream::Provider;

use crate::config::effective::shown_address;
use crate::config::file::{BatchesSetting, ProviderSection};
use crate::config::{Config, ConfigError};
use crate::roster::Entry;
use crate::{mail, media, payments, policy};

/// How long a provider may take to say which models it has.
const LISTING: Duration = Duration::from_secs(3);

/// Providers and what they make possible.
pub struct Assembled {
    /// By the name of their block.
    pub providers: HashMap<Arc<str>, Arc<dyn Provider>>,
    /// The catalog.
    pub snapshot: Snapshot,
    /// The content policy, when there is one.
    pub policy: Option<Arc<Policy>>,
    /// The same for operators.
    pub roster: Vec<Entry>,
    /// What could not be used, and why; for the banner and the log.
    pub notes: Vec<String>,
}

struct Enabled {
    provider: Arc<dyn Provider>,
    preset: String,
    base_url: Option<String>,
    default_price: Option<PricesEntry>,
}

/// The client that every provider of this process shares; reloads keep it, and with it its connections.
pub fn http_client(config: &Config) -> Arc<HttpClient> {
    let connect_timeout = Duration::from_millis(config.file.timeouts.connect_ms);
    let usual = HttpSettings::default();
    let tls_timeout = usual.tls_timeout.max(connect_timeout);
    HttpClient::new(HttpSettings {
        connect_timeout,
        tls_timeout,
        ..usual
    })
}

/// Builds providers and catalog. A provider that does not answer is kept: it may come back. What fails is a fault in the
/// settings, told with the block that has it.
pub async fn assemble(config: &Config, http: &Arc<HttpClient>) -> Result<Assembled, ConfigError> {
    let policy = policy::build(config, http)?;
    // These are built once, with the storage; a fault in them is told before anything is opened.
    payments::build(config, http)?;
    mail::build(config)?;
    media::check(config)?;
    let mut notes = Vec::new();
    let mut enabled = configured(config, http, &mut notes)?;
    enabled.extend(by_environment(config, http)?);
    if config.file.server.discover {
        enabled.extend(on_this_machine(config, http).await?);
    }
    enabled.push(build(ProviderConfig::named("sim"), None, http)?);

    let listed = join_all(enabled.iter().map(list)).await;
    let mut described = Vec::with_capacity(enabled.len());
    let mut roster = Vec::with_capacity(enabled.len());
    for (enabled, listed) in enabled.iter().zip(listed) {
        roster.push(entry(enabled, &listed));
        let discovered = listed.unwrap_or_else(|note| {
            notes.push(note);
            Vec::new()
        });
        described.push(EnabledProvider {
            name: enabled.provider.id().to_owned(),
            preset: enabled.preset.clone(),
            simulated: enabled.provider.is_simulated(),
            default_price: enabled.default_price.clone(),
            discovered,
        });
    }
    let input = CatalogInput {
        providers: described,
        models: config.file.models.clone(),
        aliases: config.file.aliases.clone(),
        plans: config
            .plans()
            .into_iter()
            .map(|plan| (plan.name.to_string(), plan.models))
            .collect(),
        templates: config.file.templates.clone(),
    };
    let snapshot = load(&input).map_err(|error| ConfigError::new(error.path, error.message))?;
    let providers = enabled
        .into_iter()
        .map(|enabled| (Arc::from(enabled.provider.id()), enabled.provider))
        .collect();
    Ok(Assembled {
        providers,
        snapshot,
        policy,
        roster,
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
    })
}

fn configured(
    config: &Config,
    http: &Arc<HttpClient>,
    notes: &mut Vec<String>,
) -> Result<Vec<Enabled>, ConfigError> {
    let mut enabled = Vec::new();
    for (name, section) in &config.file.providers {
        if section.enabled == Some(false) {
            continue;
        }
        let preset = section.preset.as_deref().unwrap_or(name);
        check_access_keys(name, preset, section)?;
        let signs = section.access_key_id_env.is_some();
        let usual_variables = registry::key_variables(preset).filter(|_| !signs);
        let api_key = key_of(config, name, usual_variables, section)?;
        let access_keys = config.access_keys_of(name, section);
        let needs_key = registry::usual_key_variable(preset).is_some();
        if api_key.is_none() && access_keys.is_none() && needs_key {
            notes.push(format!(
                "providers.{name}: no key; set api_key_env or api_key_file"
            ));
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
            native_batches: section.batches.map(|who| who == BatchesSetting::Native),
            ..ProviderConfig::named(name.as_str())
        };
        enabled.push(build(block, section.default_price.clone(), http)?);
    }
    Ok(enabled)
}

/// Keys by which requests are signed come as a pair, and only for presets that sign.
fn check_access_keys(name: &str, preset: &str, section: &ProviderSection) -> Result<(), ConfigError> {
    let (id, secret) = (&section.access_key_id_env, &section.secret_access_key_env);
    let says_any = id.is_some() || secret.is_some() || section.session_token_env.is_some();
    let place = || format!("providers.{name}");
    if says_any && registry::access_key_variables(preset).is_none() {
        let message =
            format!("the preset `{preset}` signs nothing: access_key_id_env and its like mean nothing to it");
        return Err(ConfigError::new(place(), message));
    }
    if says_any && (id.is_none() || secret.is_none()) {
        let message = "access_key_id_env and secret_access_key_env belong together";
        return Err(ConfigError::new(place(), message));
    }
    Ok(())
}

fn key_of(
    config: &Config,
    name: &str,
    usual_variables: impl Iterator<Item = &'static str>,
    section: &ProviderSection,
) -> Result<Option<SecretString>, ConfigError> {
    let place = format!("providers.{name}.api_key_file");
    let file = section.api_key_file.as_deref();
    match section.api_key_env.as_deref() {
        Some(variable) => config.key(&place, [variable], file),
        None => config.key(&place, usual_variables, file),
    }
}

/// Providers whose usual variable is set, and that no block configures.
fn by_environment(config: &Config, http: &Arc<HttpClient>) -> Result<Vec<Enabled>, ConfigError> {
    let wanted = config.providers_by_environment().into_iter();
    wanted.map(|block| build(block, None, http)).collect()
}

/// Model servers at their usual ports. They cost nothing.
async fn on_this_machine(config: &Config, http: &Arc<HttpClient>) -> Result<Vec<Enabled>, ConfigError> {
    let found = discover::local_servers(http, config.listen.port(), LISTING).await;
    let wanted = found
        .into_iter()
        .filter(|server| !config.is_configured(&server.config.name));
    let free = ["input", "output"].map(|class| (class.to_owned(), Credits::ZERO));
    wanted
        .map(|server| build(server.config, Some(free.clone().into()), http))
        .collect()
}

/// A provider as operators see it.
fn entry(enabled: &Enabled, listed: &Listed) -> Entry {
    let named = |models: &Vec<(String, Option<u64>)>| models.iter().map(|(name, _)| name.clone()).collect();
    let listed = enabled.default_price.as_ref().map(|_| match listed {
        Ok(models) => Ok(named(models)),
        Err(note) => Err(note.clone()),
    });
    Entry {
        name: enabled.provider.id().to_owned(),
        preset: enabled.preset.clone(),
        base_url: enabled.base_url.clone(),
        simulated: enabled.provider.is_simulated(),
        listed,
    }
}

/// Models by name with their context windows, or why there are none.
type Listed = Result<Vec<(String, Option<u64>)>, String>;

async fn list(enabled: &Enabled) -> Listed {
    if enabled.default_price.is_none() {
        return Ok(Vec::new());
    }
    match enabled.provider.list_models(LISTING).await {
        Ok(models) => Ok(models
            .into_iter()
            .map(|model| (model.name, model.context_window))
            .collect()),
        Err(error) => Err(format!(
            "providers.{}: cannot list its models: {error}",
            enabled.provider.id()
        )),
    }
}

/// The price versions of a catalog, to be recorded before anything is charged by them.
pub fn price_records(snapshot: &Snapshot, now: Timestamp) -> Vec<PriceRecord> {
    let record = |model: &Arc<tollgate_catalog::Model>| PriceRecord {
        version: model.price_version,
        model: model.id.to_string(),
        prices: model.prices,
        created_at: now,
    };
    let models = snapshot.models().iter().chain(snapshot.for_tests().models());
    let composition = PriceRecord {
        version: composition_version(),
        model: COMPOSITION.to_owned(),
        prices: Prices::free(),
        created_at: now,
    };
    models.map(record).chain([composition]).collect()
}
