//! Fits a calibration profile and measures its quality.

use tollgate_probability::judge::judge;
use tollgate_probability::{Example, InvalidExample, JudgeOptions, Profile, Random};
use tollgate_types::Error;

use super::read::{self, invalid};
use super::wire::{Quality, Summary};

/// Number of cross-validation folds.
const FOLDS: usize = 5;
/// Random seed of the folds, fixed so that equal examples give equal results.
const SEED: u64 = 5;

/// A fitted profile and its quality.
pub(super) struct Fitted {
    pub(super) profile: Profile,
    pub(super) examples: u32,
    pub(super) summary: Summary,
}

/// Fits a profile to the examples of a request. Errors name the path of the invalid example.
pub(super) fn fit(examples: &[u8]) -> Result<Fitted, Error> {
    let examples = read::examples(examples)?;
    let profile = Profile::fit(&examples).map_err(|bad| refused(&bad))?;
    if profile.temperatures().is_empty() {
        let what = "must have at least 30 examples of one type with a similar number of options";
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

/// Cross-validates the profile. Returns `None` if the folds have too few examples for a profile of
/// the same shape.
fn held_out(whole: &Profile, examples: &[Example]) -> Result<Option<Quality>, Error> {
    // Folds are random, because the order of the examples may depend on their truth.
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
    // Confidence intervals are not reported, so one resample is enough.
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

fn refused(bad: &InvalidExample) -> Error {
    let param = format!("examples[{}].{}", bad.place, bad.member);
    invalid(&param, &format!("cannot be used for calibration: {}", bad.what))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns examples that predict yes with a probability of 90 % and are a yes in 60 % of the
    /// cases.
    fn overconfident(number: usize) -> Vec<Value> {
        let example = |place: usize| json!({"type": "noul", "probability": 0.9, "truth": place % 10 < 6});
        (0..number).map(example).collect()
    }

    fn fitted(examples: Vec<Value>) -> Result<Fitted, Error> {
        fit(Value::from(examples).to_string().as_bytes())
    }

    #[test]
    fn profiles_report_their_quality() {
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
    fn examples_without_information_are_rejected() {
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
