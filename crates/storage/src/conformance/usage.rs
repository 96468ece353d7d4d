//! Cases for [`crate::UsageStore::list`].

use std::sync::Arc;

use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, HoldId, KeyId, MemberId, PriceVersion, Prices, Principal, RequestId, Usage,
};

use super::samples::{at, call, every_class, funded, hold, key, nanos, settlement, take};
use super::{Factory, LedgerSnapshot};
use crate::report::Span;
use crate::{NewHold, OutcomeFilter, PriceRecord, Storage, UsageFilter, UsageGroup, UsagePage, UsageRow};

const EVERYTHING: UsagePage = UsagePage {
    after: None,
    limit: 1000,
};

async fn listed(storage: &Storage, account: AccountId, filter: UsageFilter) -> Vec<u128> {
    let rows = storage.usage.list(account, filter, EVERYTHING).await.unwrap();
    rows.iter().map(|row| row.id.as_u128()).collect()
}

/// Checks that a row has every field of hold and settlement, in the list and in the audit.
pub async fn rows_store_every_field(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    let mut expected = Vec::new();
    for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
        let full = place % 2 == 0;
        let hold = take(&storage, sample_hold(place as u128, id, full)).await;
        let mut settlement = settlement(&hold, 12);
        settlement.outcome = outcome;
        settlement.overrun = nanos(i64::from(full));
        settlement.estimated = full;
        settlement.target = Arc::from(if full { "openai \"eu\"/größer:7b" } else { "" });
        settlement.first_at = full.then(|| at(3));
        settlement.usage = if full { every_class() } else { Usage::ZERO };
        storage.ledger.settle(settlement.clone()).await.unwrap();
        expected.push(UsageRow {
            id: hold.id,
            account: id,
            principal: hold.principal,
            request: hold.request,
            endpoint: Arc::from(hold.endpoint),
            model: hold.model.clone(),
            requested_model: hold.model,
            target: settlement.target,
            price_version: hold.price_version,
            held: hold.amount,
            charge: settlement.charge,
            included: Credits::ZERO,
            plan: None,
            refunded: Credits::ZERO,
            overrun: settlement.overrun,
            usage: settlement.usage,
            outcome,
            estimated: full,
            created_at: hold.created_at,
            first_at: settlement.first_at,
            ended_at: settlement.ended_at,
        });
    }
    assert_eq!(LedgerSnapshot::read(&storage).await.of(id).usage, expected);
    expected.reverse();
    let rows = storage
        .usage
        .list(id, UsageFilter::default(), EVERYTHING)
        .await
        .unwrap();
    assert_eq!(rows, expected);
}

fn sample_hold(number: u128, account: AccountId, full: bool) -> NewHold {
    NewHold {
        principal: full.then(|| Principal::Key(KeyId::from_u128(u128::MAX))),
        request: RequestId::from_u128(u128::MAX - number),
        price_version: PriceVersion::from_u64(if full { u64::MAX } else { 0 }),
        model: Arc::from(if full { "maker/größer:7b" } else { "m" }),
        endpoint: if full {
            "/v1/chat/completions"
        } else {
            "/v1/messages"
        },
        created_at: at(2),
        ..hold(number, account, 30)
    }
}

/// Checks that rows are listed newest first, by unsigned id; pages have no gaps and no duplicates.
pub async fn newest_first_in_pages(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    let sorted = [u128::MAX, 1 << 127, i128::MAX.cast_unsigned(), 1 << 64, 300, 2, 1];
    for place in [2, 6, 0, 4, 1, 5, 3] {
        call(&storage, hold(sorted[place], id, 5), 1).await;
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = UsagePage { after, limit: 3 };
        let rows = storage
            .usage
            .list(id, UsageFilter::default(), page)
            .await
            .unwrap();
        assert!(rows.len() <= 3);
        let Some(last) = rows.last() else { break };
        after = Some(last.id);
        seen.extend(rows.iter().map(|row| row.id.as_u128()));
    }
    assert_eq!(seen, sorted);
    let none = UsagePage {
        after: None,
        limit: 0,
    };
    assert_eq!(
        storage
            .usage
            .list(id, UsageFilter::default(), none)
            .await
            .unwrap(),
        []
    );
    let between = UsagePage {
        after: Some(HoldId::from_u128(299)),
        limit: 9,
    };
    let rows = storage
        .usage
        .list(id, UsageFilter::default(), between)
        .await
        .unwrap();
    assert_eq!(rows.len(), 2);
}

