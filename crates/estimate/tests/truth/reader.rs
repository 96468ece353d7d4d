//! A reader of labels whose truth is known: what a model would say, with the faults that models have.

use tollgate_estimate::{DrawHeat, Heat, HeatDraws, HeatReading, Random};

/// The faults of a reader.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The standard deviation of what each context adds to the logarithm of each option's probability.
    pub noise: f64,
    /// What the first label is preferred by, as a logarithm.
    pub first: f64,
    /// How probable all labels are together.
    pub mass: f64,
    /// How many tokens it tells of.
    pub top: usize,
}

/// Of all labels it tells the truth.
pub const NONE: Faults = Faults {
    noise: 0.0,
    first: 0.0,
    mass: 1.0,
    top: usize::MAX,
};

/// What all heats of one question are read by.
pub struct Reader {
    logits: Vec<f64>,
    faults: Faults,
    random: Random,
}

impl Reader {
    /// A question of so many options, the logits of which are normal with a standard deviation of 2.1: of 50 options the 20
    /// likeliest have about 95 % of the probability, of 255 about 72 %.
    pub fn new(options: usize, faults: Faults, seed: u64) -> Reader {
        let mut random = Random::new(seed);
        Reader {
            logits: (0..options).map(|_| 2.1 * normal(&mut random)).collect(),
            faults,
            random,
        }
    }

    /// Of these logits.
    pub fn with(logits: &[f64], faults: Faults, seed: u64) -> Reader {
        Reader {
            logits: logits.to_vec(),
            faults,
            random: Random::new(seed),
        }
    }

    /// How probable the options are.
    pub fn truth(&self) -> Vec<f64> {
        softmax(&self.logits)
    }

    /// Reads a heat.
    pub fn read(&mut self, heat: &Heat) -> HeatReading {
        let labels: Vec<f64> = self
            .shown(heat)
            .iter()
            .map(|p| (p * self.faults.mass).ln())
            .collect();
        let mut told = labels.clone();
        told.sort_by(|one, two| two.total_cmp(one));
        // What is no label is another token, which takes a place among those that are told.
        let other = (self.faults.mass < 1.0).then(|| (1.0 - self.faults.mass).ln());
        told.extend(other);
        told.sort_by(|one, two| two.total_cmp(one));
        let least = told.get(self.faults.top.saturating_sub(1)).copied();
        HeatReading {
            logprobs: labels
                .iter()
                .map(|log| least.is_none_or(|least| *log >= least).then_some(*log))
                .collect(),
            rest: least,
        }
    }

    /// Draws answers.
    pub fn draw(&mut self, draw: &DrawHeat) -> HeatDraws {
        let shown = self.shown(&draw.heat);
        let mut draws = HeatDraws {
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

    /// How probable each label seems to be among the labels, in a context of its own.
    fn shown(&mut self, heat: &Heat) -> Vec<f64> {
        let seems = heat.order.iter().enumerate().map(|(place, option)| {
            let first = if place == 0 { self.faults.first } else { 0.0 };
            self.logits[*option] + first + self.faults.noise * normal(&mut self.random)
        });
        softmax(&seems.collect::<Vec<_>>())
    }
}

/// A normal number (Box and Muller).
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Probabilities of logits.
pub fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}
