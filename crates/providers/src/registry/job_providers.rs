//! Providers that execute every call as a job, of images, videos or reports: one row for each.

use std::sync::Arc;

use tollgate_upstream::Provider;

use super::{Adapter, ConfigError, ProviderConfig, address, config_error, warn_if_plain_http};
use crate::comfyui::{self, ComfyUi};
use crate::fal::{self, Fal};
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient};
use crate::media::{QueueAdapter, QueueProvider};
use crate::perplexity::{self, Perplexity};
use crate::replicate::{self, Replicate};
use crate::sdcpp::{self, StableDiffusionCpp};

/// The adapter of the providers in `ROWS`.
pub(super) struct ProvidersOfJobs;

struct Row {
    preset: &'static str,
    base_url: &'static str,
    /// Path that is appended to a base URL without a path.
    base_path: &'static str,
    /// Environment variable of the key; `None` if the preset needs no key.
    key_variable: Option<&'static str>,
    /// Authentication scheme in the `Authorization` header.
    scheme: &'static str,
    open: Open,
}

type Built = Result<Arc<dyn Provider>, ConfigError>;
type Open = fn(&Row, &ProviderConfig, &Arc<HttpClient>) -> Built;

const ROWS: &[Row] = &[
    Row {
        preset: fal::PRESET,
        base_url: fal::BASE_URL,
        base_path: "",
        key_variable: Some(fal::KEY_VARIABLE),
        scheme: "Key",
        open: |row, config, http| build_provider(Fal, row, config, http),
    },
    Row {
        preset: replicate::PRESET,
        base_url: replicate::BASE_URL,
        base_path: "/v1",
        key_variable: Some(replicate::KEY_VARIABLE),
        scheme: "Bearer",
        open: |row, config, http| build_provider(Replicate, row, config, http),
    },
    Row {
        preset: sdcpp::PRESET,
        base_url: sdcpp::BASE_URL,
        base_path: "",
        key_variable: None,
        scheme: "Bearer",
        open: |row, config, http| build_provider(StableDiffusionCpp, row, config, http),
    },
    Row {
        preset: comfyui::PRESET,
        base_url: comfyui::BASE_URL,
        base_path: "",
        key_variable: None,
        scheme: "Bearer",
        open: |row, config, http| build_provider(comfyui_from_config(config)?, row, config, http),
    },
    Row {
        preset: perplexity::PRESET,
        base_url: perplexity::BASE_URL,
        base_path: "",
        key_variable: Some(perplexity::KEY_VARIABLE),
        scheme: "Bearer",
        open: |row, config, http| {
            let (base, credentials) = access(row, config)?;
            let provider = Perplexity::new(config.name.clone(), &base, &credentials, http.clone());
            Ok(Arc::new(provider.map_err(|error| config_error(config, error))?))
        },
    },
];

fn row(preset: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.preset == preset)
}

fn comfyui_from_config(config: &ProviderConfig) -> Result<ComfyUi, ConfigError> {
    let Some(folder) = &config.workflows else {
        let message = "no workflows are set: set `workflows` to a folder of ComfyUI graphs in API format";
        return Err(config_error(config, message));
    };
    let workflows = comfyui::read_all(folder).map_err(|error| config_error(config, error))?;
    Ok(ComfyUi::new(workflows))
}

fn build_provider<Q: QueueAdapter + 'static>(
    queue: Q,
    row: &Row,
    config: &ProviderConfig,
    http: &Arc<HttpClient>,
) -> Built {
    let (base, credentials) = access(row, config)?;
    let provider = QueueProvider::new(config.name.clone(), queue, &base, &credentials, http.clone());
    Ok(Arc::new(provider.map_err(|error| config_error(config, error))?))
}

/// Returns the base URL and the credentials of a block.
fn access(row: &Row, config: &ProviderConfig) -> Result<(BaseUrl, Vec<Credential>), ConfigError> {
    let stated = config.base_url.as_deref();
    if let (Some(variable), None, None) = (row.key_variable, &config.api_key, stated) {
        let message = format!(
            "no key is set: set `api_key_env`, `api_key_file` or the environment variable \
             {variable}"
        );
        return Err(config_error(config, message));
    }
    let base = address(config, stated.unwrap_or(row.base_url))?;
    let base = match base.has_path() {
        true => base,
        false => base.extended(row.base_path),
    };
    warn_if_plain_http(config, &base);
    let key = config.api_key.as_ref();
    let key = key.map(|key| Credential::scheme(row.scheme, key));
    let others = config.headers.iter();
    let others = others.map(|(name, value)| Credential::header(name, value));
    let credentials: Result<Vec<Credential>, EndpointError> = key.into_iter().chain(others).collect();
    let credentials = credentials.map_err(|error| config_error(config, error))?;
    Ok((base, credentials))
}

impl Adapter for ProvidersOfJobs {
    fn presets(&self) -> Vec<&'static str> {
        ROWS.iter().map(|row| row.preset).collect()
    }

    fn key_variable(&self, preset: &str) -> Option<&'static str> {
        row(preset)?.key_variable
    }

    fn build(
        &self,
        preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let row = row(preset).ok_or_else(|| super::unknown_preset(config, preset))?;
        (row.open)(row, config, http)
    }
}
