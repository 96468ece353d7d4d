//! Errors in the settings: place, message and the nearest valid key.

use std::fmt;
use std::path::Path;

/// An error in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Location of the error: file, line and column, or the name of a setting, variable or flag.
    pub place: String,
    /// The problem and its fix.
    pub message: String,
}

impl ConfigError {
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }

    /// Converts an error of the TOML parser; `text` is the content of the file at `path`.
    pub fn from_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let written = error.span().and_then(|span| text.get(span));
        let place = match error.span() {
            Some(span) => at(path, text, span.start),
            None => path.display().to_string(),
        };
        let message = unquoted(error.message(), written);
        Self::new(place, message.unwrap_or_else(|| explain(error.message())))
    }

    /// Converts an error in a value that an environment variable overrides; `error` names the
    /// setting.
    pub(super) fn from_variable(error: &toml::de::Error) -> Self {
        let text = error.to_string();
        let setting = text
            .lines()
            .last()
            .and_then(|line| line.strip_prefix("in `")?.strip_suffix('`'));
        // For an unknown key, the setting is its section, and the message contains the key.
        let unknown = error.message().strip_prefix("unknown field `");
        let unknown = unknown.and_then(|rest| rest.split('`').next());
        let keys: Vec<&str> = setting.into_iter().chain(unknown).collect();
        let place = match keys.is_empty() {
            true => "environment".to_owned(),
            false => format!("TOLLGATE_{}", keys.join(".").replace('.', "__").to_uppercase()),
        };
        Self::new(place, explain(error.message()))
    }
}

/// Returns file, line and column of a byte offset in the text.
fn at(path: &Path, text: &str, start: usize) -> String {
    let before = text.get(..start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("{}:{line}:{column}", path.display())
}

/// Returns the hint for a number where a string is required, such as a price; `written` is the
/// number as it appears in the file. `None` for other errors.
fn unquoted(message: &str, written: Option<&str>) -> Option<String> {
    let rest = message.strip_prefix("invalid type: ")?;
    let rest = rest
        .strip_prefix("floating point `")
        .or_else(|| rest.strip_prefix("integer `"))?;
    let (number, expected) = rest.split_once('`')?;
    if !expected.lines().next()?.contains("expected a string") {
        return None;
    }
    let is_number = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)) && !text.contains('\n')
    };
    let number = written.filter(is_number).unwrap_or(number);
    Some(format!("must be a string, not a number: write \"{number}\""))
}

/// Rewrites serde's messages about values of the wrong type and about unknown words. `None` for
/// other errors.
fn mistyped(message: &str) -> Option<String> {
    if let Some(rest) = message.strip_prefix("unknown variant `") {
        let mut quoted = rest.split('`').step_by(2);
        let word = quoted.next().unwrap_or_default();
        let known = rest.split('`').skip(2).step_by(2);
        let known: Vec<String> = known.map(|word| format!("\"{word}\"")).collect();
        return Some(format!("must be {}, not \"{word}\"", known.join(" or ")));
    }
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let (sent, expected) = rest.rsplit_once(", expected ")?;
    let expected = match expected {
        "a sequence" => "a list in brackets",
        "a map" => "a table in braces",
        "a boolean" => "true or false",
        "a string" => "a string in quotes",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number from 0",
        _ => return None,
    };
    let sent = match sent {
        "map" => "a table",
        "sequence" => "a list",
        _ => sent
            .find(['`', '"'])
            .and_then(|start| sent.get(start..))
            .unwrap_or(sent),
    };
    Some(format!("must be {expected}, not {}", sent.trim_matches('`')))
}

/// Former keys with their current names. A pair applies only in sections that have the current
/// name.
const RENAMED_KEYS: &[(&str, &str)] = &[
    ("least", "min_amount"),
    ("most", "max_amount"),
    ("most", "max_concurrent"),
    ("most_at_once", "max_concurrent"),
];

