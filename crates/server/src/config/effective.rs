//! What is in effect beyond what stands in file and environment: providers that a variable switches on, and what a block
//! leaves to its preset.

use secrecy::SecretString;
use tollgate_providers::bedrock::AccessKeys;
use tollgate_providers::registry::{self, ProviderConfig};
use tollgate_providers::tokens::{Identity, METADATA_HOST, METADATA_HOST_VARIABLE};
use tollgate_providers::{discover, openai_compatible};

use super::ConfigError;
use super::file::{CredentialsSetting, ProviderSection};
use super::resolve::{Config, StorageUrl};

/// The preset of a block that has only an address.
const BY_ADDRESS: &str = "openai-compatible";

impl Config {
    /// Providers whose usual variable is set, and that no block configures. Their keys are in them.
    pub fn providers_by_environment(&self) -> Vec<ProviderConfig> {
        let mut found = discover::from_environment(|name| self.environment.get(name).map(str::to_owned));
        found.retain(|block| !self.is_configured(&block.name));
        found
    }

    /// Whether there is a block for the preset, be it switched off.
    pub fn is_configured(&self, preset: &str) -> bool {
        let mut blocks = self.file.providers.iter();
        blocks.any(|(name, section)| section.preset.as_deref().unwrap_or(name) == preset)
    }

    /// The account's keys of a block whose preset signs requests, when they are in the environment. A block that names
    /// variables means those, and none of the usual ones.
    pub fn access_keys_of(&self, name: &str, section: &ProviderSection) -> Option<AccessKeys> {
        let usual = registry::access_key_variables(section.preset.as_deref().unwrap_or(name))?;
        let stated = [
            &section.access_key_id_env,
            &section.secret_access_key_env,
            &section.session_token_env,
        ];
        let [id, secret, token] = match stated.iter().any(|variable| variable.is_some()) {
            true => stated.map(Option::as_deref),
            false => usual.map(Some),
        };
        let value = |variable: Option<&str>| self.environment.get(variable?);
        Some(AccessKeys {
            id: value(id)?.trim().to_owned(),
            secret: SecretString::from(value(secret)?.trim()),
            session_token: value(token).map(SecretString::from),
        })
    }

    /// Where a provider is in the world: what its block says, else what the environment says.
    pub fn region_of(&self, name: &str, section: &ProviderSection) -> Option<String> {
        let variables = registry::region_variables(section.preset.as_deref().unwrap_or(name));
        let usual = || {
            variables
                .iter()
                .find_map(|variable| self.environment.get(variable))
        };
        section.region.clone().or_else(|| usual().map(str::to_owned))
    }

    /// The project of a provider whose preset has projects: what its block says, else what the environment says.
    pub fn project_of(&self, name: &str, section: &ProviderSection) -> Option<String> {
        let variables = registry::identity_variables(section.preset.as_deref().unwrap_or(name));
        let usual = || variables.and_then(|[_, project]| self.environment.get(project));
        section.project.clone().or_else(|| usual().map(str::to_owned))
    }

