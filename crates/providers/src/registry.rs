//! From a block of the configuration to a provider.

mod makers;
mod vertex;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use tollgate_upstream::Provider;

use crate::anthropic::{self, Anthropic};
use crate::bedrock::{self, AccessKeys, Bedrock, Credentials};
use crate::comfyui;
use crate::gemini::{self, Gemini, Surface};
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient};
use crate::openai_compatible::{Auth, Key, OpenAiCompatible, PRESETS, Preset, preset};
use crate::openai_responses::{self, OpenAiResponses};
use crate::sim::Simulator;
use crate::tokens::Identity;

/// A block `[providers.NAME]` with its secrets read.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Name of the block.
    pub name: Arc<str>,
    /// The preset; without it, the one that is called like the block, or `openai-compatible` when there is a
    /// `base_url`.
    pub preset: Option<String>,
    /// Where it is, when that is not where the preset says.
    pub base_url: Option<String>,
    /// The key.
    pub api_key: Option<SecretString>,
    /// Where in the world it is, for presets that have regions.
    pub region: Option<String>,
    /// The account's keys, for presets that sign requests; they are used when there is no `api_key`.
    pub access_keys: Option<AccessKeys>,
    /// The project that is billed, for presets that have projects.
    pub project: Option<String>,
    /// As whom tokens are asked for, for presets that are shown tokens.
    pub identity: Option<Identity>,
    /// The folder with the workflows that are its models, for presets that have workflows.
    pub workflows: Option<PathBuf>,
    /// Whether batches are carried out by its own, for presets that have some; when it is not said, those of the makers
    /// themselves are, and those of servers at a `base_url` are not.
    pub native_batches: Option<bool>,
    /// More headers for every request, such as an organisation or a project. Their values are secrets, too.
    pub headers: Vec<(String, SecretString)>,
}

impl ProviderConfig {
    /// A block with nothing in it but its name.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            preset: None,
            base_url: None,
            api_key: None,
            region: None,
            access_keys: None,
            project: None,
            identity: None,
            workflows: None,
            native_batches: None,
            headers: Vec::new(),
        }
    }

    /// Whether batches go to those of the provider, should it have some.
    fn uses_batches(&self) -> bool {
        self.native_batches.unwrap_or(self.base_url.is_none())
    }
}

/// What is wrong with a block; for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the block.
    pub block: Arc<str>,
    /// What to change.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[providers.{}] {}", self.block, self.message)
    }
}

impl std::error::Error for ConfigError {}

/// Makes providers of some presets.
pub trait Adapter: Sync {
    /// The presets.
    fn presets(&self) -> Vec<&'static str>;

    /// The environment variable that usually has the key of a preset, if it needs one.
    fn key_variable(&self, preset: &str) -> Option<&'static str> {
        let _ = preset;
        None
    }

    /// The one that is looked at when that is not set.
    fn other_key_variable(&self, preset: &str) -> Option<&'static str> {
        let _ = preset;
        None
    }

    /// The environment variable that has the address of a preset that has none of its own.
    fn address_variable(&self, preset: &str) -> Option<&'static str> {
        let _ = preset;
        None
    }

    /// The environment variables that usually have the region of a preset, the first one first; none when it has no
    /// regions.
    fn region_variables(&self, preset: &str) -> &'static [&'static str] {
        let _ = preset;
        &[]
    }

    /// The environment variables that usually have the keys of an account, for a preset that signs requests: id, secret,
    /// token.
    fn access_key_variables(&self, preset: &str) -> Option<[&'static str; 3]> {
        let _ = preset;
        None
    }

    /// The environment variables of a preset that is shown tokens: the one that usually names the file with an account's
    /// key, and the one that usually has the project.
    fn identity_variables(&self, preset: &str) -> Option<[&'static str; 2]> {
        let _ = preset;
        None
    }

    /// Whether a preset has batches of its own.
    fn has_batches(&self, preset: &str) -> bool {
        let _ = preset;
        false
    }

    /// The provider of a block with one of them.
    fn build(
        &self,
        preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError>;
}

/// Every adapter.
pub const ADAPTERS: &[&dyn Adapter] = &[
    &Compatible,
    &Messages,
    &Responses,
    &GeminiNative,
    &vertex::GeminiAtVertex,
    &Amazon,
    &makers::Makers,
    &Simulated,
];

