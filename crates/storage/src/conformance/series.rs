//! Cases for [`crate::UsageStore::series`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_types::{
    AccountId, Credits, KeyId, MemberId, PriceVersion, Prices, Principal, Timestamp, Usage,
};

use super::Factory;
use super::samples::{
    START, account, at, call, every_class, funded, grant, hold_at, nanos, settlement, take,
};
use crate::{
    Account, NewHold, PriceRecord, SeriesGroup, SeriesPoint, SeriesQuery, SeriesStep, Storage, UsageFilter,
    UsagePage, UsageRow,
};

const GROUPS: [Option<SeriesGroup>; 5] = [
    None,
    Some(SeriesGroup::Model),
    Some(SeriesGroup::Key),
    Some(SeriesGroup::Member),
    Some(SeriesGroup::Endpoint),
];

/// Number of seconds that the rows of [`random_calls`] cover: four days.
pub(super) const SECONDS: u64 = 4 * 24 * 3600;

/// Returns the next number of a sequence that looks random.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Settles `count` calls at random times from `start` on, with random models, keys, members and
/// endpoints. `first` is the number of the first hold.
pub(super) async fn random_calls(storage: &Storage, id: AccountId, first: u64, count: u64, start: Timestamp) {
    let record = PriceRecord {
        version: PriceVersion::from_u64(7),
        model: "maker/small".to_owned(),
        prices: Prices::default(),
        created_at: START,
    };
    storage.prices.record(vec![record]).await.unwrap();
    let mut state = first;
    for number in first..first + count {
        let mut random = |below| random(&mut state) % below;
        let seconds = random(SECONDS.saturating_sub(start.since(START).as_secs()));
        let created_at = start.plus(Duration::from_secs(seconds));
        let principal = match random(3) {
            0 => None,
            1 => Some(Principal::Key(KeyId::from_u128(u128::from(random(3))))),
            _ => Some(Principal::Member(MemberId::from_u128(
                u128::from(random(3)) << 120,
            ))),
        };
        let new = NewHold {
            principal,
            price_version: PriceVersion::from_u64(7 + random(2)),
            model: Arc::from(["a", "maker/small", "-"][random(3) as usize]),
            endpoint: ["/v1/messages", "/v1/chat/completions"][random(2) as usize],
            ..hold_at(number.into(), id, 1_000, created_at)
        };
        let hold = take(storage, new).await;
        let mut settlement = settlement(&hold, i64::try_from(random(1_000)).unwrap());
        settlement.usage = match random(3) {
            0 => every_class(),
            _ => Usage::tokens(random(100), random(100)),
        };
        storage.ledger.settle(settlement).await.unwrap();
    }
}

/// Computes a series from the rows of an account.
async fn expected(storage: &Storage, id: AccountId, query: SeriesQuery) -> Vec<SeriesPoint> {
    let all = UsagePage {
        after: None,
        limit: 10_000,
    };
    let rows = storage.usage.list(id, UsageFilter::default(), all).await.unwrap();
    let mut sums: BTreeMap<(i64, String), (u64, Credits, Usage)> = BTreeMap::new();
    let within = |row: &&UsageRow| row.created_at >= query.from && row.created_at < query.to;
    for row in rows.iter().filter(within) {
        let micros = row.created_at.as_micros();
        let start = micros - micros.rem_euclid(query.step.micros());
        let group = match query.by {
            None => String::new(),
            Some(SeriesGroup::Model) => row.model.to_string(),
            Some(SeriesGroup::Key) => {
                let key = row.principal.and_then(Principal::key);
                key.map(|key| key.to_string()).unwrap_or_default()
            }
            Some(SeriesGroup::Member) => {
                let member = row.principal.and_then(Principal::member);
                member.map(|member| member.to_string()).unwrap_or_default()
            }
            Some(SeriesGroup::Endpoint) => row.endpoint.to_string(),
        };
        let sum = sums.entry((start, group)).or_default();
        sum.0 += 1;
        sum.1 = nanos(sum.1.nanos() + row.charge.nanos());
        sum.2 = sum.2.plus(&row.usage);
    }
    let point = |((start, group), (requests, charge, usage))| SeriesPoint {
        start: Timestamp::from_micros(start),
        group,
        requests,
        charge,
        usage,
    };
    sums.into_iter().map(point).collect()
}

