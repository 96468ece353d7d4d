//! Models and prices of a report, as agreed when its job was accepted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_billing::AgreedPrices;
use tollgate_storage::UsagePart;
use tollgate_types::{Credits, Error, Prices, Unit, Usage};

use super::bounds::{Stage, add};

/// Quantity of one search query.
pub(super) const QUERY: u64 = 1_000_000;

/// Models of the stages, and prices of the search backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cast {
    /// Name and prices of the model that the caller named. It executes the stages without their own
    /// model, and its price applies to backends without their own.
    pub(super) own: StageModel,
    /// Models of stages; empty if the named model executes all stages.
    pub(super) stages: BTreeMap<Stage, StageModel>,
    /// Prices of search backends, by name.
    pub(super) searches: BTreeMap<String, StageModel>,
}

/// A model with its agreed prices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StageModel {
    /// Name of the model, as usage parts record it.
    pub(super) model: String,
    pub(super) prices: AgreedPrices,
}

/// Usage of a recorded call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) usage: Usage,
    /// Target that served the call; empty if none did.
    pub(super) target: String,
    /// Names of the backends that answered, for a search.
    pub(super) backends: Vec<String>,
}

impl Cast {
    /// Returns the model of a stage.
    pub(super) fn stage(&self, stage: Stage) -> &StageModel {
        self.stages.get(&stage).unwrap_or(&self.own)
    }

    /// Returns the terms of a search backend.
    fn search(&self, backend: &str) -> &StageModel {
        self.searches.get(backend).unwrap_or(&self.own)
    }

    /// Returns the cost of one query to a backend.
    pub(super) fn query_cost(&self, backend: &str) -> Credits {
        self.search(backend).cost(&query())
    }

    /// Returns the cost of a call.
    pub(super) fn cost(&self, stage: Stage, spent: &Spent) -> Credits {
        match stage {
            Stage::Search => spent
                .backends
                .iter()
                .fold(Credits::ZERO, |sum, backend| add(sum, self.query_cost(backend))),
            _ => self.stage(stage).cost(&spent.usage),
        }
    }

    /// Returns the billing records of all calls: one for each stage and model, and more if a price
    /// depends on the length of the prompt.
    pub(super) fn parts(&self, calls: Vec<(Stage, Spent)>) -> Result<Vec<UsagePart>, Error> {
        let mut groups: BTreeMap<(Stage, &str), (&StageModel, String, Vec<Usage>)> = BTreeMap::new();
        for (stage, spent) in calls {
            if stage == Stage::Search {
                for backend in &spent.backends {
                    let model = self.search(backend);
                    let group = groups.entry((stage, &model.model));
                    let (_, target, usages) = group.or_insert_with(|| (model, String::new(), Vec::new()));
                    if target.is_empty() {
                        target.clone_from(backend);
                    }
                    usages.push(query());
                }
                continue;
            }
            let model = self.stage(stage);
            let group = groups.entry((stage, &model.model));
            let (_, target, usages) = group.or_insert_with(|| (model, String::new(), Vec::new()));
            if target.is_empty() {
                *target = spent.target;
            }
            usages.push(spent.usage);
        }
        let mut parts = Vec::new();
        for ((stage, _), (model, target, usages)) in groups {
            let (_, prices) = model.agreed()?;
            for usage in packed(&usages, &prices) {
                let number = u32::try_from(parts.len()).unwrap_or(u32::MAX);
                let part = model
                    .prices
                    .part(number, stage.as_str(), (&model.model, &target), usage);
                parts.push(part.ok_or_else(unreadable)?);
            }
        }
        Ok(parts)
    }
}

impl StageModel {
    fn agreed(&self) -> Result<(tollgate_types::PriceVersion, Prices), Error> {
        self.prices.get().ok_or_else(unreadable)
    }

    /// Returns the cost of a usage. Unreadable prices cost the maximum, so that no call is made.
    fn cost(&self, usage: &Usage) -> Credits {
        let prices = self.prices.get();
        prices.map_or(Credits::MAX, |(_, prices)| prices.cost(usage))
    }
}