/// The provider of a block. Nothing is connected to.
pub fn build(config: &ProviderConfig, http: &Arc<HttpClient>) -> Result<Arc<dyn Provider>, ConfigError> {
    let name = preset_name(config)?;
    match adapter_of(name) {
        Some(adapter) => match meaningless(adapter, name, config) {
            Some(setting) => Err(wrong(
                config,
                format!("`{setting}` means nothing to the preset `{name}`"),
            )),
            None => adapter.build(name, config, http),
        },
        None => Err(unknown_preset(config, name)),
    }
}

/// A setting that only other presets have.
fn meaningless(adapter: &dyn Adapter, name: &str, config: &ProviderConfig) -> Option<&'static str> {
    let is_shown_tokens = adapter.identity_variables(name).is_some();
    let settings = [
        (
            "region",
            config.region.is_some() && adapter.region_variables(name).is_empty(),
        ),
        ("project", config.project.is_some() && !is_shown_tokens),
        ("credentials", config.identity.is_some() && !is_shown_tokens),
        ("workflows", config.workflows.is_some() && name != comfyui::PRESET),
        ("api_key", config.api_key.is_some() && is_shown_tokens),
        (
            "batches",
            config.native_batches == Some(true) && !adapter.has_batches(name),
        ),
    ];
    let found = settings.into_iter().find(|(_, is_meaningless)| *is_meaningless);
    found.map(|(setting, _)| setting)
}

/// Every preset, in the order in which the documentation lists them.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    ADAPTERS.iter().flat_map(|adapter| adapter.presets())
}

/// The environment variable that usually has the key of a preset.
pub fn usual_key_variable(preset_name: &str) -> Option<&'static str> {
    adapter_of(preset_name)?.key_variable(preset_name)
}

/// The environment variables that may have the key of a preset, the usual one first.
pub fn key_variables(preset_name: &str) -> impl Iterator<Item = &'static str> {
    let adapter = adapter_of(preset_name);
    let usual = adapter.and_then(|adapter| adapter.key_variable(preset_name));
    let other = adapter.and_then(|adapter| adapter.other_key_variable(preset_name));
    usual.into_iter().chain(other)
}

/// The environment variable that has the address of a preset that has none of its own.
pub fn address_variable(preset_name: &str) -> Option<&'static str> {
    adapter_of(preset_name)?.address_variable(preset_name)
}

/// The environment variables that usually have the region of a preset; none when it has no regions.
pub fn region_variables(preset_name: &str) -> &'static [&'static str] {
    adapter_of(preset_name).map_or(&[], |adapter| adapter.region_variables(preset_name))
}

/// The environment variables that usually have the keys of an account, for a preset that signs requests.
pub fn access_key_variables(preset_name: &str) -> Option<[&'static str; 3]> {
    adapter_of(preset_name)?.access_key_variables(preset_name)
}

/// The environment variables of a preset that is shown tokens: the one that usually names the file with an account's key,
/// and the one that usually has the project.
pub fn identity_variables(preset_name: &str) -> Option<[&'static str; 2]> {
    adapter_of(preset_name)?.identity_variables(preset_name)
}

fn adapter_of(preset_name: &str) -> Option<&'static dyn Adapter> {
    ADAPTERS
        .iter()
        .copied()
        .find(|adapter| adapter.presets().contains(&preset_name))
}

fn preset_name(config: &ProviderConfig) -> Result<&str, ConfigError> {
    if let Some(name) = &config.preset {
        return Ok(name);
    }
    let by_name = preset_names().find(|name| **name == *config.name);
    match (by_name, &config.base_url) {
        (Some(name), _) => Ok(name),
        (None, Some(_)) => Ok("openai-compatible"),
        (None, None) => Err(unknown_preset(config, &config.name)),
    }
}

fn unknown_preset(config: &ProviderConfig, name: &str) -> ConfigError {
    let likeness = |known: &&str| (strsim::jaro_winkler(name, known) * 1_000.0) as u32;
    let nearest = preset_names().max_by_key(likeness).unwrap_or_default();
    let known: Vec<&str> = preset_names().collect();
    wrong(
        config,
        format!(
            "there is no preset `{name}`; did you mean `{nearest}`? Known are {}. A server without a preset needs only \
             a `base_url`.",
            known.join(", ")
        ),
    )
}

fn wrong(config: &ProviderConfig, message: impl fmt::Display) -> ConfigError {
    ConfigError {
        block: config.name.clone(),
        message: message.to_string(),
    }
}

struct Compatible;

