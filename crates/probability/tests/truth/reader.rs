//! A simulated reader of labels with a known truth and typical faults of models.

use tollgate_probability::{DrawRound, Random, Round, RoundDraws, RoundReading};

/// Faults of a simulated reader.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// Standard deviation of the noise that each prompt adds to each option's log-probability.
    pub noise: f64,
    /// Preference for the first label, as a logarithm.
    pub first: f64,
    /// Total probability of all labels.
    pub mass: f64,
    /// Number of top tokens that the reader reports.
    pub top: usize,
}

/// No faults: the reader reports all labels exactly.
pub const NONE: Faults = Faults {
    noise: 0.0,
    first: 0.0,
    mass: 1.0,
    top: usize::MAX,
};

/// Reads the rounds of one question.
pub struct Reader {
    logits: Vec<f64>,
    faults: Faults,
    random: Random,
}

impl Reader {
    /// Creates the reader of a question with normally distributed logits of standard deviation 2.1.
    /// Of 50 options, the top 20 have about 95 % of the probability; of 255, about 72 %.
    pub fn new(options: usize, faults: Faults, seed: u64) -> Reader {
        let mut random = Random::new(seed);
        Reader {
            logits: (0..options).map(|_| 2.1 * normal(&mut random)).collect(),
            faults,
            random,
        }
    }

    /// Creates the reader of a question with these logits.
    pub fn with(logits: &[f64], faults: Faults, seed: u64) -> Reader {
        Reader {
            logits: logits.to_vec(),
            faults,
            random: Random::new(seed),
        }
    }

    /// Returns the true probabilities of the options.
    pub fn truth(&self) -> Vec<f64> {
        softmax(&self.logits)
    }

    /// Returns the reading of a round.
    pub fn read(&mut self, round: &Round) -> RoundReading {
        let labels: Vec<f64> = self
            .shown(round)
            .iter()
            .map(|p| (p * self.faults.mass).ln())
            .collect();
        let mut reported = labels.clone();
        reported.sort_by(|one, two| two.total_cmp(one));
        // The probability outside of the labels belongs to one other token, which is among the
        // reported ones.
        let other = (self.faults.mass < 1.0).then(|| (1.0 - self.faults.mass).ln());
        reported.extend(other);
        reported.sort_by(|one, two| two.total_cmp(one));
        let min = reported.get(self.faults.top.saturating_sub(1)).copied();
        RoundReading {
            logprobs: labels
                .iter()
                .map(|log| min.is_none_or(|min| *log >= min).then_some(*log))
                .collect(),
            rest: min,
        }
    }

    /// Samples answers of a round.
    pub fn draw(&mut self, draw: &DrawRound) -> RoundDraws {
        let shown = self.shown(&draw.round);
        let mut draws = RoundDraws {
            counts: vec![0; shown.len()],
            others: 0,
        };
        for _ in 0..draw.draws {
            let mut left = self.random.unit() / self.faults.mass;
            let label = shown.iter().position(|p| {
                left -= p;
                left < 0.0
            });
            match label {
                Some(label) => draws.counts[label] += 1,
                None => draws.others += 1,
            }
        }
        draws
    }

    /// Returns the label probabilities, with the noise of a new prompt.
    fn shown(&mut self, round: &Round) -> Vec<f64> {
        let seems = round.order.iter().enumerate().map(|(place, option)| {
            let first = if place == 0 { self.faults.first } else { 0.0 };
            self.logits[*option] + first + self.faults.noise * normal(&mut self.random)
        });
        softmax(&seems.collect::<Vec<_>>())
    }
}

/// Returns a normally distributed number (Box and Muller).
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Returns the probabilities of these logits.
pub fn softmax(logits: &[f64]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|logit| (logit - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}
