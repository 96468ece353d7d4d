//! Decisions by labels. The prompt has a line `LABEL) name: description` for each label.

use tollgate_types::decide::ANSWERABLE;
use tollgate_upstream::{LabelCall, LabelDraws, LabelReading, UpstreamError};

use super::super::failure;
use super::invalid_script;
use super::script::{self, Script, Scripts};
use super::truth::{self, normal, seed, uniform};

/// Number of possible tokens that are not labels. Each is less probable than the previous one.
const OTHER_TOKENS: usize = 40;
/// Remaining probability mass of the labels after a simulated refusal.
const REFUSED_MASS: f64 = 1e-6;

/// Probabilities of the next token.
pub(super) struct Shares {
    /// Probabilities of the labels, in their order.
    labels: Vec<f64>,
    others: Vec<f64>,
}

/// Text of each label's line after the label (the label itself if it has no line), and the text
/// before the first of these lines.
struct Reading<'t> {
    names: Vec<&'t str>,
    before: &'t str,
}

fn read<'t>(question: &'t str, labels: &'t [String]) -> Reading<'t> {
    let mut names: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut first = question.len();
    let mut at = 0;
    for line in question.split_inclusive('\n') {
        let found = line.trim().split_once(") ");
        let index = found.and_then(|(label, _)| labels.iter().position(|one| one == label));
        if let (Some(index), Some((_, name))) = (index, found) {
            names[index] = name;
            first = first.min(at);
        }
        at += line.len();
    }
    Reading {
        names,
        before: question.get(..first).unwrap_or_default(),
    }
}

/// Returns the possible names in a label's line: each prefix that ends before `: `, and the whole
/// text. Both names and descriptions may contain colons.
fn readings(name: &str) -> Vec<String> {
    let ends = name.match_indices(": ").map(|(at, _)| at).chain([name.len()]);
    ends.filter_map(|end| name.get(..end))
        .map(str::to_owned)
        .collect()
}

/// Returns the probability of each label and of the other tokens.
pub(super) fn shares(call: &LabelCall) -> Result<Shares, UpstreamError> {
    let scripts = Scripts::of_state(&call.state)?;
    let (own, _) = script::read(&call.question).map_err(|wrong| invalid_script("questions", wrong))?;
    let script = scripts.for_text(&own);
    if let Some(code) = script.fail {
        return Err(failure::requested(code));
    }
    let reading = read(&call.question, &call.labels);
    let truth = truth_of(call, &script, &reading);
    let mut context = seed([call.state.text.as_str(), &call.question].into_iter());
    let logits: Vec<f64> = truth
        .iter()
        .enumerate()
        .map(|(index, probability)| {
            let bonus = if index == 0 { script.bias } else { 0.0 };
            probability.ln() + bonus + script.noise * normal(&mut context)
        })
        .collect();
    let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
    let mass = if script.refuse { REFUSED_MASS } else { script.mass };
    let halves = (1..=OTHER_TOKENS).map(|index| 0.8_f64.powi(index as i32));
    let halves: Vec<f64> = halves.collect();
    let all: f64 = halves.iter().sum();
    Ok(Shares {
        labels: logits.iter().map(|logit| mass * logit.exp() / sum).collect(),
        others: halves.iter().map(|half| (1.0 - mass) * half / all).collect(),
    })
}

fn truth_of(call: &LabelCall, script: &Script, reading: &Reading<'_>) -> Vec<f64> {
    let names: Vec<Vec<String>> = reading.names.iter().map(|name| readings(name)).collect();
    let is_companion = names.len() == ANSWERABLE.len()
        && names
            .iter()
            .all(|names| names.iter().any(|name| ANSWERABLE.contains(&name.as_str())));
    let abstain = script.abstain.filter(|_| is_companion).map(|abstain| Script {
        weights: vec![
            (ANSWERABLE[0].to_owned(), 1.0 - abstain),
            (ANSWERABLE[1].to_owned(), abstain),
        ],
        ..script.clone()
    });
    truth::of(
        abstain.as_ref().unwrap_or(script),
        &call.state,
        reading.before,
        &names,
    )
}

impl Shares {
    /// Returns a reading with the probability of every label.
    pub(super) fn all(&self) -> LabelReading {
        LabelReading {
            logprobs: self.labels.iter().map(|share| Some(share.ln())).collect(),
            rest: None,
            requests: 1,
            usage: None,
        }
    }

    /// Returns a reading of the `max` most probable tokens.
    pub(super) fn argmax(&self, max: usize) -> LabelReading {
        let mut ranked: Vec<(usize, f64)> = self
            .labels
            .iter()
            .chain(&self.others)
            .copied()
            .enumerate()
            .collect();
        // The sort is stable, so tokens of equal probability remain in order.
        ranked.sort_by(|(_, one), (_, two)| two.total_cmp(one));
        ranked.truncate(max);
        ranked.retain(|(_, share)| *share > 0.0);
        let mut logprobs = vec![None; self.labels.len()];
        for (index, share) in &ranked {
            if let Some(logprob) = logprobs.get_mut(*index) {
                *logprob = Some(share.ln());
            }
        }
        LabelReading {
            logprobs,
            rest: ranked.last().map(|(_, share)| share.ln()),
            requests: 1,
            usage: None,
        }
    }

    /// Samples `number` answers.
    pub(super) fn draw(&self, call: &LabelCall, number: u32) -> LabelDraws {
        let words = [call.state.text.as_str(), &call.question];
        let mut dice = seed(words.into_iter()) ^ call.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut draws = LabelDraws {
            counts: vec![0; self.labels.len()],
            ..LabelDraws::default()
        };
        for _ in 0..number {
            let mut left = uniform(&mut dice);
            let drawn = self.labels.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            match drawn {
                Some(index) => draws.counts[index] += 1,
                None => draws.others += 1,
            }
        }
        draws
    }
}
