//! Effective settings beyond file and environment: providers that a variable enables, and values
//! that a block inherits from its preset.

use secrecy::SecretString;
use tollgate_accounts::{KeyShape, TokenShape};
use tollgate_providers::bedrock::AccessKeys;
use tollgate_providers::discover::LocalServer;
use tollgate_providers::registry::{self, ProviderConfig};
use tollgate_providers::tokens::{Identity, METADATA_HOST, METADATA_HOST_VARIABLE};
use tollgate_providers::{discover, openai_compatible};

use super::ConfigError;
use super::file::{CredentialsSetting, ProviderSection};
use super::resolve::{Config, StorageUrl};
use super::variable::VariableName;

/// A variable that normally enables a provider, but is not used with these settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedKey {
    /// Name of the variable.
    pub variable: &'static str,
    /// Reason why the variable is not used: a predicate that follows its name in messages.
    pub reason: String,
    /// Action that resolves the problem, in the imperative.
    pub remedy: String,
}

/// Preset of a block that sets `base_url` and no preset, and whose name is not a preset.
const BY_ADDRESS: &str = "openai-compatible";

impl Config {
    /// Returns the providers whose default key variable is set and that no block configures, with
    /// their keys. A variable that contains a key of this gateway counts as unset.
    pub fn providers_by_environment(&self) -> Vec<ProviderConfig> {
        let usable = |name: &str| {
            let value = self.environment.get(name)?;
            self.own_prefix_of(value).is_none().then(|| value.to_owned())
        };
        let mut found = discover::from_environment(usable);
        found.retain(|block| !self.is_configured(&block.name));
        found
    }

    /// Returns the variables that normally enable a provider, but are not used with these settings.
    /// Ignores providers that a block configures.
    pub fn unused_keys(&self) -> Vec<UnusedKey> {
        // A variable of several presets is reported for the first one only.
        let (mut checked, mut unused) = (Vec::new(), Vec::new());
        for preset in registry::preset_names() {
            for variable in registry::key_variables(preset).filter(|variable| !checked.contains(variable)) {
                if !self.is_configured(preset) {
                    unused.extend(self.why_unused(preset, variable));
                }
            }
            checked.extend(registry::key_variables(preset));
        }
        unused
    }

    fn why_unused(&self, preset: &str, variable: &'static str) -> Option<UnusedKey> {
        let value = self.environment.get(variable)?;
        if let Some(prefix) = self.own_prefix_of(value) {
            return Some(UnusedKey {
                variable,
                reason: format!(
                    "contains a key of this gateway (the value starts with {prefix}), which is never sent to a provider: {preset} is not enabled"
                ),
                remedy: format!("set {variable} to a key of the provider, or unset it"),
            });
        }
        let filled = |name: &str| self.environment.get(name).map(str::to_owned);
        let (address_variable, _) = discover::other_address(preset, filled)?;
        Some(UnusedKey {
            variable,
            reason: format!(
                "belongs to the server in {address_variable}, so it is not sent to {preset}: {preset} is not enabled"
            ),
            remedy: format!(
                "unset {address_variable}, or add a [providers.NAME] block with the base_url and key of that server"
            ),
        })
    }

    /// Returns the prefix if the text looks like a key or admin token of this gateway. Other
    /// services do not accept such a secret.
    pub(super) fn own_prefix_of(&self, text: &str) -> Option<String> {
        let slug = &self.file.service.slug;
        let (keys, tokens) = (KeyShape::new(slug), TokenShape::new(slug));
        let text = text.trim();
        if keys.resembles(text) {
            return Some(keys.prefix().to_owned());
        }
        tokens.resembles(text).then(|| tokens.prefix().to_owned())
    }

    /// Returns whether a block, even a disabled one, uses the preset.
    pub fn is_configured(&self, preset: &str) -> bool {
        let mut blocks = self.file.providers.iter();
        blocks.any(|(name, section)| section.preset.as_deref().unwrap_or(name) == preset)
    }

    /// Returns whether a block, even a disabled one, configures this server. A block matches by its
    /// name, by its address, or by its preset if the preset has a default local port.
    pub fn is_configured_server(&self, server: &LocalServer) -> bool {
        let has_kind = server.preset.local_port.is_some();
        let mut blocks = self.file.providers.iter();
        blocks.any(|(name, section)| {
            let preset = section.preset.as_deref().unwrap_or(name);
            *name == *server.config.name
                || (has_kind && preset == server.preset.name)
                || server.is_at(preset, section.base_url.as_deref())
        })
    }

