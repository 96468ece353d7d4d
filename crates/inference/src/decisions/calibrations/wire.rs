//! Request and response schemas of the calibration endpoints.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_probability::AnswerKind;
use tollgate_storage::Calibration as StoredCalibration;
use tollgate_types::{CalibrationId, Error};
use utoipa::{IntoParams, ToSchema};

use super::profiles::profile_of;

/// Request body of `POST /v1/decisions/calibrations`: decisions with known outcomes, to which a
/// calibration is fitted.
#[derive(Serialize, ToSchema)]
pub struct CreateCalibration {
    /// Id or alias of the model that made the decisions.
    model: String,
    /// Display name, 1 to 100 characters.
    name: Option<String>,
    /// 30 to 50,000 examples. Each combination of a question type and a range of option counts (up
    /// to 2, 5, 10, 20, 50 or 255) needs at least 30 examples to have its own temperature. At least
    /// one combination must have 30 examples.
    examples: Vec<CalibrationExample>,
}

/// A decision with a known outcome.
#[derive(Serialize, ToSchema)]
pub struct CalibrationExample {
    /// Type of the question: `noul` (or `predicate`), `choice`, `score` or `tool`.
    #[serde(rename = "type")]
    kind: String,
    /// Predicted probability of each option: an array, or a map by option as in an answer. For a
    /// noul, two numbers with yes first. Use uncorrected probabilities: make the decisions with
    /// `calibration` set to `none`.
    #[schema(value_type = Option<Value>)]
    probabilities: Option<Value>,
    /// For a noul, instead of `probabilities`: the predicted probability of yes.
    #[schema(minimum = 0, maximum = 1)]
    probability: Option<f64>,
    /// The correct outcome. For a noul: true or false. Otherwise an option, by name if the
    /// probabilities have names, or by index from 0. A soft label is an array with a weight for
    /// each option, from 0 to 1 with the sum 1, such as the share of people who chose the option.
    #[schema(value_type = Value)]
    truth: Value,
}

/// Request body that selects or deselects a calibration as the default of its model.
#[derive(Serialize, ToSchema)]
pub struct ChooseCalibration {
    /// `true` selects the calibration as the default. `false` removes the selection, so that the
    /// newest calibration is the default again.
    default: bool,
}

/// A calibration profile that corrects probabilities.
#[derive(Serialize, ToSchema)]
pub struct Calibration {
    /// Id of the calibration.
    #[schema(value_type = String)]
    id: CalibrationId,
    /// Always `decision.calibration`.
    object: &'static str,
    /// Id of the model whose probabilities the calibration corrects.
    model: String,
    /// Version number for this model, starting at 1. Numbers of deleted versions are not reused.
    version: u32,
    /// Display name, as sent in the request.
    name: Option<String>,
    /// Whether decisions of the model use this calibration by default.
    default: bool,
    /// Creation time, in seconds since the Unix epoch.
    created_at: i64,
    /// Number of examples to which the calibration was fitted.
    examples: u32,
    /// Divisors of the log probabilities, for each question type and range of option counts with at
    /// least 30 examples. Other option counts use the nearest range of the same type.
    temperatures: Vec<CalibrationTemperature>,
    /// Curve that corrects nouls instead of their temperature: pairs of predicted and corrected
    /// probability. Values between two pairs are interpolated linearly. Null with fewer than 1,000
    /// nouls.
    #[schema(value_type = Option<Vec<Vec<f64>>>)]
    curve: Option<Vec<(f64, f64)>>,
    /// Quality of the decisions in the examples, before correction.
    before: Quality,
    /// Quality of the same decisions after correction.
    after: Quality,
    /// Expected quality of other decisions, from a 5-fold cross-validation. Null if there are too
    /// few examples.
    held_out: Option<Quality>,
}