    /// As whom a provider whose preset is shown tokens asks for them: what its block says, else the key in the file that
    /// the environment names.
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
            let message = "one of credentials, credentials_env and credentials_file is enough";
            return Err(ConfigError::new(block, message));
        }
        if let Some(CredentialsSetting::Metadata) = section.credentials {
            let host = self.environment.get(METADATA_HOST_VARIABLE);
            return Ok(Some(Identity::Machine(host.unwrap_or(METADATA_HOST).to_owned())));
        }
        let variables = registry::identity_variables(section.preset.as_deref().unwrap_or(name));
        let usual = || variables.and_then(|[file, _]| self.environment.get(file));
        let variable = section.credentials_env.as_deref();
        let file = section.credentials_file.as_deref();
        let (place, file) = match (variable, file) {
            (Some(_), _) => (format!("{block}.credentials_env"), None),
            (None, Some(file)) => (format!("{block}.credentials_file"), Some(file)),
            (None, None) => (block, usual()),
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

    /// The settings as TOML, without secrets, for `--print-config`. A key is shown as the name of its variable or file.
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

/// What a block does not say and its preset does.
fn fill(name: &str, section: &mut ProviderSection) {
    if section.preset.is_none() {
        let by_name = registry::preset_names().find(|known| *known == name);
        let by_address = section.base_url.as_ref().map(|_| BY_ADDRESS);
        section.preset = by_name.or(by_address).map(str::to_owned);
    }
    // No provider takes an address with a password; the settings can be printed before that is found out.
    section.base_url = section.base_url.as_deref().map(without_password);
    let preset = section.preset.as_deref().and_then(openai_compatible::preset);
    let Some(preset) = preset else { return };
    if section.base_url.is_none() {
        section.base_url = preset.base_url.map(str::to_owned);
    }
    if section.api_key_env.is_none() && section.api_key_file.is_none() {
        section.api_key_env = preset.key_env().map(str::to_owned);
    }
}

/// Where a provider is, as operators may see it.
pub fn shown_address(preset: &str, base_url: Option<&str>) -> Option<String> {
    let own = base_url.map(without_password);
    let usual = || openai_compatible::preset(preset)?.base_url.map(str::to_owned);
    own.or_else(usual)
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
    fn printed_settings_hold_no_password_and_can_be_read_again() {
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

    /// Variables that are set, what a block says, and whose keys sign: id, secret, token.
    #[test]
    fn the_keys_of_an_account_are_those_that_the_block_means() {
        use secrecy::ExposeSecret;

        let usual = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let other = [("ID", "id-2"), ("SECRET", "secret-2"), ("TOKEN", "token-2")];
        let all = [&usual[..], &other[..], &[("AWS_SESSION_TOKEN", "token")]].concat();
        let named = "access_key_id_env = \"ID\"\nsecret_access_key_env = \"SECRET\"\n";
        let with_token = format!("{named}session_token_env = \"TOKEN\"\n");
        for (env, keys, expected) in [
            (&usual[..], "", Some(("id", "secret", None))),
            (&usual[..1], "", None),
            (&usual[1..], "", None),
            (&all[..], "", Some(("id", "secret", Some("token")))),
            (&all[..], named, Some(("id-2", "secret-2", None))),
            (&all[..], &with_token, Some(("id-2", "secret-2", Some("token-2")))),
            (&usual[..], named, None),
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
        assert!(found.is_none(), "it signs nothing");
    }

    #[test]
    fn a_region_is_that_of_the_block_or_of_the_environment() {
        let both = [("AWS_REGION", "eu-west-1"), ("AWS_DEFAULT_REGION", "us-east-1")];
        for (preset, said, env, expected) in [
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
            let config = load(&format!("[providers.x]\npreset = \"{preset}\"\n{said}\n"), env);
            let found = config.region_of("x", &config.file.providers["x"]);
            assert_eq!(found.as_deref(), expected, "{preset} {said}");
        }
    }

    /// What a block says, variables that are set, and as whom tokens are asked for.
    #[test]
    fn an_account_is_the_one_that_the_block_means() {
        use secrecy::ExposeSecret;
        use tollgate_providers::tokens::Identity;

        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(file("usual"), "{\"usual\":1}\n").unwrap();
        std::fs::write(file("other"), "{\"other\":1}").unwrap();
        let usual = file("usual");
        let env = [
            ("GOOGLE_APPLICATION_CREDENTIALS", usual.as_str()),
            ("ACCOUNT", "{\"variable\":1}"),
            ("GOOGLE_CLOUD_PROJECT", "p"),
        ];
        let other = format!("credentials_file = \"{}\"\n", file("other"));
        let missing = format!("credentials_file = \"{}\"\n", file("missing"));
        let host = [("GCE_METADATA_HOST", "127.0.0.1:9")];
        let metadata = "credentials = \"metadata\"\n";
        for (said, env, expected) in [
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
            (&format!("{metadata}{other}"), &env[..], Err("is enough")),
        ] {
            let config = load(
                &format!("[providers.vertex]\nlocation = \"us-central1\"\n{said}"),
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
                (Ok(shown), Ok(expected)) => assert_eq!(shown, expected, "{said}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (shown, _) => panic!("{said}: {shown:?}"),
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
        assert!(other.unwrap().is_none(), "it is shown no tokens");
    }

    /// Block, what is printed of it: preset, address, variable.
    #[test]
    fn providers_are_shown_with_what_is_in_effect() {
        let text = "[providers.backup]\npreset = \"groq\"\napi_key_file = \"/run/groq\"\n\
                    [providers.house]\nbase_url = \"http://h/v1\"\napi_key_env = \"HOUSE\"\n\
                    [providers.mistral]\nenabled = false\n[providers.together]\n";
        let env = [
            ("OPENAI_API_KEY", "canary"),
            ("GROQ_API_KEY", "canary"),
            ("MISTRAL_API_KEY", "canary"),
            ("HOUSE", "canary"),
            ("AZURE_OPENAI_API_KEY", "canary"),
            ("AZURE_OPENAI_ENDPOINT", "https://x.example.com"),
            ("XAI_API_KEY", ""),
        ];
        let shown = printed(text, &env);
        let cases = [
            ("backup", "groq", "https://api.groq.com/openai/v1", None),
            ("house", "openai-compatible", "http://h/v1", Some("HOUSE")),
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
