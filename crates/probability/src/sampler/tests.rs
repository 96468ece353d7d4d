use super::*;

const TEST_OPTIONS: SampleOptions = SampleOptions {
    max_labels: 255,
    draws: 20,
    permutations: None,
    seed: 5,
    varies: true,
};

/// Runs the sampling of a question to its end. `count` returns the count of an option for a number
/// of draws; the first draw returns the option with the largest count.
fn run(
    options: usize,
    how: &SampleOptions,
    count: impl Fn(usize, u32) -> u32,
) -> (Result<Estimate, EstimateError>, Vec<Vec<u32>>) {
    let mut sampler = Sampler::new(options, false, how);
    let mut batches = Vec::new();
    while !sampler.pending().is_empty() {
        let asked = sampler.pending();
        batches.push(asked.iter().map(|ask| ask.draws).collect());
        let is_first = batches.len() == 1;
        let drawn = asked.iter().map(|ask| {
            let draws = if is_first { how.draws } else { ask.draws };
            let mut counts: Vec<u32> = ask
                .round
                .order
                .iter()
                .map(|option| count(*option, draws))
                .collect();
            if is_first {
                let max = counts.iter().copied().max().unwrap();
                let named = counts.iter().position(|count| *count == max && max > 0);
                counts = (0..counts.len())
                    .map(|place| u32::from(named == Some(place)))
                    .collect();
            }
            let others = ask.draws.saturating_sub(counts.iter().sum());
            Some(RoundDraws { counts, others })
        });
        sampler.record(drawn.collect());
    }
    (sampler.finish(), batches)
}

fn check(found: &[f64], expected: &[f64]) {
    let is_near = |(one, two): (&f64, &f64)| (one - two).abs() <= 1e-6;
    assert!(found.iter().zip(expected).all(is_near), "{found:?} {expected:?}");
}

#[test]
fn few_options_have_the_posterior_mean() {
    let (all_first, batches) = run(
        2,
        &TEST_OPTIONS,
        |option, draws| if option == 0 { draws } else { 0 },
    );
    assert_eq!(batches, [vec![1], vec![9, 10]]);
    let found = all_first.unwrap();
    check(&found.probabilities, &[21.0 / 22.0, 1.0 / 22.0]);
    assert_eq!(
        (found.flips, found.mass, found.permutations, found.calls),
        (None, Some(1.0), 2, 2)
    );
    // The first draw returns option 0. Then eight of ten answers are labels; a quarter of these is
    // the last option.
    let (found, batches) = run(4, &TEST_OPTIONS, |option, _| match option {
        0 | 1 => 3,
        3 => 2,
        _ => 0,
    });
    assert_eq!(batches, [vec![1], vec![9, 10]]);
    let found = found.unwrap();
    check(
        &found.probabilities,
        &[7.5 / 19.0, 6.5 / 19.0, 0.5 / 19.0, 4.5 / 19.0],
    );
    assert!((found.mass.unwrap() - 17.0 / 20.0).abs() < 1e-12);
}

#[test]
fn draws_are_shared_by_orders() {
    for (draws, permutations, expected) in [
        (20, Some(1), vec![19]),
        (20, Some(3), vec![6, 7, 6]),
        (7, Some(2), vec![3, 3]),
        (1, Some(2), vec![1]),
    ] {
        let how = SampleOptions {
            draws,
            permutations,
            ..TEST_OPTIONS
        };
        let (_, batches) = run(10, &how, |option, draws| if option == 3 { draws } else { 0 });
        assert_eq!(batches, [vec![1], expected], "{draws} {permutations:?}");
    }
}

#[test]
fn many_options_have_a_shortlist() {
    // The first stage draws three options. The second stage shows only these options.
    let count = |option: usize, draws: u32| match option {
        7 => draws.saturating_sub(4),
        40 | 41 => 2,
        _ => 0,
    };
    let (found, batches) = run(50, &TEST_OPTIONS, count);
    assert_eq!(batches, [vec![1], vec![9, 10], vec![10, 10]]);
    let found = found.unwrap().probabilities;
    assert!(
        found[7] > 0.45 && found[40] > 0.1 && (found[40] - found[41]).abs() < 1e-9,
        "{found:?}"
    );
    assert!(found[0] > 0.0 && found[0] < 0.01, "{found:?}");
    // A single drawn option needs no second stage.
    let (_, batches) = run(
        50,
        &TEST_OPTIONS,
        |option, draws| if option == 7 { draws } else { 0 },
    );
    assert_eq!(batches, [vec![1], vec![9, 10]]);
    // If a round has only a small number of labels, the first stage uses several rounds.
    let how = SampleOptions {
        max_labels: 26,
        ..TEST_OPTIONS
    };
    let (found, batches) = run(50, &how, |option, draws| {
        count(option, draws).max(u32::from(option % 8 == 0))
    });
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 8, 2]);
    assert!(found.is_ok());
}

