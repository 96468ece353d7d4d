//! Parses the members of JSON requests. Errors contain the path of the invalid member.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tollgate_types::{Error, ErrorCode};

/// Limits of `metadata`: number of pairs, characters of a name, characters of a value.
const METADATA_LIMITS: (usize, usize, usize) = (16, 64, 512);

/// Maximum length of a prompt, in characters.
const MAX_PROMPT_CHARS: usize = 32_000;
/// Largest integer that JSON clients with 64-bit floats represent exactly.
const MAX_SEED: u64 = (1 << 53) - 1;

/// The members of a request that were not read yet, and the names of the members that were looked
/// up.
pub struct Members {
    members: Map<String, Value>,
    known: BTreeSet<&'static str>,
}

impl Members {
    /// Parses a request body, which must be a JSON object.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| Error::new(ErrorCode::InvalidJson, format!("The body is not JSON: {error}.")))?;
        match body {
            Value::Object(members) => Ok(Self::of(members)),
            _ => Err(Error::new(
                ErrorCode::InvalidJson,
                "The body must be a JSON object.",
            )),
        }
    }

    /// Wraps members that were parsed elsewhere, for example from a form.
    pub fn of(members: Map<String, Value>) -> Self {
        Self {
            members,
            known: BTreeSet::new(),
        }
    }

    /// Whether the member exists and is not null.
    pub fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    /// Adds or replaces a member.
    pub fn put(&mut self, name: &'static str, value: Value) {
        self.members.insert(name.to_owned(), value);
    }

    /// Removes and returns a member. Null counts as absent.
    pub fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.insert(name);
        self.members.remove(name).filter(|value| !value.is_null())
    }

    /// Removes and returns a member that has an alias, with the name that was used. Returns an
    /// error if both names are present.
    pub fn either(
        &mut self,
        name: &'static str,
        alias: &'static str,
    ) -> Result<Option<(&'static str, Value)>, Error> {
        match (self.take(name), self.take(alias)) {
            (Some(_), Some(_)) => Err(invalid(
                alias,
                &format!("is an alias of '{name}'. Send only one of them"),
            )),
            (Some(value), None) => Ok(Some((name, value))),
            (None, Some(value)) => Ok(Some((alias, value))),
            (None, None) => Ok(None),
        }
    }

    /// Removes and returns a string. Returns an error if it is blank.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        self.take(name).map(|value| text(name, value)).transpose()
    }

    /// Like [`Self::text`], but the string may be empty.
    pub fn any_text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(name, "must be a string")),
        }
    }

    /// Removes and returns a prompt. A blank prompt counts as absent. Returns an error if the
    /// prompt has more than [`MAX_PROMPT_CHARS`] characters.
    pub fn prompt(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        let prompt = self.any_text(name)?.filter(|prompt| !prompt.trim().is_empty());
        match prompt {
            Some(prompt) if prompt.chars().count() > MAX_PROMPT_CHARS => Err(invalid(
                name,
                &format!("must have at most {MAX_PROMPT_CHARS} characters"),
            )),
            prompt => Ok(prompt),
        }
    }

    /// Removes and returns the member `seed`, an integer from 0 to [`MAX_SEED`].
    pub fn seed(&mut self) -> Result<Option<u64>, Error> {
        self.number("seed", 0, MAX_SEED)
    }

    /// Removes and returns a boolean.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(invalid(name, "must be true or false")),
        }
    }

    /// Removes and returns an integer from `min` to `max`.
    pub fn number(&mut self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>, Error> {
        self.take(name)
            .map(|value| number(name, &value, min, max))
            .transpose()
    }

    /// Removes and returns a number from `min` to `max`.
    pub fn decimal(&mut self, name: &'static str, (min, max): (f64, f64)) -> Result<Option<f64>, Error> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value.as_f64().filter(|number| (min..=max).contains(number));
        let refused = || invalid(name, &format!("must be a number from {min} to {max}"));
        number.map(Some).ok_or_else(refused)
    }

    /// Removes and returns a string, or a list of 1 to `max` strings, each with its path. Returns
    /// an empty list if the member is absent.
    pub fn texts(&mut self, name: &'static str, max: usize) -> Result<Vec<(String, String)>, Error> {
        let items = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(one) => return Ok(vec![(name.to_owned(), text(name, one)?)]),
        };
        if items.is_empty() || items.len() > max {
            return Err(invalid(name, &format!("must have 1 to {max} items")));
        }
        let item = |(place, item): (usize, Value)| {
            let path = format!("{name}[{place}]");
            let text = text(&path, item)?;
            Ok((path, text))
        };
        items.into_iter().enumerate().map(item).collect()
    }

    /// Removes and returns `metadata`, within [`METADATA_LIMITS`].
    pub fn metadata(&mut self) -> Result<Option<BTreeMap<String, String>>, Error> {
        let (max, name_length, value_length) = METADATA_LIMITS;
        let Some(value) = self.take("metadata") else {
            return Ok(None);
        };
        let Value::Object(pairs) = value else {
            return Err(invalid("metadata", "must be an object"));
        };
        if pairs.len() > max {
            return Err(invalid("metadata", &format!("must have at most {max} pairs")));
        }
        let pair = |(name, value): (String, Value)| {
            let shown: String = name.chars().take(name_length).collect();
            let path = format!("metadata.{shown}");
            if name.is_empty() || name.chars().count() > name_length {
                return Err(invalid(
                    &path,
                    &format!("must have a name of 1 to {name_length} characters"),
                ));
            }
            match value {
                Value::String(value) if value.chars().count() <= value_length => Ok((name, value)),
                _ => Err(invalid(
                    &path,
                    &format!("must be a string of at most {value_length} characters"),
                )),
            }
        };
        pairs.into_iter().map(pair).collect::<Result<_, _>>().map(Some)
    }

    /// Returns an error if an unknown member is left.
    pub fn end(self) -> Result<(), Error> {
        let Some(unknown) = self.members.keys().next() else {
            return Ok(());
        };
        let shown: String = unknown.chars().take(60).collect();
        let known: Vec<&str> = self.known.into_iter().collect();
        let message = format!(
            "Unknown parameter '{shown}'. Known parameters: {}.",
            known.join(", ")
        );
        Err(Error::new(ErrorCode::UnknownParameter, message).with_param(shown))
    }
}

