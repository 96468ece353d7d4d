//! Estimates option probabilities from readings of labels. The estimator calls no model:
//! [`Estimator::pending`] returns the rounds to read, [`Estimator::record`] accepts the readings.
//!
//! Options that fit into one round are shown in several orders, and their log-probabilities are
//! averaged. More options are split into rounds. The strongest options of these rounds meet in a
//! final round, and one fit combines all rounds (`fit.rs`).

use std::collections::BTreeMap;
use std::fmt;

use crate::fit;
use crate::orders;
use crate::prior::{LabelPrior, PriorObservation, observation};
use crate::random::Random;
use crate::reading::{Round, RoundReading, WholeReading, whole};
use crate::simplex::{from_logs, mean, total_variation};
use tollgate_types::decide::argmax;

/// Maximum number of options of a round if a question has several rounds. Upstreams report only a
/// limited number of top tokens.
const MAX_ROUND_SIZE: usize = 16;
/// Default number of random splits into rounds.
const DEALS: u32 = 2;

/// Options of an estimate: the number of orders and rounds, and the known label preferences.
#[derive(Clone, Copy, Debug)]
pub struct EstimateOptions<'a> {
    /// Maximum number of labels that a reading reports; at least 2.
    pub max_labels: usize,
    /// Number of orders or of random splits into rounds: 1 to 8. Orders are capped where further
    /// orders would repeat earlier ones: at 2 for a scale or two options, at 6 for three options.
    /// `None` uses the default for the number of options.
    pub permutations: Option<u32>,
    /// Whether to show all options in one round, even if they exceed `max_labels`. The upstream
    /// must have a label for each option.
    pub fast: bool,
    /// Seed of the random splits into rounds.
    pub seed: u64,
    /// Known label preferences of the model. If they cover the number of options, the default is
    /// one order.
    pub prior: Option<&'a LabelPrior>,
}

/// Result of an estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Probability of each option; the probabilities sum to one.
    pub probabilities: Vec<f64>,
    /// Smallest total probability of the reported labels of a round. For a sampled estimate, the
    /// share of answers that were a label.
    pub mass: Option<f64>,
    /// Number of orders or of random splits into rounds.
    pub permutations: u32,
    /// Number of rounds of the estimate.
    pub calls: u32,
    /// Share of pairs of orders whose top option differs, 0 to 1. `None` with one order, and for a
    /// sampled estimate, whose orders differ by chance.
    pub flips: Option<f64>,
    /// Mean total variation distance between the orders, 0 to 1. `None` in the same cases as
    /// `flips`.
    pub spread: Option<f64>,
    /// Label preferences in this question, for [`LabelPrior::learn`]. `None` if the readings do not
    /// determine them or if known preferences were applied.
    pub observation: Option<PriorObservation>,
}

/// Minimum total probability of a round's labels. Below it, the model answers with other text, and
/// the labels contain no information about the options.
const MIN_LABEL_MASS: f64 = 1e-4;

/// Reason for a missing estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimateError {
    /// Rounds are still pending.
    Unfinished,
    /// No reading reported labels with a total probability of at least 1e-4, or no sampled answer
    /// was a label. The model answers with other text.
    NoLabels,
}

impl fmt::Display for EstimateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EstimateError::Unfinished => "some rounds have not been read",
            EstimateError::NoLabels => "the model returned none of the labels",
        })
    }
}

impl std::error::Error for EstimateError {}

/// Estimates the option probabilities of one question from label readings.
#[derive(Clone, Debug)]
pub struct Estimator {
    options: usize,
    way: Way,
    /// Pending rounds, whose readings are not recorded yet.
    asked: Vec<Round>,
    /// Readings of all batches so far, with the known label preferences subtracted.
    readings: Vec<WholeReading>,
    /// Index of the last batch's first reading.
    last_batch: usize,
    permutations: u32,
    calls: u32,
    mass: Option<f64>,
    preferences: BTreeMap<usize, Vec<f64>>,
}

/// Presentation of the options in rounds.
#[derive(Clone, Debug)]
enum Way {
    /// All options in one round, in several orders.
    Together,
    /// Options split into several rounds.
    Rounds(Tournament),
}

/// State of a question with several rounds.
#[derive(Clone, Debug)]
struct Tournament {
    random: Random,
    size: usize,
    /// Group of each option: all options that rounds have linked have the same id.
    linked: Vec<usize>,
    is_final: bool,
}

impl Estimator {
    /// Creates the estimator of a question with 2 to 255 options. `ordered` means that the options
    /// form a scale.
    pub fn new(options: usize, ordered: bool, how: &EstimateOptions<'_>) -> Estimator {
        let max_labels = how.max_labels.max(2);
        let all: Vec<usize> = (0..options).collect();
        let preference = |labels: usize| Some((labels, how.prior?.preference(labels)?.to_vec()));
        let is_together = options <= max_labels || how.fast;
        let preferences: BTreeMap<usize, Vec<f64>> = if is_together {
            preference(options).into_iter().collect()
        } else {
            (2..=max_labels.min(MAX_ROUND_SIZE))
                .filter_map(preference)
                .collect()
        };
        let (way, asked, permutations) = if is_together {
            let is_single_order = options > max_labels || !preferences.is_empty();
            let number = orders::number(options, ordered, how.permutations, is_single_order);
            (Way::Together, rounds(orders::of(&all, number)), number)
        } else {
            let deals = how.permutations.unwrap_or(DEALS).clamp(1, orders::MAX_ORDERS) as usize;
            let mut tournament = Tournament {
                random: Random::new(how.seed),
                size: max_labels.min(MAX_ROUND_SIZE),
                linked: all.clone(),
                is_final: false,
            };
            let asked = (0..deals).flat_map(|_| tournament.deal(&all)).collect();
            (Way::Rounds(tournament), asked, deals)
        };
        Estimator {
            options,
            way,
            calls: asked.len() as u32,
            asked,
            readings: Vec::new(),
            last_batch: 0,
            permutations: permutations as u32,
            mass: None,
            preferences,
        }
    }

