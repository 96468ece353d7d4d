//! Generates numbers within bounds.

use serde_json::{Map, Number, Value};

/// Returns the value of a count keyword, such as `minItems`; `otherwise` if absent.
pub(super) fn count(schema: &Map<String, Value>, keyword: &str, otherwise: usize) -> usize {
    let stated = schema.get(keyword).and_then(Value::as_f64);
    stated.map_or(otherwise, |stated| stated.max(0.0) as usize)
}

/// Bounds of a number. The flag of a bound is true if the bound is inclusive.
struct Bounds {
    min: Option<(f64, bool)>,
    max: Option<(f64, bool)>,
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
            min: tighter(bound("minimum"), bound("exclusiveMinimum"), true),
            max: tighter(bound("maximum"), bound("exclusiveMaximum"), false),
        }
    }

    fn hold(&self, number: f64) -> bool {
        let above = |(bound, including): (f64, bool)| number > bound || (including && number == bound);
        let below = |(bound, including): (f64, bool)| number < bound || (including && number == bound);
        self.min.is_none_or(above) && self.max.is_none_or(below)
    }

    /// Returns the first multiple of `step` to try: zero if allowed, otherwise the allowed multiple
    /// closest to it.
    fn first(&self, step: f64) -> f64 {
        match (self.min, self.max) {
            (Some((min, _)), _) if !self.hold(0.0) && min >= 0.0 => {
                let multiple = (min / step).ceil() * step;
                if self.hold(multiple) {
                    multiple
                } else {
                    multiple + step
                }
            }
            (_, Some((max, _))) if !self.hold(0.0) => {
                let multiple = (max / step).floor() * step;
                if self.hold(multiple) {
                    multiple
                } else {
                    multiple - step
                }
            }
            _ => 0.0,
        }
    }

    /// Returns an allowed number: `variant` steps above the first one, otherwise below it,
    /// otherwise the first one.
    fn pick(&self, step: f64, variant: usize) -> Option<f64> {
        let first = self.first(step);
        let up = first + step * variant as f64;
        let down = first - step * variant as f64;
        [up, down, first].into_iter().find(|number| self.hold(*number))
    }
}

/// Generates an integer.
pub(super) fn integer(schema: &Map<String, Value>, variant: usize) -> Option<Value> {
    let stated = schema.get("multipleOf").and_then(Value::as_f64);
    let step = stated.filter(|step| *step > 0.0).unwrap_or(1.0);
    let step = (1..=1_000)
        .map(|times| step * f64::from(times))
        .find(|step| step.fract() == 0.0)?;
    let number = Bounds::of(schema).pick(step, variant)?;
    // Every integer of a smaller absolute value is exact in `f64`.
    (number.abs() < 9e15).then(|| Value::from(number as i64))
}

/// Generates a number, integer or not.
pub(super) fn number(schema: &Map<String, Value>, variant: usize) -> Option<Value> {
    let bounds = Bounds::of(schema);
    let stated = schema.get("multipleOf").and_then(Value::as_f64);
    let step = stated.filter(|step| *step > 0.0);
    let between = || match (bounds.min, bounds.max) {
        (Some((min, _)), Some((max, _))) => {
            let share = 1.0 / (variant as f64 + 2.0);
            Some(min + (max - min) * share)
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
