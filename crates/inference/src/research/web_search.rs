//! Web search backends with their prices.

use std::sync::Arc;

use tollgate_catalog::price_version;
use tollgate_pipeline::GuardedSearch;
use tollgate_storage::PriceRecord;
use tollgate_types::{Credits, PriceVersion, Prices, Timestamp, Unit};
use tollgate_upstream::SearchBackend;

/// A web search backend with the price of its queries.
pub struct WebBackend {
    /// The backend, behind its circuit breaker.
    pub backend: Arc<GuardedSearch>,
    /// Kind of the service in the settings, such as `brave`.
    pub kind: &'static str,
    /// Factor of its results when the results of several backends are merged; above 0.
    pub weight: f32,
    /// Price of a query, as the price of [`Unit::Search`].
    pub prices: Prices,
    /// Permanent identifier of `prices`, under which [`price_record`](Self::price_record) stores
    /// them.
    pub price_version: PriceVersion,
}

impl WebBackend {
    /// Creates a backend whose queries cost `price` each.
    pub fn new(backend: Arc<GuardedSearch>, kind: &'static str, weight: f32, price: Credits) -> Self {
        let prices = Prices::default().with(Unit::Search, price);
        Self {
            price_version: price_version(&model(&*backend), &prices),
            backend,
            kind,
            weight,
            prices,
        }
    }

    /// Returns the record of the price, which must be stored before a charge refers to it.
    pub fn price_record(&self, now: Timestamp) -> PriceRecord {
        PriceRecord {
            version: self.price_version,
            model: model(&*self.backend),
            prices: self.prices,
            created_at: now,
        }
    }
}

/// Returns the model id of the backend in price records, `search/NAME`.
fn model(backend: &dyn SearchBackend) -> String {
    format!("search/{}", backend.name())
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tollgate_pipeline::{Health, Retries};
    use tollgate_types::Usage;
    use tollgate_types::clock::ManualClock;
    use tollgate_upstream::{CallContext, SearchHit, SearchQuery, UpstreamError};

    use super::*;

    struct Named(&'static str);

    #[async_trait]
    impl SearchBackend for Named {
        fn name(&self) -> &str {
            self.0
        }

        async fn search(&self, _: &CallContext, _: &SearchQuery) -> Result<Vec<SearchHit>, UpstreamError> {
            Ok(Vec::new())
        }
    }

    fn backend(name: &'static str, price: &str) -> WebBackend {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(0)));
        let health = Arc::new(Health::new(clock, Retries::default()));
        let guarded = GuardedSearch::new(Arc::new(Named(name)), health);
        WebBackend::new(Arc::new(guarded), "brave", 1.0, price.parse().unwrap())
    }

    #[test]
    fn a_query_costs_its_price() {
        let brave = backend("brave", "0.005");
        let query = Usage::ZERO.with(Unit::Search, 1_000_000);
        assert_eq!(brave.prices.cost(&query), "0.005".parse().unwrap());
        let record = brave.price_record(Timestamp::from_micros(5));
        assert_eq!(
            (record.model.as_str(), record.version),
            ("search/brave", brave.price_version)
        );
        assert_eq!(record.prices, brave.prices);
    }

    #[test]
    fn names_and_prices_have_their_own_versions() {
        let versions =
            [("a", "0"), ("a", "1"), ("b", "1")].map(|(name, price)| backend(name, price).price_version);
        assert!(versions[0] != versions[1] && versions[1] != versions[2]);
        assert_eq!(versions[1], backend("a", "1").price_version);
    }
}
