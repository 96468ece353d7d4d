//! Expected calibration error of answers, with its bootstrap interval.

use serde::Serialize;

use crate::random::Random;
use crate::simplex::mean;

/// Number of bins. All bins have about the same number of answers.
pub const BINS: usize = 15;

/// A metric with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Point estimate of the metric.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Answers with similar predicted probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// Mean predicted probability.
    #[serde(rename = "said")]
    pub predicted: f64,
    /// Mean correctness, 0 to 1.
    pub right: f64,
    /// Number of answers in the bin.
    pub examples: usize,
}

/// Answers sorted into bins.
#[derive(Debug)]
pub(super) struct Bins {
    /// Bin, predicted probability and correctness of each answer.
    answers: Vec<(usize, f64, f64)>,
}

impl Bins {
    /// Sorts answers (predicted, correct) into bins. Equal predictions share the bin of their
    /// median.
    pub(super) fn of(predicted: &[(f64, f64)]) -> Bins {
        let mut sorted = predicted.to_vec();
        sorted.sort_by(|one, two| one.0.total_cmp(&two.0));
        let mut answers = Vec::with_capacity(sorted.len());
        for alike in sorted.chunk_by(|one, two| one.0 == two.0) {
            let middle = answers.len() + alike.len() / 2;
            let bin = (middle * BINS / sorted.len()).min(BINS - 1);
            answers.extend(alike.iter().map(|(predicted, right)| (bin, *predicted, *right)));
        }
        Bins { answers }
    }

    /// Returns the bins that are not empty, sorted by prediction.
    pub(super) fn bins(&self) -> Vec<Bin> {
        let mut sums = [(0.0, 0.0, 0_usize); BINS];
        for (bin, predicted, right) in &self.answers {
            let sum = &mut sums[*bin];
            *sum = (sum.0 + predicted, sum.1 + right, sum.2 + 1);
        }
        let filled = sums.into_iter().filter(|(_, _, examples)| *examples > 0);
        filled
            .map(|(predicted, right, examples)| Bin {
                predicted: predicted / examples as f64,
                right: right / examples as f64,
                examples,
            })
            .collect()
    }

    /// Returns the expected calibration error with its bootstrap interval.
    ///
    /// Chance moves the accuracy of bins away from their predictions, so the estimate is biased
    /// upwards, most of all for well-calibrated answers. Resamples share that bias. The lower end
    /// therefore uses the answers outside of each resample, whose estimate is not biased upwards.
    /// The upper end starts from the estimate itself. The interval tends to be too wide.
    pub(super) fn error(&self, resamples: u32, seed: u64) -> Interval {
        let number = self.answers.len().max(1) as f64;
        let value = self
            .apart(|_| true)
            .iter()
            .map(|bin| bin.apart.abs())
            .sum::<f64>()
            / number;
        let mut random = Random::new(seed);
        let (mut again, mut unseen) = (Vec::new(), 0.0);
        for _ in 0..resamples.max(1) {
            let mut drawn = vec![0_u32; self.answers.len()];
            for _ in 0..drawn.len() {
                drawn[random.below(self.answers.len())] += 1;
            }
            let seen = self.apart_of(&drawn);
            again.push(seen.iter().map(|apart| apart.abs()).sum::<f64>() / number);
            let others = self.apart(|place| drawn[place] == 0);
            let shown = others
                .iter()
                .zip(&seen)
                .map(|(other, seen)| other.mean() * other.share * seen.signum());
            unseen += shown.sum::<f64>() / f64::from(resamples.max(1));
        }
        again.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (share * (again.len() - 1) as f64).round() as usize;
            again.get(place).copied().unwrap_or(value)
        };
        let middle = mean(&again);
        Interval {
            value,
            low: (unseen - (middle - at(0.025))).clamp(0.0, value),
            high: (value + (at(0.975) - middle)).clamp(value, 1.0),
        }
    }

    /// Returns the sum of (predicted − correct) of each bin, where each answer counts `drawn`
    /// times.
    fn apart_of(&self, drawn: &[u32]) -> [f64; BINS] {
        let mut apart = [0.0; BINS];
        for ((bin, predicted, right), times) in self.answers.iter().zip(drawn) {
            apart[*bin] += (predicted - right) * f64::from(*times);
        }
        apart
    }

    /// Returns the sum of (predicted − correct) of each bin, over the answers whose index satisfies
    /// `is_meant`.
    fn apart(&self, is_meant: impl Fn(usize) -> bool) -> [Apart; BINS] {
        let mut bins = [Apart::default(); BINS];
        for (place, (bin, predicted, right)) in self.answers.iter().enumerate() {
            let bin = &mut bins[*bin];
            bin.share += 1.0 / self.answers.len() as f64;
            if is_meant(place) {
                bin.apart += predicted - right;
                bin.number += 1.0;
            }
        }
        bins
    }
}

/// Miscalibration of a bin.
#[derive(Clone, Copy, Debug, Default)]
struct Apart {
    /// Sum of (predicted − correct).
    apart: f64,
    /// Number of answers in the sum.
    number: f64,
    /// Share of the bin's answers in all answers, including those outside of the sum.
    share: f64,
}

impl Apart {
    fn mean(&self) -> f64 {
        self.apart / f64::max(self.number, 1.0)
    }
}
