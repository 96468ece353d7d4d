//! Builds a validated [`Config`] from file, environment and flags.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tollgate_accounts::SessionLifetimes;
use tollgate_backends::{postgres, redis};
use tollgate_billing::Plan;
use tollgate_jobs::WorkerSettings;
use tollgate_pipeline::{Drain, Retries, Settings, Timeouts};
use tollgate_providers::egress::Allowed;
use tollgate_storage::{Cadence, MAX_HOLD_LIFETIME, Payer};
use tollgate_types::Credits;
use toml::Table;

use super::env::{Environment, merge};
use super::error::ConfigError;
use super::file::{CadenceSetting, FileConfig, PayerSetting, PlansSection, RedisSection, ServiceSection};

/// File name of the embedded database.
const DATABASE_FILE: &str = "tollgate.db";

/// Upper bound of `redis.timeout_ms`, in milliseconds. Requests wait up to this time for Redis.
const MAX_REDIS_TIMEOUT_MS: u64 = 1_000;

/// Upper bound of `console.session_idle_hours`.
const MAX_SESSION_HOURS: u32 = 720;
/// Upper bound of `console.session_max_days`.
const MAX_SESSION_DAYS: u32 = 90;

/// Command-line flags that select or override settings.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Path of the settings file: `--config FILE`.
    pub config: Option<PathBuf>,
    /// Data directory: `--data DIR`.
    pub data: Option<PathBuf>,
    /// Address of the public listener: `--listen ADDR`.
    pub listen: Option<String>,
    /// Address of the admin listener: `--admin ADDR`.
    pub admin: Option<String>,
    /// Path of this program, which the gateway starts as `tollgate extract`. `None` in programs
    /// without that command: they read no web pages.
    pub program: Option<PathBuf>,
}

impl Flags {
    /// Returns the path of the settings file, whether it exists or not.
    pub fn settings_file(&self) -> PathBuf {
        self.config
            .clone()
            .unwrap_or_else(|| PathBuf::from("tollgate.toml"))
    }
}

/// Settings after validation, with parsed addresses and URLs.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings from file and environment.
    pub file: FileConfig,
    /// Path of the settings file; `None` if no file was read.
    pub path: Option<PathBuf>,
    /// Data directory, which contains the secrets, and the embedded database unless `storage.url`
    /// names another directory or PostgreSQL.
    pub data: PathBuf,
    /// Address of the public listener.
    pub listen: SocketAddr,
    /// Address of the admin listener.
    pub admin: SocketAddr,
    /// Non-public networks that fetches of caller-supplied URLs may reach.
    pub egress: Vec<Allowed>,
    /// The storage engine and its address.
    pub storage: StorageUrl,
    /// Redis URL for shared limits, which may contain a password. `None` without `redis.url`, and
    /// with SQLite, which has a single process.
    pub redis: Option<SecretString>,
    /// Environment variables, which may contain keys.
    pub environment: Environment,
    /// Path of this program; `None` in programs without the command `extract`.
    pub program: Option<PathBuf>,
}

/// A storage engine and its address.
#[derive(Clone, Debug)]
pub enum StorageUrl {
    /// Path of a database file on this machine.
    Sqlite(PathBuf),
    /// URL of a PostgreSQL database, which may contain a password.
    Postgres(SecretString),
}

impl Config {
    /// Reads and validates the settings.
    ///
    /// # Errors
    ///
    /// Returns the first error in file, environment or flags.
    pub fn load(flags: &Flags, environment: Environment) -> Result<Self, ConfigError> {
        let path = config_path(flags);
        let mut file = match &path {
            Some(path) => read_file(path)?,
            None => Table::new(),
        };
        merge(&mut file, environment.overlay()?);
        let file: FileConfig = file
            .try_into()
            .map_err(|error: toml::de::Error| ConfigError::from_variable(&error))?;
        let data = flags
            .data
            .clone()
            .unwrap_or_else(|| PathBuf::from("tollgate-data"));
        let listen = address(
            "server.listen",
            flags.listen.as_ref().unwrap_or(&file.server.listen),
        )?;
        let admin = address("server.admin", flags.admin.as_ref().unwrap_or(&file.server.admin))?;
        let storage = storage_url(file.storage.url.as_deref(), &data)?;
        let redis = redis_url(&file.redis, &storage)?;
        let egress = allowed(&file.egress.allow, [listen, admin])?;
        let config = Self {
            egress,
            file,
            path,
            data,
            listen,
            admin,
            storage,
            redis,
            environment,
            program: flags.program.clone(),
        };
        config.check()?;
        Ok(config)
    }

