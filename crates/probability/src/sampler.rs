//! Estimates option probabilities from sampled answers, for upstreams without log-probabilities.
//!
//! The first draw runs alone: if its answer is no label, the model refused the question and
//! sampling stops. Up to 20 options that fit into one round are all sampled. For more options, the
//! first stage selects a shortlist and the second stage samples only the shortlist, so that no
//! draws are wasted. Options that were never drawn have a small probability: the counts are small,
//! so no option is impossible or certain.

use crate::estimator::{Estimate, EstimateError};
use crate::luce;
use crate::orders;
use crate::random::Random;
use crate::reading::Round;

/// Maximum number of options without a shortlist, and maximum number of options of a shortlist.
const MAX_WITHOUT_SHORTLIST: usize = 20;
/// Maximum number of options of a round if the first stage has several rounds.
const MAX_ROUND_SIZE: usize = 16;
/// Default number of option orders per question.
const ORDERS: u32 = 2;
/// Divisor of [`SampleOptions::draws`] for a round that selects the shortlist, if the options are
/// split into rounds.
const SHORTLIST_DRAW_DIVISOR: u32 = 8;

/// Options of a sampled estimate.
#[derive(Clone, Copy, Debug)]
pub struct SampleOptions {
    /// Maximum number of labels in one round; at least 2.
    pub max_labels: usize,
    /// Number of answers to draw over all orders. A question with many options additionally draws
    /// answers to select its shortlist.
    pub draws: u32,
    /// Number of orders or of random splits into rounds: 1 to 8. Capped where further orders would
    /// repeat earlier ones. `None` means 2.
    pub permutations: Option<u32>,
    /// Seed of the random splits into rounds and of the shortlist's order.
    pub seed: u64,
    /// Whether the model is known to return different answers to the same prompt. If not, and if
    /// all answers to each prompt are equal, the answers may be repetitions and count once.
    pub varies: bool,
}

/// A round and the number of answers to draw in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawRound {
    /// The round, which contains the options to show.
    pub round: Round,
    /// Number of answers to draw.
    pub draws: u32,
}

/// Counts of the answers in a round.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RoundDraws {
    /// Number of answers for each label, in label order.
    pub counts: Vec<u32>,
    /// Number of answers that were no label of the round.
    pub others: u32,
}

/// Accumulated draws of a round.
#[derive(Clone, Debug)]
pub(crate) struct WholeDraws {
    /// Option of each label, as an index into the question's options.
    pub order: Vec<usize>,
    /// Number of answers for each label.
    pub counts: Vec<u32>,
    /// Number of answers that were no label.
    pub others: u32,
}

impl WholeDraws {
    /// Whether the answers in this round differ, including those that are no label.
    fn varies(&self) -> bool {
        let counts = self.counts.iter().chain([&self.others]);
        counts.filter(|count| **count > 0).count() > 1
    }

    /// Returns the draws, with equal answers counted once.
    fn once(mut self) -> Self {
        self.counts.iter_mut().for_each(|count| *count = (*count).min(1));
        self
    }
}

/// Estimates the option probabilities of one question from sampled answers.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: usize,
    how: SampleOptions,
    random: Random,
    /// Rounds of the current stage that miss draws, with the number of missing draws.
    missing: Vec<DrawRound>,
    /// Draws of each round, in the order of the first draw.
    drawn: Vec<WholeDraws>,
    permutations: u32,
    calls: u32,
    is_first: bool,
    /// Whether the current stage is the last one.
    is_last: bool,
}

impl Sampler {
    /// Creates the sampler of a question with 2 to 255 options. `ordered` means that the options
    /// form a scale.
    pub fn new(options: usize, ordered: bool, how: &SampleOptions) -> Sampler {
        let max_labels = how.max_labels.max(2);
        let all: Vec<usize> = (0..options).collect();
        let wanted = how.permutations.unwrap_or(ORDERS);
        let number = orders::number(options, ordered, Some(wanted), false);
        let mut random = Random::new(how.seed);
        let (missing, is_last) = if options <= MAX_WITHOUT_SHORTLIST.min(max_labels) {
            (shared(orders::of(&all, number), how.draws), true)
        } else if options <= max_labels {
            (shared(orders::of(&all, number), how.draws), false)
        } else {
            let dealt =
                (0..number).flat_map(|_| orders::dealt(&all, max_labels.min(MAX_ROUND_SIZE), &mut random));
            let draws = (how.draws / SHORTLIST_DRAW_DIVISOR).max(2);
            let rounds = dealt.filter(|round| round.len() > 1).map(|order| DrawRound {
                round: Round { order },
                draws,
            });
            (rounds.collect(), false)
        };
        Sampler {
            options,
            how: *how,
            random,
            calls: missing.len() as u32,
            missing,
            drawn: Vec::new(),
            permutations: number as u32,
            is_first: true,
            is_last,
        }
    }

    /// Returns the pending rounds, which may be drawn in any order or concurrently; empty if no
    /// draws are missing. Before the first draw, returns one draw of the first round.
    pub fn pending(&self) -> Vec<DrawRound> {
        if !self.is_first {
            return self.missing.clone();
        }
        let first = self.missing.first().map(|missing| DrawRound {
            round: missing.round.clone(),
            draws: 1,
        });
        first.into_iter().collect()
    }

