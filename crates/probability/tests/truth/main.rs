//! Compares estimates with the truth. The reader has known probabilities and typical faults of
//! models. The table in docs/decisions-quality.md is the output of `cargo test --release -p
//! tollgate-probability --test truth -- --ignored --nocapture bench_`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what is measured here ends in numbers, which are printed"
)]

mod reader;

use reader::{Faults, NONE, Reader, normal};
use tollgate_probability::{
    Estimate, EstimateOptions, Estimator, LabelPrior, Random, SampleOptions, Sampler,
};
use tollgate_types::decide::argmax;

/// Method of estimation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Readings that report every label.
    Logits,
    /// Readings that report this number of top tokens.
    Top(usize),
    /// Readings that report this number of top tokens, in one round of all options.
    Fast(usize),
    /// Sampled answers: the number of draws and the maximum number of labels in a round.
    Draws(u32, usize),
}

/// Settings of an estimate.
#[derive(Clone, Copy, Debug)]
struct How<'a> {
    way: Way,
    permutations: Option<u32>,
    seed: u64,
    prior: Option<&'a LabelPrior>,
}

/// Estimates the probabilities of one question.
fn estimate(options: usize, how: How<'_>, reader: &mut Reader) -> Estimate {
    let max_labels = match how.way {
        Way::Logits => 255,
        Way::Top(max) | Way::Fast(max) => max,
        Way::Draws(draws, max_labels) => return draw(options, how, draws, max_labels, reader),
    };
    let reported = EstimateOptions {
        max_labels,
        permutations: how.permutations,
        fast: matches!(how.way, Way::Fast(_)),
        seed: how.seed,
        prior: how.prior,
    };
    let mut estimator = Estimator::new(options, false, &reported);
    while !estimator.pending().is_empty() {
        let reported = estimator
            .pending()
            .iter()
            .map(|round| Some(reader.read(round)))
            .collect();
        estimator.record(reported);
    }
    estimator.finish().unwrap()
}

fn draw(options: usize, how: How<'_>, draws: u32, max_labels: usize, reader: &mut Reader) -> Estimate {
    let reported = SampleOptions {
        max_labels,
        draws,
        permutations: how.permutations,
        seed: how.seed,
        varies: true,
    };
    let mut sampler = Sampler::new(options, false, &reported);
    while !sampler.pending().is_empty() {
        let reported = sampler
            .pending()
            .iter()
            .map(|round| Some(reader.draw(round)))
            .collect();
        sampler.record(reported);
    }
    sampler.finish().unwrap()
}

/// Means of the results over many questions.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Total variation distance to the truth.
    apart: f64,
    /// Share of questions whose top option is found.
    top: f64,
    /// Number of rounds.
    calls: f64,
    /// Total probability of the reported labels.
    mass: f64,
}

fn measure(
    questions: u64,
    options: usize,
    way: Way,
    permutations: Option<u32>,
    faults: Faults,
    prior: Option<&LabelPrior>,
) -> Found {
    let top = match way {
        Way::Top(max) | Way::Fast(max) => max.min(faults.top),
        _ => faults.top,
    };
    let mut found = Found::default();
    let each = 1.0 / questions as f64;
    for seed in 0..questions {
        let mut reader = Reader::new(options, Faults { top, ..faults }, 1_000 + seed);
        let truth = reader.truth();
        let how = How {
            way,
            permutations,
            seed,
            prior,
        };
        let estimate = estimate(options, how, &mut reader);
        let apart = truth
            .iter()
            .zip(&estimate.probabilities)
            .map(|(one, two)| (one - two).abs());
        found.apart += each * apart.sum::<f64>() / 2.0;
        if argmax(&truth) == argmax(&estimate.probabilities) {
            found.top += each;
        }
        found.calls += each * f64::from(estimate.calls);
        found.mass += each * estimate.mass.unwrap();
    }
    found
}

/// Noise and label preference of three readers: one without faults, one with moderate and one with
/// strong faults.
const NOISES: [(f64, f64); 3] = [(0.0, 0.0), (0.3, 0.5), (0.6, 1.0)];

fn noisy(noise: (f64, f64)) -> Faults {
    Faults {
        noise: noise.0,
        first: noise.1,
        ..NONE
    }
}

/// Options, way, noise; then the maximum distance to the truth, the minimum share of top options
/// found, and the number of calls.
type Row = (usize, Way, (f64, f64), f64, f64, f64);

