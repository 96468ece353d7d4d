//! Cases for [`crate::ReportStore`].

use tollgate_types::AccountId;

use super::Factory;
use super::samples::{START, at, call, funded, hold, nanos, plan, subscribe};
use crate::Storage;
use crate::audit::{Leg, TransferRow};
use crate::report::{ChargeSum, LegSum, Span, Sums, TransferCursor};

const ALWAYS: Span = Span { from: None, to: None };

/// Stores an account with 100 nano-credits and two calls that ended two seconds after [`START`]:
/// charges of 30 of 40 and 5 of 10.
async fn with_calls(storage: &Storage, number: u128) -> AccountId {
    let id = funded(storage, number, 100).await;
    call(storage, hold(number * 100 + 1, id, 40), 30).await;
    call(storage, hold(number * 100 + 2, id, 10), 5).await;
    id
}

/// Reads all pages, with this many rows each.
async fn pages(storage: &Storage, account: AccountId, span: Span, limit: u32) -> Vec<TransferRow> {
    let mut rows: Vec<TransferRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| TransferCursor {
            entry: row.subject.entry(),
            leg: row.leg,
        });
        let page = storage
            .reports
            .transfers(account, span, after, limit)
            .await
            .unwrap();
        assert!(page.len() <= limit as usize);
        if page.is_empty() {
            return rows;
        }
        rows.extend(page);
    }
}

/// Checks that every transfer of the account is on exactly one page, in order of entry and leg, for
/// any page size.
pub async fn transfers_come_in_pages(factory: Factory) {
    let storage = factory.open().await;
    let id = with_calls(&storage, 1).await;
    with_calls(&storage, 2).await;
    let all = pages(&storage, id, ALWAYS, 100).await;
    let places: Vec<(u128, Leg)> = all.iter().map(|row| (row.subject.entry(), row.leg)).collect();
    let legs = [Leg::Hold, Leg::Settle, Leg::Release];
    let expected: Vec<(u128, Leg)> = [(1, Leg::Grant)]
        .into_iter()
        .chain(
            [101, 102]
                .into_iter()
                .flat_map(|entry| legs.map(|leg| (entry, leg))),
        )
        .collect();
    assert_eq!(places, expected);
    for limit in 1..=7 {
        assert_eq!(pages(&storage, id, ALWAYS, limit).await, all);
    }
}

/// Checks that a span includes its start and excludes its end.
pub async fn spans_are_half_open(factory: Factory) {
    let storage = factory.open().await;
    let id = with_calls(&storage, 1).await;
    for (from, to, count) in [
        (Some(START), Some(at(2)), 3),
        (Some(at(2)), Some(at(3)), 4),
        (Some(at(3)), None, 0),
        (None, Some(START), 0),
        (None, Some(at(3)), 7),
    ] {
        let span = Span { from, to };
        let rows = pages(&storage, id, span, 3).await;
        assert_eq!(rows.len(), count, "{span:?}");
        let sums = storage.reports.sums(id, span).await.unwrap();
        let counted: u64 = sums.within.iter().map(|sum| sum.count).sum();
        assert_eq!(counted, count as u64, "{span:?}");
    }
}

/// Checks that sums cover one account: before the span, within it and up to its end. Charges are
/// summed by model and endpoint, separately for credits and allowance.
pub async fn sums_cover_one_account(factory: Factory) {
    let storage = factory.open().await;
    let id = with_calls(&storage, 1).await;
    with_calls(&storage, 2).await;
    subscribe(&storage, plan(3, id, 4)).await;
    call(&storage, hold(103, id, 10), 10).await;
    let span = Span {
        from: Some(at(1)),
        to: Some(at(3)),
    };
    let mut sums = storage.reports.sums(id, span).await.unwrap();
    for list in [&mut sums.before, &mut sums.within, &mut sums.until] {
        list.sort_by_key(|sum| sum.leg);
    }
    let list = |sums: &[(Leg, u64, i64)]| -> Vec<LegSum> {
        let sum = |(leg, count, amount): &(Leg, u64, i64)| LegSum {
            leg: *leg,
            count: *count,
            amount: nanos(*amount),
        };
        sums.iter().map(sum).collect()
    };
    let expected = Sums {
        before: list(&[
            (Leg::Grant, 1, 100),
            (Leg::Hold, 3, 56),
            (Leg::HoldAllowance, 1, 4),
            (Leg::OpenWindow, 1, 4),
            (Leg::PlanFee, 1, 30),
        ]),
        within: list(&[
            (Leg::Settle, 3, 41),
            (Leg::Release, 2, 15),
            (Leg::SettleIncluded, 1, 4),
        ]),
        until: list(&[
            (Leg::Grant, 1, 100),
            (Leg::Hold, 3, 56),
            (Leg::Settle, 3, 41),
            (Leg::Release, 2, 15),
            (Leg::HoldAllowance, 1, 4),
            (Leg::SettleIncluded, 1, 4),
            (Leg::OpenWindow, 1, 4),
            (Leg::PlanFee, 1, 30),
        ]),
        charges: vec![ChargeSum {
            model: "maker/model".into(),
            endpoint: "/v1/chat/completions".into(),
            calls: 3,
            paid: nanos(41),
            included: nanos(4),
        }],
    };
    assert_eq!(sums, expected);
}