    /// Records the draws of the pending rounds, in the order of the rounds; `None` for a round that
    /// was not drawn yet. A round with too few answers remains pending for the missing ones. A
    /// round with no answers is dropped. If the first draw has no label or is `None`, sampling
    /// stops.
    pub fn record(&mut self, reported: Vec<Option<RoundDraws>>) {
        let asked = match self.is_first {
            true => self.missing.drain(..1.min(self.missing.len())).collect(),
            false => std::mem::take(&mut self.missing),
        };
        let (mut reported, mut missing) = (reported.into_iter(), Vec::new());
        for DrawRound { round, draws } in asked {
            let Some(came) = reported.next().flatten() else {
                missing.push(DrawRound { round, draws });
                continue;
            };
            let answers = self.count(&round, &came);
            if answers > 0 && answers < draws {
                let draws = draws - answers;
                missing.push(DrawRound { round, draws });
            }
        }
        missing.append(&mut self.missing);
        self.missing = missing;
        if std::mem::take(&mut self.is_first) && self.labels() == 0 {
            self.stop();
        }
        if self.missing.is_empty() && !self.is_last {
            self.is_last = true;
            self.missing = self.shortlist();
            self.calls += self.missing.len() as u32;
        }
    }

    /// Stops sampling. The estimate uses the draws so far.
    pub fn stop(&mut self) {
        self.missing.clear();
        (self.is_first, self.is_last) = (false, true);
    }

    /// Whether any answer was a label.
    pub fn has_labels(&self) -> bool {
        self.labels() > 0
    }

    /// Whether the answers to the same prompt differed, in at least one round.
    pub fn has_varied(&self) -> bool {
        self.drawn.iter().any(WholeDraws::varies)
    }

    /// Returns the estimate. Returns an error if draws are missing or if no answer was a label.
    pub fn finish(self) -> Result<Estimate, EstimateError> {
        if !self.missing.is_empty() {
            return Err(EstimateError::Unfinished);
        }
        let labels = self.labels();
        if labels == 0 {
            return Err(EstimateError::NoLabels);
        }
        let others: u64 = self.drawn.iter().map(|draws| u64::from(draws.others)).sum();
        let counts_once = !self.how.varies && !self.has_varied();
        let drawn: Vec<WholeDraws> = match counts_once {
            true => self.drawn.into_iter().map(WholeDraws::once).collect(),
            false => self.drawn,
        };
        Ok(Estimate {
            probabilities: luce::posterior(self.options, &drawn),
            mass: Some(labels as f64 / (labels + others) as f64),
            permutations: self.permutations,
            calls: self.calls,
            flips: None,
            spread: None,
            observation: None,
        })
    }

    fn labels(&self) -> u64 {
        let counts = self.drawn.iter().flat_map(|draws| &draws.counts);
        counts.map(|count| u64::from(*count)).sum()
    }

    /// Adds draws to the earlier draws of the round. Returns the number of added answers.
    fn count(&mut self, round: &Round, came: &RoundDraws) -> u32 {
        let place = match self.drawn.iter().position(|drawn| drawn.order == round.order) {
            Some(place) => place,
            None => {
                self.drawn.push(WholeDraws {
                    order: round.order.clone(),
                    counts: vec![0; round.order.len()],
                    others: 0,
                });
                self.drawn.len() - 1
            }
        };
        let drawn = &mut self.drawn[place];
        let mut answers = came.others;
        drawn.others = drawn.others.saturating_add(came.others);
        for (sum, count) in drawn.counts.iter_mut().zip(&came.counts) {
            *sum = sum.saturating_add(*count);
            answers = answers.saturating_add(*count);
        }
        answers
    }

    /// Returns the rounds of the shortlisted options; empty if fewer than two options were drawn.
    fn shortlist(&mut self) -> Vec<DrawRound> {
        let mut shares = vec![0.0; self.options];
        for draws in &self.drawn {
            let all: f64 = draws.counts.iter().copied().map(f64::from).sum();
            for (option, count) in draws.order.iter().zip(&draws.counts) {
                shares[*option] += f64::from(*count) / all.max(1.0);
            }
        }
        let mut drawn: Vec<usize> = (0..self.options).filter(|option| shares[*option] > 0.0).collect();
        self.random.shuffle(&mut drawn);
        drawn.sort_by(|one, two| shares[*two].total_cmp(&shares[*one]));
        drawn.truncate(MAX_WITHOUT_SHORTLIST.min(self.how.max_labels.max(2)));
        if drawn.len() < 2 {
            return Vec::new();
        }
        self.random.shuffle(&mut drawn);
        let number = orders::number(drawn.len(), false, Some(self.permutations), false);
        shared(orders::of(&drawn, number), self.how.draws)
    }
}

/// Distributes the draws over these orders. Each order has at least one draw.
fn shared(orders: Vec<Vec<usize>>, draws: u32) -> Vec<DrawRound> {
    let (mut rest, mut left) = (draws, orders.len() as u32);
    let rounds = orders.into_iter().map(|order| {
        let draws = rest.div_ceil(left).max(1);
        rest = rest.saturating_sub(draws);
        left -= 1;
        DrawRound {
            round: Round { order },
            draws,
        }
    });
    rounds.collect()
}

#[cfg(test)]
mod tests;
