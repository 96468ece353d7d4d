//! Builds providers from configuration blocks.

mod job_providers;
mod vertex;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use tollgate_upstream::{ErrorText, Provider};

use crate::anthropic::{self, Anthropic};
use crate::bedrock::{self, AccessKeys, Bedrock, Credentials};
use crate::comfyui;
use crate::gemini::{self, Gemini, Surface};
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient};
use crate::openai_compatible::{Auth, Key, OpenAiCompatible, PRESETS, Preset, preset};
use crate::openai_responses::{self, OpenAiResponses};
use crate::sim::Simulator;
use crate::tokens::Identity;

/// Preset of servers that have no specific preset.
pub(crate) const ANY_SERVER: &str = "openai-compatible";

/// A block `[providers.NAME]` whose secrets have been read.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Name of the block.
    pub name: Arc<str>,
    /// Name of the preset. By default, the preset with the block's name, or `openai-compatible` if
    /// there is a `base_url`.
    pub preset: Option<String>,
    /// Base URL; `None` for the preset's default.
    pub base_url: Option<String>,
    /// API key; `None` if the provider needs none or uses other credentials.
    pub api_key: Option<SecretString>,
    /// Region, for presets with regions.
    pub region: Option<String>,
    /// AWS access keys, for presets that sign requests. Ignored if there is an `api_key`.
    pub access_keys: Option<AccessKeys>,
    /// Billed project, for presets that have projects.
    pub project: Option<String>,
    /// Identity for requests of access tokens, for presets that authenticate with such tokens.
    pub identity: Option<Identity>,
    /// Folder of workflow files, for presets whose models are workflows.
    pub workflows: Option<PathBuf>,
    /// Whether batches use the provider's batch API, for presets that have one. Default: yes,
    /// except with a `base_url`.
    pub native_batches: Option<bool>,
    /// Whether the gateway ends a stream when its caller disconnects. Default: yes for the
    /// operator's own servers.
    pub stops_on_disconnect: Option<bool>,
    /// Whether each of several requested choices needs its own call, for presets of chat
    /// completions. Default: as in the preset, but no for a hosted server with the preset
    /// `openai-compatible`.
    pub separate_answers: Option<bool>,
    /// Policy for the provider's error messages. Default: logged for servers in the operator's
    /// network, otherwise hidden.
    pub error_text: Option<ErrorText>,
    /// Additional headers of every request, such as an organisation or a project. Amazon Bedrock,
    /// Vertex AI and the simulator do not use them. The values are treated as secrets.
    pub headers: Vec<(String, SecretString)>,
}

impl ProviderConfig {
    /// Creates a block with a name only.
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
            stops_on_disconnect: None,
            separate_answers: None,
            error_text: None,
            headers: Vec::new(),
        }
    }

    /// Whether the gateway closes the connection when a stream's caller disconnects. The operator's
    /// own server then stops generating. The gateway reads the stream of a hosted server to the end
    /// for its usage report, because the whole response is billed.
    pub fn stops_on_disconnect(&self) -> bool {
        self.stops_on_disconnect.unwrap_or_else(|| self.is_own_server())
    }

    /// Whether each of several choices needs its own call; `None` if the preset decides. A hosted
    /// server bills the input of each call, so it receives one call for all choices unless the
    /// block sets otherwise.
    fn needs_call_per_answer(&self) -> Option<bool> {
        let is_hosted = preset_name(self).ok() == Some(ANY_SERVER) && !self.is_own_server();
        self.separate_answers.or(is_hosted.then_some(false))
    }

    /// Whether the block is for the operator's own model server: by its preset, or by its address
    /// if the preset is generic.
    fn is_own_server(&self) -> bool {
        let address = || BaseUrl::parse(self.base_url.as_deref()?).ok();
        let preset = preset_name(self).ok().and_then(preset);
        preset.is_some_and(|preset| match preset.local_port {
            Some(_) => true,
            None => preset.name == ANY_SERVER && address().is_some_and(|address| address.is_private()),
        })
    }

    /// Whether the provider executes batches with its batch API, if it has one.
    fn uses_batches(&self) -> bool {
        self.native_batches.unwrap_or(self.base_url.is_none())
    }
}

