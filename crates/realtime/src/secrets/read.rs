//! Requests for client secrets.

use serde_json::Value;
use tollgate_edge::members::{Members, invalid, nested};
use tollgate_types::{Credits, Error};

/// Anchors of an expiry.
const ANCHOR: &str = "created_at";
/// Maximum of `max_seconds`: the longest session.
const MAX_SECONDS: u64 = 86_400;

/// A request for a client secret.
#[derive(Default)]
pub(super) struct SecretRequest {
    /// Session configuration as JSON text; an empty object if absent.
    pub(super) session: String,
    pub(super) lifetime_seconds: Option<u64>,
    pub(super) max_cost: Option<Credits>,
    pub(super) max_seconds: Option<u32>,
    pub(super) allowed_origins: Vec<String>,
}

/// Parses the body of `POST /v1/realtime/client_secrets`.
pub(super) fn secret(body: &[u8]) -> Result<SecretRequest, Error> {
    let mut members = Members::read(body)?;
    let session = match members.take("session") {
        None => "{}".to_owned(),
        Some(session @ Value::Object(_)) => session.to_string(),
        Some(_) => return Err(invalid("session", "must be an object")),
    };
    let lifetime_seconds = match members.take("expires_after") {
        Some(expiry) => expires_after(expiry)?,
        None => None,
    };
    let request = SecretRequest {
        session,
        lifetime_seconds,
        max_cost: max_cost(&mut members)?,
        max_seconds: max_seconds(&mut members)?,
        allowed_origins: origins(&mut members)?,
    };
    members.end()?;
    Ok(request)
}

fn expires_after(expiry: Value) -> Result<Option<u64>, Error> {
    nested("expires_after", expiry, |members| {
        if let Some(anchor) = members.take("anchor")
            && anchor != ANCHOR
        {
            return Err(invalid("anchor", "must be 'created_at'"));
        }
        members.number("seconds", 0, u64::MAX)
    })
}

fn max_cost(members: &mut Members) -> Result<Option<Credits>, Error> {
    let Some(text) = members.text("max_cost")? else {
        return Ok(None);
    };
    let what = "must be an amount of credits as a string, such as \"0.50\"";
    text.parse().map(Some).map_err(|_| invalid("max_cost", what))
}

fn max_seconds(members: &mut Members) -> Result<Option<u32>, Error> {
    let seconds = members.number("max_seconds", 1, MAX_SECONDS)?;
    Ok(seconds.and_then(|seconds| u32::try_from(seconds).ok()))
}

fn origins(members: &mut Members) -> Result<Vec<String>, Error> {
    let Some(origins) = members.take("allowed_origins") else {
        return Ok(Vec::new());
    };
    let Value::Array(origins) = origins else {
        return Err(invalid("allowed_origins", "must be a list of origins"));
    };
    let texts = origins
        .into_iter()
        .enumerate()
        .map(|(place, origin)| match origin {
            Value::String(origin) => Ok(origin),
            _ => Err(invalid(&format!("allowed_origins[{place}]"), "must be a string")),
        });
    texts.collect()
}
