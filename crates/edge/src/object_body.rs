//! Request bodies of the admin and console APIs: JSON objects whose members are read by name, so
//! that errors can name the invalid member.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tollgate_types::{Error, ErrorCode, Timestamp};

use crate::body::JsonBody;
use crate::error::ApiError;

/// Maximum size of a request body.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// A type that can be read from the members of a request body.
pub trait Read: Sized {
    /// Reads the members of this type. The others remain.
    fn read(members: &mut Members) -> Result<Self, Error>;
}

/// A request body without unknown members.
pub struct ObjectBody<T>(pub T);

impl<S: Send + Sync, T: Read> FromRequest<S> for ObjectBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let JsonBody(bytes) = JsonBody::<MAX_BODY_BYTES>::from_request(request, state).await?;
        Ok(Self(read(&bytes)?))
    }
}

/// Parses a body. Fails if it is not an object or has unknown members.
pub fn read<T: Read>(bytes: &[u8]) -> Result<T, Error> {
    let members: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("The body is not a JSON object: {error}.");
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    let mut members = Members(members);
    let read = T::read(&mut members)?;
    if let Some(unknown) = members.0.keys().next() {
        return Err(Error::unknown_parameter(unknown));
    }
    Ok(read)
}

/// The members of a request body that have not been read yet.
pub struct Members(Map<String, Value>);

impl Members {
    /// Reads a required member. `what` describes its valid values in error messages.
    pub fn required<T: DeserializeOwned>(&mut self, name: &str, what: &str) -> Result<T, Error> {
        self.optional(name, what)?.ok_or_else(|| missing(name, what))
    }

    /// Reads an optional member whose valid values are words; `known` parses a word. Null counts as
    /// omitted.
    pub fn word<T>(
        &mut self,
        name: &str,
        what: &str,
        known: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let word: Option<String> = self.optional(name, what)?;
        let known = word.map(|word| known(&word).ok_or_else(|| invalid(name, what)));
        known.transpose()
    }

    /// Reads an optional member; null counts as omitted.
    pub fn optional<T: DeserializeOwned>(&mut self, name: &str, what: &str) -> Result<Option<T>, Error> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => parse(name, what, value).map(Some),
        }
    }

    /// Reads an optional member, and distinguishes null (`Some(None)`) from an omitted member.
    pub fn nullable<T: DeserializeOwned>(
        &mut self,
        name: &str,
        what: &str,
    ) -> Result<Option<Option<T>>, Error> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(value) => parse(name, what, value).map(|value| Some(Some(value))),
        }
    }

    /// Reads an optional time: RFC 3339, or a date in UTC. Null counts as omitted.
    pub fn instant(&mut self, name: &str) -> Result<Option<Timestamp>, Error> {
        let what = "a time such as 2027-01-01T00:00:00Z or a date such as 2027-01-01";
        let Some(text) = self.optional::<String>(name, what)? else {
            return Ok(None);
        };
        Timestamp::parse(&text)
            .map(Some)
            .ok_or_else(|| invalid(name, what))
    }
}

fn parse<T: DeserializeOwned>(name: &str, what: &str, value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|_| invalid(name, what))
}

/// Returns the error for a missing required member.
pub fn missing(name: &str, what: &str) -> Error {
    let message = format!("'{name}' is missing. It must be {what}.");
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param(name)
}

fn invalid(name: &str, what: &str) -> Error {
    let message = format!("'{name}' must be {what}.");
    Error::new(ErrorCode::InvalidParameter, message).with_param(name)
}
