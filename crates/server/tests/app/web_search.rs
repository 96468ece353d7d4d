//! Prices of web searches are stored before a job refers to them.

use tollgate_server::config::env::Environment;
use tollgate_server::{Config, Flags, assemble, web_search, wiring};
use tollgate_types::Unit;

#[tokio::test]
async fn prices_of_searches_are_recorded_at_the_start() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("tollgate.toml");
    let text = "[search.own]\nkind = \"searxng\"\nbase_url = \"http://127.0.0.1:9\"\nprice = \"0.005\"\n";
    std::fs::write(&path, text).unwrap();
    let flags = Flags {
        config: Some(path),
        data: Some(data.path().join("data")),
        ..Flags::default()
    };
    let config = Config::load(&flags, Environment::of(&[])).unwrap();
    let app_state = wiring::app_state(&config).await.unwrap();
    let prices = app_state.storage.prices.clone();
    let http = assemble::http_client(&config);
    let backends = web_search::build(&config, &http, &app_state.clock).unwrap();
    for _ in 0..2 {
        web_search::record_prices(&backends, &*prices, &*app_state.clock)
            .await
            .unwrap();
        let record = prices.get(backends[0].price_version).await.unwrap().unwrap();
        assert_eq!(record.model, "search/own");
        assert_eq!(record.prices.per_million(Unit::Search), "0.005".parse().unwrap());
    }
}
