//! Scripts `[[sim tokens=20 delay=50 pace=5 reason=8 tool=NAME:{json} error=CODE cut=EVENT refuse
//! size=WxH]]` in the last user message, or in the prompt or input text of another request.

use std::time::Duration;

use serde::de::IgnoredAny;
use tollgate_types::ErrorCode;
use tollgate_types::generate::{GenerateRequest, Part, Role};

/// Instructions of a prompt for the simulator. Every part is optional.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Script {
    /// Number of text tokens, unless a limit of the request or of the simulator is lower.
    pub(super) tokens: Option<u64>,
    /// Delay before the first byte.
    pub(super) delay: Duration,
    /// Delay between two content events or audio chunks, or poll interval of a job.
    pub(super) pace: Duration,
    /// Number of reasoning tokens.
    pub(super) reason: u64,
    /// Tool calls to make.
    pub(super) tools: Vec<ScriptedCall>,
    /// Error with which the call ends, or the stream if the script cuts it.
    pub(super) error: Option<ErrorCode>,
    /// Position at which the stream breaks off.
    pub(super) cut: Option<Cut>,
    /// Whether the model refuses.
    pub(super) refuse: bool,
    /// Width and height of an image or a video; overrides the request's size.
    pub(super) size: Option<(u32, u32)>,
}

/// A scripted tool call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScriptedCall {
    /// Name of the tool.
    pub(super) name: String,
    /// Arguments as written in the script, if any.
    pub(super) arguments: Option<String>,
}

/// Position at which a stream breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// After this number of events. The first event starts the response.
    After(u64),
    /// Before the usage report.
    BeforeUsage,
    /// Before the regular end of the stream.
    BeforeEnd,
}

/// Returns the text of the last user message, its parts joined by line feeds; empty without a user
/// message.
pub(super) fn last_user_text(request: &GenerateRequest) -> String {
    let Some(message) = request
        .messages
        .iter()
        .rfind(|message| message.role == Role::User)
    else {
        return String::new();
    };
    let texts: Vec<&str> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}

/// Splits a message into its script and the rest. The error message is for the caller and quotes no
/// part of the message.
pub(super) fn read(message: &str) -> Result<(Script, String), String> {
    let opening = message.match_indices(OPENING).find_map(|(at, _)| {
        let inside = message.get(at + OPENING.len()..)?;
        (inside.starts_with(char::is_whitespace) || inside.starts_with(CLOSING)).then_some((at, inside))
    });
    let Some((at, mut rest)) = opening else {
        return Ok((Script::default(), message.to_owned()));
    };
    let mut script = Script::default();
    for place in 1.. {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(CLOSING) {
            let before = message.get(..at).unwrap_or_default();
            let user_text = format!("{} {}", before.trim_end(), after.trim_start());
            return Ok((script, user_text.trim().to_owned()));
        }
        rest = script
            .take(rest)
            .ok_or_else(|| format!("Part {place} of [[sim …]] is invalid. {HELP}"))?;
    }
    Err(HELP.to_owned())
}

const OPENING: &str = "[[sim";
const CLOSING: &str = "]]";
const HELP: &str = "The parts are tokens=N delay=MS pace=MS reason=N tool=NAME or tool=NAME:{json} error=CODE \
                    cut=N|start|usage|end refuse size=WxH, separated by spaces and closed by ]].";

impl Script {
    /// Parses one part of the script and returns the rest of the text.
    fn take<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let end = end_of_word(text)?;
        let (word, rest) = text.split_at(end);
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "tool" => return self.take_tool(text.strip_prefix("tool=")?),
            "tokens" => self.tokens = Some(value.parse().ok()?),
            "reason" => self.reason = value.parse().ok()?,
            "delay" => self.delay = milliseconds(value)?,
            "pace" => self.pace = milliseconds(value)?,
            "error" => self.error = Some(ErrorCode::parse(value)?),
            "cut" => {
                self.cut = Some(match value {
                    "start" => Cut::After(1),
                    "usage" => Cut::BeforeUsage,
                    "end" => Cut::BeforeEnd,
                    number => Cut::After(number.parse().ok()?),
                });
            }
            "size" => {
                let (width, height) = value.split_once('x')?;
                self.size = Some((width.parse().ok()?, height.parse().ok()?));
            }
            "refuse" if value.is_empty() => self.refuse = true,
            _ => return None,
        }
        Some(rest)
    }

    /// Parses `NAME` or `NAME:{json}`; the JSON may contain spaces and brackets.
    fn take_tool<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let end = text.find(':').unwrap_or(text.len()).min(end_of_word(text)?);
        let (name, after) = text.split_at(end);
        if name.is_empty() {
            return None;
        }
        let Some(json) = after.strip_prefix(':') else {
            self.tools.push(ScriptedCall {
                name: name.to_owned(),
                arguments: None,
            });
            return Some(after);
        };
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        let (arguments, rest) = json.split_at_checked(values.byte_offset())?;
        self.tools.push(ScriptedCall {
            name: name.to_owned(),
            arguments: Some(arguments.trim().to_owned()),
        });
        Some(rest)
    }
}

fn end_of_word(text: &str) -> Option<usize> {
    let space = text.find(char::is_whitespace);
    let closing = text.find(CLOSING);
    space.into_iter().chain(closing).min()
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests;
