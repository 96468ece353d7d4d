//! True probabilities: those of the script, otherwise values derived from the words.

use tollgate_types::decide::{Question, State};

use super::super::embeddings;
use super::script::{self, Script};

/// Minimum probability of an option, because a model's probabilities are never zero.
const MIN_PROBABILITY: f64 = 1e-9;
/// Standard deviation of derived logits.
const SPREAD: f64 = 1.5;

/// Returns the probabilities of the options with these names, in their order.
pub(super) fn of(script: &Script, state: &State, instructions: &str, names: &[Vec<String>]) -> Vec<f64> {
    let named: Vec<Option<f64>> = names.iter().map(|names| weight_of(script, names)).collect();
    let is_scripted = named.iter().any(Option::is_some) || script.others.is_some();
    let weights: Vec<f64> = match is_scripted {
        true => {
            let stated: f64 = named.iter().flatten().sum();
            let silent = named.iter().filter(|weight| weight.is_none()).count().max(1);
            let each = script.others.unwrap_or((1.0 - stated).max(0.0) / silent as f64);
            named.into_iter().map(|weight| weight.unwrap_or(each)).collect()
        }
        false => {
            let first = |names: &Vec<String>| names.first().cloned().unwrap_or_default();
            let names = names.iter().map(first);
            names
                .map(|name| derived_logit(state, instructions, &name).exp())
                .collect()
        }
    };
    let weights = weights.into_iter().map(|weight| weight.max(MIN_PROBABILITY));
    let weights: Vec<f64> = weights.collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Returns the derived probability that the state lacks the information that a question needs.
pub(super) fn abstention(state: &State, question: &Question) -> f64 {
    let logit = derived_logit(state, &question.instructions, "unanswerable") - 2.0;
    1.0 / (1.0 + (-logit).exp())
}

/// Returns the weight in the script of the option with these names, if any.
fn weight_of(script: &Script, names: &[String]) -> Option<f64> {
    let found = script.weights.iter().find(|(stated, _)| {
        let mut names = names.iter();
        names.any(|name| name == stated || is_same_word(name, stated))
    });
    found.map(|(_, weight)| *weight)
}

/// Whether both words mean yes, or both mean no.
fn is_same_word(name: &str, stated: &str) -> bool {
    let meaning = |word: &str| match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    };
    meaning(name).is_some() && meaning(name) == meaning(stated)
}

/// Returns the logit of an option, derived from the state, the instructions and the option's name.
/// Other options do not affect it.
fn derived_logit(state: &State, instructions: &str, name: &str) -> f64 {
    let (_, stated) = script::read(instructions).unwrap_or_default();
    let media = state.media.iter().map(|one| one.url.as_str());
    let words = [state.text.as_str(), stated.trim(), name];
    SPREAD * normal(&mut seed(words.into_iter().chain(media)))
}

/// Hashes these texts, each with a terminator (FNV-1a).
pub(super) fn seed<'t>(texts: impl Iterator<Item = &'t str>) -> u64 {
    let bytes = texts.flat_map(|text| text.bytes().chain([0xFF]));
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// Returns a random number between 0 and 1, both excluded.
pub(super) fn uniform(seed: &mut u64) -> f64 {
    f64::midpoint(embeddings::uniform(seed), 1.0)
}

/// Returns a random number of the standard normal distribution (Box-Muller transform).
pub(super) fn normal(seed: &mut u64) -> f64 {
    let (one, two) = (uniform(seed), uniform(seed));
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
}
