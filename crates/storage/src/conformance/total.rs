//! Cases for [`crate::UsageStore::totals`].

use std::sync::Arc;

use tollgate_types::{AccountId, Credits, KeyId, Principal, Timestamp, Unit, Usage};

use super::Factory;
use super::samples::{START, call, every_class, funded, hold, nanos, settlement, take};
use crate::{NewHold, UsageFilter, UsageGroup, UsageTotal};

/// Checks the totals by each group, sorted by its text. The day is that of acceptance, in UTC.
pub async fn sums_by_group(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 10_000).await;
    let midnight = Timestamp::from_micros(1_795_219_200_000_000);
    let micro = |offset: i64| Timestamp::from_micros(midnight.as_micros() + offset);
    let calls = [
        (1, START, Some(7), "b/model", "/v1/messages"),
        (2, micro(-1), None, "B/model", "/v1/chat/completions"),
        (3, micro(0), Some(7), "a/model", "/v1/chat/completions"),
        (4, micro(1), Some(6), "b/model", "/v1/chat/completions"),
    ];
    for (number, created_at, key, model, endpoint) in calls {
        let new = NewHold {
            principal: key.map(KeyId::from_u128).map(Principal::Key),
            model: Arc::from(model),
            endpoint,
            created_at,
            ..hold(number, id, 1_000)
        };
        call(&storage, new, 10_i64.pow(u32::try_from(number).unwrap() - 1)).await;
    }
    let key = |number| KeyId::from_u128(number).to_string();
    let cases = [
        (UsageGroup::All, vec![(String::new(), 4, 1111)]),
        (
            UsageGroup::Day,
            vec![
                ("2026-11-20".to_owned(), 2, 11),
                ("2026-11-21".to_owned(), 2, 1100),
            ],
        ),
        (
            UsageGroup::Model,
            vec![
                ("B/model".to_owned(), 1, 10),
                ("a/model".to_owned(), 1, 100),
                ("b/model".to_owned(), 2, 1001),
            ],
        ),
        (
            UsageGroup::Key,
            vec![(String::new(), 1, 10), (key(6), 1, 1000), (key(7), 2, 101)],
        ),
        (
            UsageGroup::Endpoint,
            vec![
                ("/v1/chat/completions".to_owned(), 3, 1110),
                ("/v1/messages".to_owned(), 1, 1),
            ],
        ),
    ];
    for (group, expected) in cases {
        let totals = storage
            .usage
            .totals(id, UsageFilter::default(), group)
            .await
            .unwrap();
        let expected: Vec<UsageTotal> = expected.into_iter().map(total).collect();
        assert_eq!(totals, expected, "{group:?}");
    }
    let from = Some(midnight);
    let filter = UsageFilter {
        from,
        ..UsageFilter::default()
    };
    let totals = storage.usage.totals(id, filter, UsageGroup::Model).await.unwrap();
    let expected =
        [("a/model", 100), ("b/model", 1000)].map(|(model, charge)| total((model.to_owned(), 1, charge)));
    assert_eq!(totals, expected);
}

/// Makes the expected total; each call of [`sums_by_group`] consumed 12 and 34 tokens.
fn total((group, requests, charge): (String, u64, i64)) -> UsageTotal {
    UsageTotal {
        group,
        requests,
        charge: nanos(charge),
        usage: Usage::tokens(requests * 12, requests * 34),
    }
}

/// Checks that there are no groups without rows, not even `All`.
pub async fn no_rows_no_groups(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    take(&storage, hold(1, id, 5)).await;
    let groups = [
        UsageGroup::All,
        UsageGroup::Day,
        UsageGroup::Model,
        UsageGroup::Key,
        UsageGroup::Endpoint,
    ];
    for group in groups {
        for account in [id, AccountId::from_u128(9)] {
            let totals = storage
                .usage
                .totals(account, UsageFilter::default(), group)
                .await
                .unwrap();
            assert_eq!(totals, [], "{group:?}");
        }
    }
}

/// Checks that totals sum every class of usage, of calls with all classes and of calls with one.
pub async fn sums_every_class(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    for number in 2..=9 {
        let hold = take(&storage, hold(number, id, 0)).await;
        let mut settlement = settlement(&hold, 0);
        settlement.usage = every_class();
        storage.ledger.settle(settlement).await.unwrap();
    }
    for (number, unit) in (10..).zip(Unit::ALL) {
        let hold = take(&storage, hold(number, id, 0)).await;
        let mut settlement = settlement(&hold, 0);
        settlement.usage = Usage::ZERO.with(unit, every_class().get(unit));
        storage.ledger.settle(settlement).await.unwrap();
    }
    let totals = storage
        .usage
        .totals(id, UsageFilter::default(), UsageGroup::All)
        .await
        .unwrap();
    let calls = 8 + Unit::ALL.len() as u64;
    assert_eq!((totals[0].requests, totals[0].charge), (calls, Credits::ZERO));
    for unit in Unit::ALL {
        assert_eq!(totals[0].usage.get(unit), 9 * every_class().get(unit), "{unit:?}");
    }
}
