//! From answers that were drawn to probabilities of options, for upstreams that tell of no label how probable it is.
//!
//! Few options are all drawn from. Of more, first it is drawn who comes into question at all, then from those alone, so
//! that the second draws are not lost on the rest. What was never drawn keeps a little: counts are small numbers, and no
//! option comes out as impossible or certain.

use crate::estimator::{Estimate, NoEstimate};
use crate::luce;
use crate::orders;
use crate::random::Random;
use crate::reading::Heat;

/// The most options that are drawn from without a shortlist, and the most of a shortlist.
const SHORT: usize = 20;
/// The most options of a heat, where there are several heats.
const HEAT: usize = 16;
/// In how many orders options are shown.
const ORDERS: u32 = 2;
/// A heat that looks for those who come into question is drawn so often less than a question.
const LOOK: u32 = 8;

/// How a question is drawn.
#[derive(Clone, Copy, Debug)]
pub struct SampleOptions {
    /// How many labels may be shown at once; at least 2.
    pub labels_at_once: usize,
    /// How many answers are drawn, over all orders; a question of many options is drawn as often again for its shortlist.
    pub draws: u32,
    /// In how many orders options are shown: 1 to 8. No more than make a difference.
    pub permutations: Option<u32>,
    /// Decides which options meet.
    pub seed: u64,
}

/// A heat, and how many answers are to be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawHeat {
    /// What is shown.
    pub heat: Heat,
    /// How often.
    pub draws: u32,
}

/// How often each label of a heat was answered.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct HeatDraws {
    /// In the order of the labels.
    pub counts: Vec<u32>,
    /// Answers that were none of them.
    pub others: u32,
}

/// Draws of a heat with as many counts as options.
#[derive(Clone, Debug)]
pub(crate) struct WholeDraws {
    /// The option of each label.
    pub order: Vec<usize>,
    /// Of each label.
    pub counts: Vec<u32>,
}

/// Estimates from draws how probable the options of one question are.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: usize,
    how: SampleOptions,
    random: Random,
    asked: Vec<DrawHeat>,
    drawn: Vec<WholeDraws>,
    others: u64,
    permutations: u32,
    calls: u32,
    /// Whether what is asked for is the last.
    is_last: bool,
}

impl Sampler {
    /// Begins with a question of so many options, 2 to 255. `ordered` says that they are a scale.
    pub fn new(options: usize, ordered: bool, how: &SampleOptions) -> Sampler {
        let at_once = how.labels_at_once.max(2);
        let all: Vec<usize> = (0..options).collect();
        let wanted = how.permutations.unwrap_or(ORDERS);
        let number = orders::number(options, ordered, Some(wanted), false);
        let mut random = Random::new(how.seed);
        let (asked, is_last) = if options <= SHORT.min(at_once) {
            (shared(orders::of(&all, number), how.draws), true)
        } else if options <= at_once {
            (shared(orders::of(&all, number), how.draws), false)
        } else {
            let dealt = (0..number).flat_map(|_| orders::dealt(&all, at_once.min(HEAT), &mut random));
            let draws = (how.draws / LOOK).max(2);
            let heats = dealt.filter(|heat| heat.len() > 1).map(|order| DrawHeat {
                heat: Heat { order },
                draws,
            });
            (heats.collect(), false)
        };
        Sampler {
            options,
            how: *how,
            random,
            calls: asked.len() as u32,
            asked,
            drawn: Vec::new(),
            others: 0,
            permutations: number as u32,
            is_last,
        }
    }

    /// What is to be drawn now, in any order or at once; nothing when all was drawn.
    pub fn asks(&self) -> Vec<DrawHeat> {
        self.asked.clone()
    }

    /// What was drawn of each heat that was asked for, in their order; `None` of one that gave no answer.
    pub fn tell(&mut self, told: Vec<Option<HeatDraws>>) {
        let asked = std::mem::take(&mut self.asked);
        let mut told = told.into_iter();
        for DrawHeat { heat, .. } in asked {
            let draws = told.next().flatten().unwrap_or_default();
            self.others += u64::from(draws.others);
            let counts = (0..heat.order.len()).map(|place| draws.counts.get(place).copied().unwrap_or(0));
            self.drawn.push(WholeDraws {
                counts: counts.collect(),
                order: heat.order,
            });
        }
        if !self.is_last {
            self.is_last = true;
            self.asked = self.shortlist();
            self.calls += self.asked.len() as u32;
        }
    }

    /// What was found.
    pub fn finish(self) -> Result<Estimate, NoEstimate> {
        if !self.asked.is_empty() {
            return Err(NoEstimate::Unfinished);
        }
        let counts = self.drawn.iter().flat_map(|draws| &draws.counts);
        let labels: u64 = counts.map(|count| u64::from(*count)).sum();
        if labels == 0 {
            return Err(NoEstimate::NoLabels);
        }
        Ok(Estimate {
            probabilities: luce::posterior(self.options, &self.drawn),
            mass: Some(labels as f64 / (labels + self.others) as f64),
            permutations: self.permutations,
            calls: self.calls,
            flips: None,
            spread: None,
            lesson: None,
        })
    }

    /// Those who come into question, against each other; nobody when there are not two of them.
    fn shortlist(&mut self) -> Vec<DrawHeat> {
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
        drawn.truncate(SHORT.min(self.how.labels_at_once.max(2)));
        if drawn.len() < 2 {
            return Vec::new();
        }
        self.random.shuffle(&mut drawn);
        let number = orders::number(drawn.len(), false, Some(self.permutations), false);
        shared(orders::of(&drawn, number), self.how.draws)
    }
}

/// So many draws, shared by these orders; at least one of each.
fn shared(orders: Vec<Vec<usize>>, draws: u32) -> Vec<DrawHeat> {
    let (mut rest, mut left) = (draws, orders.len() as u32);
    let heats = orders.into_iter().map(|order| {
        let draws = rest.div_ceil(left).max(1);
        rest = rest.saturating_sub(draws);
        left -= 1;
        DrawHeat {
            heat: Heat { order },
            draws,
        }
    });
    heats.collect()
}

#[cfg(test)]
mod tests;
