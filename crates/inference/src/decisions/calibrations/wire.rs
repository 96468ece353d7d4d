//! Bodies.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_estimate::AnswerKind;
use tollgate_storage::Calibration as Kept;
use tollgate_types::{CalibrationId, Error};
use utoipa::{IntoParams, ToSchema};

use super::profiles::profile_of;

/// Decisions whose truth is known, to fit a calibration to.
#[derive(Serialize, ToSchema)]
pub struct CreateCalibration {
    /// Id or alias of the model that decided.
    model: String,
    /// For people, at most 100 characters.
    name: Option<String>,
    /// 30 to 50,000 of them. What there are fewer than 30 of, of a type and about as many options, is not corrected by itself.
    examples: Vec<CalibrationExample>,
}

/// A decision whose truth is known.
#[derive(Serialize, ToSchema)]
pub struct CalibrationExample {
    /// `noul` (or `predicate`), `choice`, `score` or `tool`.
    #[serde(rename = "type")]
    kind: String,
    /// How probable each option was said to be: a list, or an object by option as answers have it. Of a noul two numbers, that
    /// of a yes first. They should not be corrected already: ask with `calibration` `none`.
    #[schema(value_type = Option<Value>)]
    probabilities: Option<Value>,
    /// Of a noul, in place of `probabilities`: how probable a yes was said to be.
    #[schema(minimum = 0, maximum = 1)]
    probability: Option<f64>,
    /// What would have been right: of a noul true or false, else an option, by its name where probabilities have names or by
    /// its place from 0; or a list of how right each option is.
    #[schema(value_type = Value)]
    truth: Value,
}

/// Whether a calibration is to be the default of its model.
#[derive(Serialize, ToSchema)]
pub struct ChooseCalibration {
    /// `true` chooses it; `false` takes such a choice back, so that the newest one is the default again.
    default: bool,
}

/// A profile by which probabilities are corrected.
#[derive(Serialize, ToSchema)]
pub struct Calibration {
    /// Id.
    #[schema(value_type = String)]
    id: CalibrationId,
    /// Always `decision.calibration`.
    object: &'static str,
    /// Of which model.
    model: String,
    /// Which of this model, from 1. The number of one that was deleted is not used again.
    version: u32,
    /// For people.
    name: Option<String>,
    /// Whether decisions of the model use it that name none.
    default: bool,
    /// Seconds since the epoch.
    created_at: i64,
    /// To how many examples it was fitted.
    examples: u32,
    /// What logarithms of probabilities are divided by, for each type and width of questions that had at least 30 examples.
    /// Other widths of a type go by the nearest one.
    temperatures: Vec<CalibrationTemperature>,
    /// Of 1,000 nouls or more, in place of a temperature: what was said, and what it is, straight between these points.
    #[schema(value_type = Option<Vec<Vec<f64>>>)]
    curve: Option<Vec<(f64, f64)>>,
    /// How good the examples are as they were sent.
    before: Quality,
    /// How good the same examples are when they are corrected.
    after: Quality,
    /// What is to be expected of other decisions: each fifth of the examples, corrected by what the others teach. Absent where
    /// there are too few for that.
    held_out: Option<Quality>,
}

/// A temperature.
#[derive(Serialize, ToSchema)]
pub struct CalibrationTemperature {
    /// Of which type.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Of questions of up to so many options: 2, 5, 10, 20, 50 or 255.
    options: usize,
    /// Above 1 probabilities become more even.
    temperature: f64,
    /// To how many examples it was fitted.
    examples: u32,
}

/// How good decisions are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = CalibrationQuality)]
pub struct Quality {
    /// The share of answers that are right.
    pub(super) accuracy: f64,
    /// Half the squared distance to the truth, 0 to 1; less is better.
    pub(super) brier: f64,
    /// In nats; less is better.
    pub(super) log_loss: f64,
    /// The expected calibration error, over 15 bins of as many answers each; less is better. By itself it says little: who
    /// always says how common each answer is, has none.
    pub(super) ece: f64,
}

/// What a calibration brings, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) before: Quality,
    pub(super) after: Quality,
    pub(super) held_out: Option<Quality>,
}

/// A page of calibrations, the newest first.
#[derive(Serialize, ToSchema)]
pub struct CalibrationList {
    /// Always `list`.
    object: &'static str,
    /// Calibrations.
    data: Vec<Calibration>,
    /// Id of the first one.
    first_id: Option<String>,
    /// Id of the last one.
    last_id: Option<String>,
    /// Whether there are more.
    has_more: bool,
}

/// A calibration was deleted.
#[derive(Serialize, ToSchema)]
pub struct DeletedCalibration {
    /// Id.
    id: String,
    /// Always `decision.calibration`.
    object: &'static str,
    /// Always true.
    deleted: bool,
}

/// Which calibrations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CalibrationsQuery {
    /// Of this model: its id or an alias.
    pub(super) model: Option<String>,
    /// Calibrations on a page, 1 to 100; 20 when it is not said.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
    /// The id of the last calibration of the page before.
    pub(super) after: Option<String>,
}

const OBJECT: &str = "decision.calibration";

impl Calibration {
    /// A calibration as it is.
    pub(super) fn of(found: Kept) -> Result<Self, Error> {
        let profile = profile_of(&found)?;
        let kept = found.kept;
        let summary: Summary = serde_json::from_str(&kept.summary)
            .map_err(|error| Error::internal(format!("{} cannot be read: {error}", kept.id)))?;
        let temperatures = profile.temperatures().iter();
        Ok(Self {
            id: kept.id,
            object: OBJECT,
            model: kept.model,
            version: found.version,
            name: kept.name,
            default: found.is_default,
            created_at: kept.created_at.as_seconds(),
            examples: kept.examples,
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
    /// A page.
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
    /// This one was.
    pub(super) fn of(id: CalibrationId) -> Self {
        Self {
            id: id.to_string(),
            object: OBJECT,
            deleted: true,
        }
    }
}