    /// Returns the pending rounds, which may be read in any order or concurrently; empty if all
    /// rounds are read.
    pub fn pending(&self) -> Vec<Round> {
        self.asked.clone()
    }

    /// Records the readings of the pending rounds, in the order of the rounds; `None` for a round
    /// without a reading. A question with several rounds then has new pending rounds until the
    /// final round is read.
    pub fn record(&mut self, reported: Vec<Option<RoundReading>>) {
        let asked = std::mem::take(&mut self.asked);
        if asked.is_empty() {
            return;
        }
        self.last_batch = self.readings.len();
        let mut reported = reported.into_iter();
        for round in &asked {
            let reading = reported.next().flatten().unwrap_or_default();
            let read = whole(round, &reading);
            let mass = read.as_ref().map_or(0.0, |read| read.mass);
            self.mass = Some(self.mass.map_or(mass, |min| min.min(mass)));
            self.readings.extend(read);
        }
        for reading in self.readings.iter_mut().skip(self.last_batch) {
            if let Some(preference) = self.preferences.get(&reading.order.len()) {
                let labels = reading.logprobs.iter_mut().zip(preference);
                labels.for_each(|(log, added)| *log -= added);
            }
        }
        if let Way::Rounds(tournament) = &mut self.way {
            self.asked = tournament.next(&asked, &self.readings, self.permutations as usize);
            self.calls = self.calls.saturating_add(self.asked.len() as u32);
        }
    }

    /// Returns the estimate. Returns an error if rounds are pending or if no reading has enough
    /// label mass.
    pub fn finish(self) -> Result<Estimate, EstimateError> {
        if !self.asked.is_empty() {
            return Err(EstimateError::Unfinished);
        }
        if self.readings.iter().all(|read| read.mass < MIN_LABEL_MASS) {
            return Err(EstimateError::NoLabels);
        }
        let probabilities = match self.way {
            Way::Together => averaged(self.options, &self.readings),
            Way::Rounds(_) => from_logs(&ranked(self.options, &self.readings)),
        };
        let last = self.readings.get(self.last_batch..).unwrap_or_default();
        let (flips, spread) = disagreement(self.options, last);
        Ok(Estimate {
            probabilities,
            mass: self.mass,
            permutations: self.permutations,
            calls: self.calls,
            flips,
            spread,
            observation: match self.way {
                Way::Together if self.preferences.is_empty() => observation(&self.readings),
                _ => None,
            },
        })
    }
}

impl Tournament {
    /// Splits the options into rounds. Omits rounds with a single option.
    fn deal(&mut self, options: &[usize]) -> Vec<Round> {
        let dealt = orders::dealt(options, self.size, &mut self.random);
        rounds(dealt.into_iter().filter(|round| round.len() > 1).collect())
    }

    /// Returns the next rounds. They contain the leader of each linked group, until all leaders fit
    /// into one round. That round is the final round; the strongest other options fill its free
    /// places.
    fn next(&mut self, before: &[Round], readings: &[WholeReading], number: usize) -> Vec<Round> {
        if self.is_final {
            return Vec::new();
        }
        for round in before {
            self.link(&round.order);
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
        let free_places = self.size - leaders.len();
        leaders.extend(others.into_iter().take(free_places));
        self.random.shuffle(&mut leaders);
        let number = orders::number(leaders.len(), false, Some(number as u32), false);
        rounds(orders::of(&leaders, number))
    }

    /// Merges the groups of all these options into one group.
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

    /// Returns the strongest option of each group.
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

fn rounds(orders: Vec<Vec<usize>>) -> Vec<Round> {
    orders.into_iter().map(|order| Round { order }).collect()
}

/// Returns the probabilities from the mean log-probability of each option. Each reading contains
/// all options.
fn averaged(options: usize, readings: &[WholeReading]) -> Vec<f64> {
    let mut sums = vec![0.0; options];
    for reading in readings {
        for (option, log) in reading.order.iter().zip(&reading.logprobs) {
            sums[*option] += log / readings.len() as f64;
        }
    }
    from_logs(&sums)
}

/// Returns the strengths of all options. An option without a reading has the strength of the
/// weakest option.
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

/// Returns the share of reading pairs with different top options, and the mean total variation
/// distance of the pairs. `None` for fewer than two readings.
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
            flips.push(if argmax(one) == argmax(two) { 0.0 } else { 1.0 });
            apart.push(total_variation(one, two));
        }
    }
    let of = |values: &[f64]| (!values.is_empty()).then(|| mean(values));
    (of(&flips), of(&apart))
}

#[cfg(test)]
mod tests;
