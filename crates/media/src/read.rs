//! Reading the members of a request, each with its path when it is wrong.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tollgate_types::{Error, ErrorCode};

/// Most pairs of `metadata`, and most characters of a name and a value.
const METADATA: (usize, usize, usize) = (16, 64, 512);

/// Most characters of a prompt.
const MOST_PROMPT: usize = 32_000;
/// The largest number that every client's JSON keeps.
const MOST_SEED: u64 = (1 << 53) - 1;

/// The members of a request that were not looked at yet.
pub(crate) struct Members {
    members: Map<String, Value>,
    known: BTreeSet<&'static str>,
}

impl Members {
    /// Reads a body.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Error> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| Error::new(ErrorCode::InvalidJson, format!("The body is not JSON: {error}.")))?;
        match body {
            Value::Object(members) => Ok(Self::of(members)),
            _ => Err(Error::new(ErrorCode::InvalidJson, "The body is a JSON object.")),
        }
    }

    /// Members that came otherwise.
    pub(crate) fn of(members: Map<String, Value>) -> Self {
        Self {
            members,
            known: BTreeSet::new(),
        }
    }

    /// Whether there is such a member.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    /// Says it under this name.
    pub(crate) fn put(&mut self, name: &'static str, value: Value) {
        self.members.insert(name.to_owned(), value);
    }

    /// Takes a member; null is as none.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.insert(name);
        self.members.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a member that has two names; both of them are not said at once.
    pub(crate) fn either(
        &mut self,
        name: &'static str,
        alias: &'static str,
    ) -> Result<Option<(&'static str, Value)>, Error> {
        match (self.take(name), self.take(alias)) {
            (Some(_), Some(_)) => Err(invalid(
                alias,
                &format!("is another name of '{name}': send one of them"),
            )),
            (Some(value), None) => Ok(Some((name, value))),
            (None, Some(value)) => Ok(Some((alias, value))),
            (None, None) => Ok(None),
        }
    }

    /// A text that is not empty.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        self.take(name).map(|value| text(name, value)).transpose()
    }

    /// A text that may be empty.
    pub(crate) fn any_text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(name, "is a text")),
        }
    }

    /// A prompt; one without a word is none.
    pub(crate) fn prompt(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        let prompt = self.any_text(name)?.filter(|prompt| !prompt.trim().is_empty());
        match prompt {
            Some(prompt) if prompt.chars().count() > MOST_PROMPT => {
                Err(invalid(name, &format!("has at most {MOST_PROMPT} characters")))
            }
            prompt => Ok(prompt),
        }
    }

    /// `seed`.
    pub(crate) fn seed(&mut self) -> Result<Option<u64>, Error> {
        self.number("seed", 0, MOST_SEED)
    }

    /// True or false.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Error> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(invalid(name, "is true or false")),
        }
    }

    /// A whole number within bounds.
    pub(crate) fn number(&mut self, name: &'static str, least: u64, most: u64) -> Result<Option<u64>, Error> {
        self.take(name)
            .map(|value| number(name, &value, least, most))
            .transpose()
    }

    /// A number within bounds.
    pub(crate) fn decimal(
        &mut self,
        name: &'static str,
        (least, most): (f64, f64),
    ) -> Result<Option<f64>, Error> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let number = value.as_f64().filter(|number| (least..=most).contains(number));
        let refused = || invalid(name, &format!("is a number from {least} to {most}"));
        number.map(Some).ok_or_else(refused)
    }

    /// A text, or a list of texts: `most` at the most.
    pub(crate) fn texts(&mut self, name: &'static str, most: usize) -> Result<Vec<(String, String)>, Error> {
        let items = match self.take(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(one) => return Ok(vec![(name.to_owned(), text(name, one)?)]),
        };
        if items.is_empty() || items.len() > most {
            return Err(invalid(name, &format!("has 1 to {most} items")));
        }
        let item = |(place, item): (usize, Value)| {
            let path = format!("{name}[{place}]");
            let text = text(&path, item)?;
            Ok((path, text))
        };
        items.into_iter().enumerate().map(item).collect()
    }

    /// `metadata`: up to 16 pairs of texts.
    pub(crate) fn metadata(&mut self) -> Result<Option<BTreeMap<String, String>>, Error> {
        let (most, name_length, value_length) = METADATA;
        let Some(value) = self.take("metadata") else {
            return Ok(None);
        };
        let Value::Object(pairs) = value else {
            return Err(invalid("metadata", "is an object"));
        };
        if pairs.len() > most {
            return Err(invalid("metadata", &format!("has at most {most} pairs")));
        }
        let pair = |(name, value): (String, Value)| {
            let shown: String = name.chars().take(name_length).collect();
            let path = format!("metadata.{shown}");
            if name.is_empty() || name.chars().count() > name_length {
                return Err(invalid(
                    &path,
                    &format!("has a name of 1 to {name_length} characters"),
                ));
            }
            match value {
                Value::String(value) if value.chars().count() <= value_length => Ok((name, value)),
                _ => Err(invalid(
                    &path,
                    &format!("is a text of at most {value_length} characters"),
                )),
            }
        };
        pairs.into_iter().map(pair).collect::<Result<_, _>>().map(Some)
    }

    /// Refuses what nobody has asked for.
    pub(crate) fn end(self) -> Result<(), Error> {
        let Some(unknown) = self.members.keys().next() else {
            return Ok(());
        };
        let shown: String = unknown.chars().take(60).collect();
        let known: Vec<&str> = self.known.into_iter().collect();
        let message = format!(
            "'{shown}' is not a parameter of this endpoint. Its parameters are: {}.",
            known.join(", ")
        );
        Err(Error::new(ErrorCode::UnknownParameter, message).with_param(shown))
    }
}

/// Reads the members of an object within another. What is wrong is told with the whole path.
pub(crate) fn nested<T>(
    path: &str,
    value: Value,
    read: impl FnOnce(&mut Members) -> Result<T, Error>,
) -> Result<T, Error> {
    let Value::Object(object) = value else {
        return Err(invalid(path, "is an object"));
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

/// A value that is outside what the format allows.
pub(crate) fn invalid(path: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{path}' {what}.")).with_param(path)
}

/// A value that this model cannot do.
pub(crate) fn beyond(path: &str, what: &str) -> Error {
    let message = format!("'{path}' {what}. GET /v1/models/{{model}} shows what the model can be asked for.");
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param(path)
}

/// Says for the caller what the caller has not said, if it is good.
pub(crate) fn fill<T: Clone>(said: &mut Option<T>, usual: &Option<T>, is_good: impl FnOnce(&T) -> bool) {
    if said.is_none() {
        *said = usual.clone().filter(is_good);
    }
}

/// A text that is not empty.
pub(crate) fn text(path: &str, value: Value) -> Result<String, Error> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Ok(text),
        _ => Err(invalid(path, "is a text that is not empty")),
    }
}

/// A whole number within bounds.
pub(crate) fn number(path: &str, value: &Value, least: u64, most: u64) -> Result<u64, Error> {
    let number = value.as_u64().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| invalid(path, &format!("is a whole number from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(body: &str) -> Members {
        Members::read(body.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_wrong_is_told_with_its_path() {
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
