//! Bodies: JSON objects, each of whose members is read by its name, so that what is wrong with it is told by its name.

use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tollgate_edge::{ApiError, JsonBody};
use tollgate_types::{Error, ErrorCode, Timestamp};

use crate::control::NewLimit;

/// Largest body.
const LARGEST: usize = 1024 * 1024;

/// What can be read from the members of a body.
pub(super) trait Read: Sized {
    fn read(members: &mut Members) -> Result<Self, Error>;
}

/// A body that was read whole: nothing in it is unknown.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: Read> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let JsonBody(bytes) = JsonBody::<LARGEST>::from_request(request, state).await?;
        Ok(Self(read(&bytes)?))
    }
}

/// Reads a body.
pub(super) fn read<T: Read>(bytes: &[u8]) -> Result<T, Error> {
    let members: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("The body is not a JSON object: {error}.");
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    let mut members = Members(members);
    let read = T::read(&mut members)?;
    if let Some(unknown) = members.0.keys().next() {
        let message = format!("'{unknown}' is not a parameter of this endpoint. Leave it out.");
        return Err(Error::new(ErrorCode::UnknownParameter, message).with_param(unknown));
    }
    Ok(read)
}

/// The members that were not read yet.
pub(super) struct Members(Map<String, Value>);

impl Members {
    /// A member that must be there.
    pub(super) fn required<T: DeserializeOwned>(&mut self, name: &str, what: &str) -> Result<T, Error> {
        self.optional(name, what)?.ok_or_else(|| missing(name, what))
    }

    /// One of a few words, which may be left out, or null.
    pub(super) fn word<T>(
        &mut self,
        name: &str,
        what: &str,
        known: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let word: Option<String> = self.optional(name, what)?;
        let known = word.map(|word| known(&word).ok_or_else(|| invalid(name, what)));
        known.transpose()
    }

    /// A member that may be left out, or null.
    pub(super) fn optional<T: DeserializeOwned>(
        &mut self,
        name: &str,
        what: &str,
    ) -> Result<Option<T>, Error> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => parse(name, what, value).map(Some),
        }
    }

    /// A limit that may be left out; null takes the account's own away.
    pub(super) fn limit<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<NewLimit<T>>, Error> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(NewLimit::Default)),
            Some(value) => {
                let own = parse(name, "a whole number, or null for the default", value)?;
                Ok(Some(NewLimit::Own(own)))
            }
        }
    }

    /// An instant that may be left out, or null.
    pub(super) fn instant(&mut self, name: &str) -> Result<Option<Timestamp>, Error> {
        let what = "an instant such as 2027-01-01T00:00:00Z or a date such as 2027-01-01";
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

/// What must be there is not.
pub(super) fn missing(name: &str, what: &str) -> Error {
    let message = format!("'{name}' is missing: it is {what}.");
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param(name)
}

fn invalid(name: &str, what: &str) -> Error {
    let message = format!("'{name}' must be {what}.");
    Error::new(ErrorCode::InvalidParameter, message).with_param(name)
}