/// Checks that the estimates are within the bounds. The bounds have a margin of two standard errors
/// of a share over this many questions.
fn check(questions: u64, rows: &[Row]) {
    for (options, way, noise, apart, top, calls) in rows {
        let found = measure(questions, *options, *way, None, noisy(*noise), None);
        println!("{options} {way:?} {noise:?}: {found:?}");
        let chance = 2.0 * (top * (1.0 - top) / questions as f64).sqrt();
        let is_found = found.apart <= *apart && found.top >= *top - chance - 1e-9;
        assert!(
            is_found && (found.calls - calls).abs() <= 0.5,
            "{options} {way:?} {noise:?}: {found:?}"
        );
    }
}

#[test]
fn without_faults_the_truth_is_found() {
    let mut rows = Vec::new();
    for options in [2, 5, 20] {
        for way in [Way::Logits, Way::Top(20), Way::Fast(20)] {
            let calls = if options == 5 { 4.0 } else { 2.0 };
            rows.push((options, way, NOISES[0], 1e-9, 1.0, calls));
        }
    }
    rows.push((50, Way::Logits, NOISES[0], 1e-9, 1.0, 2.0));
    rows.push((50, Way::Top(20), NOISES[0], 1e-5, 1.0, 10.0));
    rows.push((255, Way::Logits, NOISES[0], 1e-9, 1.0, 2.0));
    rows.push((255, Way::Top(20), NOISES[0], 1e-5, 1.0, 34.0));
    rows.push((255, Way::Top(5), NOISES[0], 1e-5, 1.0, 104.0));
    check(20, &rows);
}

#[test]
fn few_options_are_read_through_noise_and_bias() {
    let rows = [
        (2, Way::Logits, NOISES[1], 0.035, 0.96, 2.0),
        (2, Way::Logits, NOISES[2], 0.065, 0.93, 2.0),
        (5, Way::Logits, NOISES[1], 0.045, 0.95, 4.0),
        (5, Way::Logits, NOISES[2], 0.085, 0.91, 4.0),
        (20, Way::Top(20), NOISES[1], 0.08, 0.88, 2.0),
        (20, Way::Top(20), NOISES[2], 0.16, 0.79, 2.0),
    ];
    check(200, &rows);
}

/// The bounds are the values of two simpler methods: a tournament linked by its winners alone, and
/// one round whose unreported options count as zero.
#[test]
fn many_options_are_read_through_noise_and_bias() {
    let rows = [
        (50, Way::Top(20), NOISES[1], 0.096, 0.89, 10.0),
        (255, Way::Top(20), NOISES[1], 0.112, 0.81, 34.0),
        (255, Way::Top(20), NOISES[2], 0.212, 0.70, 34.0),
        (50, Way::Fast(20), NOISES[0], 0.046, 1.0, 1.0),
        (50, Way::Fast(20), NOISES[1], 0.121, 0.84, 1.0),
        (255, Way::Fast(20), NOISES[0], 0.274, 1.0, 1.0),
        (255, Way::Fast(20), NOISES[1], 0.312, 0.76, 1.0),
    ];
    check(200, &rows);
}

#[test]
fn draws_are_as_good_as_draws_can_be() {
    let rows = [
        (2, Way::Draws(8, 255), NOISES[0], 0.102, 0.9, 2.0),
        (2, Way::Draws(20, 255), NOISES[0], 0.066, 0.92, 2.0),
        (2, Way::Draws(50, 255), NOISES[0], 0.045, 0.94, 2.0),
        (5, Way::Draws(20, 255), NOISES[0], 0.14, 0.80, 2.0),
        (20, Way::Draws(20, 255), NOISES[0], 0.24, 0.75, 2.0),
        (50, Way::Draws(20, 255), NOISES[0], 0.294, 0.74, 4.0),
        (50, Way::Draws(20, 255), NOISES[1], 0.322, 0.69, 4.0),
        (255, Way::Draws(20, 255), NOISES[0], 0.507, 0.60, 4.0),
        (50, Way::Draws(20, 26), NOISES[0], 0.30, 0.65, 10.0),
    ];
    check(200, &rows);
}