/// Stores six calls of one account that differ in every filtered field.
async fn six_calls(storage: &Storage) -> AccountId {
    let id = funded(storage, 1, 1_000).await;
    for number in 1..=6 {
        let odd = number % 2 == 1;
        let new = NewHold {
            principal: (number > 2).then(|| Principal::Key(KeyId::from_u128(number / 3))),
            request: RequestId::from_u128(number / 2),
            model: Arc::from(if odd { "a/one" } else { "a/two" }),
            endpoint: if number < 5 {
                "/v1/chat/completions"
            } else {
                "/v1/messages"
            },
            created_at: at(u64::try_from(number).unwrap() * 10),
            ..hold(number, id, 5)
        };
        call(storage, new, i64::try_from(number).unwrap().min(5)).await;
    }
    id
}

/// Checks that each filter works separately; times are those of acceptance.
pub async fn every_filter(factory: Factory) {
    let storage = factory.open().await;
    let id = six_calls(&storage).await;
    let filter = |set: fn(&mut UsageFilter)| {
        let mut filter = UsageFilter::default();
        set(&mut filter);
        filter
    };
    let cases: [(UsageFilter, &[u128]); 14] = [
        (filter(|_| ()), &[6, 5, 4, 3, 2, 1]),
        (filter(|filter| filter.from = Some(at(40))), &[6, 5, 4]),
        (filter(|filter| filter.from = Some(at(61))), &[]),
        (filter(|filter| filter.to = Some(at(40))), &[3, 2, 1]),
        (filter(|filter| filter.to = Some(at(10))), &[]),
        (
            filter(|filter| filter.model = Some("a/one".to_owned())),
            &[5, 3, 1],
        ),
        (filter(|filter| filter.model = Some("A/ONE".to_owned())), &[]),
        (filter(|filter| filter.model = Some("a/%".to_owned())), &[]),
        (
            filter(|filter| filter.key = Some(KeyId::from_u128(1))),
            &[5, 4, 3],
        ),
        (filter(|filter| filter.key = Some(KeyId::from_u128(9))), &[]),
        (
            filter(|filter| filter.endpoint = Some("/v1/messages".to_owned())),
            &[6, 5],
        ),
        (filter(|filter| filter.endpoint = Some("/v1".to_owned())), &[]),
        (
            filter(|filter| filter.request = Some(RequestId::from_u128(1))),
            &[3, 2],
        ),
        (
            filter(|filter| filter.request = Some(RequestId::from_u128(9))),
            &[],
        ),
    ];
    for (filter, expected) in cases {
        let total = storage
            .usage
            .totals(id, filter.clone(), UsageGroup::All)
            .await
            .unwrap();
        let requests = total.first().map_or(0, |total| total.requests);
        assert_eq!(requests, expected.len() as u64, "{filter:?}");
        assert_eq!(listed(&storage, id, filter.clone()).await, expected, "{filter:?}");
    }
}

/// Checks that filters can be combined and work with pages.
pub async fn filters_join(factory: Factory) {
    let storage = factory.open().await;
    let id = six_calls(&storage).await;
    let filter = UsageFilter {
        from: Some(at(20)),
        to: Some(at(60)),
        model: Some("a/one".to_owned()),
        requested_model: Some("a/one".to_owned()),
        upstream_model: None,
        key: Some(KeyId::from_u128(1)),
        member: None,
        outcome: Some(OutcomeFilter::Only(Outcome::Ok)),
        endpoint: Some("/v1/messages".to_owned()),
        request: Some(RequestId::from_u128(2)),
    };
    assert_eq!(listed(&storage, id, filter.clone()).await, [5]);
    let page = UsagePage {
        after: Some(HoldId::from_u128(5)),
        limit: 1,
    };
    assert_eq!(storage.usage.list(id, filter, page).await.unwrap(), []);
    let odd = UsageFilter {
        model: Some("a/one".to_owned()),
        ..UsageFilter::default()
    };
    let rows = storage.usage.list(id, odd, page).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.id.as_u128()).collect::<Vec<_>>(), [3]);
}