    /// Returns the lifetimes of console sessions.
    pub fn session_lifetimes(&self) -> SessionLifetimes {
        let hours = |hours: u32| Duration::from_secs(u64::from(hours) * 60 * 60);
        SessionLifetimes {
            idle: hours(self.file.console.session_idle_hours),
            max: hours(self.file.console.session_max_days * 24),
        }
    }

    /// Returns the public URL without a trailing slash; `None` if none is configured.
    pub fn public_url(&self) -> Option<&str> {
        let url = self.file.server.public_url.as_deref();
        url.map(|url| url.trim_end_matches('/'))
    }

    /// Returns the directory of the embedded database; `None` with PostgreSQL, which several
    /// processes share. The database's lock, journal and command socket are in the same directory,
    /// so commands on a database find the process that owns it.
    pub fn home(&self) -> Option<&Path> {
        match &self.storage {
            StorageUrl::Sqlite(database) => database.parent(),
            StorageUrl::Postgres(_) => None,
        }
    }

    /// Returns the directory of the command socket: the directory of the embedded database, or the
    /// data directory with PostgreSQL. With PostgreSQL, the server answers commands on this socket
    /// that only a running server can execute.
    pub fn socket_home(&self) -> &Path {
        self.home().unwrap_or(&self.data)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let server = &self.file.server;
        if !self.listen.ip().is_loopback() && !server.allow_plain_http {
            let message = format!(
                "other machines can reach {} without TLS. Put a TLS proxy in front and set \
                 server.allow_plain_http = true, or listen on 127.0.0.1.",
                self.listen
            );
            return Err(ConfigError::new("server.listen", message));
        }
        check_slug(&self.file.service.slug)?;
        if matches!(self.storage, StorageUrl::Postgres(_)) && !has_pepper(&self.file.service) {
            let message = "with PostgreSQL all nodes share the secret that keys are hashed with: set pepper_file or pepper_env";
            return Err(ConfigError::new("service", message));
        }
        check_plans(&self.file.plans)?;
        if matches!(self.storage, StorageUrl::Sqlite(_)) && !self.file.jobs.run_here {
            let message = "with SQLite the server process must run the jobs: set run_here = true, or set storage.url to a \
                PostgreSQL database and start `tollgate worker`";
            return Err(ConfigError::new("jobs.run_here", message));
        }
        self.file.research.check()?;
        self.file.realtime.check()?;
        if self.file.egress.max_concurrent == 0 {
            return Err(ConfigError::new("egress.max_concurrent", "must be above 0"));
        }
        let console = &self.file.console;
        if !(1..=MAX_SESSION_HOURS).contains(&console.session_idle_hours) {
            return Err(ConfigError::new(
                "console.session_idle_hours",
                "must be from 1 to 720",
            ));
        }
        if !(1..=MAX_SESSION_DAYS).contains(&console.session_max_days) {
            return Err(ConfigError::new(
                "console.session_max_days",
                "must be from 1 to 90",
            ));
        }
        let timeouts = &self.file.timeouts;
        let positive = [
            ("connect_ms", timeouts.connect_ms),
            ("headers_ms", timeouts.headers_ms),
            ("first_content_ms", timeouts.first_content_ms),
            ("first_content_reasoning_ms", timeouts.first_content_reasoning_ms),
            ("idle_ms", timeouts.idle_ms),
            ("total_ms", timeouts.total_ms),
            ("write_stall_ms", timeouts.write_stall_ms),
            ("ping_ms", timeouts.ping_ms),
            ("request_headers_ms", timeouts.request_headers_ms),
            ("request_body_ms", timeouts.request_body_ms),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::new(format!("timeouts.{name}"), "must be above 0"));
        }
        // The lifetime of a hold is twice the maximum duration of a call, including its drain.
        let max_ms = MAX_HOLD_LIFETIME.as_millis() / 4;
        let bounded = [
            ("timeouts.total_ms", timeouts.total_ms),
            ("drain.time_ms", self.file.drain.time_ms),
        ];
        match bounded.into_iter().find(|(_, value)| u128::from(*value) > max_ms) {
            Some((name, _)) => Err(ConfigError::new(
                name,
                format!("must be at most {max_ms} (12 hours)"),
            )),
            None => Ok(()),
        }
    }

    /// Returns a key: the trimmed content of `file` if one is given, otherwise the value of the
    /// first variable that is set; `None` if none is set. `place` is the setting that names the
    /// file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if the result is a key of this gateway: other services
    /// do not accept such a key and could misuse it.
    pub fn key<'v>(
        &self,
        place: &str,
        variables: impl IntoIterator<Item = &'v str>,
        file: Option<&str>,
    ) -> Result<Option<SecretString>, ConfigError> {
        if let Some(file) = file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| ConfigError::new(place, format!("cannot read {file}: {error}")))?;
            return self
                .foreign(text.trim(), || format!("{place} ({file})"))
                .map(Some);
        }
        let found = variables
            .into_iter()
            .find_map(|variable| Some((variable, self.environment.get(variable)?)));
        found
            .map(|(variable, key)| self.foreign(key, || format!("variable {variable}")))
            .transpose()
    }

    /// Returns the secret; an error if it is a key or admin token of this gateway.
    fn foreign(&self, secret: &str, place: impl FnOnce() -> String) -> Result<SecretString, ConfigError> {
        match self.own_prefix_of(secret) {
            None => Ok(secret.to_owned().into()),
            Some(prefix) => {
                let message = format!(
                    "contains a key of this gateway (the value starts with {prefix}), which is never sent to another service: use a key of that service"
                );
                Err(ConfigError::new(place(), message))
            }
        }
    }

    /// Returns the plans that accounts can subscribe to.
    pub fn plans(&self) -> Vec<Plan> {
        let plan = |(name, section): (&String, &super::file::PlanSection)| Plan {
            name: name.as_str().into(),
            price: section.price,
            cadence: match section.cadence {
                CadenceSetting::Monthly => Cadence::Monthly,
                CadenceSetting::Yearly => Cadence::Yearly,
            },
            payer: match section.payer {
                PayerSetting::Credits => Payer::Credits,
                PayerSetting::Provider => Payer::Provider,
            },
            allowance: section.allowance,
            models: section.models.clone(),
        };
        self.file.plans.0.iter().map(plan).collect()
    }

    /// Returns the settings of job workers.
    pub fn worker_settings(&self) -> WorkerSettings {
        WorkerSettings {
            concurrency: self.file.jobs.concurrency,
            per_account: self.file.jobs.per_account,
            caps: Arc::from([self.file.research.cap()]),
            drain: Duration::from_millis(self.file.timeouts.shutdown_ms),
            ..WorkerSettings::default()
        }
    }

    /// Returns the settings of the request pipeline.
    pub fn pipeline_settings(&self) -> Settings {
        let (times, retries, drain) = (&self.file.timeouts, &self.file.retries, &self.file.drain);
        let ms = Duration::from_millis;
        Settings {
            timeouts: Timeouts {
                headers: ms(times.headers_ms),
                first_content_reasoning: ms(times.first_content_reasoning_ms),
                first_content: ms(times.first_content_ms),
                commit: ms(times.commit_ms),
                idle: ms(times.idle_ms),
                total: ms(times.total_ms),
                write_stall: ms(times.write_stall_ms),
                ping: ms(times.ping_ms),
            },
            retries: Retries {
                extra_attempts: retries.extra_attempts,
                budget_percent: retries.budget_percent,
                budget_per_second: retries.budget_per_second,
                breaker_consecutive: retries.breaker_consecutive,
                breaker_open: ms(retries.breaker_open_ms),
                ..Retries::default()
            },
            drain: Drain {
                max_concurrent: drain.max_concurrent,
                time: ms(drain.time_ms),
                bytes: drain.bytes,
            },
        }
    }
}