/// Other tokens displace labels from the top tokens. The mass is the reported share.
#[test]
fn unreported_label_errors_are_bounded() {
    for (options, top, mass, apart) in [
        (2, 1, 0.9, 0.2),
        (5, 3, 1.0, 0.03),
        (20, 20, 0.7, 0.01),
        (20, 10, 0.7, 0.06),
        (50, 10, 0.9, 0.05),
    ] {
        let faults = Faults { mass, top, ..NONE };
        let found = measure(100, options, Way::Top(20), None, faults, None);
        println!("{options} {top} {mass}: {found:?}");
        assert!(
            found.apart <= apart && found.top > 0.999,
            "{options} {top} {mass}: {found:?}"
        );
        assert!(
            found.mass <= mass + 1e-9 && found.mass > mass * 0.3,
            "{options} {top} {mass}: {found:?}"
        );
    }
}

/// The label preference is learned from questions in several orders. Then one order is as accurate
/// as several, and more accurate than one order without the preference.
#[test]
fn a_learned_preference_saves_calls() {
    let faults = noisy((0.1, 1.5));
    for options in [2, 4] {
        let mut prior = LabelPrior::default();
        for seed in 0..60 {
            let mut reader = Reader::new(options, faults, 50_000 + seed);
            let how = How {
                way: Way::Logits,
                permutations: None,
                seed,
                prior: None,
            };
            prior.learn(&estimate(options, how, &mut reader).observation.unwrap());
        }
        let of = |permutations, prior| measure(200, options, Way::Logits, permutations, faults, prior);
        let (known, all, one) = (of(None, Some(&prior)), of(None, None), of(Some(1), None));
        println!("{options}: {known:?} {all:?} {one:?}");
        assert!((known.calls - 1.0).abs() < 1e-9 && (all.calls - options as f64).abs() < 1e-9);
        assert!(
            known.apart < 0.04 && one.apart > 4.0 * known.apart,
            "{options}: {known:?} {one:?}"
        );
    }
}

/// A scale is shown in both directions, and the expected level is correct.
#[test]
fn scales_are_read_from_both_ends() {
    let (mut off, questions) = (0.0, 200);
    for seed in 0..questions {
        let mut random = Random::new(seed);
        let logits: Vec<f64> = (0..10).map(|_| 1.5 * normal(&mut random)).collect();
        let mut reader = Reader::with(&logits, noisy((0.2, 1.0)), seed);
        let reported = EstimateOptions {
            max_labels: 20,
            permutations: None,
            fast: false,
            seed,
            prior: None,
        };
        let mut estimator = Estimator::new(10, true, &reported);
        let asked = estimator.pending();
        assert_eq!((asked.len(), asked[0].order[0], asked[1].order[0]), (2, 0, 9));
        estimator.record(asked.iter().map(|round| Some(reader.read(round))).collect());
        let level = tollgate_types::decide::expected_level;
        off += (level(&reader.truth()) - level(&estimator.finish().unwrap().probabilities)).abs()
            / questions as f64;
    }
    assert!(off < 0.45, "{off}");
}

#[test]
#[ignore = "a table"]
fn bench_table_of_decisions_quality() {
    let ways = [
        ("every label", Way::Logits),
        ("20 likeliest", Way::Top(20)),
        ("20 likeliest, one look", Way::Fast(20)),
        ("20 draws", Way::Draws(20, 255)),
    ];
    println!(
        "| options | noise / first | {} |",
        ways.map(|(name, _)| name).join(" | ")
    );
    for options in [2, 5, 20, 50, 255] {
        for noise in NOISES {
            print!("| {options} | {} / {} |", noise.0, noise.1);
            for (_, way) in ways {
                let found = measure(400, options, way, None, noisy(noise), None);
                print!(" {:.3}, {:.2} ({:.0}) |", found.apart, found.top, found.calls);
            }
            println!();
        }
    }
    for draws in [8, 20, 50] {
        let found = measure(2_000, 2, Way::Draws(draws, 255), None, NONE, None);
        println!("yes or no, {draws} draws: {:.3}", found.apart);
    }
    for (name, faults) in [
        ("labels 0.7", Faults { mass: 0.7, ..NONE }),
        ("10 told", Faults { top: 10, ..NONE }),
        (
            "10 told, labels 0.7",
            Faults {
                mass: 0.7,
                top: 10,
                ..NONE
            },
        ),
    ] {
        let found = measure(400, 20, Way::Top(20), None, faults, None);
        println!(
            "20 options, {name}: {:.3}, {:.2}, mass {:.2}",
            found.apart, found.top, found.mass
        );
    }
}
