//! Result of one feature in one conversion, with checks.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;
use tollgate_formats::{openai_responses, to_common};
use tollgate_types::generate::GenerateRequest;
use tollgate_types::{Error, ErrorCode, Format};

use crate::features::Feature;
use crate::provider::{ORIGIN, Provider};
use crate::{client, ir};

/// Returns the text of the cell; the error describes a wrong conversion.
pub fn of(format: Format, provider: Provider, feature: &Feature) -> Result<String, String> {
    let members = &feature.requests[client::index(format)];
    if members.is_null() {
        return Ok("–".to_owned());
    }
    let over = &feature.over[client::index(format)];
    let conversion = format!("{}: {format:?} to {provider:?}", feature.name);
    let fault = |error: Error| format!("{conversion}: {error}");
    let (base, base_hints) = read(format, &[over]).map_err(fault)?;
    let base = base.map_err(fault)?;
    let (request, mut named) = read(format, &[over, members]).map_err(fault)?;
    let original = match request {
        Ok(request) => request,
        Err(error) => return refused(format, &conversion, &error),
    };
    let changed = differing(&ir::request(&base), &ir::request(&original));
    let mut request = original.clone();
    let is_fetched = provider.fetch(&mut request);
    if provider.format() == Some(format) && !is_fetched && provider.forces(&request.response_format) {
        let is_foreign = to_common::has_foreign_reasoning(&request, ORIGIN);
        if is_foreign && format != Format::ChatCompletions {
            return check_foreign_seal_dropped(format, provider, feature, &conversion);
        }
        check_bytes_unchanged(format, provider, feature, &conversion)?;
        return Ok("lossless".to_owned());
    }
    match provider.check_compatible(&original) {
        Ok(ignored) => named.extend(ignored),
        Err(error) => return refused(format, &conversion, &error),
    }
    if !provider.forces(&request.response_format) {
        return Ok("by the gateway".to_owned());
    }
    let provider_hints = provider.check_compatible(&base).map_err(fault)?;
    named.retain(|name| !base_hints.contains(name) && !provider_hints.contains(name));
    let preserved_fields = preserved_fields(provider, base, request, feature, &conversion)?;
    let lost: Vec<&&str> = changed
        .iter()
        .filter(|name| !preserved_fields.contains(**name))
        .collect();
    let names: BTreeSet<String> = named
        .iter()
        .map(|name| format!("`{}`", to_common::param_in(format, name)))
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    match (&*names, lost.is_empty()) {
        ([], true) if changed.is_empty() && is_echoed(format, feature) => Ok("by the gateway".to_owned()),
        ([], true) if changed.is_empty() => {
            Err(format!("{conversion}: lost in silence, before the common form"))
        }
        ([], true) if is_fetched => Ok("fetched".to_owned()),
        ([], true) => Ok("converted".to_owned()),
        ([], false) => Err(format!("{conversion}: lost in silence: {lost:?}")),
        _ if !lost.is_empty() && lost.len() < changed.len() => {
            Err(format!("{conversion}: lost in part: {lost:?}"))
        }
        (_, true) if !changed.is_empty() => Ok(format!("converted, less {}", names.join(", "))),
        _ => Ok(format!("left out: {}", names.join(", "))),
    }
}

type Read = (Result<GenerateRequest, Error>, Vec<String>);

/// Decodes a request with these members and collects the ignored fields of the caller's format. The
/// error is that of a conversion without a common form; an invalid request is a bug in the test.
fn read(format: Format, members: &[&Value]) -> Result<Read, Error> {
    let body = Value::Object(client::body(format, members)).to_string();
    let hints = client::hints(format, body.as_bytes())?;
    let request = to_common::decode_request(format, body.as_bytes());
    Ok((request.map_err(Error::from), hints))
}

fn refused(format: Format, conversion: &str, error: &Error) -> Result<String, String> {
    let status = match error.code {
        ErrorCode::UnsupportedParameter => "400",
        ErrorCode::ParameterOutOfRange => "422",
        _ => return Err(format!("{conversion}: {error}")),
    };
    let param = error
        .param
        .as_deref()
        .ok_or_else(|| format!("{conversion}: no param"))?;
    Ok(format!("{status} `{}`", to_common::param_in(format, param)))
}