/// Returns `--config FILE`, or `tollgate.toml` in the working directory if it exists.
fn config_path(flags: &Flags) -> Option<PathBuf> {
    let file = flags.settings_file();
    (flags.config.is_some() || file.exists()).then_some(file)
}

fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(path.display().to_string(), format!("cannot be read: {error}")))?;
    // The file is parsed as typed settings first, because errors in the merged settings have no
    // line and column.
    toml::from_str::<FileConfig>(&text).map_err(|error| ConfigError::from_toml(path, &text, &error))?;
    text.parse::<Table>()
        .map_err(|error| ConfigError::from_toml(path, &text, &error))
}

fn address(place: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| {
        let message = match text.parse::<u16>() {
            Ok(port) => format!("'{text}' is a port without an address: write \"127.0.0.1:{port}\""),
            Err(_) => format!(
                "'{text}' is not an IP address with a port: write \"127.0.0.1:8080\" or \"[::1]:8080\""
            ),
        };
        ConfigError::new(place, message)
    })
}

/// Parses the rules of `egress.allow`. Rejects a rule that would let callers reach the gateway's
/// own listeners.
fn allowed(rules: &[String], own: [SocketAddr; 2]) -> Result<Vec<Allowed>, ConfigError> {
    let fault = |message: String| ConfigError::new("egress.allow", message);
    let read = |text: &String| {
        let rule = Allowed::parse(text).map_err(|error| fault(format!("invalid rule '{text}': {error}")))?;
        match own.iter().find(|address| rule.covers(**address)) {
            Some(address) => Err(fault(format!(
                "'{text}' lets callers reach the gateway's own listener {address}: set another port or a smaller network"
            ))),
            None => Ok(rule),
        }
    };
    rules.iter().map(read).collect()
}

