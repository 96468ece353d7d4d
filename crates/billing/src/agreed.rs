//! Prices that were agreed when a job was accepted, in the form in which jobs store them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_storage::UsagePart;
use tollgate_types::{Credits, PriceVersion, Prices, Usage};

/// Agreed prices of a model, with their version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreedPrices {
    version: String,
    prices: BTreeMap<String, i64>,
}

impl AgreedPrices {
    /// Stores these prices.
    pub fn new(version: PriceVersion, prices: &Prices) -> Self {
        Self {
            version: version.to_string(),
            prices: listed(prices),
        }
    }

    /// Returns the prices and their version; `None` if the version is not readable.
    pub fn get(&self) -> Option<(PriceVersion, Prices)> {
        Some((PriceVersion::parse(&self.version)?, agreed(&self.prices)))
    }

    /// Returns the billing record of the calls of one model; `None` if the version is not readable.
    pub fn part(
        &self,
        number: u32,
        name: impl Into<std::sync::Arc<str>>,
        (model, target): (&str, &str),
        usage: Usage,
    ) -> Option<UsagePart> {
        let (price_version, prices) = self.get()?;
        Some(UsagePart {
            number,
            name: name.into(),
            model: model.into(),
            target: target.into(),
            price_version,
            usage,
            cost: prices.cost(&usage),
        })
    }
}

/// Converts prices to nano-credits by price name, for storage.
pub fn listed(prices: &Prices) -> BTreeMap<String, i64> {
    let listed = prices.entries().map(|(name, price)| (name, price.nanos()));
    listed.collect()
}

/// Converts stored prices to [`Prices`]. Unknown price names are ignored.
pub fn agreed(listed: &BTreeMap<String, i64>) -> Prices {
    let price = |nanos: &i64| Credits::from_nanos(*nanos);
    listed.iter().fold(Prices::default(), |prices, (name, nanos)| {
        prices.with_named(name, price(nanos)).unwrap_or(prices)
    })
}
