//! From file, environment and flags to one [`Config`] that has been checked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use tollgate_backends::{postgres, redis};
use tollgate_billing::Plan;
use tollgate_jobs::WorkerSettings;
use tollgate_pipeline::{Drain, Retries, Settings, Timeouts};
use tollgate_providers::egress::Allowed;
use tollgate_storage::{Cadence, Payer};
use tollgate_types::Credits;
use toml::Table;

use super::env::{Environment, merge};
use super::error::{ConfigError, explain};
use super::file::{CadenceSetting, FileConfig, PayerSetting, PlansSection, RedisSection, ServiceSection};

/// The name of the embedded database's file.
const DATABASE_FILE: &str = "tollgate.db";

/// Longest that a request may wait for its limits to be decided elsewhere.
const LONGEST_DECISION_MS: u64 = 1_000;

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config FILE`.
    pub config: Option<PathBuf>,
    /// `--data DIR`.
    pub data: Option<PathBuf>,
    /// `--listen ADDR`.
    pub listen: Option<String>,
    /// `--admin ADDR`.
    pub admin: Option<String>,
}

/// Checked settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// As it stands in file and environment.
    pub file: FileConfig,
    /// The file that was read, if one was.
    pub path: Option<PathBuf>,
    /// Where the secrets are, and the embedded database unless `storage.url` says another place.
    pub data: PathBuf,
    /// Where callers connect.
    pub listen: SocketAddr,
    /// Where operators connect.
    pub admin: SocketAddr,
    /// What callers' addresses may reach although it is not public.
    pub egress: Vec<Allowed>,
    /// Where everything is kept.
    pub storage: StorageUrl,
    /// Where several nodes share limits; nothing with SQLite, which has one process. The address may hold a password.
    pub redis: Option<SecretString>,
    /// The environment, for keys.
    pub environment: Environment,
}

/// Where everything is kept.
#[derive(Clone, Debug)]
pub enum StorageUrl {
    /// A file on this machine.
    Sqlite(PathBuf),
    /// A PostgreSQL database. The address may hold a password.
    Postgres(SecretString),
}

impl Config {
    /// Reads and checks everything.
    pub fn load(flags: &Flags, environment: Environment) -> Result<Self, ConfigError> {
        let path = config_path(flags);
        let mut file = match &path {
            Some(path) => read_file(path)?,
            None => Table::new(),
        };
        merge(&mut file, environment.overlay()?);
        let file: FileConfig = file
            .try_into()
            .map_err(|error: toml::de::Error| ConfigError::new("environment", explain(error.message())))?;
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
        };
        config.check()?;
        Ok(config)
    }

    /// The directory of the embedded database. Its lock, its journal and the socket for commands stand there, too: whoever
    /// means a database finds the process that has it. Nothing with PostgreSQL, which nobody has alone.
    pub fn home(&self) -> Option<&Path> {
        match &self.storage {
            StorageUrl::Sqlite(database) => database.parent(),
            StorageUrl::Postgres(_) => None,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let server = &self.file.server;
        if !self.listen.ip().is_loopback() && !server.allow_plain_http {
            let message = format!(
                "{} can be reached from other machines without TLS. Put a TLS proxy in front and set \
                 server.allow_plain_http = true, or listen on 127.0.0.1.",
                self.listen
            );
            return Err(ConfigError::new("server.listen", message));
        }
        check_slug(&self.file.service.slug)?;
        if matches!(self.storage, StorageUrl::Postgres(_)) && !has_pepper(&self.file.service) {
            let message = "with PostgreSQL the secret under which keys are digested is shared by all nodes: set pepper_file or pepper_env";
            return Err(ConfigError::new("service", message));
        }
        check_plans(&self.file.plans)?;
        if matches!(self.storage, StorageUrl::Sqlite(_)) && !self.file.jobs.run_here {
            let message = "with SQLite there is one process, and it carries the jobs out: leave run_here = true, or set storage.url \
                to a PostgreSQL database and start `tollgate worker` beside the nodes";
            return Err(ConfigError::new("jobs.run_here", message));
        }
        if self.file.egress.most_at_once == 0 {
            return Err(ConfigError::new("egress.most_at_once", "must be above 0"));
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
        match positive.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(ConfigError::new(format!("timeouts.{name}"), "must be above 0")),
            None => Ok(()),
        }
    }

    /// A key: the text of a file, or a variable. `place` is the setting that names the file.
    pub fn key<'v>(
        &self,
        place: &str,
        variables: impl IntoIterator<Item = &'v str>,
        file: Option<&str>,
    ) -> Result<Option<SecretString>, ConfigError> {
        if let Some(file) = file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| ConfigError::new(place, format!("cannot read {file}: {error}")))?;
            return Ok(Some(text.trim().to_owned().into()));
        }
        let key = variables
            .into_iter()
            .find_map(|variable| self.environment.get(variable));
        Ok(key.map(|key| key.to_owned().into()))
    }

    /// Plans that can be subscribed to.
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

    /// The figures of workers.
    pub fn worker_settings(&self) -> WorkerSettings {
        WorkerSettings {
            concurrency: self.file.jobs.concurrency,
            per_account: self.file.jobs.per_account,
            drain: Duration::from_millis(self.file.timeouts.shutdown_ms),
            ..WorkerSettings::default()
        }
    }

    /// The figures of the pipeline.
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
                most: drain.most,
                time: ms(drain.time_ms),
                bytes: drain.bytes,
            },
        }
    }
}

/// `--config FILE`, or `tollgate.toml` in the working directory when there is one.
fn config_path(flags: &Flags) -> Option<PathBuf> {
    let usual = PathBuf::from("tollgate.toml");
    flags.config.clone().or_else(|| usual.exists().then_some(usual))
}

fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(path.display().to_string(), format!("cannot be read: {error}")))?;
    // Read as the typed shape first: only that way a fault has a line and a column.
    toml::from_str::<FileConfig>(&text).map_err(|error| ConfigError::from_toml(path, &text, &error))?;
    text.parse::<Table>()
        .map_err(|error| ConfigError::from_toml(path, &text, &error))
}

fn address(place: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| {
        ConfigError::new(
            place,
            format!("'{text}' is not an address: write 127.0.0.1:8080 or [::1]:8080"),
        )
    })
}

/// The rules of `egress.allow`. None lets a caller reach the gateway's own listeners.
fn allowed(rules: &[String], own: [SocketAddr; 2]) -> Result<Vec<Allowed>, ConfigError> {
    let fault = |message: String| ConfigError::new("egress.allow", message);
    let read = |text: &String| {
        let rule = Allowed::parse(text).map_err(|error| fault(format!("'{text}' is no rule: {error}")))?;
        match own.iter().find(|address| rule.covers(**address)) {
            Some(address) => Err(fault(format!(
                "'{text}' lets callers reach the gateway's own listener {address}: name another port or a smaller network"
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

/// What an address of storage means; `place` is the setting or the flag that has it.
pub fn storage_at(place: &str, url: &str, data: &Path) -> Result<StorageUrl, ConfigError> {
    let fault = |message: &str| Err(ConfigError::new(place, message));
    match url.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() => {
            let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
            // Lock and journal stand beside the database: a directory belongs to one installation.
            if path.file_name().is_none_or(|name| name != DATABASE_FILE) {
                return fault(
                    "the file is called tollgate.db and has a directory of its own: write sqlite:DIR/tollgate.db",
                );
            }
            // A bare name says no directory.
            let said = path.parent().is_some_and(|parent| !parent.as_os_str().is_empty());
            Ok(StorageUrl::Sqlite(if said { path } else { data.join(path) }))
        }
        Some(("postgres" | "postgresql", _)) => match postgres::check_url(url) {
            Ok(()) => Ok(StorageUrl::Postgres(url.to_owned().into())),
            Err(reason) => fault(&format!(
                "{reason}: write postgres://user:password@host:5432/database"
            )),
        },
        _ => fault("write sqlite:DIR/tollgate.db or postgres://user@host:5432/database"),
    }
}

/// The most that a plan may cost or include. Above it, sums of many years would not fit.
const MOST_OF_A_PLAN: i64 = 1_000_000;

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
            return fault("", "a plan's name is 1 to 32 small letters, digits and hyphens");
        }
        for (key, amount) in [("price", plan.price), ("allowance", plan.allowance)] {
            if amount < Credits::ZERO || Credits::from_whole(MOST_OF_A_PLAN).is_some_and(|most| amount > most)
            {
                return fault(key, "is 0 to 1000000 credits");
            }
        }
        if plan.models.is_empty() || plan.models.iter().any(String::is_empty) {
            return fault(
                "models",
                "is at least one pattern, such as \"maker/*\"; \"*\" is all models",
            );
        }
    }
    Ok(())
}

/// The address of Redis, if limits are shared.
fn redis_url(section: &RedisSection, storage: &StorageUrl) -> Result<Option<SecretString>, ConfigError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if !(1..=64).contains(&section.prefix.len()) || !section.prefix.chars().all(plain) {
        let message = "a prefix is 1 to 64 letters, digits and -_.: such as \"tollgate\"";
        return Err(ConfigError::new("redis.prefix", message));
    }
    if !(1..=LONGEST_DECISION_MS).contains(&section.timeout_ms) {
        let message = format!("must be 1 to {LONGEST_DECISION_MS}: requests wait for it");
        return Err(ConfigError::new("redis.timeout_ms", message));
    }
    let Some(url) = &section.url else {
        return Ok(None);
    };
    redis::check_url(url).map_err(|message| ConfigError::new("redis.url", message))?;
    // With SQLite there is one process, which counts by itself.
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
        "a slug is 1 to 32 small letters, digits and inner hyphens, such as \"acme\"",
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
    fn what_is_unsafe_or_senseless_is_refused_with_its_place() {
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
            ("[egress]\nmost_at_once = 0", "egress.most_at_once"),
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
    fn a_fault_in_a_variable_is_told_as_such() {
        let error = load("", &[("TOLLGATE_SERVER__LISTNE", "127.0.0.1:1")]).unwrap_err();
        assert_eq!(error.place, "environment");
        assert!(error.message.contains("'listen'"), "{error}");
    }
}
