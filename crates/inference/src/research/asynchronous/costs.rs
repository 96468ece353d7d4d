//! Costs of a report by class, as numbers.

use serde_json::{Map, Value};
use tollgate_storage::{Job, Result, StorageError, StorageErrorKind};
use tollgate_types::{Credits, Unit, Usage};

use super::super::Research;

/// Members of a cost object, with the classes of usage that each one contains.
const COSTS: [(&str, &[Unit]); 4] = [
    (
        "input_tokens_cost",
        &[
            Unit::Input,
            Unit::CacheRead,
            Unit::CacheWrite,
            Unit::CacheWriteHour,
            Unit::InputAudio,
            Unit::InputImage,
            Unit::CacheReadAudio,
        ],
    ),
    ("output_tokens_cost", &[Unit::Output, Unit::OutputAudio]),
    ("reasoning_tokens_cost", &[Unit::Reasoning]),
    ("search_queries_cost", &[Unit::Search]),
];

/// Returns the costs of a job that has ended. Each class is rounded, so their sum can differ from
/// the total, the charge, by a nano-credit a part.
pub(super) async fn of(research: &Research, job: &Job) -> Result<Value> {
    let parts = research.usage.parts(job.account, job.hold).await?;
    let mut priced = Vec::with_capacity(parts.len());
    for part in parts {
        let record = research.prices.get(part.price_version).await?;
        let record = record.ok_or_else(|| {
            let message = "the price version of a part of a report does not exist";
            StorageError::new(StorageErrorKind::Corrupt, message)
        })?;
        priced.push((part.usage, record.prices));
    }
    let mut costs = Map::new();
    for (name, units) in COSTS {
        let of_part = |(usage, prices): &(Usage, tollgate_types::Prices)| {
            let units = units.iter();
            prices.cost(&units.fold(Usage::ZERO, |some, unit| some.with(*unit, usage.get(*unit))))
        };
        let cost = priced.iter().map(of_part).fold(Credits::ZERO, |sum, cost| {
            sum.checked_add(cost).unwrap_or(Credits::MAX)
        });
        costs.insert(name.to_owned(), number(cost));
    }
    let total = job.charge.unwrap_or_default();
    costs.insert("total_cost".to_owned(), number(total));
    Ok(Value::Object(costs))
}

/// Returns an amount of credits as a JSON number.
fn number(cost: Credits) -> Value {
    serde_json::from_str(&cost.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers() {
        for (nanos, expected) in [(0, 0.0), (1_420_400, 0.001_420_4), (3_000_000_000, 3.0)] {
            let shown = number(Credits::from_nanos(nanos));
            assert_eq!(shown.as_f64(), Some(expected), "{nanos}");
        }
    }
}
