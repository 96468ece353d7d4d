//! From readings of labels to probabilities of options, without calling anybody: what is to be read is asked for, and what
//! was read is told.
//!
//! Options that fit into one heat are shown in several orders, and the logarithms of their probabilities averaged. More
//! options are dealt into heats; those who lead meet in a final, and all heats are fitted at once (`fit.rs`).

use std::collections::BTreeMap;
use std::fmt;

use crate::fit;
use crate::orders;
use crate::prior::{LabelPrior, Lesson, lesson};
use crate::random::Random;
use crate::reading::{Heat, HeatReading, WholeReading, whole};
use crate::simplex::{from_logs, mean, total_variation};
use tollgate_types::decide::likeliest;

/// The most options of a heat, where there are several heats: of more, the likeliest tokens of an upstream do not tell.
const HEAT: usize = 16;
/// In how many ways options are dealt into heats.
const DEALS: u32 = 2;

/// How a question is read.
#[derive(Clone, Copy, Debug)]
pub struct EstimateOptions<'a> {
    /// How many labels a reading tells of; at least 2.
    pub labels_at_once: usize,
    /// In how many orders options are shown, or in how many ways they are dealt into heats: 1 to 8. No more than make a
    /// difference: two of a scale or of two options.
    pub permutations: Option<u32>,
    /// Whether more options than `labels_at_once` are shown all the same, in one heat. It needs a label for each.
    pub fast: bool,
    /// Decides which options meet.
    pub seed: u64,
    /// What the model is known to prefer.
    pub prior: Option<&'a LabelPrior>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// How probable each option is; they sum to one.
    pub probabilities: Vec<f64>,
    /// The least share of probability that the told labels of a heat had; of what was drawn, the share that was a label.
    pub mass: Option<f64>,
    /// In how many orders the options were shown.
    pub permutations: u32,
    /// How many heats were asked for.
    pub calls: u32,
    /// How far orders of the same options disagree: the share of pairs of orders whose likeliest option is not the same. 0
    /// to 1; `None` where there was one order, or where chance alone would make them differ.
    pub flips: Option<f64>,
    /// How far probabilities of the same options in different orders are apart, as their mean total variation. 0 to 1;
    /// `None` as above.
    pub spread: Option<f64>,
    /// What the question says of labels, for [`LabelPrior::learn`].
    pub lesson: Option<Lesson>,
}

/// How probable all labels of a heat are together, at least, where the model means to answer with one. What is left of them where it
/// does not says nothing of the options.
const SAID: f64 = 1e-4;

/// Why there are no probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEstimate {
    /// There are still heats to be read.
    Unfinished,
    /// No reading told of labels, or none that are together probable enough to be said: the model answers with something else.
    NoLabels,
}

impl fmt::Display for NoEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoEstimate::Unfinished => "there are still heats to be read",
            NoEstimate::NoLabels => "the model answers with none of the labels",
        })
    }
}

impl std::error::Error for NoEstimate {}

/// Estimates how probable the options of one question are.
#[derive(Clone, Debug)]
pub struct Estimator {
    options: usize,
    way: Way,
    /// To be read now.
    asked: Vec<Heat>,
    /// What was read in earlier rounds and in this one.
    readings: Vec<WholeReading>,
    /// Where those of the last round begin.
    last_round: usize,
    permutations: u32,
    calls: u32,
    mass: Option<f64>,
    preferences: BTreeMap<usize, Vec<f64>>,
}

/// How options are shown.
#[derive(Clone, Debug)]
enum Way {
    /// All at once.
    Together,
    /// In heats.
    Heats(Tournament),
}

/// Where a tournament stands.
#[derive(Clone, Debug)]
struct Tournament {
    random: Random,
    size: usize,
    /// Of each option, a name for all that heats have linked it with.
    linked: Vec<usize>,
    is_final: bool,
}

