//! What is wrong with the settings: where, what, and the nearest thing that would be right.

use std::fmt;
use std::path::Path;

/// A fault in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// File, line and column, or the name of a variable or flag.
    pub place: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl ConfigError {
    /// A fault at a place.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }

    /// A fault that the TOML reader found in a file.
    pub fn from_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let place = match error.span() {
            Some(span) => {
                let before = text.get(..span.start).unwrap_or(text);
                let line = before.matches('\n').count() + 1;
                let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
                format!("{}:{line}:{column}", path.display())
            }
            None => path.display().to_string(),
        };
        Self::new(place, explain(error.message()))
    }
}

/// Adds the nearest known key to serde's words about an unknown one.
pub fn explain(message: &str) -> String {
    let first_line = message.lines().next().unwrap_or_default();
    let Some(rest) = first_line.strip_prefix("unknown field `") else {
        return first_line.to_owned();
    };
    let mut quoted = rest.split('`').step_by(2);
    let unknown = quoted.next().unwrap_or_default();
    let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
    let nearest = known.iter().max_by(|a, b| {
        let closeness = |name: &str| strsim::jaro_winkler(unknown, name);
        closeness(a).total_cmp(&closeness(b))
    });
    match nearest {
        Some(nearest) if strsim::jaro_winkler(unknown, nearest) > 0.7 => {
            format!(
                "unknown key '{unknown}': did you mean '{nearest}'? Known here: {}",
                known.join(", ")
            )
        }
        _ => format!("unknown key '{unknown}'. Known here: {}", known.join(", ")),
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_placed_and_the_nearest_known_one_is_named() {
        let text = "[server]\nlisten = \"127.0.0.1:1\"\ntrusted_proxy = []\n";
        let error = toml::from_str::<crate::config::FileConfig>(text).unwrap_err();
        let error = ConfigError::from_toml(Path::new("t.toml"), text, &error);
        assert_eq!(error.place, "t.toml:3:1");
        assert!(
            error.message.contains("did you mean 'trusted_proxies'?"),
            "{error}"
        );
    }
}
