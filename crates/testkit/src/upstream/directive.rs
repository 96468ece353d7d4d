//! Directives in a prompt that select the reply, for tests that run a gateway as a separate
//! process.
//!
//! A directive has the form `[[key=value …]]`, with parts separated by spaces or commas and times
//! in milliseconds: `tokens=N` (or `n`), `delay=MS`, `pace=MS` (or `d`), `reason=N`,
//! `tool=NAME:{json}`, `refuse`, `error=CODE`, `status=NNN`, `cut=EVENT`, `prompt=N` and
//! `completion=N` (the reported usage), `cached=N`, and `fault=NAME` (alone, see
//! [`FAULTS`](super::FAULTS)). A directive may begin with the word `sim` or `fake`, so that
//! directives of the simulator are valid too.

use std::time::Duration;

use serde_json::Value;

use super::answer::{Answer, Usage};
use super::delivery::{At, How};
use super::faults::fault;
use super::reply::Reply;

/// Parses the directive in a text into a reply; `None` without a directive.
///
/// # Errors
/// The directive is invalid; the text is the reason.
pub(super) fn read(text: &str) -> Result<Option<Reply>, String> {
    let Some((_, mut rest)) = text.split_once("[[") else {
        return Ok(None);
    };
    let mut parts = Parts::default();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if rest.starts_with("]]") {
            return parts.reply().map(Some);
        }
        rest = parts.take(rest)?;
    }
}

#[derive(Default)]
struct Parts {
    tokens: Option<usize>,
    reason: usize,
    tools: Vec<(String, Value)>,
    refuse: bool,
    delay: u64,
    pace: u64,
    error: Option<String>,
    status: Option<u16>,
    cut: Option<usize>,
    prompt: Option<u64>,
    completion: Option<u64>,
    cached: u64,
    fault: Option<String>,
}

impl Parts {
    /// Parses one part; returns the rest of the text.
    fn take<'a>(&mut self, rest: &'a str) -> Result<&'a str, String> {
        if let Some(tool) = rest.strip_prefix("tool=") {
            return self.take_tool(tool);
        }
        let end = rest
            .find([' ', ','])
            .into_iter()
            .chain(rest.find("]]"))
            .min()
            .ok_or_else(|| "the directive has no end: ]] is missing".to_owned())?;
        let (part, after) = rest.split_at(end);
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key {
            "sim" | "fake" => {}
            "refuse" => self.refuse = true,
            "tokens" | "n" => self.tokens = Some(number(key, value)?),
            "reason" => self.reason = number(key, value)?,
            "delay" => self.delay = number(key, value)?,
            "pace" | "d" => self.pace = number(key, value)?,
            "error" => self.error = Some(value.to_owned()),
            "status" => self.status = Some(number(key, value)?),
            "cut" => self.cut = Some(number(key, value)?),
            "prompt" => self.prompt = Some(number(key, value)?),
            "completion" => self.completion = Some(number(key, value)?),
            "cached" => self.cached = number(key, value)?,
            "fault" => self.fault = Some(value.to_owned()),
            _ => return Err(format!("unknown part in the directive: {key}")),
        }
        Ok(after)
    }

    fn take_tool<'a>(&mut self, text: &'a str) -> Result<&'a str, String> {
        let (name, json) = text.split_once(':').ok_or("tool= needs NAME:{json}")?;
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
        let Some(Ok(arguments)) = values.next() else {
            return Err(format!("the arguments of the tool {name} are no JSON"));
        };
        self.tools.push((name.to_owned(), arguments));
        Ok(&json[values.byte_offset()..])
    }

    fn reply(self) -> Result<Reply, String> {
        if let Some(name) = &self.fault {
            return fault(name)
                .map(super::Fault::reply)
                .ok_or_else(|| format!("unknown fault: {name}"));
        }
        let reply = match &self.error {
            Some(code) => {
                let status = self.status.unwrap_or_else(|| status_of(code));
                match self.tokens {
                    // An error after some content is an error within the stream.
                    Some(tokens) => {
                        Reply::answer(self.answer()).error_after(tokens + 1, code, "As asked for.")
                    }
                    None => Reply::error(status, code, "The prompt asked for this error."),
                }
            }
            None => Reply::answer(self.answer()).status(self.status.unwrap_or(200)),
        };
        let reply = reply
            .delay(Duration::from_millis(self.delay))
            .pace(Duration::from_millis(self.pace));
        Ok(match self.cut {
            Some(event) => reply.cut(At::Events(event), How::Close),
            None => reply,
        })
    }

    fn answer(&self) -> Answer {
        let mut answer = match (self.refuse, self.tokens) {
            (true, _) => Answer::refusal("I cannot help with that."),
            (false, Some(tokens)) => Answer::words(tokens),
            (false, None) => Answer::default(),
        };
        for (name, arguments) in &self.tools {
            answer = answer.tool_call(name, arguments);
        }
        if let (Some(prompt), completion) = (self.prompt, self.completion.unwrap_or(0)) {
            answer = answer.usage(Usage::Fixed { prompt, completion });
        }
        answer.reasoning(self.reason).cached_tokens(self.cached)
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{key} needs a number, not {value:?}"))
}

/// Returns the status of an error code of the gateway's contract, as in the simulator.
fn status_of(code: &str) -> u16 {
    match code {
        "missing_api_key" | "invalid_api_key" => 401,
        "insufficient_credits" => 402,
        "permission_denied" => 403,
        "not_found" | "model_not_found" => 404,
        "request_timeout" => 408,
        "conflict" => 409,
        "request_too_large" => 413,
        "parameter_out_of_range" | "output_blocked" => 422,
        "rate_limit_exceeded" => 429,
        "upstream_error" => 502,
        "model_unavailable" | "overloaded" => 503,
        "upstream_timeout" => 504,
        _ if code.starts_with("invalid") || code.ends_with("_parameter") => 400,
        "content_policy_violation" | "context_length_exceeded" => 400,
        _ => 500,
    }
}
