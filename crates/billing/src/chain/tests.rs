//! Tests of chains of transfers in any order, and of each kind of fault.

use tollgate_storage::audit::Leg;
use tollgate_types::{Credits, HoldId, PriceVersion, Timestamp};

use super::*;

const ACCOUNT: AccountId = AccountId::from_u128(1);

/// Returns a chain of `length` transfers.
fn chain(length: u128) -> Vec<TransferRow> {
    let mut head = None;
    let row = |number: u128| {
        let (debit, credit) = Leg::Hold.sides();
        let mut row = TransferRow {
            subject: TransferSubject::Hold(HoldId::from_u128(number)),
            leg: Leg::Hold,
            debit,
            credit,
            amount: Credits::from_nanos(10),
            created_at: Timestamp::from_micros(0),
            price_version: Some(PriceVersion::from_u64(1)),
            link: None,
        };
        head = Some(row.link_after(ACCOUNT, head));
        row.link = head;
        row
    };
    (1..=length).map(row).collect()
}

fn end(rows: &[TransferRow]) -> Chain {
    Chain {
        head: rows.last().and_then(|row| row.link),
        unchained: 0,
    }
}

fn faults(rows: &[TransferRow], chain: &Chain) -> Vec<String> {
    let mut follower = ChainFollower::new(ACCOUNT);
    let mut faults = Vec::new();
    for row in rows {
        follower.see(row, |fault| faults.push(fault));
    }
    follower.finish(chain, |fault| faults.push(fault));
    faults
}

#[test]
fn every_order_is_the_same_chain() {
    let rows = chain(7);
    for step in [1, 2, 3, 4, 5, 6] {
        let shuffled: Vec<TransferRow> = (0..7).map(|index| rows[index * step % 7]).collect();
        assert_eq!(faults(&shuffled, &end(&rows)), Vec::<String>::new(), "{step}");
    }
    assert_eq!(faults(&[], &Chain::default()), Vec::<String>::new());
}

#[test]
fn ordered_transfers_need_no_buffer() {
    let mut follower = ChainFollower::new(ACCOUNT);
    for row in chain(1000) {
        follower.see(&row, |fault| unreachable!("{fault}"));
        assert_eq!((follower.ends.len(), follower.begins.len()), (1, 0));
    }
}

#[track_caller]
fn breaks(falsify: impl Fn(&mut Vec<TransferRow>), expected: &[&str]) {
    let valid = chain(5);
    let mut rows = valid.clone();
    falsify(&mut rows);
    for order in [false, true] {
        let mut shown = rows.clone();
        if order {
            shown.reverse();
        }
        let found = faults(&shown, &end(&valid));
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for part in expected {
            assert!(
                found.iter().any(|fault| fault.contains(part)),
                "{part}: {found:#?}"
            );
        }
    }
}

#[test]
fn changed_transfers_are_named() {
    breaks(
        |rows| rows[2].amount = Credits::from_nanos(11),
        &["hold_00000000000000000000000000000003 hold at place 3 was changed"],
    );
    breaks(|rows| rows[2].price_version = None, &["place 3 was changed"]);
    // With its hash recomputed, the next transfer does not link to it.
    breaks(
        |rows| {
            rows[2].amount = Credits::from_nanos(11);
            rows[2].link = Some(rows[2].link_after(ACCOUNT, rows[1].link));
        },
        &["at place 4 records"],
    );
    breaks(
        |rows| rows[2].link.as_mut().unwrap().hash.0[0] ^= 1,
        &["at place 3 was changed", "at place 4 records"],
    );
    breaks(
        |rows| rows[2].link.as_mut().unwrap().previous.0[0] ^= 1,
        &["at place 3 was changed", "at place 3 records"],
    );
    breaks(
        |rows| rows[0].link.as_mut().unwrap().previous.0[0] ^= 1,
        &["at place 1 was changed", "at place 1 records"],
    );
}

#[test]
fn missing_transfers_are_named() {
    breaks(
        |rows| {
            rows.remove(2);
        },
        &["at place 4 has no predecessor: no transfer has place 3"],
    );
    breaks(
        |rows| {
            rows.remove(0);
        },
        &["at place 2 has no predecessor: no transfer has place 1"],
    );
    breaks(|rows| rows.truncate(4), &["the newest transfer is at place 4"]);
    breaks(Vec::clear, &["the newest transfer is at no place"]);
    breaks(
        |rows| rows[2].link = None,
        &[
            "at place 4 has no predecessor: no transfer has place 3",
            "1 transfers are in no chain; 0 are older",
        ],
    );
}

#[test]
fn moved_or_added_transfers_are_named() {
    breaks(
        |rows| {
            let (two, three) = (rows[1].link, rows[2].link);
            (rows[1].link, rows[2].link) = (three, two);
        },
        &["at place 3 was changed", "at place 2 was changed"],
    );
    let valid = chain(5);
    let mut rows = chain(5);
    let more = TransferRow {
        amount: Credits::from_nanos(1),
        ..rows[4]
    };
    rows.push(TransferRow {
        link: Some(more.link_after(ACCOUNT, rows[4].link)),
        ..more
    });
    let found = faults(&rows, &end(&valid));
    assert!(
        found[0].contains("the newest transfer is at place 6"),
        "{found:?}"
    );
}

#[test]
fn gaps_are_reported() {
    let rows = chain(9);
    let mut follower = ChainFollower::new(ACCOUNT);
    for row in rows[1..3].iter().chain(&rows[5..8]) {
        follower.see(row, |fault| unreachable!("{fault}"));
    }
    let summary = follower.summary();
    assert_eq!((summary.first, summary.linked, summary.unlinked), (Some(2), 5, 0));
    assert_eq!(summary.head.map(|(place, _)| place), Some(8));
    assert_eq!(summary.gaps, [(4, 5)]);
    follower.see(&rows[0], |fault| unreachable!("{fault}"));
    let summary = follower.summary();
    assert_eq!((summary.first, summary.gaps), (Some(1), vec![(4, 5)]));
}