fn storage_url(url: Option<&str>, data: &Path) -> Result<StorageUrl, ConfigError> {
    match url {
        None => Ok(StorageUrl::Sqlite(data.join(DATABASE_FILE))),
        Some(url) => storage_at("storage.url", url, data),
    }
}

/// Parses a storage URL; `place` is the setting or flag that contains it. A bare SQLite file name
/// is relative to the directory `data`.
pub fn storage_at(place: &str, url: &str, data: &Path) -> Result<StorageUrl, ConfigError> {
    let fault = |message: &str| Err(ConfigError::new(place, message));
    match url.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            // The lock and the journal are in the directory of the database, so each installation
            // needs its own directory.
            if path.file_name().is_none_or(|name| name != DATABASE_FILE) {
                return fault(
                    "the file must be named tollgate.db and be in its own directory: write sqlite:DIR/tollgate.db",
                );
            }
            // A bare file name is relative to the data directory.
            let has_directory = path.parent().is_some_and(|parent| !parent.as_os_str().is_empty());
            Ok(StorageUrl::Sqlite(if has_directory {
                path
            } else {
                data.join(path)
            }))
        }
        Some(("postgres" | "postgresql", _)) => match postgres::check_url(url) {
            Ok(()) => Ok(StorageUrl::Postgres(url.to_owned().into())),
            Err(reason) => fault(&format!(
                "{reason}: write postgres://user:password@host:5432/database"
            )),
        },
        _ => fault("the URL is invalid: write sqlite:DIR/tollgate.db or postgres://user@host:5432/database"),
    }
}

/// Maximum price and maximum allowance of a plan, in credits. With larger amounts, sums over many
/// years could overflow.
const MAX_PLAN_CREDITS: i64 = 1_000_000;

