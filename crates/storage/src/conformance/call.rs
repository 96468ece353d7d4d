//! Cases for [`crate::UsageStore::calls`].

use std::time::Duration;

use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, HoldId, KeyId, MemberId, Principal};

use super::Factory;
use super::samples::{START, account, at, call, funded, grant, hold, hold_at, settlement, take};
use crate::{Account, NewHold, OutcomeFilter, Storage, UsageFilter, UsageGroup, UsagePage};

/// Scan limit above the number of rows in these cases.
const SCAN: u32 = 10_000;

/// Lists all pages; returns the numbers of each page's rows.
async fn pages(
    storage: &Storage,
    account: AccountId,
    filter: &UsageFilter,
    limit: u32,
    scan_limit: u32,
) -> Vec<Vec<u128>> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = UsagePage { after, limit };
        let found = storage.usage.calls(account, filter.clone(), page, scan_limit);
        let found = found.await.unwrap();
        let numbers = found.rows.iter().map(|row| row.id.as_u128() & 0xFFFF);
        pages.push(numbers.collect());
        let Some(next) = found.next else { return pages };
        assert!(after.is_none_or(|after| next < after), "{next} is not older");
        after = Some(next);
    }
}

/// Checks that pages without a filter list every row once, the newest first, and the last page says
/// so.
pub async fn every_page_continues_the_last(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    assert_eq!(
        pages(&storage, id, &UsageFilter::default(), 3, SCAN).await,
        [[]; 1]
    );
    for number in [4, 2, 6, 1, 5, 3] {
        call(&storage, hold(number, id, 5), 1).await;
    }
    take(&storage, hold(7, id, 5)).await;
    for (limit, expected) in [
        (1, &[&[6][..], &[5], &[4], &[3], &[2], &[1]][..]),
        (3, &[&[6, 5, 4], &[3, 2, 1]]),
        (4, &[&[6, 5, 4, 3], &[2, 1]]),
        (6, &[&[6, 5, 4, 3, 2, 1]]),
        (7, &[&[6, 5, 4, 3, 2, 1]]),
    ] {
        let found = pages(&storage, id, &UsageFilter::default(), limit, SCAN).await;
        assert_eq!(found, expected, "{limit}");
    }
    let page = UsagePage {
        after: Some(HoldId::from_u128(0)),
        limit: 5,
    };
    let none = storage.usage.calls(id, UsageFilter::default(), page, SCAN).await;
    assert_eq!((none.unwrap().rows, 0), (Vec::new(), 0));
}

/// Checks that a page ends after the scan limit, with or without matching rows.
pub async fn pages_read_a_bounded_number(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    for number in 1..=12 {
        let new = NewHold {
            principal: [2, 3, 10]
                .contains(&number)
                .then(|| Principal::Key(KeyId::from_u128(7))),
            ..hold(number, id, 5)
        };
        call(&storage, new, 1).await;
    }
    let filter = UsageFilter {
        key: Some(KeyId::from_u128(7)),
        ..UsageFilter::default()
    };
    for (limit, scan_limit, expected) in [
        (
            10,
            1,
            &[&[][..], &[], &[10], &[], &[], &[], &[], &[], &[], &[3], &[2], &[]][..],
        ),
        (10, 4, &[&[10], &[], &[3, 2]]),
        (1, 4, &[&[10], &[], &[3], &[2]]),
        (10, 5, &[&[10], &[3], &[2]]),
        (10, 11, &[&[10, 3, 2], &[]]),
        (10, 12, &[&[10, 3, 2]]),
        (3, SCAN, &[&[10, 3, 2]]),
        (2, SCAN, &[&[10, 3], &[2]]),
    ] {
        let found = pages(&storage, id, &filter, limit, scan_limit).await;
        assert_eq!(found, expected, "{limit} {scan_limit}");
    }
}

