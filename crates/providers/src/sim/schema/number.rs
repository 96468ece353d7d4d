//! Numbers within bounds.

use serde_json::{Map, Number, Value};

/// A bound on how many there may be.
pub(super) fn count(schema: &Map<String, Value>, keyword: &str, otherwise: usize) -> usize {
    let stated = schema.get(keyword).and_then(Value::as_f64);
    stated.map_or(otherwise, |stated| stated.max(0.0) as usize)
}

/// The bounds of a number, each with whether the bound itself is allowed.
struct Bounds {
    least: Option<(f64, bool)>,
    most: Option<(f64, bool)>,
}

impl Bounds {
    fn of(schema: &Map<String, Value>) -> Self {
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let tighter =
            |including: Option<f64>, excluding: Option<f64>, larger: bool| match (including, excluding) {
                (Some(including), Some(excluding)) if (excluding >= including) == larger => {
                    Some((excluding, false))
                }
                (Some(including), _) => Some((including, true)),
                (None, excluding) => excluding.map(|excluding| (excluding, false)),
            };
        Self {
            least: tighter(bound("minimum"), bound("exclusiveMinimum"), true),
            most: tighter(bound("maximum"), bound("exclusiveMaximum"), false),
        }
    }

    fn hold(&self, number: f64) -> bool {
        let above = |(bound, including): (f64, bool)| number > bound || (including && number == bound);
        let below = |(bound, including): (f64, bool)| number < bound || (including && number == bound);
        self.least.is_none_or(above) && self.most.is_none_or(below)
    }

    /// The multiple of `step` to begin with: zero where it is allowed, else the one next to it.
    fn first(&self, step: f64) -> f64 {
        match (self.least, self.most) {
            (Some((least, _)), _) if !self.hold(0.0) && least >= 0.0 => {
                let multiple = (least / step).ceil() * step;
                if self.hold(multiple) {
                    multiple
                } else {
                    multiple + step
                }
            }
            (_, Some((most, _))) if !self.hold(0.0) => {
                let multiple = (most / step).floor() * step;
                if self.hold(multiple) {
                    multiple
                } else {
                    multiple - step
                }
            }
            _ => 0.0,
        }
    }

    /// The first allowed one of the variants that begin there and go up, then down.
    fn pick(&self, step: f64, variant: usize) -> Option<f64> {
        let first = self.first(step);
        let up = first + step * variant as f64;
        let down = first - step * variant as f64;
        [up, down, first].into_iter().find(|number| self.hold(*number))
    }
}

/// A whole number.
pub(super) fn integer(schema: &Map<String, Value>, variant: usize) -> Option<Value> {
    let stated = schema.get("multipleOf").and_then(Value::as_f64);
    let step = stated.filter(|step| *step > 0.0).unwrap_or(1.0);
    let step = (1..=1_000)
        .map(|times| step * f64::from(times))
        .find(|step| step.fract() == 0.0)?;
    let number = Bounds::of(schema).pick(step, variant)?;
    // Below this, every whole number is exact.
    (number.abs() < 9e15).then(|| Value::from(number as i64))
}

/// Any number.
pub(super) fn number(schema: &Map<String, Value>, variant: usize) -> Option<Value> {
    let bounds = Bounds::of(schema);
    let stated = schema.get("multipleOf").and_then(Value::as_f64);
    let step = stated.filter(|step| *step > 0.0);
    let between = || match (bounds.least, bounds.most) {
        (Some((least, _)), Some((most, _))) => {
            let share = 1.0 / (variant as f64 + 2.0);
            Some(least + (most - least) * share)
        }
        _ => None,
    };
    let found = bounds.pick(step.unwrap_or(1.0), variant);
    let number = match step {
        Some(_) => found?,
        None => found.or_else(between).filter(|number| bounds.hold(*number))?,
    };
    let whole = number.fract() == 0.0 && number.abs() < 9e15;
    if whole {
        return Some(Value::from(number as i64));
    }
    Number::from_f64(number).map(Value::Number)
}
