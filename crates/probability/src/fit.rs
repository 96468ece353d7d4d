//! Fits option strengths to rounds that each show only some of the options.
//!
//! A label's log-probability is modeled as the sum of its option's strength, a position effect and
//! a constant of its round (Plackett and Luce: the other options do not matter). Weighted least
//! squares fit all of them jointly, so that every shared option links rounds. If rounds share only
//! their winners, the result is `p(i) = p_final(winner) * p_round(i) / p_round(winner)`.

use crate::reading::WholeReading;
use crate::simplex::log_sum_exp;

/// Regularization that pulls position effects towards 0. It has the weight of this number of
/// observations.
const PULL_OF_PLACES: f64 = 4.0;
/// Small regularization of the strengths. It makes the system solvable, because strengths are
/// defined only up to a constant.
const PULL_OF_STRENGTHS: f64 = 1e-8;
/// Weight factor of an unreported label, whose value is only an upper bound.
const WEIGHT_OF_BOUND: f64 = 0.1;
/// Minimum weight of a label. Small probabilities are less precise and less important for the
/// comparison of rounds.
const MIN_WEIGHT: f64 = 0.15;

/// Returns the strength of each option: a logarithm up to a constant, which linked options share.
/// `None` for an option that no reading contains.
pub(crate) fn strengths(options: usize, readings: &[WholeReading]) -> Vec<Option<f64>> {
    let places = readings
        .iter()
        .map(|reading| reading.order.len())
        .max()
        .unwrap_or(0);
    let mut system = System::new(options + places);
    let mut is_read = vec![false; options];
    for reading in readings {
        let weights = weights(reading);
        let all: f64 = weights.iter().sum();
        let centred = |place: usize| {
            (
                reading.order.get(place).copied().unwrap_or_default(),
                options + place,
            )
        };
        let average = weights
            .iter()
            .zip(&reading.logprobs)
            .map(|(weight, log)| weight * log)
            .sum::<f64>()
            / all;
        for (place, (weight, log)) in weights.iter().zip(&reading.logprobs).enumerate() {
            let (option, added) = centred(place);
            if let Some(is_read) = is_read.get_mut(option) {
                *is_read = true;
            }
            for one in [option, added] {
                system.right[one] += weight * (log - average);
                for two in [option, added] {
                    system.add(one, two, *weight);
                }
            }
            // The round's constant is the weighted mean of the residuals. Elimination here saves an
            // unknown of the system.
            for (other, with) in weights.iter().enumerate() {
                let (second, also) = centred(other);
                for one in [option, added] {
                    for two in [second, also] {
                        system.add(one, two, -weight * with / all);
                    }
                }
            }
        }
    }
    for unknown in 0..options + places {
        let pull = if unknown < options {
            PULL_OF_STRENGTHS
        } else {
            PULL_OF_PLACES
        };
        system.add(unknown, unknown, pull);
    }
    let solved = system.solve();
    let found = solved.into_iter().zip(is_read);
    found
        .map(|(strength, is_read)| is_read.then_some(strength))
        .collect()
}

/// Returns the weight of each label in the fit: the square root of its share of the label mass, at
/// least [`MIN_WEIGHT`], and less for unreported labels.
fn weights(reading: &WholeReading) -> Vec<f64> {
    let whole = log_sum_exp(&reading.logprobs);
    let labels = reading.logprobs.iter().zip(&reading.reported);
    labels
        .map(|(log, reported)| {
            let weight = (log - whole).exp().sqrt().max(MIN_WEIGHT);
            if *reported {
                weight
            } else {
                weight * WEIGHT_OF_BOUND
            }
        })
        .collect()
}

/// Linear equations with a symmetric positive definite matrix.
struct System {
    size: usize,
    left: Vec<f64>,
    right: Vec<f64>,
}

impl System {
    fn new(size: usize) -> System {
        System {
            size,
            left: vec![0.0; size * size],
            right: vec![0.0; size],
        }
    }

    fn add(&mut self, row: usize, column: usize, value: f64) {
        self.left[row * self.size + column] += value;
    }

    /// Solves the system by Cholesky decomposition.
    fn solve(mut self) -> Vec<f64> {
        let size = self.size;
        for row in 0..size {
            for column in 0..=row {
                let (above, here) = (column * size, row * size);
                let known: f64 = (0..column)
                    .map(|k| self.left[here + k] * self.left[above + k])
                    .sum();
                let rest = self.left[here + column] - known;
                self.left[here + column] = if row == column {
                    rest.max(f64::MIN_POSITIVE).sqrt()
                } else {
                    rest / self.left[above + column]
                };
            }
        }
        for row in 0..size {
            let known: f64 = (0..row).map(|k| self.left[row * size + k] * self.right[k]).sum();
            self.right[row] = (self.right[row] - known) / self.left[row * size + row];
        }
        for row in (0..size).rev() {
            let known: f64 = (row + 1..size)
                .map(|k| self.left[k * size + row] * self.right[k])
                .sum();
            self.right[row] = (self.right[row] - known) / self.left[row * size + row];
        }
        self.right
    }
}