impl Estimator {
    /// Begins with a question of so many options, 2 to 255. `ordered` says that they are a scale.
    pub fn new(options: usize, ordered: bool, how: &EstimateOptions<'_>) -> Estimator {
        let at_once = how.labels_at_once.max(2);
        let all: Vec<usize> = (0..options).collect();
        let preference = |labels: usize| Some((labels, how.prior?.preference(labels)?.to_vec()));
        let is_together = options <= at_once || how.fast;
        let preferences: BTreeMap<usize, Vec<f64>> = if is_together {
            preference(options).into_iter().collect()
        } else {
            (2..=at_once.min(HEAT)).filter_map(preference).collect()
        };
        let (way, asked, permutations) = if is_together {
            let is_one_look = options > at_once || !preferences.is_empty();
            let number = orders::number(options, ordered, how.permutations, is_one_look);
            (Way::Together, heats(orders::of(&all, number)), number)
        } else {
            let deals = how.permutations.unwrap_or(DEALS).clamp(1, orders::MOST_ORDERS) as usize;
            let mut tournament = Tournament {
                random: Random::new(how.seed),
                size: at_once.min(HEAT),
                linked: all.clone(),
                is_final: false,
            };
            let asked = (0..deals).flat_map(|_| tournament.deal(&all)).collect();
            (Way::Heats(tournament), asked, deals)
        };
        Estimator {
            options,
            way,
            calls: asked.len() as u32,
            asked,
            readings: Vec::new(),
            last_round: 0,
            permutations: permutations as u32,
            mass: None,
            preferences,
        }
    }

    /// What is to be read now, in any order or at once; nothing when all was read.
    pub fn asks(&self) -> Vec<Heat> {
        self.asked.clone()
    }

    /// What was read of each heat that was asked for, in their order; `None` of one that told nothing.
    pub fn tell(&mut self, told: Vec<Option<HeatReading>>) {
        let asked = std::mem::take(&mut self.asked);
        if asked.is_empty() {
            return;
        }
        self.last_round = self.readings.len();
        let mut told = told.into_iter();
        for heat in &asked {
            let reading = told.next().flatten().unwrap_or_default();
            let read = whole(heat, &reading);
            let mass = read.as_ref().map_or(0.0, |read| read.mass);
            self.mass = Some(self.mass.map_or(mass, |least| least.min(mass)));
            self.readings.extend(read);
        }
        for reading in self.readings.iter_mut().skip(self.last_round) {
            if let Some(preference) = self.preferences.get(&reading.order.len()) {
                let labels = reading.logprobs.iter_mut().zip(preference);
                labels.for_each(|(log, added)| *log -= added);
            }
        }
        if let Way::Heats(tournament) = &mut self.way {
            self.asked = tournament.next(&asked, &self.readings, self.permutations as usize);
            self.calls = self.calls.saturating_add(self.asked.len() as u32);
        }
    }

    /// What was found.
    pub fn finish(self) -> Result<Estimate, NoEstimate> {
        if !self.asked.is_empty() {
            return Err(NoEstimate::Unfinished);
        }
        if self.readings.iter().all(|read| read.mass < SAID) {
            return Err(NoEstimate::NoLabels);
        }
        let probabilities = match self.way {
            Way::Together => averaged(self.options, &self.readings),
            Way::Heats(_) => from_logs(&ranked(self.options, &self.readings)),
        };
        let last = self.readings.get(self.last_round..).unwrap_or_default();
        let (flips, spread) = disagreement(self.options, last);
        Ok(Estimate {
            probabilities,
            mass: self.mass,
            permutations: self.permutations,
            calls: self.calls,
            flips,
            spread,
            lesson: match self.way {
                Way::Together if self.preferences.is_empty() => lesson(&self.readings),
                _ => None,
            },
        })
    }
}

impl Tournament {
    /// Heats of these options; who would be alone is in none.
    fn deal(&mut self, options: &[usize]) -> Vec<Heat> {
        let dealt = orders::dealt(options, self.size, &mut self.random);
        heats(dealt.into_iter().filter(|heat| heat.len() > 1).collect())
    }