/// Temperature for one question type and range of option counts.
#[derive(Serialize, ToSchema)]
pub struct CalibrationTemperature {
    /// Type of the question: `noul`, `choice`, `score` or `tool`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Upper bound of the range of option counts: 2, 5, 10, 20, 50 or 255.
    options: usize,
    /// Divisor of the log probabilities. Values above 1 make the probabilities more even.
    temperature: f64,
    /// Number of examples to which the temperature was fitted.
    examples: u32,
}

/// Quality measures of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CalibrationQuality)]
pub struct Quality {
    /// Share of correct answers, from 0 to 1.
    pub(super) accuracy: f64,
    /// Brier score: half the squared distance to the truth, from 0 to 1. Lower is better.
    pub(super) brier: f64,
    /// Logarithmic loss in nats. Lower is better.
    pub(super) log_loss: f64,
    /// Expected calibration error over 15 bins with equal numbers of answers. Lower is better. A
    /// low value alone proves little: constant predictions at the base rates have an error of 0.
    pub(super) ece: f64,
}

/// Stored quality measures of a calibration.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) before: Quality,
    pub(super) after: Quality,
    pub(super) held_out: Option<Quality>,
}

/// One page of the list of calibrations, newest first.
#[derive(Serialize, ToSchema)]
pub struct CalibrationList {
    /// Always `list`.
    object: &'static str,
    /// The calibrations of this page.
    data: Vec<Calibration>,
    /// Id of the first calibration of this page.
    first_id: Option<String>,
    /// Id of the last calibration of this page.
    last_id: Option<String>,
    /// Whether more calibrations follow.
    has_more: bool,
}

/// Confirmation that a calibration was deleted.
#[derive(Serialize, ToSchema)]
pub struct DeletedCalibration {
    /// Id of the deleted calibration.
    id: String,
    /// Always `decision.calibration`.
    object: &'static str,
    /// Always true after a successful deletion.
    deleted: bool,
}

/// Query parameters of the list of calibrations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CalibrationsQuery {
    /// Return only calibrations of this model (id or alias).
    pub(super) model: Option<String>,
    /// Number of calibrations per page, 1 to 100. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
    /// Return calibrations that come after the calibration with this id.
    pub(super) after: Option<String>,
}

const OBJECT: &str = "decision.calibration";

impl Calibration {
    /// Converts a stored calibration; fails if its content is invalid.
    pub(super) fn of(found: StoredCalibration) -> Result<Self, Error> {
        let profile = profile_of(&found)?;
        let details = found.details;
        let summary: Summary = serde_json::from_str(&details.summary)
            .map_err(|error| Error::internal(format!("the content of {} is invalid: {error}", details.id)))?;
        let temperatures = profile.temperatures().iter();
        Ok(Self {
            id: details.id,
            object: OBJECT,
            model: details.model,
            version: found.version,
            name: details.name,
            default: found.is_default,
            created_at: details.created_at.as_seconds(),
            examples: details.examples,
            temperatures: temperatures
                .map(|one| CalibrationTemperature {
                    kind: word(one.kind),
                    options: one.options,
                    temperature: one.temperature,
                    examples: one.labels,
                })
                .collect(),
            curve: profile.isotonic().map(<[_]>::to_vec),
            before: summary.before,
            after: summary.after,
            held_out: summary.held_out,
        })
    }
}

fn word(kind: AnswerKind) -> &'static str {
    match kind {
        AnswerKind::Noul => "noul",
        AnswerKind::Choice => "choice",
        AnswerKind::Score => "score",
        AnswerKind::Tool => "tool",
    }
}

impl CalibrationList {
    /// Builds a page with the ids of its first and last calibration.
    pub(super) fn of(data: Vec<Calibration>, has_more: bool) -> Self {
        let id = |one: &Calibration| one.id.to_string();
        Self {
            object: "list",
            first_id: data.first().map(id),
            last_id: data.last().map(id),
            data,
            has_more,
        }
    }
}

impl DeletedCalibration {
    /// Builds the confirmation for this id.
    pub(super) fn of(id: CalibrationId) -> Self {
        Self {
            id: id.to_string(),
            object: OBJECT,
            deleted: true,
        }
    }
}
