//! A model's preference for labels by position and name. The preference is learned from questions
//! with several orders and subtracted from log-probabilities, so that one order is sufficient
//! ("Large language models are not robust multiple choice selectors", arXiv 2309.03882).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::reading::WholeReading;
use crate::simplex::mean;

/// Minimum number of learned questions before a preference is used.
const MIN_SAMPLES: u32 = 8;
/// Maximum effective number of questions in the mean, so that the preference follows a changing
/// model.
const SAMPLE_WINDOW: u32 = 1_000;
/// Maximum absolute value of a log-preference: a factor of e^10.
const MAX_PREFERENCE: f64 = 10.0;
/// Number of iterations that separate the effects of options and positions.
const STEPS: usize = 60;

/// Label preferences of a model, by the number of labels of a question.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<usize, Learned>", into = "BTreeMap<usize, Learned>")]
pub struct LabelPrior {
    by_number: BTreeMap<usize, Learned>,
}

/// The learned preference for one number of labels, and the number of learned questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Learned {
    samples: u32,
    preference: Vec<f64>,
}

/// Label preference in one question: a logarithm for each label, with mean zero.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorObservation {
    preference: Vec<f64>,
}

impl LabelPrior {
    /// Updates the preference with the observation of one question.
    pub fn learn(&mut self, observation: &PriorObservation) {
        let number = observation.preference.len();
        let learned = self.by_number.entry(number).or_insert_with(|| Learned {
            samples: 0,
            preference: vec![0.0; number],
        });
        learned.samples = learned.samples.saturating_add(1);
        let share = 1.0 / f64::from(learned.samples.min(SAMPLE_WINDOW));
        for (known, new) in learned.preference.iter_mut().zip(&observation.preference) {
            *known += (new - *known) * share;
        }
    }

    /// Returns the number of learned questions with this number of labels.
    pub fn samples(&self, labels: usize) -> u32 {
        self.by_number.get(&labels).map_or(0, |learned| learned.samples)
    }

    /// Returns the log-preference of each label; `None` before eight learned questions.
    pub fn preference(&self, labels: usize) -> Option<&[f64]> {
        let learned = self.by_number.get(&labels)?;
        (learned.samples >= MIN_SAMPLES).then_some(learned.preference.as_slice())
    }
}

/// Returns the label preference in readings of the same options in several orders. `None` with a
/// single order, or if a label was not reported.
///
/// Two reversed orders determine only the antisymmetric part of the preference: half the difference
/// between a position and the position mirrored at the middle. They cannot distinguish the
/// symmetric part from the options' own probabilities, so it remains in the mean of both orders.
pub(crate) fn observation(readings: &[WholeReading]) -> Option<PriorObservation> {
    let size = readings.first()?.order.len();
    let is_whole = |reading: &WholeReading| {
        reading.order.len() == size && reading.reported.iter().all(|reported| *reported)
    };
    if readings.len() < 2 || !readings.iter().all(is_whole) {
        return None;
    }
    // For each label of each reading: the option as its index in the first reading, the position,
    // and the deviation of the log-probability from the mean of the reading.
    let local: BTreeMap<usize, usize> = readings.first()?.order.iter().copied().zip(0..).collect();
    let labels: Vec<(usize, usize, f64)> = readings
        .iter()
        .flat_map(|reading| {
            let average = mean(&reading.logprobs);
            let labels = reading.order.iter().zip(&reading.logprobs).enumerate();
            labels.filter_map({
                let local = &local;
                move |(place, (option, log))| Some((*local.get(option)?, place, log - average))
            })
        })
        .collect();
    let each = readings.len() as f64;
    let mut preference = vec![0.0; size];
    for _ in 0..STEPS {
        let mut strengths = vec![0.0; size];
        for (option, place, log) in &labels {
            strengths[*option] += (log - preference[*place]) / each;
        }
        let mut left = vec![0.0; size];
        for (option, place, log) in &labels {
            left[*place] += (log - strengths[*option]) / each;
        }
        preference = left;
    }
    let average = mean(&preference);
    let bounded = preference
        .iter()
        .map(|added| (added - average).clamp(-MAX_PREFERENCE, MAX_PREFERENCE));
    Some(PriorObservation {
        preference: bounded.collect(),
    })
}

impl From<LabelPrior> for BTreeMap<usize, Learned> {
    fn from(prior: LabelPrior) -> Self {
        prior.by_number
    }
}

impl TryFrom<BTreeMap<usize, Learned>> for LabelPrior {
    type Error = String;

    fn try_from(by_number: BTreeMap<usize, Learned>) -> Result<Self, String> {
        let is_fine = |(number, learned): (&usize, &Learned)| {
            let added = &learned.preference;
            added.len() == *number && added.iter().all(|added| added.abs() <= MAX_PREFERENCE)
        };
        if by_number.iter().all(is_fine) {
            Ok(LabelPrior { by_number })
        } else {
            Err("a label preference must have one number from -10 to 10 for each label".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
