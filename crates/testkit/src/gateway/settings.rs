//! The settings file: the defaults of all tests, merged with the settings of one test.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Options;
use super::database::Database;

/// Settings of all tests: free ports, no detection of local servers, limits that no test reaches,
/// and no delay at shutdown.
const BASE: &str = r#"
[server]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
# What the client of tests calls every server.
admin_hosts = ["gateway"]
discover = false

[limits]
rpm = 10000
tpm = 1000000000

[timeouts]
drain_delay_ms = 0
shutdown_ms = 60000
"#;

/// Name and value of the environment variable with the pepper of key digests, for nodes that share
/// a database.
pub(super) const PEPPER: (&str, &str) = ("TEST_PEPPER", "a pepper for tests that is long enough");

/// Maximum number of PostgreSQL connections of one node, since many tests share the server.
const CONNECTIONS: i64 = 10;

#[derive(Debug, Clone)]
pub(super) struct Settings {
    folder: PathBuf,
    base: Table,
    config: Table,
    pub(super) env: Vec<(String, String)>,
    pub(super) runner: Vec<String>,
}

impl Settings {
    pub(super) fn new(options: &Options, database: Option<&Database>, folder: &Path) -> Self {
        let mut base = parse(BASE);
        let mut env = options.env.clone();
        if let Some(database) = database {
            let storage = format!(
                "[storage]\nurl = \"{}\"\nmax_connections = {CONNECTIONS}\n[service]\npepper_env = \"{}\"\n",
                database.url(),
                PEPPER.0
            );
            merge(&mut base, parse(&storage));
            env.push((PEPPER.0.to_owned(), PEPPER.1.to_owned()));
        }
        Self {
            folder: folder.to_owned(),
            base,
            config: parse(&options.config),
            env,
            runner: options.runner.clone(),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.join("tollgate.toml")
    }

    pub(super) fn change(&mut self, config: &str) {
        self.config = parse(config);
    }

    pub(super) fn write(&self) {
        let mut whole = self.base.clone();
        merge(&mut whole, self.config.clone());
        self.write_text(&whole.to_string());
    }

    /// Writes a new file and renames it, so that no reader reads an incomplete file.
    pub(super) fn write_text(&self, text: &str) {
        let beside = self.folder.join("tollgate.toml.new");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, self.file()).unwrap();
    }
}

fn parse(text: &str) -> Table {
    text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