impl Adapter for Compatible {
    fn presets(&self) -> Vec<&'static str> {
        PRESETS.iter().map(|preset| preset.name).collect()
    }

    fn key_variable(&self, name: &str) -> Option<&'static str> {
        preset(name)?.key_env()
    }

    fn address_variable(&self, name: &str) -> Option<&'static str> {
        let preset = preset(name)?;
        preset.base_url_env.filter(|_| preset.base_url.is_none())
    }

    fn has_batches(&self, name: &str) -> bool {
        preset(name).is_some_and(|preset| preset.batches.is_some())
    }

    fn build(
        &self,
        name: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let preset = preset(name).ok_or_else(|| unknown_preset(config, name))?;
        let base = base_url(preset, config)?;
        let build = || -> Result<OpenAiCompatible, EndpointError> {
            let credentials = credentials(preset.auth, config)?;
            let name = config.name.clone();
            let provider = OpenAiCompatible::new(name, preset, &base, &credentials, http.clone())?;
            Ok(provider.with_batches(config.uses_batches()))
        };
        if let (Key::Required(variable), None, None) = (preset.key, &config.api_key, &config.base_url) {
            let message = format!(
                "{} needs a key: set `api_key_env` or `api_key_file`, or {variable}",
                preset.title
            );
            return Err(wrong(config, message));
        }
        warn_of_plain_http(config, &base);
        Ok(Arc::new(build().map_err(|error| wrong(config, error))?))
    }
}

fn warn_of_plain_http(config: &ProviderConfig, base: &BaseUrl) {
    if config.api_key.is_some() && !base.is_secure() && !base.is_local() {
        tracing::warn!(provider = %config.name, "the key of a provider is sent over plain http");
    }
}

fn base_url(preset: &Preset, config: &ProviderConfig) -> Result<BaseUrl, ConfigError> {
    let stated = config.base_url.as_deref().or(preset.base_url);
    let text = stated.ok_or_else(|| {
        let example = format!("base_url = \"https://NAME.example.com{}\"", preset.base_path);
        wrong(
            config,
            format!(
                "{} has an address for every customer: set {example}",
                preset.title
            ),
        )
    })?;
    let base = BaseUrl::parse(text).map_err(|error| wrong(config, error))?;
    Ok(if base.has_path() {
        base
    } else {
        base.extended(preset.base_path)
    })
}

fn credentials(auth: Auth, config: &ProviderConfig) -> Result<Vec<Credential>, EndpointError> {
    let key = config.api_key.as_ref().map(|key| match auth {
        Auth::Bearer => Credential::bearer(key),
        // A JWT begins with `{"` in base64 (RFC 7519).
        Auth::HeaderOrToken(_) if key.expose_secret().trim_start().starts_with("eyJ") => {
            Credential::bearer(key)
        }
        Auth::Header(name) | Auth::HeaderOrToken(name) => Credential::header(name, key),
    });
    let others = config
        .headers
        .iter()
        .map(|(name, value)| Credential::header(name, value));
    key.into_iter().chain(others).collect()
}

/// The address and the key of a provider with a format of its own.
fn native(
    config: &ProviderConfig,
    usual: &str,
    key_variable: &str,
    auth: Auth,
) -> Result<(BaseUrl, Vec<Credential>), ConfigError> {
    let stated = config.base_url.as_deref();
    let base = BaseUrl::parse(stated.unwrap_or(usual)).map_err(|error| wrong(config, error))?;
    let base = if base.has_path() {
        base
    } else {
        base.extended("/v1")
    };
    if config.api_key.is_none() && stated.is_none() {
        let message = format!("it needs a key: set `api_key_env` or `api_key_file`, or {key_variable}");
        return Err(wrong(config, message));
    }
    warn_of_plain_http(config, &base);
    let credentials = credentials(auth, config).map_err(|error| wrong(config, error))?;
    Ok((base, credentials))
}

struct Messages;

impl Adapter for Messages {
    fn presets(&self) -> Vec<&'static str> {
        vec![anthropic::PRESET]
    }

    fn key_variable(&self, _preset: &str) -> Option<&'static str> {
        Some(anthropic::KEY_VARIABLE)
    }

    fn has_batches(&self, _preset: &str) -> bool {
        true
    }

    fn build(
        &self,
        _preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let auth = Auth::Header("x-api-key");
        let (base, credentials) = native(config, anthropic::BASE_URL, anthropic::KEY_VARIABLE, auth)?;
        let provider = Anthropic::new(config.name.clone(), &base, &credentials, http.clone());
        let provider = provider.map(|provider| provider.with_batches(config.uses_batches()));
        Ok(Arc::new(provider.map_err(|error| wrong(config, error))?))
    }
}