/// Returns the usage of one query.
pub(super) fn query() -> Usage {
    Usage::ZERO.with(Unit::Search, QUERY)
}

fn unreadable() -> Error {
    Error::internal("the agreed prices of a report are not readable")
}

/// Adds up the usage of calls so that the sums cost at most as much as the calls: a sum of short
/// prompts stays below the size from which the prices of long prompts apply.
fn packed(usages: &[Usage], prices: &Prices) -> Vec<Usage> {
    let Some(above) = prices.long_above() else {
        return vec![sum(usages.iter())];
    };
    let (long, short): (Vec<&Usage>, Vec<&Usage>) =
        usages.iter().partition(|usage| usage.total_input() > above);
    let mut packed: Vec<Usage> = Vec::new();
    for usage in short {
        match packed.last_mut() {
            Some(last) if last.total_input().saturating_add(usage.total_input()) <= above => {
                *last = last.plus(usage);
            }
            _ => packed.push(*usage),
        }
    }
    if !long.is_empty() {
        packed.push(sum(long.into_iter()));
    }
    packed
}

fn sum<'u>(usages: impl Iterator<Item = &'u Usage>) -> Usage {
    usages.fold(Usage::ZERO, |sum, usage| sum.plus(usage))
}

#[cfg(test)]
mod tests {
    use tollgate_types::PriceVersion;

    use super::*;

    fn model(name: &str, prices: &[(&str, &str)]) -> StageModel {
        let prices = prices.iter().fold(Prices::default(), |prices, (name, price)| {
            prices.with_named(name, price.parse().unwrap()).unwrap()
        });
        StageModel {
            model: name.to_owned(),
            prices: AgreedPrices::new(PriceVersion::from_u64(7), &prices),
        }
    }

    fn call(input: u64) -> Spent {
        Spent {
            usage: Usage::tokens(input, 10),
            ..Spent::default()
        }
    }

    #[test]
    fn parts_never_cost_more_than_their_calls() {
        let tiers = [
            ("input", "2"),
            ("output", "10"),
            ("input>1000", "4"),
            ("output>1000", "15"),
        ];
        let cast = Cast {
            own: model("acme/deep", &[("input", "1"), ("search", "0.5")]),
            stages: BTreeMap::from([(Stage::Read, model("acme/small", &tiers))]),
            searches: BTreeMap::from([("brave".to_owned(), model("search/brave", &[("search", "5000")]))]),
        };
        let search = Spent {
            backends: vec!["brave".to_owned(), "corpus/handbook".to_owned()],
            ..Spent::default()
        };
        let mut calls: Vec<(Stage, Spent)> = [400, 700, 1_500, 100, 2_000]
            .map(|input| (Stage::Read, call(input)))
            .into();
        calls.extend([
            (Stage::Plan, call(50)),
            (Stage::Search, search.clone()),
            (Stage::Search, search),
        ]);
        let costs = calls.iter().map(|(stage, spent)| cast.cost(*stage, spent));
        let cost = costs.fold(Credits::ZERO, add);
        let parts = cast.parts(calls).unwrap();
        let names: Vec<(&str, &str, u64)> = parts
            .iter()
            .map(|part| (&*part.name, &*part.model, part.usage.total_input()))
            .collect();
        assert_eq!(
            names,
            [
                ("plan", "acme/deep", 50),
                ("search", "acme/deep", 0),
                ("search", "search/brave", 0),
                ("read", "acme/small", 400),
                ("read", "acme/small", 800),
                ("read", "acme/small", 3_500),
            ]
        );
        let charged = parts.iter().map(|part| part.cost).fold(Credits::ZERO, add);
        assert!(charged <= cost, "{charged} {cost}");
        assert_eq!(parts[1].usage.get(Unit::Search), 2 * QUERY);
        assert_eq!(parts[2].cost, "10000".parse().unwrap());
    }
}