fn check_plans(plans: &PlansSection) -> Result<(), ConfigError> {
    for (name, plan) in &plans.0 {
        let fault = |key: &str, message: &str| {
            let place = match key {
                "" => format!("plans.{name}"),
                key => format!("plans.{name}.{key}"),
            };
            Err(ConfigError::new(place, message))
        };
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !plain || !(1..=32).contains(&name.len()) {
            return fault(
                "",
                "the name must be 1 to 32 lowercase letters, digits and hyphens",
            );
        }
        for (key, amount) in [("price", plan.price), ("allowance", plan.allowance)] {
            if amount < Credits::ZERO || Credits::from_whole(MAX_PLAN_CREDITS).is_some_and(|max| amount > max)
            {
                return fault(key, "must be 0 to 1000000 credits");
            }
        }
        if plan.models.is_empty() || plan.models.iter().any(String::is_empty) {
            return fault(
                "models",
                "must contain at least one pattern, such as \"provider/*\" or \"*\" for all models, and no empty pattern",
            );
        }
    }
    Ok(())
}

/// Returns the Redis URL; `None` if limits are not shared.
fn redis_url(section: &RedisSection, storage: &StorageUrl) -> Result<Option<SecretString>, ConfigError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if !(1..=64).contains(&section.prefix.len()) || !section.prefix.chars().all(plain) {
        let message = "must be 1 to 64 letters, digits and any of - _ . : (such as \"tollgate\")";
        return Err(ConfigError::new("redis.prefix", message));
    }
    if !(1..=MAX_REDIS_TIMEOUT_MS).contains(&section.timeout_ms) {
        let message =
            format!("must be 1 to {MAX_REDIS_TIMEOUT_MS} milliseconds, because requests wait for Redis");
        return Err(ConfigError::new("redis.timeout_ms", message));
    }
    let Some(url) = &section.url else {
        return Ok(None);
    };
    redis::check_url(url).map_err(|message| ConfigError::new("redis.url", message))?;
    // With SQLite, the single process counts in its memory.
    let has_nodes = matches!(storage, StorageUrl::Postgres(_));
    Ok(has_nodes.then(|| url.as_str().into()))
}

fn has_pepper(service: &ServiceSection) -> bool {
    service.pepper_env.is_some() || service.pepper_file.is_some()
}