struct Responses;

impl Adapter for Responses {
    fn presets(&self) -> Vec<&'static str> {
        vec![openai_responses::PRESET]
    }

    fn key_variable(&self, _preset: &str) -> Option<&'static str> {
        Some(openai_responses::KEY_VARIABLE)
    }

    fn build(
        &self,
        _preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let (usual, variable) = (openai_responses::BASE_URL, openai_responses::KEY_VARIABLE);
        let (base, credentials) = native(config, usual, variable, Auth::Bearer)?;
        let provider = OpenAiResponses::new(config.name.clone(), &base, &credentials, http.clone());
        Ok(Arc::new(provider.map_err(|error| wrong(config, error))?))
    }
}

struct Amazon;

impl Adapter for Amazon {
    fn presets(&self) -> Vec<&'static str> {
        vec![bedrock::PRESET]
    }

    fn key_variable(&self, _preset: &str) -> Option<&'static str> {
        Some(bedrock::KEY_VARIABLE)
    }

    fn region_variables(&self, _preset: &str) -> &'static [&'static str] {
        &bedrock::REGION_VARIABLES
    }

    fn access_key_variables(&self, _preset: &str) -> Option<[&'static str; 3]> {
        Some(bedrock::ACCESS_KEY_VARIABLES)
    }

    fn build(
        &self,
        _preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let region = config.region.as_deref().ok_or_else(|| {
            let [variable, _] = bedrock::REGION_VARIABLES;
            wrong(
                config,
                format!("it needs a region: set `region = \"us-east-1\"`, or {variable}"),
            )
        })?;
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region.is_empty() || !region.bytes().all(fits) {
            return Err(wrong(
                config,
                "its region is not one: write it like \"us-east-1\"",
            ));
        }
        let credentials = match (&config.api_key, &config.access_keys) {
            (Some(key), _) => Credentials::ApiKey(key.clone()),
            (None, Some(keys)) => Credentials::Keys(keys.clone()),
            (None, None) => {
                let [id, secret, _] = bedrock::ACCESS_KEY_VARIABLES;
                let message = format!(
                    "it needs a key: set `api_key_env` or `api_key_file`, or {}, or {id} and {secret}",
                    bedrock::KEY_VARIABLE
                );
                return Err(wrong(config, message));
            }
        };
        if let Some(address) = config.base_url.as_deref() {
            warn_of_plain_http(
                config,
                &BaseUrl::parse(address).map_err(|error| wrong(config, error))?,
            );
        }
        let (id, address) = (config.name.clone(), config.base_url.as_deref());
        let built = Bedrock::new(id, region, address, credentials, http.clone());
        Ok(Arc::new(built.map_err(|error| wrong(config, error))?))
    }
}

struct GeminiNative;

impl Adapter for GeminiNative {
    fn presets(&self) -> Vec<&'static str> {
        vec![gemini::PRESET]
    }

    fn key_variable(&self, _preset: &str) -> Option<&'static str> {
        Some(gemini::KEY_VARIABLES[0])
    }

    fn other_key_variable(&self, _preset: &str) -> Option<&'static str> {
        Some(gemini::KEY_VARIABLES[1])
    }

    fn build(
        &self,
        _preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let stated = config.base_url.as_deref();
        let base =
            BaseUrl::parse(stated.unwrap_or(gemini::BASE_URL)).map_err(|error| wrong(config, error))?;
        let base = if base.has_path() {
            base
        } else {
            base.extended("/v1beta")
        };
        if config.api_key.is_none() && stated.is_none() {
            let variable = gemini::KEY_VARIABLES[0];
            let message = format!("it needs a key: set `api_key_env` or `api_key_file`, or {variable}");
            return Err(wrong(config, message));
        }
        warn_of_plain_http(config, &base);
        let build = || -> Result<Gemini, EndpointError> {
            let credentials = credentials(Auth::Header(gemini::KEY_HEADER), config)?;
            let access = gemini::Access::new(base, credentials)?;
            Gemini::new(config.name.clone(), Surface::Gemini, access, http.clone())
        };
        Ok(Arc::new(build().map_err(|error| wrong(config, error))?))
    }
}

struct Simulated;

impl Adapter for Simulated {
    fn presets(&self) -> Vec<&'static str> {
        vec!["sim"]
    }

    fn build(
        &self,
        _preset: &str,
        config: &ProviderConfig,
        _http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        Ok(Arc::new(Simulator::new(config.name.clone())))
    }
}

#[cfg(test)]
mod tests;