/// Rewrites a message of serde for operators; for an unknown key, suggests the most similar known
/// key. Returns the first line of other messages.
pub fn explain(message: &str) -> String {
    let first_line = message.lines().next().unwrap_or_default();
    if let Some(message) = unquoted(first_line, None).or_else(|| mistyped(first_line)) {
        return message;
    }
    let Some(rest) = first_line.strip_prefix("unknown field `") else {
        return first_line.to_owned();
    };
    let mut quoted = rest.split('`').step_by(2);
    let unknown = quoted.next().unwrap_or_default();
    let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
    let new_name = RENAMED_KEYS
        .iter()
        .find(|(old, new)| *old == unknown && known.contains(new));
    if let Some((_, new)) = new_name {
        return format!("key '{unknown}' is now '{new}': rename it");
    }
    let nearest = known.iter().max_by(|a, b| {
        let closeness = |name: &str| strsim::jaro_winkler(unknown, name);
        closeness(a).total_cmp(&closeness(b))
    });
    match nearest {
        Some(nearest) if strsim::jaro_winkler(unknown, nearest) > 0.7 => {
            format!(
                "unknown key '{unknown}': did you mean '{nearest}'? Known keys: {}",
                known.join(", ")
            )
        }
        _ => format!("unknown key '{unknown}'. Known keys: {}", known.join(", ")),
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
    fn a_number_in_the_place_of_text_is_shown_in_quotes() {
        for (text, place, written) in [
            (
                "[providers.x]\ndefault_price = { input = 0.05 }",
                "t.toml:2:27",
                "0.05",
            ),
            (
                "[providers.x.default_price]\ninput = 0.10\noutput = \"1\"",
                "t.toml:2:9",
                "0.10",
            ),
            (
                "[models.\"a/b\"]\nprices = { input = \"1\", output = 2 }",
                "t.toml:2:34",
                "2",
            ),
            (
                "[models.\"a/b\".media]\nfactors = { audio = 1.5 }",
                "t.toml:2:21",
                "1.5",
            ),
            ("[plans.x]\nprice = 15", "t.toml:2:9", "15"),
        ] {
            let error = toml::from_str::<crate::config::FileConfig>(text).unwrap_err();
            let error = ConfigError::from_toml(Path::new("t.toml"), text, &error);
            assert!(
                error.message.ends_with(&format!("write \"{written}\"")),
                "{text}: {error}"
            );
            assert_eq!(error.place, place, "{text}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_is_reported_with_the_right_one() {
        for (text, message) in [
            (
                "[limits]\nrpm = \"5\"",
                "must be a whole number from 0 to 4294967295, not \"5\"",
            ),
            (
                "[limits]\nrpm = -1",
                "must be a whole number from 0 to 4294967295, not -1",
            ),
            (
                "[providers.x]\nerror_text = \"show\"",
                "must be \"hide\" or \"log\" or \"pass\", not \"show\"",
            ),
            ("[models.\"a/b\"]\nenabled = 1", "must be true or false, not 1"),
            (
                "[models.\"a/b\"]\ntargets = \"sim/chat\"",
                "must be a list in brackets, not \"sim/chat\"",
            ),
            (
                "[providers.x]\ndefault_price = \"0\"",
                "must be a table in braces, not \"0\"",
            ),
        ] {
            let error = toml::from_str::<crate::config::FileConfig>(text).unwrap_err();
            assert_eq!(explain(error.message()), message, "{text}");
        }
    }

    #[test]
    fn keys_of_earlier_versions_are_named_with_their_new_names() {
        for (text, old, new) in [
            ("[payments]\nleast = \"5\"", "least", "min_amount"),
            ("[payments]\nmost = \"50\"", "most", "max_amount"),
            ("[drain]\nmost = 4", "most", "max_concurrent"),
            ("[egress]\nmost_at_once = 4", "most_at_once", "max_concurrent"),
        ] {
            let error = toml::from_str::<crate::config::FileConfig>(text).unwrap_err();
            let error = ConfigError::from_toml(Path::new("t.toml"), text, &error);
            assert_eq!(error.message, format!("key '{old}' is now '{new}': rename it"));
            assert_eq!(error.place, "t.toml:2:1");
        }
        let text = "[limits]\nmost = 4";
        let error = toml::from_str::<crate::config::FileConfig>(text).unwrap_err();
        assert!(explain(error.message()).starts_with("unknown key 'most'"));
    }

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