/// Error of an invalid block, with a message for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the block.
    pub block: Arc<str>,
    /// Problem and remedy.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[providers.{}] {}", self.block, self.message)
    }
}

impl std::error::Error for ConfigError {}

/// Builds the providers of one or more presets.
pub trait Adapter: Sync {
    /// Returns the names of the adapter's presets.
    fn presets(&self) -> Vec<&'static str>;

    /// Returns the environment variable that usually contains the preset's key; `None` if the
    /// preset has no such variable, for example because its key is optional.
    fn key_variable(&self, preset: &str) -> Option<&'static str> {
        let _ = preset;
        None
    }

    /// Returns the environment variable of the key that is used if that of
    /// [`key_variable`](Self::key_variable) is not set; `None` if there is no second variable.
    fn other_key_variable(&self, preset: &str) -> Option<&'static str> {
        let _ = preset;
        None
    }

    /// Returns the base URL to which the preset's key is sent by default; `None` if the adapter
    /// declares none.
    fn default_address(&self, preset: &str) -> Option<&'static str> {
        let _ = preset;
        None
    }

    /// Returns the environment variable of the base URL, for presets without a default base URL;
    /// `None` for other presets.
    fn address_variable(&self, preset: &str) -> Option<&'static str> {
        let _ = preset;
        None
    }

    /// Returns the environment variables of the preset's region, in order of precedence; empty if
    /// the preset has no regions.
    fn region_variables(&self, preset: &str) -> &'static [&'static str] {
        let _ = preset;
        &[]
    }

    /// Returns the environment variables of AWS access keys, for presets that sign requests: id,
    /// secret, session token. `None` for other presets.
    fn access_key_variables(&self, preset: &str) -> Option<[&'static str; 3]> {
        let _ = preset;
        None
    }

    /// Returns the names of the environment variables of a preset that authenticates with access
    /// tokens: one for the path of the service account's key file, one for the project. `None` for
    /// other presets.
    fn identity_variables(&self, preset: &str) -> Option<[&'static str; 2]> {
        let _ = preset;
        None
    }

    /// Whether the preset has a batch API.
    fn has_batches(&self, preset: &str) -> bool {
        let _ = preset;
        false
    }

    /// Builds the provider of a block with one of these presets.
    fn build(
        &self,
        preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError>;
}

/// All adapters, in the order of the documentation.
pub const ADAPTERS: &[&dyn Adapter] = &[
    &Compatible,
    &Messages,
    &Responses,
    &GeminiNative,
    &vertex::GeminiAtVertex,
    &Amazon,
    &job_providers::ProvidersOfJobs,
    &Simulated,
];

/// Builds the provider of a block without connecting to it.
pub fn build(config: &ProviderConfig, http: &Arc<HttpClient>) -> Result<Arc<dyn Provider>, ConfigError> {
    let name = preset_name(config)?;
    match adapter_of(name) {
        Some(adapter) => match unsupported_setting(adapter, name, config) {
            Some(setting) => Err(config_error(
                config,
                format!("`{setting}` is not a setting of the preset `{name}`"),
            )),
            None => adapter.build(name, config, http),
        },
        None => Err(unknown_preset(config, name)),
    }
}

/// Returns the first setting of the block that the preset does not support; `None` if it supports
/// all of them.
fn unsupported_setting(adapter: &dyn Adapter, name: &str, config: &ProviderConfig) -> Option<&'static str> {
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
            "answers",
            config.separate_answers.is_some() && preset(name).is_none(),
        ),
        (
            "batches",
            config.native_batches == Some(true) && !adapter.has_batches(name),
        ),
    ];
    let found = settings.into_iter().find(|(_, is_unsupported)| *is_unsupported);
    found.map(|(setting, _)| setting)
}

/// Returns the names of all presets, in the order of the documentation.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    ADAPTERS.iter().flat_map(|adapter| adapter.presets())
}

