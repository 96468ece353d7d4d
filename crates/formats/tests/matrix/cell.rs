//! What becomes of one feature on one way, and the proof of it.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;
use tollgate_formats::{hub, openai_responses};
use tollgate_types::generate::GenerateRequest;
use tollgate_types::{Error, ErrorCode, Format};

use crate::provider::{ORIGIN, Provider};
use crate::said::Feature;
use crate::{client, ir};

/// The text of the cell, or what is wrong on this way.
pub fn of(format: Format, provider: Provider, feature: &Feature) -> Result<String, String> {
    let said = &feature.says[client::index(format)];
    if said.is_null() {
        return Ok("–".to_owned());
    }
    let over = &feature.over[client::index(format)];
    let way = format!("{}: {format:?} to {provider:?}", feature.name);
    let fault = |error: Error| format!("{way}: {error}");
    let (base, usual) = read(format, &[over]).map_err(fault)?;
    let base = base.map_err(fault)?;
    let (request, mut named) = read(format, &[over, said]).map_err(fault)?;
    let asked = match request {
        Ok(request) => request,
        Err(error) => return refused(format, &way, &error),
    };
    let changed = differing(&ir::request(&base), &ir::request(&asked));
    let mut request = asked.clone();
    let is_fetched = provider.fetch(&mut request);
    if provider.format() == Some(format) && !is_fetched && provider.forces(&request.response_format) {
        let is_foreign = hub::has_foreign_reasoning(&request, ORIGIN);
        if is_foreign && format != Format::ChatCompletions {
            return leaves_out(format, provider, feature, &way);
        }
        keeps_bytes(format, provider, feature, &way)?;
        return Ok("lossless".to_owned());
    }
    match provider.carry(&asked) {
        Ok(ignored) => named.extend(ignored),
        Err(error) => return refused(format, &way, &error),
    }
    if !provider.forces(&request.response_format) {
        return Ok("by the gateway".to_owned());
    }
    let usual_here = provider.carry(&base).map_err(fault)?;
    named.retain(|name| !usual.contains(name) && !usual_here.contains(name));
    let kept = kept(provider, base, request, feature, &way)?;
    let lost: Vec<&&str> = changed.iter().filter(|name| !kept.contains(**name)).collect();
    let names: BTreeSet<String> = named
        .iter()
        .map(|name| format!("`{}`", hub::param_in(format, name)))
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    match (&*names, lost.is_empty()) {
        ([], true) if changed.is_empty() && is_said_again(format, feature) => Ok("by the gateway".to_owned()),
        ([], true) if changed.is_empty() => Err(format!("{way}: lost in silence, before the common form")),
        ([], true) if is_fetched => Ok("fetched".to_owned()),
        ([], true) => Ok("converted".to_owned()),
        ([], false) => Err(format!("{way}: lost in silence: {lost:?}")),
        _ if !lost.is_empty() && lost.len() < changed.len() => Err(format!("{way}: lost in part: {lost:?}")),
        (_, true) if !changed.is_empty() => Ok(format!("converted, less {}", names.join(", "))),
        _ => Ok(format!("left out: {}", names.join(", "))),
    }
}

type Read = (Result<GenerateRequest, Error>, Vec<String>);

/// The common form of a request with these members, if it has one, and the hints that the caller's format names. A
/// request that is not in the format is a fault of the test.
fn read(format: Format, members: &[&Value]) -> Result<Read, Error> {
    let body = Value::Object(client::body(format, members)).to_string();
    let hints = client::hints(format, body.as_bytes())?;
    let request = hub::decode_request(format, body.as_bytes());
    Ok((request.map_err(Error::from), hints))
}

fn refused(format: Format, way: &str, error: &Error) -> Result<String, String> {
    let status = match error.code {
        ErrorCode::UnsupportedParameter => "400",
        ErrorCode::ParameterOutOfRange => "422",
        _ => return Err(format!("{way}: {error}")),
    };
    let param = error.param.as_deref().ok_or_else(|| format!("{way}: no param"))?;
    Ok(format!("{status} `{}`", hub::param_in(format, param)))
}

