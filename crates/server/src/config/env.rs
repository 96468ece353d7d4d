//! Settings from `TOLLGATE_<SECTION>__<KEY>` variables, which override the file.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::error::ConfigError;

const PREFIX: &str = "TOLLGATE_";

/// The environment variables at the start. They are read once and passed to all code that needs
/// them.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads the environment variables of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars().collect())
    }

    /// Creates an environment of these names and values.
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        Self(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    /// Returns the value of a variable; `None` if it is unset or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns the settings in the variables as a table. Ignores names without the prefix
    /// `TOLLGATE_` or without `__`.
    ///
    /// # Errors
    ///
    /// Fails if a section or key is empty, or if two variables contradict each other.
    pub fn overlay(&self) -> Result<Table, ConfigError> {
        let mut overlay = Table::new();
        for (name, text) in &self.0 {
            let Some(path) = name.strip_prefix(PREFIX).filter(|path| path.contains("__")) else {
                continue;
            };
            let path: Vec<String> = path.split("__").map(str::to_ascii_lowercase).collect();
            insert(&mut overlay, &path, value_of(text)).ok_or_else(|| {
                ConfigError::new(
                    format!("variable {name}"),
                    "is not a valid setting name, or contradicts another variable; write TOLLGATE_<SECTION>__<KEY>, such as TOLLGATE_SERVER__LISTEN",
                )
            })?;
        }
        Ok(overlay)
    }
}

/// Parses an integer, a boolean or an array in TOML syntax. Other texts, such as decimal numbers,
/// become strings.
fn value_of(text: &str) -> Value {
    let parsed = format!("v = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("v"));
    match parsed {
        Some(value @ (Value::Integer(_) | Value::Boolean(_) | Value::Array(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

fn insert(table: &mut Table, path: &[String], value: Value) -> Option<()> {
    let (key, rest) = path.split_first().filter(|(key, _)| !key.is_empty())?;
    if rest.is_empty() {
        table.insert(key.clone(), value);
        return Some(());
    }
    let inner = table
        .entry(key.clone())
        .or_insert_with(|| Value::Table(Table::new()));
    insert(inner.as_table_mut()?, rest, value)
}

/// Merges `over` into `base`. Tables are merged; other values are replaced.
pub fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_settings() {
        let environment = Environment::of(&[
            ("TOLLGATE_SERVER__LISTEN", "127.0.0.1:9"),
            ("TOLLGATE_LIMITS__RPM", "7"),
            ("TOLLGATE_SERVER__ALLOW_PLAIN_HTTP", "true"),
            ("TOLLGATE_DATA", "ignored: no section"),
            ("HOME", "/"),
        ]);
        let mut table: Table = "[limits]\nrpm = 1\ntpm = 2".parse().unwrap();
        merge(&mut table, environment.overlay().unwrap());
        let config: crate::config::FileConfig = table.try_into().unwrap();
        assert_eq!(config.limits.rpm, 7);
        assert_eq!(config.limits.tpm, 2);
        assert_eq!(config.server.listen, "127.0.0.1:9");
        assert!(config.server.allow_plain_http);
    }
}
