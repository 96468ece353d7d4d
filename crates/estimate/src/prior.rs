//! What a model adds to a label for its place and name alone, learned from questions that were shown in several orders and
//! then divided out, so that one order is enough ("Large language models are not robust multiple choice selectors",
//! arXiv 2309.03882).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::reading::WholeReading;
use crate::simplex::mean;

/// From so many questions on a preference is believed.
const ENOUGH: u32 = 8;
/// A question counts at least as one of so many, so that a model that changes is followed.
const MEMORY: u32 = 1_000;
/// No preference is beyond e^10.
const MOST: f64 = 10.0;
/// Options and places are separated in so many steps.
const STEPS: usize = 60;

/// The preferences of a model, by the number of labels that are shown.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<usize, Learned>", into = "BTreeMap<usize, Learned>")]
pub struct LabelPrior {
    by_number: BTreeMap<usize, Learned>,
}

/// What was learned of one number of labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Learned {
    samples: u32,
    preference: Vec<f64>,
}

/// What one question says of labels: a logarithm for each, zero on average.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    preference: Vec<f64>,
}

impl LabelPrior {
    /// Learns from a question.
    pub fn learn(&mut self, lesson: &Lesson) {
        let number = lesson.preference.len();
        let learned = self.by_number.entry(number).or_insert_with(|| Learned {
            samples: 0,
            preference: vec![0.0; number],
        });
        learned.samples = learned.samples.saturating_add(1);
        let share = 1.0 / f64::from(learned.samples.min(MEMORY));
        for (known, new) in learned.preference.iter_mut().zip(&lesson.preference) {
            *known += (new - *known) * share;
        }
    }

    /// How many questions of so many labels it has learned from.
    pub fn samples(&self, labels: usize) -> u32 {
        self.by_number.get(&labels).map_or(0, |learned| learned.samples)
    }

    /// What is added to each of so many labels, as logarithms, once enough is known.
    pub fn preference(&self, labels: usize) -> Option<&[f64]> {
        let learned = self.by_number.get(&labels)?;
        (learned.samples >= ENOUGH).then_some(learned.preference.as_slice())
    }
}

/// What readings of the same options in several orders say of their labels; `None` when they do not say it, because there is
/// one order or a label was not told.
///
/// Of orders that are each other's reverse it is half the difference between a place and its mirror: the rest cannot be told
/// from strengths, and is what a mean over the two orders leaves, too.
pub(crate) fn lesson(readings: &[WholeReading]) -> Option<Lesson> {
    let size = readings.first()?.order.len();
    let is_whole =
        |reading: &WholeReading| reading.order.len() == size && reading.told.iter().all(|told| *told);
    if readings.len() < 2 || !readings.iter().all(is_whole) {
        return None;
    }
    // Each label of each reading: its option, its place, and how far it is from the mean of its reading.
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
        .map(|added| (added - average).clamp(-MOST, MOST));
    Some(Lesson {
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
            added.len() == *number && added.iter().all(|added| added.abs() <= MOST)
        };
        if by_number.iter().all(is_fine) {
            Ok(LabelPrior { by_number })
        } else {
            Err("a preference has one number for each label, between -10 and 10".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;