fn check_slug(slug: &str) -> Result<(), ConfigError> {
    let plain = slug
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let fits = (1..=32).contains(&slug.len()) && !slug.starts_with('-') && !slug.ends_with('-');
    if plain && fits && slug != "test" {
        return Ok(());
    }
    Err(ConfigError::new(
        "service.slug",
        "must be 1 to 32 lowercase letters, digits and inner hyphens, such as \"acme\", and not \"test\"",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(
            &Flags {
                config: Some(path),
                ..Flags::default()
            },
            Environment::of(env),
        )
    }

    #[test]
    fn flags_override_the_environment_which_overrides_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.toml");
        std::fs::write(
            &path,
            "[server]\nlisten = \"127.0.0.1:1\"\nadmin = \"127.0.0.1:1\"\n[limits]\nrpm = 1",
        )
        .unwrap();
        let env = Environment::of(&[
            ("TOLLGATE_SERVER__ADMIN", "127.0.0.1:2"),
            ("TOLLGATE_SERVER__LISTEN", "127.0.0.1:2"),
        ]);
        let flags = Flags {
            config: Some(path),
            listen: Some("127.0.0.1:3".to_owned()),
            ..Flags::default()
        };
        let config = Config::load(&flags, env).unwrap();
        assert_eq!(config.listen.port(), 3);
        assert_eq!(config.admin.port(), 2);
        assert_eq!(config.file.limits.rpm, 1);
    }

    #[test]
    fn unsafe_and_invalid_settings_are_refused_with_their_key() {
        let cases = [
            ("[server]\nlisten = \"0.0.0.0:80\"", "server.listen"),
            ("[server]\nlisten = \"nonsense\"", "server.listen"),
            ("[service]\nslug = \"Has Space\"", "service.slug"),
            ("[service]\nslug = \"test\"", "service.slug"),
            ("[storage]\nurl = \"mysql://x\"", "storage.url"),
            ("[storage]\nurl = \"sqlite:/x/other.db\"", "storage.url"),
            ("[storage]\nurl = \"postgres://u:canary@:abc/d\"", "storage.url"),
            ("[storage]\nurl = \"postgres://two words/d\"", "storage.url"),
            ("[storage]\nurl = \"postgres://u:secret@h/d\"", "service"),
            ("[redis]\nurl = \"http://u:canary@h\"", "redis.url"),
            ("[redis]\nprefix = \"\"", "redis.prefix"),
            ("[redis]\nprefix = \"a{b}\"", "redis.prefix"),
            ("[redis]\ntimeout_ms = 0", "redis.timeout_ms"),
            ("[redis]\ntimeout_ms = 1001", "redis.timeout_ms"),
            ("[timeouts]\nidle_ms = 0", "timeouts.idle_ms"),
            ("[egress]\nmax_concurrent = 0", "egress.max_concurrent"),
            ("[research]\nper_account = 0", "research.per_account"),
            ("[research]\nmax_running = 0", "research.max_running"),
            ("[realtime]\nmax_minutes = 0", "realtime.max_minutes"),
            ("[realtime]\nmax_minutes = 101", "realtime.max_minutes"),
            ("[realtime]\nidle_ms = 999", "realtime.idle_ms"),
            ("[realtime]\ninterim_ms = 499", "realtime.interim_ms"),
            ("[console]\nsession_idle_hours = 0", "console.session_idle_hours"),
            (
                "[console]\nsession_idle_hours = 721",
                "console.session_idle_hours",
            ),
            ("[console]\nsession_max_days = 0", "console.session_max_days"),
            ("[console]\nsession_max_days = 91", "console.session_max_days"),
            ("[plans.Lite]", "plans.Lite"),
            ("[plans.lite]\nprice = \"-1\"", "plans.lite.price"),
            ("[plans.lite]\nallowance = \"1000000.1\"", "plans.lite.allowance"),
            ("[plans.lite]\nmodels = []", "plans.lite.models"),
            ("[plans.lite]\nmodels = [\"\"]", "plans.lite.models"),
            ("[egress]\nallow = [\"media.example\"]", "egress.allow"),
            ("[egress]\nallow = [\"127.0.0.0/8:8080\"]", "egress.allow"),
            ("[egress]\nallow = [\"127.0.0.1:9464\"]", "egress.allow"),
        ];
        for (text, place) in cases {
            let error = load(text, &[]).unwrap_err();
            assert_eq!(error.place, place, "{text}");
            assert!(!error.message.contains("canary"), "{error}");
        }
        let shared = "[storage]\nurl = \"postgres://h/d\"\n[service]\npepper_env = \"P\"\n\
                      [redis]\nurl = \"rediss://u:secret@h:6380/1\"\ntimeout_ms = 1000";
        assert!(load(shared, &[]).unwrap().redis.is_some());
        let one_process = load("[redis]\nurl = \"redis://h\"", &[]).unwrap();
        assert!(one_process.redis.is_none());
        assert!(load("[server]\nlisten = \"0.0.0.0:80\"\nallow_plain_http = true", &[]).is_ok());
    }

    #[test]
    fn a_secret_in_place_of_a_variable_name_is_refused_and_not_repeated() {
        let settings = [
            ("service", "pepper_env"),
            ("providers.x", "api_key_env"),
            ("providers.x", "credentials_env"),
            ("providers.x", "access_key_id_env"),
            ("providers.x", "secret_access_key_env"),
            ("providers.x", "session_token_env"),
            ("payments", "secret_key_env"),
            ("payments", "webhook_secret_env"),
            ("mail", "password_env"),
            ("media", "signing_key_env"),
            ("media", "previous_signing_key_env"),
            ("media.s3", "access_key_id_env"),
            ("media.s3", "secret_access_key_env"),
            ("media.s3", "session_token_env"),
            ("policy.classifier", "api_key_env"),
            ("search.x", "api_key_env"),
        ];
        let refused = |error: ConfigError, setting: &str| {
            assert!(
                error.message.contains("name of an environment variable"),
                "{setting}: {error}"
            );
            assert!(!error.to_string().contains("4711"), "{setting}: {error}");
        };
        for (section, key) in settings {
            for value in ["\"sk-proj-4711\"", "\"4711\"", "4711", "[\"4711\"]", "\"\""] {
                let error = load(&format!("[{section}]\n{key} = {value}"), &[]).unwrap_err();
                assert!(error.place.ends_with(&format!(":2:{}", key.len() + 4)), "{error}");
                refused(error, key);
            }
            let variable = format!("TOLLGATE_{}__{key}", section.replace('.', "__")).to_uppercase();
            for value in ["sk-proj-4711", "4711"] {
                let error = load("", &[(&variable, value)]).unwrap_err();
                assert_eq!(error.place, variable);
                refused(error, &variable);
            }
        }
    }

    #[test]
    fn a_port_in_place_of_an_address_is_answered_with_a_whole_address() {
        let written = "write \"127.0.0.1:8080\"";
        for key in ["listen", "admin"] {
            let variable = format!("TOLLGATE_SERVER__{}", key.to_uppercase());
            for error in [
                load(&format!("[server]\n{key} = 8080"), &[]).unwrap_err(),
                load(&format!("[server]\n{key} = \"8080\""), &[]).unwrap_err(),
                load("", &[(&variable, "8080")]).unwrap_err(),
            ] {
                assert!(error.message.ends_with(written), "{error}");
            }
        }
        let error = load("[mail]\nserver = 587", &[]).unwrap_err();
        assert!(
            error.message.ends_with("write \"smtp.example.com:587\""),
            "{error}"
        );
    }

    #[test]
    fn plans_are_the_default_ones_until_some_are_written() {
        let offered = |text: &str| -> Vec<String> {
            let plans = load(text, &[]).unwrap().plans();
            plans
                .iter()
                .map(|plan| format!("{} {}", plan.name, plan.allowance))
                .collect()
        };
        assert_eq!(offered(""), ["lite 5", "max 100", "pro 25"]);
        let own = "[plans.gold]\nprice = \"1000000\"\nallowance = \"7.5\"\ncadence = \"yearly\"\npayer = \"provider\"";
        assert_eq!(offered(own), ["gold 7.5"]);
        let gold = load(own, &[]).unwrap().plans().remove(0);
        assert_eq!((gold.cadence, gold.payer), (Cadence::Yearly, Payer::Provider));
        assert_eq!(gold.models, ["*"]);
        assert!(load("[plans.gold]\ncolour = \"yellow\"", &[]).is_err());
    }

    #[test]
    fn the_socket_and_the_lock_are_beside_the_embedded_database() {
        let cases = [
            ("", Some("tollgate-data")),
            ("sqlite:tollgate.db", Some("tollgate-data")),
            ("sqlite:x/tollgate.db", Some("x")),
            ("sqlite:///x/y/tollgate.db", Some("/x/y")),
            ("postgres://u@h/d", None),
        ];
        for (url, home) in cases {
            let env = [
                ("TOLLGATE_STORAGE__URL", url),
                ("TOLLGATE_SERVICE__PEPPER_ENV", "P"),
            ];
            let env = if url.is_empty() { &env[1..] } else { &env[..] };
            assert_eq!(load("", env).unwrap().home(), home.map(Path::new), "{url}");
        }
    }

    #[test]
    fn errors_in_variables_name_the_variable() {
        let error = load("", &[("TOLLGATE_SERVER__LISTNE", "127.0.0.1:1")]).unwrap_err();
        assert_eq!(error.place, "TOLLGATE_SERVER__LISTNE");
        assert!(error.message.contains("'listen'"), "{error}");
    }
}
