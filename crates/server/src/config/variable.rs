//! Names of environment variables, the values of settings that end in `_env`.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Maximum length of the name of a variable, in bytes.
const MAX_LENGTH: usize = 128;

const INVALID: &str =
    "must be the name of an environment variable; to store a secret, use the setting that ends in _file";

/// The name of an environment variable: `[A-Za-z_][A-Za-z0-9_]*`, at most 128 bytes. Names are
/// logged and printed. A secret that was pasted in place of a name is therefore rejected with an
/// error that does not contain the secret. Only a secret that is a valid name is accepted as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct VariableName(Cow<'static, str>);

impl VariableName {
    /// Creates a name that the gateway defines, without validating it.
    pub const fn known(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let is_valid = text.len() <= MAX_LENGTH
            && bytes
                .next()
                .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_valid.then(|| Self(Cow::Owned(text.to_owned())))
    }
}

impl Deref for VariableName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for VariableName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Values of other types receive the same message, because serde's own message would contain
        // the value.
        let text = toml::Value::deserialize(deserializer)?;
        text.as_str()
            .and_then(Self::parse)
            .ok_or_else(|| D::Error::custom(INVALID))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_variables_are_accepted() {
        let longest = "A".repeat(MAX_LENGTH);
        for name in ["OPENAI_API_KEY", "_x", "a1", &longest] {
            assert_eq!(VariableName::parse(name).as_deref(), Some(name));
        }
        let too_long = "A".repeat(MAX_LENGTH + 1);
        for text in ["", "1A", "sk-abc", "A B", "A=b", "É", "$KEY", &too_long] {
            assert_eq!(VariableName::parse(text), None, "{text}");
        }
    }
}
