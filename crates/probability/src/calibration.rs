//! Calibration of probabilities: a temperature for each answer kind and range of option counts,
//! fitted to labeled decisions. With at least [`LABELS_OF_A_CURVE`] labels, yes/no answers use an
//! isotonic curve instead.

mod isotonic;
mod temperature;

use serde::{Deserialize, Serialize};
use tollgate_types::decide::OPTIONS;

use crate::example::{AnswerKind, Example, InvalidExample, Known, checked};

/// Range of valid temperatures, for the fit and for stored profiles.
pub const TEMPERATURES: std::ops::RangeInclusive<f64> = 0.05..=20.0;
/// Minimum number of labels for an isotonic curve of yes/no answers.
pub const LABELS_OF_A_CURVE: usize = 1_000;
/// Minimum number of labels for a temperature.
pub const LABELS_OF_A_TEMPERATURE: usize = 30;
/// Upper bounds of the ranges of option counts. Questions within a range share one temperature.
const WIDTHS: [usize; 6] = [2, 5, 10, 20, 50, 255];
/// Maximum number of points of a curve.
const MAX_POINTS: usize = 256;

/// Calibration profile of a model: the fitted temperatures and the isotonic curve.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Profile {
    temperatures: Vec<Temperature>,
    isotonic: Option<Vec<(f64, f64)>>,
}

/// Temperature for an answer kind and a range of option counts. Values above 1 flatten the
/// probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// Answer kind of the questions.
    pub kind: AnswerKind,
    /// Maximum number of options of the questions: 2, 5, 10, 20, 50 or 255.
    pub options: usize,
    /// Divisor of the log-probabilities.
    pub temperature: f64,
    /// Number of labels to which the temperature was fitted.
    pub labels: u32,
}

/// A deserialized profile before validation.
#[derive(Deserialize)]
struct Unchecked {
    #[serde(default)]
    temperatures: Vec<Temperature>,
    #[serde(default)]
    isotonic: Option<Vec<(f64, f64)>>,
}

impl Profile {
    /// Fits a profile. The profile has no temperature for kinds and option counts with fewer than
    /// [`LABELS_OF_A_TEMPERATURE`] labels.
    pub fn fit(examples: &[Example]) -> Result<Profile, InvalidExample> {
        let known = checked(examples)?;
        let mut temperatures = Vec::new();
        for kind in [
            AnswerKind::Noul,
            AnswerKind::Choice,
            AnswerKind::Score,
            AnswerKind::Tool,
        ] {
            for options in WIDTHS {
                let is_of =
                    |known: &&Known| known.kind == kind && width(known.probabilities.len()) == options;
                let those: Vec<&Known> = known.iter().filter(is_of).collect();
                if those.len() >= LABELS_OF_A_TEMPERATURE {
                    temperatures.push(Temperature {
                        kind,
                        options,
                        temperature: rounded(temperature::fit(&those)),
                        labels: those.len() as u32,
                    });
                }
            }
        }
        let nouls = known.iter().filter(|known| known.kind == AnswerKind::Noul);
        let labels: Vec<(f64, f64)> = nouls
            .filter_map(|known| Some((*known.probabilities.first()?, *known.truth.first()?)))
            .collect();
        let isotonic = (labels.len() >= LABELS_OF_A_CURVE).then(|| isotonic::fit(labels));
        Ok(Profile {
            temperatures,
            isotonic,
        })
    }

    /// Whether the profile corrects answers of this kind.
    pub fn corrects(&self, kind: AnswerKind) -> bool {
        let has_curve = kind == AnswerKind::Noul && self.isotonic.is_some();
        has_curve || self.temperatures.iter().any(|known| known.kind == kind)
    }

    /// Returns the corrected probabilities; they sum to one. Yes/no answers use the isotonic curve
    /// if the profile has one. Other answers use the kind's temperature with the nearest option
    /// count, and stay unchanged if the kind has none.
    pub fn apply(&self, kind: AnswerKind, probabilities: &[f64]) -> Vec<f64> {
        if let (AnswerKind::Noul, Some(curve), [yes, _]) = (kind, &self.isotonic, probabilities) {
            let yes = isotonic::at(curve, *yes);
            return vec![yes, 1.0 - yes];
        }
        let own = width(probabilities.len());
        let place = |options: usize| {
            WIDTHS
                .iter()
                .position(|width| *width == options)
                .unwrap_or_default()
        };
        let of_kind = self.temperatures.iter().filter(|known| known.kind == kind);
        match of_kind.min_by_key(|known| place(known.options).abs_diff(place(own))) {
            Some(found) => temperature::apply(probabilities, found.temperature),
            None => probabilities.to_vec(),
        }
    }

    /// Returns the fitted temperatures, one for each kind and range of option counts.
    pub fn temperatures(&self) -> &[Temperature] {
        &self.temperatures
    }

    /// Returns the points (predicted, corrected) of the isotonic curve for yes/no answers; `None`
    /// without a curve.
    pub fn isotonic(&self) -> Option<&[(f64, f64)]> {
        self.isotonic.as_deref()
    }
}

/// Rounds to six decimals, which serialization preserves.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Returns the smallest of [`WIDTHS`] that is not below the option count.
fn width(options: usize) -> usize {
    WIDTHS
        .into_iter()
        .find(|width| options <= *width)
        .unwrap_or(*OPTIONS.end())
}

impl TryFrom<Unchecked> for Profile {
    type Error = &'static str;

    fn try_from(read: Unchecked) -> Result<Self, &'static str> {
        let is_fine = |known: &Temperature| {
            TEMPERATURES.contains(&known.temperature) && WIDTHS.contains(&known.options)
        };
        if !read.temperatures.iter().all(is_fine) {
            return Err(
                "a temperature must be from 0.05 to 20, and its number of options 2, 5, 10, 20, 50 or 255",
            );
        }
        if read.isotonic.as_deref().is_some_and(|curve| !is_curve(curve)) {
            return Err(
                "the isotonic curve must have 1 to 256 points in rising order, with values from 0 to 1",
            );
        }
        Ok(Profile {
            temperatures: read.temperatures,
            isotonic: read.isotonic,
        })
    }
}

fn is_curve(points: &[(f64, f64)]) -> bool {
    let is_share = |(predicted, is): &(f64, f64)| (0.0..=1.0).contains(predicted) && (0.0..=1.0).contains(is);
    let rises = |pair: &[(f64, f64)]| matches!(pair, [one, two] if one.0 < two.0 && one.1 <= two.1);
    (1..=MAX_POINTS).contains(&points.len()) && points.iter().all(is_share) && points.windows(2).all(rises)
}

#[cfg(test)]
mod tests;