/// Checks that the model of a row is that of its price version, regardless of the name that the
/// caller sent: in the list, in filters, in totals and in reports. The requested name is used if
/// the version is not recorded, and for `-`, which names no model.
pub async fn models_are_canonical(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    let record = PriceRecord {
        version: PriceVersion::from_u64(7),
        model: "maker/small".to_owned(),
        prices: Prices::default(),
        created_at: at(0),
    };
    storage.prices.record(vec![record]).await.unwrap();
    let sent = [
        ("maker/small", 7),
        ("small", 7),
        ("alias", 7),
        ("alias", 8),
        ("-", 7),
    ];
    for (number, (model, version)) in (1..).zip(sent) {
        let new = NewHold {
            model: Arc::from(model),
            price_version: PriceVersion::from_u64(version),
            ..hold(number, id, 5)
        };
        let hold = take(&storage, new).await;
        let mut settlement = settlement(&hold, 1);
        settlement.target = Arc::from("rack/vendor/small");
        storage.ledger.settle(settlement).await.unwrap();
    }
    let rows = storage
        .usage
        .list(id, UsageFilter::default(), EVERYTHING)
        .await
        .unwrap();
    let models: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (&*row.model, &*row.requested_model))
        .collect();
    let expected = [
        ("-", "-"),
        ("alias", "alias"),
        ("maker/small", "alias"),
        ("maker/small", "small"),
        ("maker/small", "maker/small"),
    ];
    assert_eq!(models, expected);
    assert_eq!(
        (rows[0].provider(), rows[0].upstream_model()),
        ("rack", Some("vendor/small"))
    );
    for (model, numbers) in [
        ("maker/small", &[3, 2, 1][..]),
        ("alias", &[4]),
        ("small", &[]),
        ("-", &[5]),
    ] {
        let filter = UsageFilter {
            model: Some(model.to_owned()),
            ..UsageFilter::default()
        };
        assert_eq!(listed(&storage, id, filter).await, numbers, "{model}");
    }
    let requested = |model: &str| UsageFilter {
        requested_model: Some(model.to_owned()),
        ..UsageFilter::default()
    };
    assert_eq!(listed(&storage, id, requested("alias")).await, [4, 3]);
    assert_eq!(listed(&storage, id, requested("maker")).await, []);
    let upstream = |model: &str| UsageFilter {
        upstream_model: Some(model.to_owned()),
        ..UsageFilter::default()
    };
    assert_eq!(
        listed(&storage, id, upstream("vendor/small")).await,
        [5, 4, 3, 2, 1]
    );
    for name in ["small", "rack/vendor/small", ""] {
        assert_eq!(listed(&storage, id, upstream(name)).await, [], "{name}");
    }
    let sums = [("-", 1), ("alias", 1), ("maker/small", 3)];
    let groups = [
        (UsageGroup::Model, &sums[..]),
        (
            UsageGroup::RequestedModel,
            &[("-", 1), ("alias", 2), ("maker/small", 1), ("small", 1)],
        ),
        (UsageGroup::UpstreamModel, &[("vendor/small", 5)]),
    ];
    for (group, expected) in groups {
        let totals = storage.usage.totals(id, UsageFilter::default(), group).await;
        let totals = totals.unwrap();
        let found: Vec<(&str, u64)> = totals
            .iter()
            .map(|total| (&*total.group, total.requests))
            .collect();
        assert_eq!(found, expected, "{group:?}");
    }
    let always = Span { from: None, to: None };
    let charges = storage.reports.sums(id, always).await.unwrap().charges;
    let charges: Vec<(&str, u64)> = charges.iter().map(|sum| (&*sum.model, sum.calls)).collect();
    assert_eq!(charges, sums);
    let row = storage.usage.of_request(rows[3].request).await.unwrap().unwrap();
    assert_eq!(row, rows[3]);
    assert_eq!(LedgerSnapshot::read(&storage).await.of(id).usage[1], rows[3]);
}

