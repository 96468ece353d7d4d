//! Parameters and response of usage over time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_storage::{SeriesGroup, SeriesPoint, SeriesQuery, SeriesStep};
use tollgate_types::{Credits, Error, Timestamp, Usage};
use utoipa::{IntoParams, ToSchema};

use super::wire::{UsageClasses, instant, invalid};

const DAY: Duration = Duration::from_hours(24);
/// Maximum length of a series of hours.
const MAX_HOURS: Duration = Duration::from_hours(31 * 24);
/// Maximum length of a series of days.
const MAX_DAYS: Duration = Duration::from_hours(400 * 24);
/// Default length of a series.
const DEFAULT_LENGTH: Duration = Duration::from_hours(30 * 24);

/// Time range and grouping of a series.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct Params {
    /// Start time, inclusive: RFC 3339 or a date. Rounded down to an hour or a day in UTC. The
    /// default is 30 days before `to`.
    from: Option<String>,
    /// End time, exclusive. Rounded up to an hour or a day in UTC. The default is now.
    to: Option<String>,
    /// `day` (default, at most 400 days) or `hour` (at most 31 days).
    step: Option<String>,
    /// Group by `model`, `key`, `member` or `endpoint`. Without it, there is one group.
    by: Option<String>,
}

/// Usage and cost over time.
#[derive(Serialize, ToSchema)]
pub(super) struct Series {
    /// Start of the first step, RFC 3339 in UTC.
    from: String,
    /// End of the last step, RFC 3339 in UTC.
    to: String,
    /// `day` or `hour`.
    step: &'static str,
    /// Grouping; null if there is one group.
    by: Option<&'static str>,
    /// Groups with usage, the highest cost first.
    groups: Vec<Group>,
}

/// Usage and cost of a group over time.
#[derive(Serialize, ToSchema)]
pub(super) struct Group {
    /// Id of the model, key or member, or path of the endpoint. Empty for usage without a value,
    /// such as calls of keys in a series by member.
    group: String,
    /// Number of calls.
    requests: u64,
    /// Cost in credits as a decimal string, including the part that plan allowances paid.
    cost: String,
    /// Usage by class.
    usage: UsageClasses,
    /// Steps with usage, in order.
    points: Vec<Point>,
}

/// Usage and cost of a group in a step.
#[derive(Serialize, ToSchema)]
pub(super) struct Point {
    /// Start of the step, RFC 3339 in UTC.
    start: String,
    /// Number of calls.
    requests: u64,
    /// Cost in credits as a decimal string.
    cost: String,
    /// Usage by class.
    usage: UsageClasses,
}

impl Params {
    pub(super) fn decode(self, now: Timestamp) -> Result<SeriesQuery, Error> {
        let (step, length, max) = match self.step.as_deref() {
            None | Some("day") => (SeriesStep::Day, DAY, MAX_DAYS),
            Some("hour") => (SeriesStep::Hour, Duration::from_hours(1), MAX_HOURS),
            Some(_) => return Err(invalid("step", "'step' must be 'day' or 'hour'.")),
        };
        let by = match self.by.as_deref() {
            None => None,
            Some("model") => Some(SeriesGroup::Model),
            Some("key") => Some(SeriesGroup::Key),
            Some("member") => Some(SeriesGroup::Member),
            Some("endpoint") => Some(SeriesGroup::Endpoint),
            Some(_) => {
                let message = "'by' must be 'model', 'key', 'member' or 'endpoint'.";
                return Err(invalid("by", message));
            }
        };
        let to = ceiling(instant("to", self.to)?.unwrap_or(now), length);
        let from = instant("from", self.from)?.unwrap_or_else(|| to.minus(DEFAULT_LENGTH));
        let from = floor(from, length);
        if to <= from {
            return Err(invalid("to", "'to' must be later than 'from'."));
        }
        if to.since(from) > max {
            let message = "'from' must be at most 400 days before 'to', or 31 days with the step 'hour'.";
            return Err(invalid("from", message));
        }
        Ok(SeriesQuery { from, to, step, by })
    }
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// Rounds a time down to a multiple of `length` since the epoch.
fn floor(at: Timestamp, length: Duration) -> Timestamp {
    let micros = micros(length);
    Timestamp::from_micros(at.as_micros().div_euclid(micros) * micros)
}

fn ceiling(at: Timestamp, length: Duration) -> Timestamp {
    let down = floor(at, length);
    if down == at { at } else { down.plus(length) }
}

impl Series {
    pub(super) fn of(query: SeriesQuery, points: Vec<SeriesPoint>) -> Self {
        let mut groups: BTreeMap<String, (u64, Credits, Usage, Vec<Point>)> = BTreeMap::new();
        for point in points {
            let (requests, charge, usage, steps) = groups.entry(point.group).or_default();
            *requests += point.requests;
            *charge = charge.checked_add(point.charge).unwrap_or(*charge);
            *usage = usage.plus(&point.usage);
            steps.push(Point {
                start: point.start.to_rfc3339(),
                requests: point.requests,
                cost: point.charge.to_string(),
                usage: (&point.usage).into(),
            });
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by(|(a_name, a), (b_name, b)| b.1.cmp(&a.1).then_with(|| a_name.cmp(b_name)));
        let groups = groups
            .into_iter()
            .map(|(group, (requests, charge, usage, points))| Group {
                group,
                requests,
                cost: charge.to_string(),
                usage: (&usage).into(),
                points,
            });
        Self {
            from: query.from.to_rfc3339(),
            to: query.to.to_rfc3339(),
            step: match query.step {
                SeriesStep::Day => "day",
                SeriesStep::Hour => "hour",
            },
            by: query.by.map(|by| match by {
                SeriesGroup::Model => "model",
                SeriesGroup::Key => "key",
                SeriesGroup::Member => "member",
                SeriesGroup::Endpoint => "endpoint",
            }),
            groups: groups.collect(),
        }
    }
}
