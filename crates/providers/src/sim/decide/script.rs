//! Scripts `[[decide ID|* option=0.7 'two words'=0.2 others=0.01 abstain=0.1 noise=0.3 bias=0.5
//! mass=0.9 refuse fail=CODE]]` in the instructions of a question or in the text of a state.

use tollgate_types::ErrorCode;
use tollgate_types::decide::{Question, State};
use tollgate_upstream::UpstreamError;

use super::invalid_script;

const OPENING: &str = "[[decide";
const CLOSING: &str = "]]";
const HELP: &str = "Write [[decide ID option=0.7 'two words'=0.2 others=0.01 abstain=0.1 noise=0.3 bias=0.5 mass=0.9 \
                    refuse fail=CODE]]: the question's id or *, then the directives, separated by spaces.";

/// The scripted decision of one question, or of every question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Script {
    /// Id of the question; `None` for `*`, which means every question.
    pub(super) id: Option<String>,
    /// Weights of options by name.
    pub(super) weights: Vec<(String, f64)>,
    /// Weight of every option that `weights` does not contain. By default, these options share the
    /// remainder of 1.
    pub(super) others: Option<f64>,
    /// Probability that the state lacks the required information.
    pub(super) abstain: Option<f64>,
    /// Standard deviation of the noise that is added to each label's logit.
    pub(super) noise: f64,
    /// Value that is added to the logit of the first label.
    pub(super) bias: f64,
    /// Probability mass of all labels.
    pub(super) mass: f64,
    /// Whether the model refuses, which leaves almost no probability for the labels.
    pub(super) refuse: bool,
    /// Error of the question, or of the whole call if the model answers by labels.
    pub(super) fail: Option<ErrorCode>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            id: None,
            weights: Vec::new(),
            others: None,
            abstain: None,
            noise: 0.0,
            bias: 0.0,
            mass: 1.0,
            refuse: false,
            fail: None,
        }
    }
}

impl Script {
    /// Whether the script contains only an id.
    fn is_bare(&self) -> bool {
        let nothing = Self {
            id: self.id.clone(),
            ..Self::default()
        };
        *self == nothing
    }

    fn is_of(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }

    /// Parses one part of the script and returns the rest of the text.
    fn take<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        if let Some(quoted) = text.strip_prefix('\'') {
            let (name, rest) = quoted.split_once("'=")?;
            let (value, rest) = word(rest)?;
            self.weights.push((name.to_owned(), weight(value)?));
            return Some(rest);
        }
        let (part, rest) = word(text)?;
        match part.rsplit_once('=') {
            None if part == "refuse" => self.refuse = true,
            None if part == "fail" => self.fail = Some(ErrorCode::UpstreamError),
            None => return None,
            Some(("fail", code)) => self.fail = Some(ErrorCode::parse(code)?),
            Some(("others", value)) => self.others = Some(weight(value)?),
            Some(("abstain", value)) => self.abstain = Some(share(value)?),
            Some(("mass", value)) => self.mass = share(value)?,
            Some(("noise", value)) => self.noise = weight(value)?,
            Some(("bias", value)) => self.bias = value.parse().ok().filter(|bias: &f64| bias.is_finite())?,
            Some((name, value)) => self.weights.push((name.to_owned(), weight(value)?)),
        }
        Some(rest)
    }
}

/// Splits off a word, which ends before white space or the closing brackets.
fn word(text: &str) -> Option<(&str, &str)> {
    let space = text.find(char::is_whitespace);
    let end = space.into_iter().chain(text.find(CLOSING)).min()?;
    (end > 0).then(|| text.split_at(end))
}

fn weight(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

fn share(text: &str) -> Option<f64> {
    weight(text).filter(|value| *value <= 1.0)
}

/// Returns all scripts of a text, and the text without them. The error message is for the caller
/// and quotes no part of the text.
pub(super) fn read(text: &str) -> Result<(Vec<Script>, String), String> {
    let (mut scripts, mut stated, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(OPENING) {
        let (before, opened) = rest.split_at(at);
        let inside = opened.get(OPENING.len()..).unwrap_or_default();
        stated.push_str(before);
        if !inside.starts_with(char::is_whitespace) {
            stated.push_str(OPENING);
            rest = inside;
            continue;
        }
        let (id, mut parts) = word(inside.trim_start()).ok_or(HELP)?;
        let mut script = Script {
            id: (id != "*").then(|| id.to_owned()),
            ..Script::default()
        };
        for index in 1.. {
            parts = parts.trim_start();
            if let Some(after) = parts.strip_prefix(CLOSING) {
                rest = after;
                break;
            }
            let wrong = || format!("Directive {index} of [[decide …]] is invalid. {HELP}");
            parts = script.take(parts).ok_or_else(wrong)?;
        }
        scripts.push(script);
    }
    stated.push_str(rest);
    Ok((scripts, stated))
}

/// The scripts of a state.
pub(super) struct Scripts(Vec<Script>);

impl Scripts {
    pub(super) fn of_state(state: &State) -> Result<Self, UpstreamError> {
        let (scripts, _) = read(&state.text).map_err(|wrong| invalid_script("state", wrong))?;
        Ok(Self(scripts))
    }

    /// Returns the script of a question: from its instructions, otherwise from the state.
    pub(super) fn for_question(&self, question: &Question) -> Result<Script, UpstreamError> {
        let param = format!("{}.instructions", question.param);
        let (own, _) = read(&question.instructions).map_err(|wrong| invalid_script(&param, wrong))?;
        let own = own
            .into_iter()
            .find(|script| !script.is_bare() && (script.id.is_none() || script.is_of(&question.id)));
        Ok(own.unwrap_or_else(|| self.of(Some(&question.id))))
    }

    /// Like [`for_question`](Self::for_question), but for the text of a label call: a script in the
    /// text names the question.
    pub(super) fn for_text(&self, own: &[Script]) -> Script {
        let stated = own.iter().find(|script| !script.is_bare());
        let id = own.iter().find_map(|script| script.id.as_deref());
        stated.cloned().unwrap_or_else(|| self.of(id))
    }

    fn of(&self, id: Option<&str>) -> Script {
        let named = id.and_then(|id| self.0.iter().find(|script| script.is_of(id)));
        let found = named.or_else(|| self.0.iter().find(|script| script.id.is_none()));
        found.cloned().unwrap_or_default()
    }
}
