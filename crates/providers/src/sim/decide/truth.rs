//! True probabilities: those of the script, else some that are made of the words and stay the same.

use tollgate_types::decide::{Question, State};

use super::super::embeddings;
use super::script::{self, Script};

/// No option is less probable: a model's never are.
const LEAST: f64 = 1e-9;
/// How far logits that nobody wrote lie apart.
const SPREAD: f64 = 1.5;

/// The probabilities of options that are called so, in their order.
pub(super) fn of(script: &Script, state: &State, instructions: &str, names: &[Vec<String>]) -> Vec<f64> {
    let named: Vec<Option<f64>> = names.iter().map(|names| weight_of(script, names)).collect();
    let is_scripted = named.iter().any(Option::is_some) || script.others.is_some();
    let weights: Vec<f64> = match is_scripted {
        true => {
            let said: f64 = named.iter().flatten().sum();
            let silent = named.iter().filter(|weight| weight.is_none()).count().max(1);
            let each = script.others.unwrap_or((1.0 - said).max(0.0) / silent as f64);
            named.into_iter().map(|weight| weight.unwrap_or(each)).collect()
        }
        false => {
            let first = |names: &Vec<String>| names.first().cloned().unwrap_or_default();
            let names = names.iter().map(first);
            names
                .map(|name| made_up(state, instructions, &name).exp())
                .collect()
        }
    };
    let weights = weights.into_iter().map(|weight| weight.max(LEAST));
    let weights: Vec<f64> = weights.collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// How probable it is that the state has not what a question needs, where nobody has said it.
pub(super) fn abstention(state: &State, question: &Question) -> f64 {
    let logit = made_up(state, &question.instructions, "unanswerable") - 2.0;
    1.0 / (1.0 + (-logit).exp())
}

/// A script's weight of the option that has these names.
fn weight_of(script: &Script, names: &[String]) -> Option<f64> {
    let found = script.weights.iter().find(|(said, _)| {
        let mut names = names.iter();
        names.any(|name| name == said || is_same_word(name, said))
    });
    found.map(|(_, weight)| *weight)
}

/// Whether both are a yes, or both a no.
fn is_same_word(name: &str, said: &str) -> bool {
    let meaning = |word: &str| match word.to_ascii_lowercase().as_str() {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    };
    meaning(name).is_some() && meaning(name) == meaning(said)
}

/// The logit of an option, by all the words that it is asked with. It does not depend on the other options.
fn made_up(state: &State, instructions: &str, name: &str) -> f64 {
    let (_, said) = script::read(instructions).unwrap_or_default();
    let media = state.media.iter().map(|one| one.url.as_str());
    let words = [state.text.as_str(), said.trim(), name];
    SPREAD * normal(&mut seed(words.into_iter().chain(media)))
}

/// A number that stands for these texts (FNV-1a), each of which ends where it ends.
pub(super) fn seed<'t>(texts: impl Iterator<Item = &'t str>) -> u64 {
    let bytes = texts.flat_map(|text| text.bytes().chain([0xFF]));
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// A number from 0 to 1, neither of them.
pub(super) fn uniform(seed: &mut u64) -> f64 {
    f64::midpoint(embeddings::uniform(seed), 1.0)
}

/// A number of the normal distribution (Box and Muller).
pub(super) fn normal(seed: &mut u64) -> f64 {
    let (one, two) = (uniform(seed), uniform(seed));
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
}
