//! Option strengths from counts of rounds that each show only some options. Fitted by maximum
//! likelihood under Luce's rule, with pseudo-counts: an option is answered in proportion to its
//! share of the strengths shown. Hunter, "MM algorithms for generalized Bradley-Terry models",
//! 2004.

use crate::sampler::WholeDraws;
use crate::simplex::normalised;

/// Pseudo-counts of all options together, for questions with many options.
const PSEUDO_COUNTS: f64 = 5.0;
/// Max steps; more do not change the result noticeably.
const STEPS: usize = 500;
/// Convergence threshold of a step's largest change.
const STILL: f64 = 1e-9;

/// Returns the probability of each option. If every round shows all options, it is the mean of the
/// Dirichlet posterior: `(n_i + a) / (n + k a)`, with `a` 1 for two options, and 0.5 or less for
/// more.
pub(crate) fn posterior(options: usize, drawn: &[WholeDraws]) -> Vec<f64> {
    let pseudo = match options {
        0..=2 => 1.0,
        _ => (PSEUDO_COUNTS / options as f64).min(0.5),
    };
    let mut wins = vec![pseudo; options];
    for draws in drawn {
        for (option, count) in draws.order.iter().zip(&draws.counts) {
            wins[*option] += f64::from(*count);
        }
    }
    let mut strengths = vec![1.0 / options.max(1) as f64; options];
    for _ in 0..STEPS {
        let next = step(&strengths, &wins, pseudo, drawn);
        let change = strengths
            .iter()
            .zip(&next)
            .map(|(one, two)| (one - two).abs())
            .fold(0.0, f64::max);
        strengths = next;
        if change < STILL {
            break;
        }
    }
    strengths
}

/// One step: each option's wins, divided by its expected wins at strength one.
fn step(strengths: &[f64], wins: &[f64], pseudo: f64, drawn: &[WholeDraws]) -> Vec<f64> {
    // The pseudo-counts act as draws of a round with all options.
    let mut chances = vec![pseudo * strengths.len() as f64; strengths.len()];
    for draws in drawn {
        let answers: f64 = draws.counts.iter().copied().map(f64::from).sum();
        let shown: f64 = draws.order.iter().map(|option| strengths[*option]).sum();
        for option in &draws.order {
            chances[*option] += answers / shown.max(f64::MIN_POSITIVE);
        }
    }
    let weights: Vec<f64> = wins
        .iter()
        .zip(&chances)
        .map(|(wins, chances)| wins / chances)
        .collect();
    normalised(&weights)
}