/// Returns the fields of the common form in which the provider's requests with and without the
/// feature differ.
fn preserved_fields(
    provider: Provider,
    mut base: GenerateRequest,
    mut request: GenerateRequest,
    feature: &Feature,
    conversion: &str,
) -> Result<BTreeSet<&'static str>, String> {
    let written = [&mut base, &mut request].map(|request| {
        provider.fetch(request);
        to_common::drop_foreign_reasoning(request, ORIGIN);
        provider.model().clone_into(&mut request.model);
        provider.encode(request)
    });
    let mut preserved_fields = match provider.format() {
        // Requests of this format are never decoded, so their bytes are compared.
        None if written[0] == written[1] => BTreeSet::new(),
        None => FIELDS.iter().map(|(_, field)| *field).collect(),
        Some(to) => {
            let again = |written| {
                let read = to_common::decode_request(to, written);
                read.map(|request| ir::request(&request))
                    .map_err(|error| format!("{conversion}: not in the provider's format: {error}"))
            };
            differing(&again(&written[0])?, &again(&written[1])?)
        }
    };
    // Not every format decodes the fields outside the common form.
    let sent: Value =
        serde_json::from_slice(&written[1]).map_err(|error| format!("{conversion}: {error}"))?;
    if !request.extra.is_empty()
        && request
            .extra
            .iter()
            .all(|(name, value)| sent.get(name) == Some(value))
    {
        preserved_fields.insert("extra");
    }
    // Some formats have two names for the end user, others one.
    if request.extra.contains_key("safety_identifier") && preserved_fields.contains("user") {
        preserved_fields.insert("extra");
    }
    if !preserved_fields.is_empty()
        && provider
            .check_compatible(&request)
            .is_ok_and(|ignored| ignored.is_empty())
    {
        let text = String::from_utf8_lossy(&written[1]);
        if !text.contains(feature.mark) {
            return Err(format!("{conversion}: '{}' is not in {text}", feature.mark));
        }
    }
    Ok(preserved_fields)
}

/// Fields of the common form, with the names under which they are compared: several fields
/// configure reasoning.
const FIELDS: &[(&str, &str)] = &[
    ("messages", "messages"),
    ("max_tokens", "max_tokens"),
    ("n", "n"),
    ("stop", "stop"),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("seed", "seed"),
    ("tools", "tools"),
    // A format that cannot restrict the choice of tools omits the disallowed ones.
    ("tool_choice", "tools"),
    ("parallel_tool_calls", "parallel_tool_calls"),
    ("response_format", "response_format"),
    ("reasoning_effort", "reasoning"),
    ("thinking", "reasoning"),
    ("hide_reasoning", "reasoning"),
    ("user", "user"),
    ("top_logprobs", "top_logprobs"),
    ("extra", "extra"),
];

fn differing(one: &Value, other: &Value) -> BTreeSet<&'static str> {
    let differs = |name: &str| one.get(name) != other.get(name);
    let fields = FIELDS.iter().filter(|(name, _)| differs(name));
    fields.map(|(_, field)| *field).collect()
}

/// Checks that a provider of the caller's format receives every value verbatim, except the name of
/// the model and the signatures of reasoning, which are unwrapped.
fn check_bytes_unchanged(
    format: Format,
    provider: Provider,
    feature: &Feature,
    conversion: &str,
) -> Result<(), String> {
    let index = client::index(format);
    let body = client::body(format, &[&feature.over[index], &feature.requests[index]]);
    let bytes = Bytes::from(Value::Object(body.clone()).to_string());
    let spliced = provider.splice(&bytes);
    let text = String::from_utf8(spliced.to_vec()).unwrap();
    for (name, value) in body.iter().filter(|(name, _)| *name != "model") {
        let value = crate::features::reasoning::unwrapped(&value.to_string());
        if !text.contains(&format!("\"{name}\":{value}")) {
            return Err(format!("{conversion}: '{name}' is not the same in {text}"));
        }
    }
    Ok(())
}

/// Checks that a provider of the caller's format does not receive reasoning with another provider's
/// signature.
fn check_foreign_seal_dropped(
    format: Format,
    provider: Provider,
    feature: &Feature,
    conversion: &str,
) -> Result<String, String> {
    let index = client::index(format);
    let body = client::body(format, &[&feature.over[index], &feature.requests[index]]);
    let body = Bytes::from(Value::Object(body).to_string());
    let spliced = provider.splice(&body);
    match String::from_utf8_lossy(&spliced).contains(feature.mark) {
        true => Err(format!("{conversion}: what another provider sealed is forwarded")),
        false if !provider.names_foreign_seal(&body) => Err(format!("{conversion}: left out in silence")),
        false => Ok(format!(
            "left out: `{}`",
            to_common::param_in(format, "reasoning")
        )),
    }
}

/// Whether the response repeats the feature from the request.
fn is_echoed(format: Format, feature: &Feature) -> bool {
    let index = client::index(format);
    let body = Value::Object(client::body(format, &[&feature.requests[index]])).to_string();
    let echo = openai_responses::Echo::of(body.as_bytes());
    format == Format::Responses
        && !feature.mark.is_empty()
        && echo.is_ok_and(|echo| format!("{echo:?}").contains(feature.mark))
}
