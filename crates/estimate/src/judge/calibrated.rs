//! Whether answers are as right as they say.

use serde::Serialize;

use crate::random::Random;
use crate::simplex::mean;

/// In so many bins of about as many examples each.
pub const BINS: usize = 15;

/// A figure and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// The least that it may be.
    pub low: f64,
    /// The most that it may be.
    pub high: f64,
}

/// Answers that say about the same.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// How probable they say that they are right, on average.
    pub said: f64,
    /// How right they are, on average.
    pub right: f64,
    /// How many.
    pub examples: usize,
}

/// Answers in their bins: what each says, and how right it is.
#[derive(Debug)]
pub(super) struct Bins {
    /// The bin of each, what it says, and how right it is.
    answers: Vec<(usize, f64, f64)>,
}

impl Bins {
    /// Answers that say the same are in one bin: that of the middle one.
    pub(super) fn of(said: &[(f64, f64)]) -> Bins {
        let mut sorted = said.to_vec();
        sorted.sort_by(|one, two| one.0.total_cmp(&two.0));
        let mut answers = Vec::with_capacity(sorted.len());
        for alike in sorted.chunk_by(|one, two| one.0 == two.0) {
            let middle = answers.len() + alike.len() / 2;
            let bin = (middle * BINS / sorted.len()).min(BINS - 1);
            answers.extend(alike.iter().map(|(said, right)| (bin, *said, *right)));
        }
        Bins { answers }
    }

    /// Those that are not empty.
    pub(super) fn bins(&self) -> Vec<Bin> {
        let mut sums = [(0.0, 0.0, 0_usize); BINS];
        for (bin, said, right) in &self.answers {
            let sum = &mut sums[*bin];
            *sum = (sum.0 + said, sum.1 + right, sum.2 + 1);
        }
        let filled = sums.into_iter().filter(|(_, _, examples)| *examples > 0);
        filled
            .map(|(said, right, examples)| Bin {
                said: said / examples as f64,
                right: right / examples as f64,
                examples,
            })
            .collect()
    }

    /// The expected error and its interval, by drawing examples anew.
    ///
    /// Chance moves bins away from what they say, so the figure is too large, most of all where answers are as right as they
    /// say, and so are figures of examples that are drawn anew. The interval therefore goes down from what examples that were
    /// not drawn say of the errors that drawn ones show, which chance does not make larger, and up from the figure itself. It
    /// is rather too wide than too narrow.
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

    /// How far the answers of each bin say too much, added up, where each was drawn so often.
    fn apart_of(&self, drawn: &[u32]) -> [f64; BINS] {
        let mut apart = [0.0; BINS];
        for ((bin, said, right), times) in self.answers.iter().zip(drawn) {
            apart[*bin] += (said - right) * f64::from(*times);
        }
        apart
    }

    /// The same of the answers at these places.
    fn apart(&self, is_meant: impl Fn(usize) -> bool) -> [Apart; BINS] {
        let mut bins = [Apart::default(); BINS];
        for (place, (bin, said, right)) in self.answers.iter().enumerate() {
            let bin = &mut bins[*bin];
            bin.share += 1.0 / self.answers.len() as f64;
            if is_meant(place) {
                bin.apart += said - right;
                bin.number += 1.0;
            }
        }
        bins
    }
}

/// How far answers of a bin say too much.
#[derive(Clone, Copy, Debug, Default)]
struct Apart {
    /// Added up.
    apart: f64,
    /// Of how many.
    number: f64,
    /// What share of all answers the whole bin has.
    share: f64,
}

impl Apart {
    fn mean(&self) -> f64 {
        self.apart / f64::max(self.number, 1.0)
    }
}
