//! Cases for [`crate::UsageHourStore`].

use std::time::Duration;

use tollgate_types::{AccountId, Timestamp};

use super::Factory;
use super::samples::{
    START, account, at, call, concurrently, funded, grant, hold_at, settlement, take, warm_up,
};
use super::series::{SECONDS, equal_the_rows, random_calls};
use crate::usage_hour::MAX_STEP;
use crate::{Account, NewHold, Storage};

const HOUR: u64 = 3600;

/// Takes steps until none is left; returns their number.
async fn advance(storage: &Storage, id: AccountId, now: Timestamp) -> u32 {
    let mut steps = 1;
    while storage.usage_hours.advance(id, now).await.unwrap() {
        steps += 1;
    }
    steps
}

async fn no_differences(storage: &Storage) {
    assert_eq!(storage.usage_hours.differences().await.unwrap(), []);
}

/// Checks that series of random rows are equal before, between and after all steps, with new rows
/// after the mark.
pub async fn series_do_not_change(factory: Factory) {
    let storage = factory.open().await;
    let (id, other) = (
        funded(&storage, 1, 1_000_000).await,
        funded(&storage, 2, 1_000_000).await,
    );
    random_calls(&storage, other, 1, 20, START).await;
    random_calls(&storage, id, 101, 100, START).await;
    advance(&storage, other, at(SECONDS + 3 * HOUR)).await;
    for (number, hours) in [(1, 0), (2, 30), (3, 71)] {
        let now = at(hours * HOUR + 1800);
        advance(&storage, id, now).await;
        equal_the_rows(&storage, id).await;
        random_calls(&storage, id, 1000 * number, 20, now).await;
        equal_the_rows(&storage, id).await;
        no_differences(&storage).await;
    }
    advance(&storage, id, at(SECONDS + 2 * HOUR)).await;
    equal_the_rows(&storage, id).await;
    equal_the_rows(&storage, other).await;
    no_differences(&storage).await;
}

/// Checks that the mark stays before the oldest open hold, which is settled in a later hour.
pub async fn open_holds_stop_the_mark(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    for (number, hours) in [(1, 1), (2, 2), (3, 4)] {
        call(&storage, hold_at(number, id, 5, at(hours * HOUR)), 1).await;
    }
    let open = [(4, 3), (5, 5)].map(|(number, hours)| hold_at(number, id, 5, at(hours * HOUR)));
    for hold in &open {
        take(&storage, hold.clone()).await;
    }
    for hold in open {
        advance(&storage, id, at(20 * HOUR)).await;
        equal_the_rows(&storage, id).await;
        storage.ledger.settle(settlement(&hold, 2)).await.unwrap();
        equal_the_rows(&storage, id).await;
        no_differences(&storage).await;
    }
    advance(&storage, id, at(20 * HOUR)).await;
    no_differences(&storage).await;
    let behind = storage.usage_hours.accounts_behind(at(20 * HOUR), None, 10).await;
    assert_eq!(behind.unwrap(), []);
}

/// Checks that concurrent steps sum each hour once, while calls are settled.
pub async fn concurrent_steps_sum_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000_000).await;
    warm_up(&storage, id).await;
    random_calls(&storage, id, 1, 50, START).await;
    concurrently(12, |number| {
        let storage = storage.clone();
        Box::pin(async move {
            let seconds = (number as u64 + 1) * 8 * HOUR;
            if number % 3 == 0 {
                let new = hold_at(1000 + number as u128, id, 5, at(SECONDS));
                return call(&storage, new, 1).await;
            }
            advance(&storage, id, at(seconds)).await;
        })
    })
    .await;
    no_differences(&storage).await;
    advance(&storage, id, at(SECONDS + 3 * HOUR)).await;
    no_differences(&storage).await;
    equal_the_rows(&storage, id).await;
}