/// Compares series of many ranges with the account's rows.
pub(super) async fn equal_the_rows(storage: &Storage, id: AccountId) {
    const DAY: u64 = 24 * 3600;
    for (from, to) in [
        (0, SECONDS),
        (1, DAY),
        (1800, DAY + 5401),
        (DAY, DAY),
        (DAY, DAY + 1),
    ] {
        for step in [SeriesStep::Hour, SeriesStep::Day] {
            for by in GROUPS {
                let query = SeriesQuery {
                    from: at(from),
                    to: at(to),
                    step,
                    by,
                };
                let series = storage.usage.series(id, query).await.unwrap();
                assert_eq!(series, expected(storage, id, query).await, "{query:?}");
            }
        }
    }
}

/// Checks random rows by every span and group.
pub async fn sums_by_span_and_group(factory: Factory) {
    let storage = factory.open().await;
    let (id, other) = (
        funded(&storage, 1, 1_000_000).await,
        funded(&storage, 2, 1_000_000).await,
    );
    equal_the_rows(&storage, id).await;
    random_calls(&storage, other, 1, 10, START).await;
    random_calls(&storage, id, 101, 150, START).await;
    equal_the_rows(&storage, id).await;
}

/// Checks that a range includes its start but not its end, and spans begin in UTC.
pub async fn ranges_are_half_open(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    let midnight = 1_795_219_200_000_000;
    for (number, micros) in [(1, -1), (2, 0), (3, 3_599_999_999), (4, 3_600_000_000)] {
        let created_at = Timestamp::from_micros(midnight + micros);
        call(
            &storage,
            hold_at(number, id, 100, created_at),
            10_i64.pow(number as u32 - 1) / 10,
        )
        .await;
    }
    for (from, to, step, expected) in [
        (0, 3_600_000_000, SeriesStep::Hour, &[(0, 11)][..]),
        (-1, 0, SeriesStep::Hour, &[(-3_600_000_000, 0)]),
        (
            -1,
            3_600_000_001,
            SeriesStep::Day,
            &[(-86_400_000_000, 0), (0, 111)],
        ),
        (
            1,
            3_600_000_001,
            SeriesStep::Hour,
            &[(0, 10), (3_600_000_000, 100)],
        ),
        (7_200_000_000, 9_000_000_000, SeriesStep::Day, &[]),
    ] {
        let query = SeriesQuery {
            from: Timestamp::from_micros(midnight + from),
            to: Timestamp::from_micros(midnight + to),
            step,
            by: None,
        };
        let points = storage.usage.series(id, query).await.unwrap();
        let found: Vec<(i64, i64)> = points
            .iter()
            .map(|point| (point.start.as_micros() - midnight, point.charge.nanos()))
            .collect();
        assert_eq!(found, expected, "{query:?}");
    }
}

/// Checks that rows of an account with a test clock are found, although their ids are earlier.
pub async fn test_clocks_are_ahead_of_ids(factory: Factory) {
    let storage = factory.open().await;
    let clocked = Account {
        test_clock: Some(Duration::from_hours(1000)),
        ..account(1)
    };
    let id = clocked.id;
    storage.accounts.create(clocked).await.unwrap();
    storage.ledger.grant(grant(1, id, 1_000)).await.unwrap();
    for (number, hours) in [(1, 0), (2, 900), (3, 1000)] {
        let new = NewHold {
            created_at: at(hours * 3600),
            ..hold_at(number, id, 5, START)
        };
        call(&storage, new, 1).await;
    }
    let query = SeriesQuery {
        from: at(800 * 3600),
        to: at(1001 * 3600),
        step: SeriesStep::Hour,
        by: None,
    };
    let series = storage.usage.series(id, query).await.unwrap();
    assert_eq!(series.len(), 2);
    assert_eq!(series, expected(&storage, id, query).await);
}
