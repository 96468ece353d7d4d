//! Strengths of options from counts of heats that show only some of them: the likeliest ones by Luce's rule that an option is
//! answered as often as its share of all strength that is shown, with pseudo-counts for what may come. Hunter, "MM algorithms
//! for generalized Bradley-Terry models", 2004.

use crate::sampler::WholeDraws;
use crate::simplex::normalised;

/// The pseudo-counts of all options of a question of many, together.
const PSEUDO_COUNTS: f64 = 5.0;
/// More steps change nothing that matters.
const STEPS: usize = 500;
/// A step that changes no probability by more than this is the last one.
const STILL: f64 = 1e-9;

/// How probable each option is. With all options in each heat it is the mean of Dirichlet's posterior: `(n_i + a) / (n + k a)`
/// with `a` one for two options, a half for more, and less where there are many.
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

/// One step: an option's wins, over how many it would have had with a strength of one.
fn step(strengths: &[f64], wins: &[f64], pseudo: f64, drawn: &[WholeDraws]) -> Vec<f64> {
    // The pseudo-counts are draws of a heat of all.
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