/// Checks that rows of other accounts are invisible, and an open hold has no row.
pub async fn rows_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let one = funded(&storage, 1, 100).await;
    let two = funded(&storage, 2, 100).await;
    call(&storage, hold(1, one, 5), 1).await;
    call(&storage, hold(2, two, 5), 2).await;
    take(&storage, hold(3, one, 5)).await;
    assert_eq!(listed(&storage, one, UsageFilter::default()).await, [1]);
    assert_eq!(listed(&storage, two, UsageFilter::default()).await, [2]);
    assert_eq!(
        listed(&storage, AccountId::from_u128(3), UsageFilter::default()).await,
        []
    );
    let foreign = UsageFilter {
        request: Some(RequestId::from_u128(2)),
        ..UsageFilter::default()
    };
    assert_eq!(listed(&storage, one, foreign).await, []);
    let totals = storage
        .usage
        .totals(two, UsageFilter::default(), UsageGroup::All)
        .await
        .unwrap();
    assert_eq!((totals[0].requests, totals[0].charge), (1, nanos(2)));
}

/// Checks that rows have the key or the member of the call: of holds that are stored and of those
/// that a node keeps to itself, with usual and with rare units.
pub async fn principals_are_recorded(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 3_000_000_000).await;
    let principals = [
        Some(Principal::Key(KeyId::from_u128(7))),
        Some(Principal::Member(MemberId::from_u128(7))),
        Some(Principal::Member(MemberId::from_u128(1 << 127))),
        None,
    ];
    let mut expected = Vec::new();
    for (number, principal) in (1..=40).zip(principals.into_iter().cycle()) {
        let amount = if number > 36 { 1_100_000_000 } else { 5 };
        let new = NewHold {
            principal,
            ..hold(number, account, amount)
        };
        let hold = take(&storage, new).await;
        let mut settlement = settlement(&hold, 1);
        if number % 3 == 0 {
            settlement.usage = every_class();
        }
        storage.ledger.settle(settlement).await.unwrap();
        expected.insert(0, (number, principal));
    }
    let page = UsagePage {
        after: None,
        limit: 100,
    };
    let rows = storage.usage.list(account, UsageFilter::default(), page).await;
    let found: Vec<_> = rows
        .unwrap()
        .iter()
        .map(|row| (row.id.as_u128(), row.principal))
        .collect();
    assert_eq!(found, expected);
}

/// Checks that the last use of a key is the acceptance of its latest settled call. Keys without
/// such a call and keys of other accounts have none.
pub async fn keys_have_their_last_use(factory: Factory) {
    let storage = factory.open().await;
    let one = funded(&storage, 1, 100).await;
    let two = funded(&storage, 2, 100).await;
    for (number, owner) in [(1, one), (2, one), (1 << 127, one), (4, two)] {
        storage.keys.create(key(number, owner)).await.unwrap();
    }
    let by = |number, owner, key: Option<u128>, seconds| NewHold {
        principal: key.map(KeyId::from_u128).map(Principal::Key),
        created_at: at(seconds),
        ..hold(number, owner, 5)
    };
    for new in [
        by(11, one, Some(1), 30),
        by(12, one, Some(1), 20),
        by(13, one, Some(1 << 127), 10),
        by(14, one, None, 70),
        by(15, two, Some(4), 60),
    ] {
        call(&storage, new, 1).await;
    }
    take(&storage, by(16, one, Some(1), 80)).await;
    take(&storage, by(17, one, Some(2), 90)).await;
    for (account, expected) in [
        (one, &[(1, at(30)), (1 << 127, at(10))][..]),
        (two, &[(4, at(60))]),
        (AccountId::from_u128(3), &[]),
    ] {
        let used = storage.usage.last_used(account).await.unwrap();
        let used: Vec<_> = used.into_iter().map(|(key, at)| (key.as_u128(), at)).collect();
        assert_eq!(used, expected);
    }
}
