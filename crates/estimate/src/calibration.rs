//! Probabilities that are as right as they say: a temperature for each type and width of questions, fitted to decisions whose
//! truth is known; of many yes and no a monotone curve instead.

mod isotonic;
mod temperature;

use serde::{Deserialize, Serialize};
use tollgate_types::decide::OPTIONS;

use crate::example::{AnswerKind, BadExample, Example, Known, checked};

/// Temperatures between which is searched, and which a profile may have.
pub const TEMPERATURES: std::ops::RangeInclusive<f64> = 0.05..=20.0;
/// From so many labels on the yes and no have a curve of their own.
pub const LABELS_OF_A_CURVE: usize = 1_000;
/// From so many labels on a temperature is fitted.
pub const LABELS_OF_A_TEMPERATURE: usize = 30;
/// Questions of up to so many options have one temperature.
const WIDTHS: [usize; 6] = [2, 5, 10, 20, 50, 255];
/// The most points of a curve.
const MOST_POINTS: usize = 256;

/// How probabilities of a model are corrected.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Profile {
    temperatures: Vec<Temperature>,
    isotonic: Option<Vec<(f64, f64)>>,
}

/// The temperature of a type and a width: above 1 probabilities become more even.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// Of which type.
    pub kind: AnswerKind,
    /// Of questions of up to so many options: 2, 5, 10, 20, 50 or 255.
    pub options: usize,
    /// What logarithms are divided by.
    pub temperature: f64,
    /// To how many labels it was fitted.
    pub labels: u32,
}

/// A profile as it was written down.
#[derive(Deserialize)]
struct Unchecked {
    #[serde(default)]
    temperatures: Vec<Temperature>,
    #[serde(default)]
    isotonic: Option<Vec<(f64, f64)>>,
}

impl Profile {
    /// Fits a profile. What has too few examples stays as it is.
    pub fn fit(examples: &[Example]) -> Result<Profile, BadExample> {
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

    /// Whether answers of this type are corrected.
    pub fn corrects(&self, kind: AnswerKind) -> bool {
        let has_curve = kind == AnswerKind::Noul && self.isotonic.is_some();
        has_curve || self.temperatures.iter().any(|known| known.kind == kind)
    }

    /// The same probabilities, corrected; they sum to one. Where the width has no temperature, the nearest one of the type
    /// serves; a type without any stays as it is.
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

    /// The temperatures.
    pub fn temperatures(&self) -> &[Temperature] {
        &self.temperatures
    }

    /// The curve of yes and no, if there is one: what was said, and what it is.
    pub fn isotonic(&self) -> Option<&[(f64, f64)]> {
        self.isotonic.as_deref()
    }
}

/// To six decimals, which survive being written down.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// The least of [`WIDTHS`] that has so many options.
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
            return Err("a temperature is 0.05 to 20, of up to 2, 5, 10, 20, 50 or 255 options");
        }
        if read.isotonic.as_deref().is_some_and(|curve| !is_curve(curve)) {
            return Err("a curve has 1 to 256 points from 0 to 1, which rise");
        }
        Ok(Profile {
            temperatures: read.temperatures,
            isotonic: read.isotonic,
        })
    }
}

fn is_curve(points: &[(f64, f64)]) -> bool {
    let is_share = |(said, is): &(f64, f64)| (0.0..=1.0).contains(said) && (0.0..=1.0).contains(is);
    let rises = |pair: &[(f64, f64)]| matches!(pair, [one, two] if one.0 < two.0 && one.1 <= two.1);
    (1..=MOST_POINTS).contains(&points.len()) && points.iter().all(is_share) && points.windows(2).all(rises)
}

#[cfg(test)]
mod tests;