/// Checks that a step covers at most 31 days, and spans without rows take no steps.
pub async fn steps_are_bounded(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    let now = START.plus(MAX_STEP * 10);
    assert_eq!(advance(&storage, id, now).await, 1);
    for (number, spans) in [(1, 0), (2, 1), (3, 9)] {
        let created_at = START.plus(MAX_STEP * spans);
        call(&storage, hold_at(number, id, 5, created_at), 1).await;
    }
    // The second row is in the first hour after the first step; the third is eight steps later.
    assert_eq!(advance(&storage, id, now).await, 3);
    no_differences(&storage).await;
    let behind = storage.usage_hours.accounts_behind(now, None, 10).await.unwrap();
    assert_eq!(behind, []);
}

/// Checks that accounts are listed once an hour with rows is over, in pages.
pub async fn accounts_behind_are_listed(factory: Factory) {
    let storage = factory.open().await;
    let mut ids = Vec::new();
    for number in 1..=3 {
        ids.push(funded(&storage, number, 1_000).await);
    }
    let behind = async |seconds, after, limit| {
        let accounts = storage.usage_hours.accounts_behind(at(seconds), after, limit);
        accounts.await.unwrap()
    };
    assert_eq!(behind(9 * HOUR, None, 10).await, []);
    for (number, id) in [(1, ids[0]), (2, ids[2])] {
        call(&storage, hold_at(number, id, 5, START), 1).await;
    }
    // The hour of `START` ends half an hour later, and an hour passes until it is summed.
    assert_eq!(advance(&storage, ids[0], at(HOUR)).await, 1);
    assert_eq!(behind(2 * HOUR, None, 10).await, [ids[0], ids[2]]);
    assert_eq!(behind(2 * HOUR, None, 1).await, [ids[0]]);
    assert_eq!(behind(2 * HOUR, Some(ids[0]), 10).await, [ids[2]]);
    advance(&storage, ids[0], at(2 * HOUR)).await;
    assert_eq!(behind(2 * HOUR, None, 10).await, [ids[2]]);
    call(&storage, hold_at(3, ids[0], 5, at(2 * HOUR)), 1).await;
    assert_eq!(behind(2 * HOUR, None, 10).await, [ids[2]]);
    assert_eq!(behind(5 * HOUR, None, 10).await, [ids[0], ids[2]]);
    let unknown = AccountId::from_u128(9);
    assert!(!storage.usage_hours.advance(unknown, at(5 * HOUR)).await.unwrap());
}

/// Checks that an account with a test clock has no sums: its clock can advance while a request is
/// being accepted.
pub async fn test_clocks_have_no_sums(factory: Factory) {
    let storage = factory.open().await;
    let clocked = Account {
        test_clock: Some(Duration::from_hours(100)),
        ..account(1)
    };
    let id = clocked.id;
    storage.accounts.create(clocked).await.unwrap();
    storage.ledger.grant(grant(1, id, 1_000)).await.unwrap();
    let new = NewHold {
        created_at: at(50 * HOUR),
        ..hold_at(1, id, 5, START)
    };
    call(&storage, new, 1).await;
    let now = at(400 * HOUR);
    assert_eq!(
        storage.usage_hours.accounts_behind(now, None, 10).await.unwrap(),
        []
    );
    assert_eq!(advance(&storage, id, now).await, 1);
    call(&storage, hold_at(2, id, 5, START), 1).await;
    equal_the_rows(&storage, id).await;
    no_differences(&storage).await;
}

/// Checks that sums and open holds stop the mark after a restart, too.
pub async fn survives_reopening(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    let lasting = NewHold {
        expires_at: at(1000 * HOUR),
        ..hold_at(2, id, 5, at(3 * HOUR))
    };
    call(&storage, hold_at(1, id, 5, at(HOUR)), 1).await;
    take(&storage, lasting.clone()).await;
    advance(&storage, id, at(9 * HOUR)).await;
    storage.engine.close().await.unwrap();
    let storage = factory.open().await;
    advance(&storage, id, at(9 * HOUR)).await;
    storage.ledger.settle(settlement(&lasting, 2)).await.unwrap();
    no_differences(&storage).await;
    advance(&storage, id, at(9 * HOUR)).await;
    equal_the_rows(&storage, id).await;
    no_differences(&storage).await;
}
