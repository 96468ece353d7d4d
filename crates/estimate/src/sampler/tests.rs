use super::*;

const HOW: SampleOptions = SampleOptions {
    labels_at_once: 255,
    draws: 20,
    permutations: None,
    seed: 5,
};

/// Runs a question to its end; of each heat the counts are those of a function of option and draws.
fn run(
    options: usize,
    how: &SampleOptions,
    count: impl Fn(usize, u32) -> u32,
) -> (Result<Estimate, NoEstimate>, Vec<Vec<u32>>) {
    let mut sampler = Sampler::new(options, false, how);
    let mut rounds = Vec::new();
    while !sampler.asks().is_empty() {
        let asked = sampler.asks();
        rounds.push(asked.iter().map(|ask| ask.draws).collect());
        let drawn = asked.iter().map(|ask| {
            let counts: Vec<u32> = ask
                .heat
                .order
                .iter()
                .map(|option| count(*option, ask.draws))
                .collect();
            let others = ask.draws.saturating_sub(counts.iter().sum());
            Some(HeatDraws { counts, others })
        });
        sampler.tell(drawn.collect());
    }
    (sampler.finish(), rounds)
}

fn check(found: &[f64], expected: &[f64]) {
    let is_near = |(one, two): (&f64, &f64)| (one - two).abs() <= 1e-6;
    assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
}

#[test]
fn few_options_have_the_posterior_mean() {
    let (all_first, rounds) = run(2, &HOW, |option, draws| if option == 0 { draws } else { 0 });
    assert_eq!(rounds, [[10, 10]]);
    let found = all_first.unwrap();
    check(&found.probabilities, &[21.0 / 22.0, 1.0 / 22.0]);
    assert_eq!(
        (found.flips, found.mass, found.permutations, found.calls),
        (None, Some(1.0), 2, 2)
    );
    // Eight of ten answers are labels, a quarter of which is the last option.
    let (found, _) = run(4, &HOW, |option, _| {
        if option < 2 {
            3
        } else if option == 3 {
            2
        } else {
            0
        }
    });
    let found = found.unwrap();
    check(
        &found.probabilities,
        &[6.5 / 18.0, 6.5 / 18.0, 0.5 / 18.0, 4.5 / 18.0],
    );
    assert!((found.mass.unwrap() - 0.8).abs() < 1e-12);
}

#[test]
fn draws_are_shared_by_orders() {
    for (draws, permutations, expected) in [
        (20, Some(1), vec![20]),
        (20, Some(3), vec![7, 7, 6]),
        (7, Some(2), vec![4, 3]),
        (1, Some(2), vec![1, 1]),
    ] {
        let how = SampleOptions {
            draws,
            permutations,
            ..HOW
        };
        let (_, rounds) = run(10, &how, |_, _| 1);
        assert_eq!(rounds, [expected], "{draws} {permutations:?}");
    }
}

#[test]
fn many_options_have_a_shortlist() {
    // Three options are named in the look at all; they alone are drawn from again.
    let count = |option: usize, draws: u32| match option {
        7 => draws.saturating_sub(4),
        40 | 41 => 2,
        _ => 0,
    };
    let (found, rounds) = run(50, &HOW, count);
    assert_eq!(rounds, [[10, 10], [10, 10]]);
    let found = found.unwrap().probabilities;
    assert!(
        found[7] > 0.45 && found[40] > 0.1 && (found[40] - found[41]).abs() < 1e-9,
        "{found:?}"
    );
    assert!(found[0] > 0.0 && found[0] < 0.01, "{found:?}");
    // Nobody has to be drawn against nobody.
    let (_, rounds) = run(50, &HOW, |option, draws| if option == 7 { draws } else { 0 });
    assert_eq!(rounds, [[10, 10]]);
    // With few labels at once they are named in heats.
    let how = SampleOptions {
        labels_at_once: 26,
        ..HOW
    };
    let (found, rounds) = run(50, &how, count);
    assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [8, 2]);
    assert!(found.is_ok());
}

#[test]
fn what_draws_nothing_is_said() {
    for options in [2, 50] {
        let (found, rounds) = run(options, &HOW, |_, _| 0);
        assert_eq!((found, rounds.len()), (Err(NoEstimate::NoLabels), 1));
        assert_eq!(
            Sampler::new(options, false, &HOW).finish(),
            Err(NoEstimate::Unfinished)
        );
        let mut silent = Sampler::new(options, false, &HOW);
        silent.tell(Vec::new());
        assert_eq!(silent.finish(), Err(NoEstimate::NoLabels));
    }
}