/// Parses a nested object with `read`. Errors contain the full path, which begins with `path`.
pub fn nested<T>(
    path: &str,
    value: Value,
    read: impl FnOnce(&mut Members) -> Result<T, Error>,
) -> Result<T, Error> {
    let Value::Object(object) = value else {
        return Err(invalid(path, "must be an object"));
    };
    let mut members = Members::of(object);
    let read = read(&mut members).and_then(|value| members.end().map(|()| value));
    read.map_err(|error| below(path, error))
}

fn below(path: &str, mut error: Error) -> Error {
    if let Some(param) = error.param.take() {
        let whole = format!("{path}.{param}");
        error.message = error
            .message
            .replacen(&format!("'{param}'"), &format!("'{whole}'"), 1);
        error.param = Some(whole);
    }
    error
}

/// Returns the error for a value that the API does not allow for any model.
pub fn invalid(path: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{path}' {what}.")).with_param(path)
}

/// Returns the error for a value that exceeds the limits of the chosen model.
pub fn beyond(path: &str, what: &str) -> Error {
    let message = format!("'{path}' {what}. GET /v1/models/{{model}} lists the limits of the model.");
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param(path)
}

/// Returns a string value. Returns an error if it is blank.
pub fn text(path: &str, value: Value) -> Result<String, Error> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(invalid(path, "must be a non-empty string")),
    }
}

/// Returns an integer value from `min` to `max`.
pub fn number(path: &str, value: &Value, min: u64, max: u64) -> Result<u64, Error> {
    let number = value.as_u64().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| invalid(path, &format!("must be an integer from {min} to {max}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(body: &str) -> Members {
        Members::read(body.as_bytes()).unwrap()
    }

    #[test]
    fn invalid_input_is_reported_with_its_path() {
        for (body, path, read) in [
            (
                r#"{"a": ""}"#,
                "a",
                (|m| m.text("a").map(drop)) as fn(&mut Members) -> Result<(), Error>,
            ),
            (r#"{"a": 1}"#, "a", |m| m.any_text("a").map(drop)),
            (r#"{"a": "yes"}"#, "a", |m| m.flag("a").map(drop)),
            (r#"{"a": 0}"#, "a", |m| m.number("a", 1, 4).map(drop)),
            (r#"{"a": 5}"#, "a", |m| m.number("a", 1, 4).map(drop)),
            (r#"{"a": 1.5}"#, "a", |m| m.number("a", 1, 4).map(drop)),
            (r#"{"a": []}"#, "a", |m| m.texts("a", 2).map(drop)),
            (r#"{"a": ["x", "y", "z"]}"#, "a", |m| m.texts("a", 2).map(drop)),
            (r#"{"a": ["x", 2]}"#, "a[1]", |m| m.texts("a", 2).map(drop)),
            (r#"{"a": 1, "b": 2}"#, "b", |m| m.either("a", "b").map(drop)),
            (r#"{"metadata": {"x": 1}}"#, "metadata.x", |m| {
                m.metadata().map(drop)
            }),
            (r#"{"metadata": []}"#, "metadata", |m| m.metadata().map(drop)),
        ] {
            let error = read(&mut members(body)).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(path), "{body}");
            assert_eq!(error.code, ErrorCode::InvalidParameter);
        }
        let mut two = members(r#"{"a": 4, "b": null, "c": 1}"#);
        assert_eq!(two.number("a", 1, 4).unwrap(), Some(4));
        assert_eq!(two.text("b").unwrap(), None);
        let unknown = two.end().unwrap_err();
        assert_eq!(
            (unknown.code, unknown.param.as_deref()),
            (ErrorCode::UnknownParameter, Some("c"))
        );
        assert_eq!(Members::read(b"[]").err().unwrap().code, ErrorCode::InvalidJson);
    }

    #[test]
    fn metadata_has_bounds_on_both_sides() {
        let pairs = |count: usize, name: usize, value: usize| {
            let pairs = (0..count).map(|n| (format!("{n:0>name$}"), Value::String("é".repeat(value))));
            let body = serde_json::json!({"metadata": Value::Object(pairs.collect())});
            members(&body.to_string()).metadata()
        };
        assert_eq!(pairs(16, 64, 512).unwrap().unwrap().len(), 16);
        for (count, name, value) in [(17, 2, 1), (1, 65, 1), (1, 1, 513)] {
            assert!(pairs(count, name, value).is_err(), "{count} {name} {value}");
        }
    }
}