#[test]
fn missing_draws_are_an_error() {
    for options in [2, 50] {
        let (found, batches) = run(options, &TEST_OPTIONS, |_, _| 0);
        assert_eq!((found, batches.len()), (Err(EstimateError::NoLabels), 1));
        assert_eq!(
            Sampler::new(options, false, &TEST_OPTIONS).finish(),
            Err(EstimateError::Unfinished)
        );
        let mut silent = Sampler::new(options, false, &TEST_OPTIONS);
        silent.record(Vec::new());
        assert_eq!(silent.finish(), Err(EstimateError::NoLabels));
    }
}

#[test]
fn an_answer_that_is_no_label_is_the_last_one() {
    for options in [2, 50] {
        let mut sampler = Sampler::new(options, false, &TEST_OPTIONS);
        assert_eq!(
            sampler.pending().iter().map(|ask| ask.draws).collect::<Vec<_>>(),
            [1]
        );
        let others = RoundDraws {
            counts: vec![0; options],
            others: 1,
        };
        sampler.record(vec![Some(others)]);
        assert!(sampler.pending().is_empty());
        assert_eq!(sampler.finish(), Err(EstimateError::NoLabels));
    }
}

/// Answers each draw with the first option, regardless of its position. `others` answers are no
/// label.
fn first_option(sampler: &mut Sampler, others: u32) {
    let asked = sampler.pending();
    let drawn = asked.iter().map(|ask| {
        let place = ask.round.order.iter().position(|option| *option == 0).unwrap();
        let mut counts = vec![0; ask.round.order.len()];
        counts[place] = ask.draws.saturating_sub(others);
        Some(RoundDraws {
            others: ask.draws - counts[place],
            counts,
        })
    });
    let drawn = drawn.collect();
    sampler.record(drawn);
}

#[test]
fn equal_answers_count_as_one_until_the_model_is_seen_to_vary() {
    // Columns: whether the model is known to vary, other answers in each round, probability of the
    // first option.
    for (varies, others, expected) in [
        (true, 0, 21.0 / 22.0),
        (false, 0, 3.0 / 4.0),
        (false, 1, 19.0 / 20.0),
    ] {
        let mut sampler = Sampler::new(
            2,
            false,
            &SampleOptions {
                varies,
                ..TEST_OPTIONS
            },
        );
        first_option(&mut sampler, 0);
        first_option(&mut sampler, others);
        assert_eq!(sampler.has_varied(), others > 0);
        let found = sampler.finish().unwrap();
        check(&found.probabilities, &[expected, 1.0 - expected]);
    }
}

#[test]
fn missing_answers_are_drawn_again() {
    let mut sampler = Sampler::new(2, false, &TEST_OPTIONS);
    let mut batches: Vec<Vec<u32>> = Vec::new();
    while !sampler.pending().is_empty() {
        let asked = sampler.pending();
        batches.push(asked.iter().map(|ask| ask.draws).collect());
        // Each batch draws at most four answers. The second round has no draws in its first batch,
        // and then no answers.
        let is_second = batches.len() == 2;
        let came = asked.iter().enumerate().map(|(place, ask)| {
            let counts = vec![if place == 0 { ask.draws.min(4) } else { 0 }, 0];
            (place == 0 || !is_second).then_some(RoundDraws { counts, others: 0 })
        });
        let came = came.collect();
        sampler.record(came);
    }
    assert_eq!(batches, [vec![1], vec![9, 10], vec![5, 10], vec![1]]);
    assert!(sampler.finish().is_ok());
}

#[test]
fn stopped_sampler_uses_completed_draws() {
    let mut sampler = Sampler::new(50, false, &TEST_OPTIONS);
    assert!(!sampler.has_labels());
    first_option(&mut sampler, 0);
    assert!(sampler.has_labels() && !sampler.pending().is_empty());
    sampler.stop();
    assert!(sampler.pending().is_empty());
    let found = sampler.finish().unwrap();
    assert!(found.probabilities[0] > found.probabilities[1]);
}