/// What the provider is told differs from what it is told without the feature in these fields of the common form.
fn kept(
    provider: Provider,
    mut base: GenerateRequest,
    mut request: GenerateRequest,
    feature: &Feature,
    way: &str,
) -> Result<BTreeSet<&'static str>, String> {
    let written = [&mut base, &mut request].map(|request| {
        provider.fetch(request);
        hub::drop_foreign_reasoning(request, ORIGIN);
        provider.model().clone_into(&mut request.model);
        provider.encode(request)
    });
    let mut kept = match provider.format() {
        // Nobody reads requests of this format back.
        None if written[0] == written[1] => BTreeSet::new(),
        None => FIELDS.iter().map(|(_, field)| *field).collect(),
        Some(to) => {
            let again = |written| {
                let read = hub::decode_request(to, written);
                read.map(|request| ir::request(&request))
                    .map_err(|error| format!("{way}: not in the provider's format: {error}"))
            };
            differing(&again(&written[0])?, &again(&written[1])?)
        }
    };
    // What has no common meaning is not read back everywhere.
    let told: Value = serde_json::from_slice(&written[1]).map_err(|error| format!("{way}: {error}"))?;
    if !request.extra.is_empty()
        && request
            .extra
            .iter()
            .all(|(name, value)| told.get(name) == Some(value))
    {
        kept.insert("extra");
    }
    // The end user has two names in some formats and one in others.
    if request.extra.contains_key("safety_identifier") && kept.contains("user") {
        kept.insert("extra");
    }
    if !kept.is_empty() && provider.carry(&request).is_ok_and(|ignored| ignored.is_empty()) {
        let text = String::from_utf8_lossy(&written[1]);
        if !text.contains(feature.mark) {
            return Err(format!("{way}: '{}' is not in {text}", feature.mark));
        }
    }
    Ok(kept)
}

/// The fields of the common form, and under which name they are compared: how to reason is said in several ways.
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
    // Where none can be said to be allowed, the others are left out.
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

/// A provider of the caller's format gets every value as it was written, seals out of the gateway's wrapping.
fn keeps_bytes(format: Format, provider: Provider, feature: &Feature, way: &str) -> Result<(), String> {
    let index = client::index(format);
    let body = client::body(format, &[&feature.over[index], &feature.says[index]]);
    let bytes = Bytes::from(Value::Object(body.clone()).to_string());
    let spliced = provider.splice(&bytes);
    let text = String::from_utf8(spliced.to_vec()).unwrap();
    for (name, value) in body.iter().filter(|(name, _)| *name != "model") {
        let value = crate::said::reasoning::unwrapped(&value.to_string());
        if !text.contains(&format!("\"{name}\":{value}")) {
            return Err(format!("{way}: '{name}' is not the same in {text}"));
        }
    }
    Ok(())
}

/// A provider of the caller's format does not get what another one has sealed.
fn leaves_out(format: Format, provider: Provider, feature: &Feature, way: &str) -> Result<String, String> {
    let index = client::index(format);
    let body = client::body(format, &[&feature.over[index], &feature.says[index]]);
    let body = Bytes::from(Value::Object(body).to_string());
    let spliced = provider.splice(&body);
    match String::from_utf8_lossy(&spliced).contains(feature.mark) {
        true => Err(format!("{way}: what another provider sealed is forwarded")),
        false if !provider.names_foreign_seal(&body) => Err(format!("{way}: left out in silence")),
        false => Ok(format!("left out: `{}`", hub::param_in(format, "reasoning"))),
    }
}

/// Whether the gateway itself keeps it with the response and says it there.
fn is_said_again(format: Format, feature: &Feature) -> bool {
    let index = client::index(format);
    let body = Value::Object(client::body(format, &[&feature.says[index]])).to_string();
    let echo = openai_responses::Echo::of(body.as_bytes());
    format == Format::Responses
        && !feature.mark.is_empty()
        && echo.is_ok_and(|echo| format!("{echo:?}").contains(feature.mark))
}