/// Checks the filters by member and outcome, in lists, calls and totals, and totals by member.
pub async fn members_and_outcomes(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    let principals = [
        Some(Principal::Member(MemberId::from_u128(7))),
        Some(Principal::Key(KeyId::from_u128(7))),
        None,
    ];
    let outcomes = [Outcome::Ok, Outcome::Timeout, Outcome::Ok, Outcome::Cancelled];
    for number in 1..=12 {
        let new = NewHold {
            principal: principals[(number % 3) as usize],
            ..hold(number, id, 5)
        };
        let hold = take(&storage, new).await;
        let mut settlement = settlement(&hold, 1);
        settlement.outcome = outcomes[(number % 4) as usize];
        storage.ledger.settle(settlement).await.unwrap();
    }
    let filter = |member: Option<u128>, outcome| UsageFilter {
        member: member.map(MemberId::from_u128),
        outcome,
        ..UsageFilter::default()
    };
    let timeout = Some(OutcomeFilter::Only(Outcome::Timeout));
    let all = UsagePage {
        after: None,
        limit: 100,
    };
    for (filter, expected) in [
        (filter(Some(7), None), &[12, 9, 6, 3][..]),
        (filter(Some(8), None), &[]),
        (filter(None, timeout), &[9, 5, 1]),
        (filter(None, Some(OutcomeFilter::ExceptOk)), &[11, 9, 7, 5, 3, 1]),
        (filter(Some(7), Some(OutcomeFilter::ExceptOk)), &[9, 3]),
        (filter(Some(7), timeout), &[9]),
    ] {
        let listed = storage.usage.list(id, filter.clone(), all).await.unwrap();
        let listed: Vec<u128> = listed.iter().map(|row| row.id.as_u128()).collect();
        assert_eq!(listed, expected, "{filter:?}");
        assert_eq!(pages(&storage, id, &filter, 100, SCAN).await, [expected]);
        let total = storage.usage.totals(id, filter, UsageGroup::All).await.unwrap();
        let requests = total.first().map_or(0, |total| total.requests);
        assert_eq!(requests, expected.len() as u64);
    }
    let totals = storage
        .usage
        .totals(id, UsageFilter::default(), UsageGroup::Member)
        .await
        .unwrap();
    let found: Vec<(&str, u64)> = totals
        .iter()
        .map(|total| (&*total.group, total.requests))
        .collect();
    let member = MemberId::from_u128(7).to_string();
    assert_eq!(found, [("", 8), (&*member, 4)]);
}

/// Checks that a range of times reads only rows with ids near it, and finds every row in it: ids of
/// an account with a test clock are earlier.
pub async fn time_ranges_end_the_scan(factory: Factory) {
    const HOUR: u64 = 3600;
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1_000).await;
    for number in 1..=10 {
        let created_at = at(number as u64 * HOUR);
        call(&storage, hold_at(number, id, 5, created_at), 1).await;
    }
    let range = |from, to| UsageFilter {
        from: Some(at(from * HOUR)),
        to: Some(at(to * HOUR)),
        ..UsageFilter::default()
    };
    for (from, to, scan_limit, expected) in [
        (4, 7, SCAN, &[&[6, 5, 4][..]][..]),
        (4, 7, 3, &[&[6, 5], &[4]]),
        (20, 30, 1, &[&[]]),
        (8, 8, SCAN, &[&[]]),
    ] {
        let found = pages(&storage, id, &range(from, to), 10, scan_limit).await;
        assert_eq!(found, expected, "{from} to {to}");
    }
    let ahead = Duration::from_hours(100);
    let clocked = Account {
        test_clock: Some(ahead),
        ..account(2)
    };
    let other = clocked.id;
    storage.accounts.create(clocked).await.unwrap();
    storage.ledger.grant(grant(2, other, 1_000)).await.unwrap();
    for (number, hours) in [(1, 0), (2, 50), (3, 100)] {
        let new = NewHold {
            created_at: at(hours * HOUR),
            ..hold_at(number, other, 5, START)
        };
        call(&storage, new, 1).await;
    }
    let found = pages(&storage, other, &range(50, 101), 10, SCAN).await;
    assert_eq!(found, [[3, 2]]);
}
