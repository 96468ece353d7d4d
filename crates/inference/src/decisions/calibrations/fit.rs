//! A profile, and what it brings.

use tollgate_estimate::judge::judge;
use tollgate_estimate::{BadExample, Example, JudgeOptions, Profile, Random};
use tollgate_types::Error;

use super::read::{self, invalid};
use super::wire::{Quality, Summary};

/// In so many parts examples are split, each judged by a profile that is fitted to the others.
const FOLDS: usize = 5;
/// Decides which example is in which part: the same examples are judged the same.
const SEED: u64 = 5;

/// What examples come to.
pub(super) struct Fitted {
    pub(super) profile: Profile,
    pub(super) examples: u32,
    pub(super) summary: Summary,
}

/// Fits a profile to the examples of a request.
pub(super) fn fit(examples: &[u8]) -> Result<Fitted, Error> {
    let examples = read::examples(examples)?;
    let profile = Profile::fit(&examples).map_err(|bad| refused(&bad))?;
    if profile.temperatures().is_empty() {
        let what =
            "has no type with 30 examples of about as many options each, which is the least to learn from";
        return Err(invalid("examples", what));
    }
    let summary = Summary {
        before: quality(&examples)?,
        after: quality(&corrected(&profile, &examples))?,
        held_out: held_out(&profile, &examples)?,
    };
    Ok(Fitted {
        profile,
        examples: u32::try_from(examples.len()).unwrap_or(u32::MAX),
        summary,
    })
}

fn corrected(profile: &Profile, examples: &[Example]) -> Vec<Example> {
    let correct = |example: &Example| Example {
        probabilities: profile.apply(example.kind, &example.probabilities),
        ..example.clone()
    };
    examples.iter().map(correct).collect()
}

/// What is to be expected of decisions that are not among the examples; `None` where a part would be too small to be judged
/// by the like of the profile.
fn held_out(whole: &Profile, examples: &[Example]) -> Result<Option<Quality>, Error> {
    // Drawn, and not by turns: examples may be in an order that has to do with their truth.
    let mut random = Random::new(SEED);
    let folds: Vec<usize> = examples.iter().map(|_| random.below(FOLDS)).collect();
    let mut judged = Vec::with_capacity(examples.len());
    for fold in 0..FOLDS {
        let part = |is_of_fold: bool| -> Vec<Example> {
            let each = folds.iter().zip(examples);
            each.filter(|(of, _)| (**of == fold) == is_of_fold)
                .map(|(_, example)| example.clone())
                .collect()
        };
        let profile = Profile::fit(&part(false)).map_err(|bad| refused(&bad))?;
        if profile.temperatures().len() < whole.temperatures().len()
            || profile.isotonic().is_some() != whole.isotonic().is_some()
        {
            return Ok(None);
        }
        judged.extend(corrected(&profile, &part(true)));
    }
    quality(&judged).map(Some)
}

fn quality(examples: &[Example]) -> Result<Quality, Error> {
    // No interval is told, so that nothing is drawn for one.
    let how = JudgeOptions {
        resamples: 1,
        ..JudgeOptions::default()
    };
    let report = judge(examples, &how).map_err(|bad| refused(&bad))?;
    let report = report.ok_or_else(|| Error::internal("no examples to judge"))?;
    Ok(Quality {
        accuracy: rounded(report.accuracy),
        brier: rounded(report.brier),
        log_loss: rounded(report.log_loss),
        ece: rounded(report.ece.value),
    })
}

fn rounded(figure: f64) -> f64 {
    (figure * 1e6).round() / 1e6
}

fn refused(bad: &BadExample) -> Error {
    let param = format!("examples[{}].{}", bad.place, bad.member);
    invalid(&param, &format!("cannot be learned from: {}", bad.what))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// So many of which 90 % are said to be a yes, and 60 % are.
    fn overconfident(number: usize) -> Vec<Value> {
        let example = |place: usize| json!({"type": "noul", "probability": 0.9, "truth": place % 10 < 6});
        (0..number).map(example).collect()
    }

    fn fitted(examples: Vec<Value>) -> Result<Fitted, Error> {
        fit(Value::from(examples).to_string().as_bytes())
    }

    #[test]
    fn a_profile_says_what_it_brings() {
        for (number, is_judged, has_curve) in [
            (30, false, false),
            (100, true, false),
            (1_000, false, true),
            (2_000, true, true),
        ] {
            let fitted = fitted(overconfident(number)).unwrap();
            let Summary {
                before,
                after,
                held_out,
            } = fitted.summary;
            assert_eq!(fitted.examples as usize, number);
            assert!(after.log_loss < before.log_loss && after.brier < before.brier && after.ece < before.ece);
            assert_eq!(fitted.profile.isotonic().is_some(), has_curve);
            assert_eq!(held_out.is_some(), is_judged, "{number}");
            assert!(held_out.is_none_or(|held_out| held_out.log_loss < before.log_loss));
            assert_eq!((before.ece * 10.0).round(), 3.0);
        }
    }

    #[test]
    fn what_nothing_is_learned_from_is_refused() {
        let mut bad = overconfident(40);
        bad[7] = json!({"type": "choice", "probabilities": [0.5, 0.6], "truth": 0});
        let mut off = overconfident(40);
        off[8] = json!({"type": "choice", "probabilities": [0.5, 0.5], "truth": 2});
        let mut few = overconfident(29);
        few.push(json!({"type": "choice", "probabilities": [0.5, 0.5], "truth": 0}));
        for (examples, param) in [
            (bad, "examples[7].probabilities"),
            (off, "examples[8].truth"),
            (few, "examples"),
            (overconfident(29), "examples"),
            (overconfident(50_001), "examples"),
        ] {
            let error = fitted(examples).err().unwrap();
            assert_eq!(error.param.as_deref(), Some(param));
        }
    }
}
