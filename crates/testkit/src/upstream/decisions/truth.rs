//! True probabilities, parsed from a text.

use super::MARK;

/// The scripted probabilities of one question, or of all questions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Script {
    pub id: String,
    weights: Vec<(String, f64)>,
    others: Option<f64>,
    pub abstain: Option<f64>,
    pub noise: f64,
    pub bias: f64,
    pub mass: f64,
    pub refuse: bool,
}

/// Parses the scripts of a text.
pub(super) fn scripts(text: &str) -> Result<Vec<Script>, String> {
    let parts = text.split(MARK).skip(1);
    let inside = parts.filter_map(|part| part.strip_prefix(' ')?.split_once("]]"));
    inside.map(|(inside, _)| script(inside)).collect()
}

fn script(inside: &str) -> Result<Script, String> {
    let (id, mut rest) = inside.trim().split_once(' ').unwrap_or((inside.trim(), ""));
    let mut script = Script {
        id: id.to_owned(),
        weights: Vec::new(),
        others: None,
        abstain: None,
        noise: 0.0,
        bias: 0.0,
        mass: 1.0,
        refuse: false,
    };
    while let Some((name, value, others)) = next_part(rest) {
        rest = others;
        if (name, value) == ("refuse", "") {
            script.refuse = true;
            continue;
        }
        let number: f64 = value.parse().map_err(|_| format!("'{value}' is no number"))?;
        match name {
            "others" => script.others = Some(number),
            "abstain" => script.abstain = Some(number),
            "noise" => script.noise = number,
            "bias" => script.bias = number,
            "mass" => script.mass = number,
            name => script.weights.push((name.to_owned(), number)),
        }
    }
    Ok(script)
}

/// Parses the next part: its name, with or without quotes, its value, and the rest of the text.
fn next_part(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim_start();
    if let Some(quoted) = text.strip_prefix('\'') {
        let (name, rest) = quoted.split_once("'=")?;
        let (value, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        return Some((name, value, rest));
    }
    let (part, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (name, value) = part.split_once('=').unwrap_or((part, ""));
    (!part.is_empty()).then_some((name, value, rest))
}

/// Returns the script of a question: from its own text, or else from the state.
pub(super) fn of_question(own: &str, state: &str, id: &str) -> Result<Option<Script>, String> {
    let (own, state) = (scripts(own)?, scripts(state)?);
    let find = |scripts: &[Script], id: &str| scripts.iter().find(|script| script.id == id).cloned();
    let found = find(&own, id).or_else(|| find(&own, "*"));
    Ok(found.or_else(|| find(&state, id)).or_else(|| find(&state, "*")))
}

impl Script {
    /// Returns the probabilities of options. Each option has several names.
    pub fn probabilities(&self, options: &[Vec<String>]) -> Vec<f64> {
        let weight = |names: &Vec<String>| {
            let found = self.weights.iter().find(|(found, _)| names.contains(found));
            found.map(|(_, weight)| *weight)
        };
        let named: Vec<Option<f64>> = options.iter().map(weight).collect();
        let silent = named.iter().filter(|weight| weight.is_none()).count().max(1);
        let left = (1.0 - named.iter().flatten().sum::<f64>()).max(0.0);
        let each = self.others.unwrap_or(left / silent as f64);
        let weights: Vec<f64> = named
            .into_iter()
            .map(|weight| weight.unwrap_or(each).max(1e-9))
            .collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }
}

/// Returns a uniformly distributed number from 0 to 1, which the text and the position determine.
pub(super) fn chance(text: &str, position: u64) -> f64 {
    let start = 0xCBF2_9CE4_8422_2325_u64;
    let bytes = text.bytes().chain(position.to_le_bytes());
    let mut z = bytes.fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Returns a normally distributed number, which the text and the position determine.
pub(super) fn normal(text: &str, position: u64) -> f64 {
    let (one, two) = (chance(text, 2 * position), chance(text, 2 * position + 1));
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
}
