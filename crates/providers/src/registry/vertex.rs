//! Gemini on Vertex AI: location, project and identity.

use std::sync::Arc;

use tollgate_types::clock::SystemClock;
use tollgate_upstream::Provider;

use super::{Adapter, ConfigError, ProviderConfig, config_error};
use crate::gemini::{self, Gemini, Surface};
use crate::http::{EndpointError, HttpClient};
use crate::tokens::{Identity, Metadata, ServiceAccount, TokenCache, TokenSource};

pub(super) struct GeminiAtVertex;

impl Adapter for GeminiAtVertex {
    fn presets(&self) -> Vec<&'static str> {
        vec![gemini::VERTEX_PRESET]
    }

    fn region_variables(&self, _preset: &str) -> &'static [&'static str] {
        &gemini::LOCATION_VARIABLES
    }

    fn identity_variables(&self, _preset: &str) -> Option<[&'static str; 2]> {
        Some([gemini::IDENTITY_VARIABLE, gemini::PROJECT_VARIABLE])
    }

    fn build(
        &self,
        _preset: &str,
        config: &ProviderConfig,
        http: &Arc<HttpClient>,
    ) -> Result<Arc<dyn Provider>, ConfigError> {
        let lacks = |what: &str, setting: &str, variable: &str| {
            config_error(
                config,
                format!("no {what} set: set `{setting}` or the environment variable {variable}"),
            )
        };
        let [location_variable, _] = gemini::LOCATION_VARIABLES;
        let location = config.region.as_deref();
        let location = location.ok_or_else(|| {
            lacks(
                "location is",
                "location = \"us-central1\"` or `\"global\"",
                location_variable,
            )
        })?;
        let identity = config.identity.as_ref().ok_or_else(|| {
            let settings = "credentials_file`, `credentials_env` or `credentials = \"metadata\"";
            lacks("credentials are", settings, gemini::IDENTITY_VARIABLE)
        })?;
        let setup = tokens_of(identity, config).map_err(|error| config_error(config, error))?;
        let project = config.project.clone().or(setup.project);
        let project = project
            .ok_or_else(|| lacks("project is", "project = \"my-project\"", gemini::PROJECT_VARIABLE))?;
        let build = || -> Result<Gemini, EndpointError> {
            let (surface, base) = Surface::vertex(config.base_url.as_deref(), &project, location)?;
            let base = base.with_error_text(config.error_text);
            if !base.is_secure() && !base.is_local() {
                tracing::warn!(provider = %config.name, "the provider's tokens are sent unencrypted: use an https base_url");
            }
            if setup.is_secure {
                http.check_tls()?;
            }
            let tokens = TokenCache::new(setup.source, Arc::new(SystemClock::default()));
            let access = gemini::Access::with_tokens(base, tokens)?;
            Gemini::new(config.name.clone(), surface, access, http.clone())
        };
        Ok(Arc::new(build().map_err(|error| config_error(config, error))?))
    }
}

/// Source of tokens for an identity, the identity's project, and whether its token server uses TLS.
struct TokenSetup {
    source: Box<dyn TokenSource>,
    project: Option<String>,
    is_secure: bool,
}

fn tokens_of(identity: &Identity, config: &ProviderConfig) -> Result<TokenSetup, EndpointError> {
    match identity {
        Identity::ServiceAccount(key) => {
            let account = ServiceAccount::read(key, Arc::new(SystemClock::default()))?;
            if account.is_exposed() {
                tracing::warn!(provider = %config.name, "the provider's tokens are issued unencrypted: use an https token_uri");
            }
            Ok(TokenSetup {
                project: account.project().map(str::to_owned),
                is_secure: account.is_secure(),
                source: Box::new(account),
            })
        }
        Identity::Machine(host) => Ok(TokenSetup {
            source: Box::new(Metadata::new(host)?),
            project: None,
            is_secure: false,
        }),
    }
}