/// Returns the environment variable that usually contains the preset's key; `None` for unknown
/// presets and for presets without such a variable.
pub fn default_key_variable(preset_name: &str) -> Option<&'static str> {
    adapter_of(preset_name)?.key_variable(preset_name)
}

/// Returns the environment variables that may contain the preset's key, in order of precedence.
pub fn key_variables(preset_name: &str) -> impl Iterator<Item = &'static str> {
    let adapter = adapter_of(preset_name);
    let usual = adapter.and_then(|adapter| adapter.key_variable(preset_name));
    let other = adapter.and_then(|adapter| adapter.other_key_variable(preset_name));
    usual.into_iter().chain(other)
}

/// Returns the base URL to which the preset's key is sent by default; `None` if the preset is
/// unknown or its adapter declares none.
pub fn default_address(preset_name: &str) -> Option<&'static str> {
    adapter_of(preset_name)?.default_address(preset_name)
}

/// Returns the environment variable of the base URL, for presets without a default base URL; `None`
/// for other presets.
pub fn address_variable(preset_name: &str) -> Option<&'static str> {
    adapter_of(preset_name)?.address_variable(preset_name)
}

/// Returns the environment variables of the preset's region, in order of precedence; empty if the
/// preset has no regions.
pub fn region_variables(preset_name: &str) -> &'static [&'static str] {
    adapter_of(preset_name).map_or(&[], |adapter| adapter.region_variables(preset_name))
}

/// Returns the environment variables of AWS access keys, for presets that sign requests: id,
/// secret, session token. `None` for other presets.
pub fn access_key_variables(preset_name: &str) -> Option<[&'static str; 3]> {
    adapter_of(preset_name)?.access_key_variables(preset_name)
}

/// Returns the names of the environment variables of a preset that authenticates with access
/// tokens: one for the path of the service account's key file, one for the project. `None` for
/// other presets.
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
    config_error(
        config,
        format!(
            "unknown preset `{name}`; did you mean `{nearest}`? Known presets: {}. A server without a preset needs only \
             a `base_url`.",
            known.join(", ")
        ),
    )
}

fn config_error(config: &ProviderConfig, message: impl fmt::Display) -> ConfigError {
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

    fn default_address(&self, name: &str) -> Option<&'static str> {
        preset(name)?.base_url
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
            Ok(provider
                .with_batches(config.uses_batches())
                .with_separate_answers(config.needs_call_per_answer()))
        };
        if let (Key::Required(variable), None, None) = (preset.key, &config.api_key, &config.base_url) {
            let message = format!(
                "{} needs a key: set `api_key_env`, `api_key_file` or the environment variable {variable}",
                preset.title
            );
            return Err(config_error(config, message));
        }
        warn_if_plain_http(config, &base);
        Ok(Arc::new(build().map_err(|error| config_error(config, error))?))
    }
}

/// Parses a base URL and applies the block's policy for error messages.
fn address(config: &ProviderConfig, text: &str) -> Result<BaseUrl, ConfigError> {
    let base = BaseUrl::parse(text).map_err(|error| config_error(config, error))?;
    Ok(base.with_error_text(config.error_text))
}

fn warn_if_plain_http(config: &ProviderConfig, base: &BaseUrl) {
    if config.api_key.is_some() && !base.is_secure() && !base.is_local() {
        tracing::warn!(provider = %config.name, "the provider's key is sent unencrypted: use an https base_url");
    }
}

fn base_url(preset: &Preset, config: &ProviderConfig) -> Result<BaseUrl, ConfigError> {
    let stated = config.base_url.as_deref().or(preset.base_url);
    let text = stated.ok_or_else(|| {
        let example = format!("base_url = \"https://NAME.example.com{}\"", preset.base_path);
        config_error(
            config,
            format!("base_url is required for {}: set {example}", preset.title),
        )
    })?;
    let base = address(config, text)?;
    Ok(if base.has_path() {
        base
    } else {
        base.extended(preset.base_path)
    })
}