    /// The heats after these: those of whom leads among each group that has met, until all groups fit into one heat. That
    /// is the final, filled up with who comes next.
    fn next(&mut self, before: &[Heat], readings: &[WholeReading], number: usize) -> Vec<Heat> {
        if self.is_final {
            return Vec::new();
        }
        for heat in before {
            self.link(&heat.order);
        }
        let strengths = ranked(self.linked.len(), readings);
        let mut leaders = self.leaders(&strengths);
        if leaders.len() > self.size {
            return (0..number).flat_map(|_| self.deal(&leaders)).collect();
        }
        self.is_final = true;
        let mut others: Vec<usize> = (0..self.linked.len())
            .filter(|option| !leaders.contains(option))
            .collect();
        others.sort_by(|one, two| strengths[*two].total_cmp(&strengths[*one]));
        let room = self.size - leaders.len();
        leaders.extend(others.into_iter().take(room));
        self.random.shuffle(&mut leaders);
        let number = orders::number(leaders.len(), false, Some(number as u32), false);
        heats(orders::of(&leaders, number))
    }

    /// Those who have met are one group from now on, with all whom they had met before.
    fn link(&mut self, met: &[usize]) {
        let Some(name) = met.first().map(|option| self.linked[*option]) else {
            return;
        };
        let others: Vec<usize> = met.iter().map(|option| self.linked[*option]).collect();
        for linked in &mut self.linked {
            if others.contains(linked) {
                *linked = name;
            }
        }
    }

    /// The strongest option of each group.
    fn leaders(&self, strengths: &[f64]) -> Vec<usize> {
        let mut leaders: BTreeMap<usize, usize> = BTreeMap::new();
        for (option, group) in self.linked.iter().enumerate() {
            let leader = leaders.entry(*group).or_insert(option);
            if strengths[option] > strengths[*leader] {
                *leader = option;
            }
        }
        leaders.into_values().collect()
    }
}

fn heats(orders: Vec<Vec<usize>>) -> Vec<Heat> {
    orders.into_iter().map(|order| Heat { order }).collect()
}

/// The logarithms of probabilities, averaged over readings of all options.
fn averaged(options: usize, readings: &[WholeReading]) -> Vec<f64> {
    let mut sums = vec![0.0; options];
    for reading in readings {
        for (option, log) in reading.order.iter().zip(&reading.logprobs) {
            sums[*option] += log / readings.len() as f64;
        }
    }
    from_logs(&sums)
}

/// Strengths of all options. What no reading told of could have been named and was not: it is as weak as the weakest.
fn ranked(options: usize, readings: &[WholeReading]) -> Vec<f64> {
    let strengths = fit::strengths(options, readings);
    let weakest = strengths
        .iter()
        .copied()
        .flatten()
        .reduce(f64::min)
        .unwrap_or(0.0);
    strengths
        .into_iter()
        .map(|strength| strength.unwrap_or(weakest))
        .collect()
}

/// How far readings of the same options disagree: flips and spread.
fn disagreement(options: usize, readings: &[WholeReading]) -> (Option<f64>, Option<f64>) {
    let alone = |reading: &WholeReading| {
        let mut logs = vec![f64::NEG_INFINITY; options];
        for (option, log) in reading.order.iter().zip(&reading.logprobs) {
            logs[*option] = *log;
        }
        from_logs(&logs)
    };
    let each: Vec<Vec<f64>> = readings.iter().map(alone).collect();
    let (mut flips, mut apart) = (Vec::new(), Vec::new());
    for (place, one) in each.iter().enumerate() {
        for two in each.iter().skip(place + 1) {
            flips.push(if likeliest(one) == likeliest(two) {
                0.0
            } else {
                1.0
            });
            apart.push(total_variation(one, two));
        }
    }
    let of = |values: &[f64]| (!values.is_empty()).then(|| mean(values));
    (of(&flips), of(&apart))
}

#[cfg(test)]
mod tests;