    /// Returns the access keys of a block whose preset signs requests, if they are in the
    /// environment. If a block names variables, the default variables are not read.
    pub fn access_keys_of(&self, name: &str, section: &ProviderSection) -> Option<AccessKeys> {
        let fallback = registry::access_key_variables(section.preset.as_deref().unwrap_or(name))?;
        let stated = [
            &section.access_key_id_env,
            &section.secret_access_key_env,
            &section.session_token_env,
        ];
        let [id, secret, token] = match stated.iter().any(|variable| variable.is_some()) {
            true => stated.map(|name| name.as_deref()),
            false => fallback.map(Some),
        };
        let value = |variable: Option<&str>| self.environment.get(variable?);
        Some(AccessKeys {
            id: value(id)?.trim().to_owned(),
            secret: SecretString::from(value(secret)?.trim()),
            session_token: value(token).map(SecretString::from),
        })
    }

    /// Returns the region of a provider: that of its block, or else that of the environment.
    pub fn region_of(&self, name: &str, section: &ProviderSection) -> Option<String> {
        let variables = registry::region_variables(section.preset.as_deref().unwrap_or(name));
        let fallback = || {
            variables
                .iter()
                .find_map(|variable| self.environment.get(variable))
        };
        section.region.clone().or_else(|| fallback().map(str::to_owned))
    }

    /// Returns the key variable that a block names, if the variable is not set and no file contains
    /// the key.
    pub fn unset_key_variable<'s>(&self, section: &'s ProviderSection) -> Option<&'s str> {
        let variable = section.api_key_env.as_deref()?;
        let is_unset = section.api_key_file.is_none() && self.environment.get(variable).is_none();
        is_unset.then_some(variable)
    }

    /// Returns the project of a provider whose preset has projects: that of its block, or else that
    /// of the environment.
    pub fn project_of(&self, name: &str, section: &ProviderSection) -> Option<String> {
        let variables = registry::identity_variables(section.preset.as_deref().unwrap_or(name));
        let fallback = || variables.and_then(|[_, project]| self.environment.get(project));
        section.project.clone().or_else(|| fallback().map(str::to_owned))
    }

    /// Returns the identity that requests a provider's access tokens: that of its block, or else
    /// the service account in the key file that the environment names. `None` if neither is set.
    ///
    /// # Errors
    ///
    /// Fails if the block sets several credentials or if one cannot be read.
    pub fn identity_of(
        &self,
        name: &str,
        section: &ProviderSection,
    ) -> Result<Option<Identity>, ConfigError> {
        let block = format!("providers.{name}");
        let stated = [
            section.credentials.is_some(),
            section.credentials_env.is_some(),
            section.credentials_file.is_some(),
        ];
        if stated.into_iter().filter(|is_stated| *is_stated).count() > 1 {
            let message = "set only one of credentials, credentials_env and credentials_file";
            return Err(ConfigError::new(block, message));
        }
        if let Some(CredentialsSetting::Metadata) = section.credentials {
            let host = self.environment.get(METADATA_HOST_VARIABLE);
            return Ok(Some(Identity::Machine(host.unwrap_or(METADATA_HOST).to_owned())));
        }
        let variables = registry::identity_variables(section.preset.as_deref().unwrap_or(name));
        let fallback = || variables.and_then(|[file, _]| self.environment.get(file));
        let variable = section.credentials_env.as_deref();
        let file = section.credentials_file.as_deref();
        let (place, file) = match (variable, file) {
            (Some(_), _) => (format!("{block}.credentials_env"), None),
            (None, Some(file)) => (format!("{block}.credentials_file"), Some(file)),
            (None, None) => (block, fallback()),
        };
        let key = self.key(&place, variable, file)?;
        if let (Some(variable), None) = (variable, &key) {
            return Err(ConfigError::new(
                place,
                format!("the variable {variable} is not set"),
            ));
        }
        Ok(key.map(Identity::ServiceAccount))
    }

    /// Renders the settings as TOML without secrets, for `--print-config`. In place of a key, the
    /// text contains the name of its variable or file.
    pub fn printed(&self) -> Result<String, toml::ser::Error> {
        let mut shown = self.file.clone();
        shown.server.listen = self.listen.to_string();
        shown.server.admin = self.admin.to_string();
        shown.storage.url = Some(match &self.storage {
            StorageUrl::Sqlite(path) => format!("sqlite:{}", path.display()),
            StorageUrl::Postgres(_) => "postgres://…".to_owned(),
        });
        if let Some(url) = &mut shown.redis.url {
            let scheme = url.split("://").next().unwrap_or_default();
            *url = format!("{scheme}://…");
        }
        if let Some(s3) = &mut shown.media.s3 {
            s3.endpoint = s3.endpoint.as_deref().map(without_password);
        }
        for block in self.providers_by_environment() {
            let section = ProviderSection {
                base_url: block.base_url,
                region: block.region,
                ..ProviderSection::default()
            };
            shown.providers.insert(block.name.to_string(), section);
        }
        for (name, section) in &mut shown.providers {
            fill(name, section);
        }
        toml::to_string(&shown)
    }
}