fn credentials(auth: Auth, config: &ProviderConfig) -> Result<Vec<Credential>, EndpointError> {
    let key = config.api_key.as_ref().map(|key| match auth {
        Auth::Bearer => Credential::bearer(key),
        // A JWT starts with `eyJ`, which is `{"` in base64 (RFC 7519).
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

/// Returns the base URL and the credentials of a provider with its own format. Appends `/v1` to a
/// base URL without a path. Returns an error if the block has neither a key nor a `base_url`.
fn native(
    config: &ProviderConfig,
    usual: &str,
    key_variable: &str,
    auth: Auth,
) -> Result<(BaseUrl, Vec<Credential>), ConfigError> {
    let stated = config.base_url.as_deref();
    let base = address(config, stated.unwrap_or(usual))?;
    let base = if base.has_path() {
        base
    } else {
        base.extended("/v1")
    };
    if config.api_key.is_none() && stated.is_none() {
        let message = format!(
            "no key is set: set `api_key_env`, `api_key_file` or the environment variable \
             {key_variable}"
        );
        return Err(config_error(config, message));
    }
    warn_if_plain_http(config, &base);
    let credentials = credentials(auth, config).map_err(|error| config_error(config, error))?;
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

    fn default_address(&self, _preset: &str) -> Option<&'static str> {
        Some(anthropic::BASE_URL)
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
        Ok(Arc::new(provider.map_err(|error| config_error(config, error))?))
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

    fn default_address(&self, _preset: &str) -> Option<&'static str> {
        Some(openai_responses::BASE_URL)
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
        Ok(Arc::new(provider.map_err(|error| config_error(config, error))?))
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
            config_error(
                config,
                format!(
                    "no region is set: add `region`, such as `region = \"us-east-1\"`, or set the \
                     environment variable {variable}"
                ),
            )
        })?;
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region.is_empty() || !region.bytes().all(fits) {
            return Err(config_error(
                config,
                "`region` is invalid: write it like \"us-east-1\"",
            ));
        }
        let credentials = match (&config.api_key, &config.access_keys) {
            (Some(key), _) => Credentials::ApiKey(key.clone()),
            (None, Some(keys)) => Credentials::Keys(keys.clone()),
            (None, None) => {
                let [id, secret, _] = bedrock::ACCESS_KEY_VARIABLES;
                let message = format!(
                    "no key is set: set `api_key_env`, `api_key_file` or the environment variable {}, or \
                     the environment variables {id} and {secret}",
                    bedrock::KEY_VARIABLE
                );
                return Err(config_error(config, message));
            }
        };
        if let Some(address) = config.base_url.as_deref() {
            warn_if_plain_http(
                config,
                &BaseUrl::parse(address).map_err(|error| config_error(config, error))?,
            );
        }
        let (id, address) = (config.name.clone(), config.base_url.as_deref());
        let built = Bedrock::new(id, region, address, config.error_text, credentials, http.clone());
        Ok(Arc::new(built.map_err(|error| config_error(config, error))?))
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

    fn default_address(&self, _preset: &str) -> Option<&'static str> {
        Some(gemini::BASE_URL)
    }

    fn build(
        &self,
        _preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let stated = config.base_url.as_deref();
        let base = address(config, stated.unwrap_or(gemini::BASE_URL))?;
        let base = if base.has_path() {
            base
        } else {
            base.extended("/v1beta")
        };
        if config.api_key.is_none() && stated.is_none() {
            let variable = gemini::KEY_VARIABLES[0];
            let message = format!(
                "no key is set: set `api_key_env`, `api_key_file` or the environment variable \
                 {variable}"
            );
            return Err(config_error(config, message));
        }
        warn_if_plain_http(config, &base);
        let build = || -> Result<Gemini, EndpointError> {
            let credentials = credentials(Auth::Header(gemini::KEY_HEADER), config)?;
            let access = gemini::Access::new(base, credentials)?;
            Gemini::new(config.name.clone(), Surface::Gemini, access, http.clone())
        };
        Ok(Arc::new(build().map_err(|error| config_error(config, error))?))
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
