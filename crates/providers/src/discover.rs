//! Providers that nobody wrote down: those whose usual environment variable is set, and model servers on this machine.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use secrecy::SecretString;
use tollgate_upstream::ListedModel;

use crate::http::HttpClient;
use crate::openai_compatible::{PRESETS, Preset};
use crate::registry::{self, ProviderConfig};

/// Blocks for the presets whose key is in the environment, which `variable` reads. A preset without an address of its
/// own needs that variable, too, and so does one with regions. A variable that several presets have is that of the first of
/// them.
pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Vec<ProviderConfig> {
    let filled = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let mut seen = Vec::new();
    let found = registry::preset_names().filter_map(|preset| {
        let variables: Vec<&str> = registry::key_variables(preset)
            .filter(|variable| !seen.contains(variable))
            .collect();
        seen.extend(&variables);
        let key = variables.into_iter().find_map(filled)?;
        let base_url = match registry::address_variable(preset) {
            Some(variable) => Some(filled(variable)?),
            None => None,
        };
        let region = match registry::region_variables(preset) {
            [] => None,
            variables => Some(variables.iter().find_map(|variable| filled(variable))?),
        };
        Some(ProviderConfig {
            region,
            preset: Some(preset.to_owned()),
            api_key: Some(SecretString::from(key)),
            base_url,
            ..ProviderConfig::named(preset)
        })
    });
    found.collect()
}

/// A model server that answered.
#[derive(Clone, Debug)]
pub struct LocalServer {
    /// A block for it.
    pub config: ProviderConfig,
    /// The models it has now.
    pub models: Vec<ListedModel>,
}

/// Model servers on the ports of this machine where they usually listen, but for `own_port`, where the gateway itself
/// is. Each is waited for no longer than `timeout`, all at once. Whatever answers there with a list of models is one.
pub async fn local_servers(http: &Arc<HttpClient>, own_port: u16, timeout: Duration) -> Vec<LocalServer> {
    servers_at(http, usual_addresses(own_port), timeout).await
}

fn usual_addresses(own_port: u16) -> Vec<(&'static Preset, String)> {
    let usual = PRESETS.iter().filter_map(|preset| {
        preset.local_port.filter(|port| *port != own_port)?;
        Some((preset, preset.base_url?.to_owned()))
    });
    usual.collect()
}

/// The same for other addresses.
pub async fn servers_at(
    http: &Arc<HttpClient>,
    addresses: Vec<(&'static Preset, String)>,
    timeout: Duration,
) -> Vec<LocalServer> {
    let asked = addresses.into_iter().map(|(preset, address)| async move {
        let config = ProviderConfig {
            preset: Some(preset.name.to_owned()),
            base_url: Some(address),
            ..ProviderConfig::named(preset.name)
        };
        let provider = registry::build(&config, http).ok()?;
        match provider.list_models(timeout).await {
            Ok(models) => Some(LocalServer { config, models }),
            Err(error) => {
                tracing::debug!(provider = preset.name, %error, "no model server there");
                None
            }
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
