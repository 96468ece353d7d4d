//! Fits option strengths to answer counts of rounds that each show only some of the options. Under
//! Luce's rule, an option is answered in proportion to its share of the strengths shown. The fit is
//! a maximum-likelihood estimate with pseudo-counts (Hunter, "MM algorithms for generalized
//! Bradley-Terry models", 2004).

use crate::sampler::WholeDraws;
use crate::simplex::normalised;

/// Total of the pseudo-counts of all options, for questions with more than ten options.
const PSEUDO_COUNTS: f64 = 5.0;
/// Maximum number of iterations. More iterations do not change the result noticeably.
const STEPS: usize = 500;
/// Convergence threshold: the iteration stops when every strength changes by less than this.
const STILL: f64 = 1e-9;

/// Returns the probability of each option. If every round shows all options, the probability is the
/// mean of the Dirichlet posterior: `(n_i + a) / (n + k a)`, where `a` is 1 for two options, and at
/// most 0.5 for more.
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

/// Executes one iteration: divides each option's wins by its expected wins at strength one, and
/// normalizes the quotients.
fn step(strengths: &[f64], wins: &[f64], pseudo: f64, drawn: &[WholeDraws]) -> Vec<f64> {
    // The pseudo-counts count as draws of a round with all options.
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