/// Fills unset values of a block from its preset, and hides a password in its base URL.
fn fill(name: &str, section: &mut ProviderSection) {
    if section.preset.is_none() {
        let by_name = registry::preset_names().find(|known| *known == name);
        let by_address = section.base_url.as_ref().map(|_| BY_ADDRESS);
        section.preset = by_name.or(by_address).map(str::to_owned);
    }
    // A provider with a password in its URL is rejected later, but the settings can be printed
    // before that check.
    section.base_url = section.base_url.as_deref().map(without_password);
    let preset = section.preset.as_deref().and_then(openai_compatible::preset);
    let Some(preset) = preset else { return };
    if section.base_url.is_none() {
        section.base_url = preset.base_url.map(str::to_owned);
    }
    if section.api_key_env.is_none() && section.api_key_file.is_none() {
        section.api_key_env = preset.key_env().map(VariableName::known);
    }
}

/// Returns the base URL of a provider without its password; that of the preset if `base_url` is
/// `None`.
pub fn shown_address(preset: &str, base_url: Option<&str>) -> Option<String> {
    let own = base_url.map(without_password);
    let fallback = || openai_compatible::preset(preset)?.base_url.map(str::to_owned);
    own.or_else(fallback)
}

fn without_password(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let host_end = url[start..].find('/').map_or(url.len(), |at| start + at);
    match url[start..host_end].rfind('@') {
        Some(at) => format!("{}…{}", &url[..start], &url[start + at..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::env::Environment;
    use crate::config::{Config, FileConfig, Flags};

    fn load(text: &str, env: &[(&str, &str)]) -> Config {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.toml");
        std::fs::write(&path, text).unwrap();
        let flags = Flags {
            config: Some(path),
            ..Flags::default()
        };
        Config::load(&flags, Environment::of(env)).unwrap()
    }

    fn printed(text: &str, env: &[(&str, &str)]) -> FileConfig {
        let shown = load(text, env).printed().unwrap();
        assert!(!shown.contains("canary"), "{shown}");
        toml::from_str(&shown).unwrap()
    }

    #[test]
    fn printed_settings_hide_passwords_and_parse_again() {
        let text = "[storage]\nurl = \"postgres://u:canary@h/d\"\n[service]\npepper_env = \"P\"";
        printed(text, &[]);
        let both = format!("{text}\n[redis]\nurl = \"rediss://u:canary@h/1\"");
        assert_eq!(printed(&both, &[]).redis.url.as_deref(), Some("rediss://…"));
        let shown = printed("[providers.x]\nbase_url = \"https://u:canary@h/v1\"", &[]);
        assert_eq!(shown.providers["x"].base_url.as_deref(), Some("https://…@h/v1"));
        let text = "[providers.vertex]\nlocation = \"global\"\ncredentials_env = \"ACCOUNT\"";
        let shown = printed(text, &[("ACCOUNT", "canary")]);
        assert_eq!(shown.providers["vertex"].region.as_deref(), Some("global"));
    }

    /// Each case: variables, block, and the expected access key as id, secret and token.
    #[test]
    fn access_keys_follow_the_provider_block() {
        use secrecy::ExposeSecret;

        let fallback = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let other = [("ID", "id-2"), ("SECRET", "secret-2"), ("TOKEN", "token-2")];
        let all = [&fallback[..], &other[..], &[("AWS_SESSION_TOKEN", "token")]].concat();
        let named = "access_key_id_env = \"ID\"\nsecret_access_key_env = \"SECRET\"\n";
        let with_token = format!("{named}session_token_env = \"TOKEN\"\n");
        for (env, keys, expected) in [
            (&fallback[..], "", Some(("id", "secret", None))),
            (&fallback[..1], "", None),
            (&fallback[1..], "", None),
            (&all[..], "", Some(("id", "secret", Some("token")))),
            (&all[..], named, Some(("id-2", "secret-2", None))),
            (&all[..], &with_token, Some(("id-2", "secret-2", Some("token-2")))),
            (&fallback[..], named, None),
        ] {
            let config = load(&format!("[providers.cloud]\npreset = \"bedrock\"\n{keys}"), env);
            let found = config.access_keys_of("cloud", &config.file.providers["cloud"]);
            let shown = found.as_ref().map(|keys| {
                let token = keys.session_token.as_ref().map(ExposeSecret::expose_secret);
                (keys.id.as_str(), keys.secret.expose_secret(), token)
            });
            assert_eq!(shown, expected, "{keys} {env:?}");
        }
        let config = load("[providers.openai]\n", &all);
        let found = config.access_keys_of("openai", &config.file.providers["openai"]);
        assert!(found.is_none(), "the preset does not sign requests");
    }

    #[test]
    fn a_region_is_that_of_the_block_or_of_the_environment() {
        let both = [("AWS_REGION", "eu-west-1"), ("AWS_DEFAULT_REGION", "us-east-1")];
        for (preset, settings_text, env, expected) in [
            (
                "bedrock",
                "region = \"eu-central-1\"",
                &both[..],
                Some("eu-central-1"),
            ),
            ("bedrock", "", &both[..], Some("eu-west-1")),
            ("bedrock", "", &both[1..], Some("us-east-1")),
            ("bedrock", "", &[], None),
            ("openai", "", &both[..], None),
        ] {
            let config = load(
                &format!("[providers.x]\npreset = \"{preset}\"\n{settings_text}\n"),
                env,
            );
            let found = config.region_of("x", &config.file.providers["x"]);
            assert_eq!(found.as_deref(), expected, "{preset} {settings_text}");
        }
    }

    /// Each case: block, variables, and the expected identity.
    #[test]
    fn identities_follow_the_provider_block() {
        use secrecy::ExposeSecret;
        use tollgate_providers::tokens::Identity;

        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(file("usual"), "{\"usual\":1}\n").unwrap();
        std::fs::write(file("other"), "{\"other\":1}").unwrap();
        let fallback = file("usual");
        let env = [
            ("GOOGLE_APPLICATION_CREDENTIALS", fallback.as_str()),
            ("ACCOUNT", "{\"variable\":1}"),
            ("GOOGLE_CLOUD_PROJECT", "p"),
        ];
        let other = format!("credentials_file = \"{}\"\n", file("other"));
        let missing = format!("credentials_file = \"{}\"\n", file("missing"));
        let host = [("GCE_METADATA_HOST", "127.0.0.1:9")];
        let metadata = "credentials = \"metadata\"\n";
        for (settings_text, env, expected) in [
            ("", &env[..], Ok(Some("{\"usual\":1}"))),
            ("", &[], Ok(None)),
            (&*other, &env[..], Ok(Some("{\"other\":1}"))),
            (
                "credentials_env = \"ACCOUNT\"\n",
                &env[..],
                Ok(Some("{\"variable\":1}")),
            ),
            (metadata, &env[..], Ok(Some("metadata.google.internal"))),
            (metadata, &host[..], Ok(Some("127.0.0.1:9"))),
            (&*missing, &env[..], Err("cannot read")),
            (
                "credentials_env = \"OTHER\"\n",
                &env[..],
                Err("the variable OTHER is not set"),
            ),
            (&format!("{metadata}{other}"), &env[..], Err("set only one of")),
        ] {
            let config = load(
                &format!("[providers.vertex]\nlocation = \"us-central1\"\n{settings_text}"),
                env,
            );
            let section = &config.file.providers["vertex"];
            let found = config.identity_of("vertex", section);
            let shown = found.as_ref().map(|identity| {
                identity.as_ref().map(|identity| match identity {
                    Identity::ServiceAccount(key) => key.expose_secret(),
                    Identity::Machine(host) => host,
                })
            });
            match (shown, expected) {
                (Ok(shown), Ok(expected)) => assert_eq!(shown, expected, "{settings_text}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (shown, _) => panic!("{settings_text}: {shown:?}"),
            }
            assert_eq!(
                config.region_of("vertex", section).as_deref(),
                Some("us-central1")
            );
        }
        let config = load("[providers.vertex]\n[providers.openai]\n", &env);
        let providers = &config.file.providers;
        assert_eq!(
            config.project_of("vertex", &providers["vertex"]).as_deref(),
            Some("p")
        );
        assert_eq!(config.project_of("openai", &providers["openai"]), None);
        let other = config.identity_of("openai", &providers["openai"]);
        assert!(other.unwrap().is_none(), "the preset uses no access tokens");
    }

    /// Each case: settings, variables, and the expected unused variable with a part of the reason.
    #[test]
    fn keys_of_other_servers_enable_no_provider() {
        let own = ("OPENAI_API_KEY", "sk-service-canary");
        let token = ("GROQ_API_KEY", " adm-service-canary");
        let real = ("OPENAI_API_KEY", "sk-proj-canary");
        let elsewhere = ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1");
        for (text, env, expected) in [
            ("", &[real][..], None),
            ("", &[own], Some(("OPENAI_API_KEY", "starts with sk-service-"))),
            ("", &[token], Some(("GROQ_API_KEY", "starts with adm-service-"))),
            (
                "",
                &[own, elsewhere],
                Some(("OPENAI_API_KEY", "starts with sk-service-")),
            ),
            (
                "",
                &[real, elsewhere],
                Some(("OPENAI_API_KEY", "OPENAI_BASE_URL")),
            ),
            ("[service]\nslug = \"acme\"\n", &[own], None),
            // A key of another service may start with the prefix of this gateway's keys,
            // `sk-<slug>-`.
            (
                "[service]\nslug = \"ant\"\n",
                &[("ANTHROPIC_API_KEY", "sk-ant-api03-canary")],
                None,
            ),
            (
                "[service]\nslug = \"proj\"\n",
                &[(
                    "OPENAI_API_KEY",
                    "sk-proj-canary0123456789012345678901234567890123T3BlbkFJ",
                )],
                None,
            ),
            (
                "[service]\nslug = \"ant\"\n",
                &[("ANTHROPIC_API_KEY", "sk-ant-test-canary")],
                Some(("ANTHROPIC_API_KEY", "starts with sk-ant-")),
            ),
            ("[providers.openai]\n", &[real, elsewhere], None),
        ] {
            let config = load(text, env);
            let unused = config.unused_keys();
            assert!(!format!("{unused:?}").contains("canary"), "{unused:?}");
            let found: Vec<&str> = unused.iter().map(|unused| unused.variable).collect();
            assert_eq!(
                found,
                Vec::from_iter(expected.map(|(variable, _)| variable)),
                "{env:?}"
            );
            let switched_on = config.providers_by_environment().len();
            let configured = config.file.providers.len();
            assert_eq!(switched_on + configured + found.len(), 1, "{text}{env:?}");
            if let Some((_, part)) = expected {
                assert!(unused[0].reason.contains(part), "{unused:?}");
            }
        }
    }

    /// Each case: block, and the expected preset, address and variable.
    #[test]
    fn providers_are_shown_with_what_is_in_effect() {
        let text = "[providers.backup]\npreset = \"groq\"\napi_key_file = \"/run/groq\"\n\
                    [providers.lab]\nbase_url = \"http://h/v1\"\napi_key_env = \"LAB\"\n\
                    [providers.mistral]\nenabled = false\n[providers.together]\n";
        let env = [
            ("OPENAI_API_KEY", "canary"),
            ("GROQ_API_KEY", "canary"),
            ("MISTRAL_API_KEY", "canary"),
            ("LAB", "canary"),
            ("AZURE_OPENAI_API_KEY", "canary"),
            ("AZURE_OPENAI_ENDPOINT", "https://x.example.com"),
            ("XAI_API_KEY", ""),
        ];
        let shown = printed(text, &env);
        let cases = [
            ("backup", "groq", "https://api.groq.com/openai/v1", None),
            ("lab", "openai-compatible", "http://h/v1", Some("LAB")),
            (
                "mistral",
                "mistral",
                "https://api.mistral.ai/v1",
                Some("MISTRAL_API_KEY"),
            ),
            (
                "together",
                "together",
                "https://api.together.xyz/v1",
                Some("TOGETHER_API_KEY"),
            ),
            (
                "openai",
                "openai",
                "https://api.openai.com/v1",
                Some("OPENAI_API_KEY"),
            ),
            (
                "azure-openai",
                "azure-openai",
                "https://x.example.com",
                Some("AZURE_OPENAI_API_KEY"),
            ),
        ];
        let names: Vec<&str> = shown.providers.keys().map(String::as_str).collect();
        assert_eq!(names, cases.map(|(name, ..)| name));
        for (name, preset, address, variable) in cases {
            let section = &shown.providers[name];
            assert_eq!(section.preset.as_deref(), Some(preset), "{name}");
            assert_eq!(section.base_url.as_deref(), Some(address), "{name}");
            assert_eq!(section.api_key_env.as_deref(), variable, "{name}");
        }
        assert_eq!(shown.providers["mistral"].enabled, Some(false));
    }
}
