//! Cases for [`crate::LedgerStore::hold`].

use std::sync::Arc;

use tollgate_types::{AccountId, Credits};

use super::samples::{START, account, at, funded, hold, kind, nanos, take};
use super::{Factory, LedgerSnapshot};
use crate::audit::{Leg, OpenHold, TransferRow, TransferSubject};
use crate::{Balance, HoldOutcome, LedgerAccount, NewHold, StorageErrorKind};

/// Checks that the amount moves from credits to hold in one transfer, and the hold is open.
pub async fn amount_moves_from_credits(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let hold = hold(3, id, 30);
    let outcome = storage.ledger.hold(hold.clone()).await.unwrap();
    assert_eq!(outcome, HoldOutcome::Held { available: nanos(70) });
    let balance = storage.ledger.balance(id).await.unwrap();
    let expected = Balance {
        credits: nanos(70),
        held: nanos(30),
    };
    assert_eq!(balance, expected);
    let ledgers = LedgerSnapshot::read(&storage).await;
    let transfer = TransferRow {
        subject: TransferSubject::Hold(hold.id),
        leg: Leg::Hold,
        debit: LedgerAccount::Credits,
        credit: LedgerAccount::Hold,
        amount: nanos(30),
        created_at: START,
        price_version: Some(hold.price_version),
        link: ledgers.of(id).chain.head,
    };
    assert_eq!(ledgers.of(id).transfers[1..], [transfer]);
    let open = OpenHold {
        id: hold.id,
        amount: nanos(30),
        allowance: Credits::ZERO,
        plan: None,
        expires_at: at(3600),
    };
    assert_eq!(ledgers.of(id).holds, [open]);
    assert_eq!(ledgers.of(id).usage, []);
}

/// Checks that a denied hold leaves the database unchanged and returns the available credits.
pub async fn denied_writes_nothing(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let empty = funded(&storage, 2, 0).await;
    take(&storage, hold(3, id, 60)).await;
    let before = LedgerSnapshot::read(&storage).await;
    for (number, account, amount, available) in [
        (4, id, 41, 40),
        (5, id, i64::MAX, 40),
        (6, empty, 1, 0),
        (7, empty, i64::MAX, 0),
    ] {
        let outcome = storage.ledger.hold(hold(number, account, amount)).await.unwrap();
        let available = nanos(available);
        assert_eq!(outcome, HoldOutcome::Denied { available }, "{amount}");
    }
    before.assert_unchanged(&storage).await;
    take(&storage, hold(4, id, 40)).await;
}

/// Checks that the last credit can be spent, and not one nano-credit more.
pub async fn last_credit_is_spendable(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 10).await;
    for number in 1..=10 {
        let outcome = storage.ledger.hold(hold(number, id, 1)).await.unwrap();
        let left = 10 - i64::try_from(number).unwrap();
        assert_eq!(
            outcome,
            HoldOutcome::Held {
                available: nanos(left)
            }
        );
    }
    let outcome = storage.ledger.hold(hold(11, id, 1)).await.unwrap();
    assert_eq!(
        outcome,
        HoldOutcome::Denied {
            available: Credits::ZERO
        }
    );
    LedgerSnapshot::read(&storage).await;
}

/// Checks that an account must exist, even for a hold of zero.
pub async fn unknown_account_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    for amount in [0, 1] {
        let outcome = storage.ledger.hold(hold(1, account(1).id, amount)).await;
        assert_eq!(kind(outcome), StorageErrorKind::NotFound);
    }
    assert_eq!(LedgerSnapshot::read(&storage).await, LedgerSnapshot::default());
}

/// Checks that a hold of zero is always taken and writes no transfer, regardless of the balance.
pub async fn free_hold_writes_no_transfer(factory: Factory) {
    let storage = factory.open().await;
    for (number, balance) in [(1, 0), (2, 50)] {
        let id = funded(&storage, number, balance).await;
        let before = LedgerSnapshot::read(&storage).await;
        let free = NewHold {
            principal: None,
            model: Arc::from("local/model"),
            ..hold(number, id, 0)
        };
        let outcome = storage.ledger.hold(free.clone()).await.unwrap();
        let available = nanos(balance);
        assert_eq!(outcome, HoldOutcome::Held { available });
        let ledgers = LedgerSnapshot::read(&storage).await;
        assert_eq!(ledgers.of(id).transfers, before.of(id).transfers);
        assert_eq!(ledgers.of(id).balances, before.of(id).balances);
        assert_eq!(ledgers.of(id).holds.len(), 1);
        assert_eq!(ledgers.of(id).holds[0].amount, Credits::ZERO);
    }
    assert_eq!(storage.accounts.list(None, 9).await.unwrap().len(), 2);
    assert_eq!(storage.accounts.get(AccountId::from_u128(3)).await.unwrap(), None);
}

/// Checks that a negative hold is refused: it would create credits.
pub async fn negative_amount_is_refused(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let before = LedgerSnapshot::read(&storage).await;
    for amount in [-1, i64::MIN] {
        let outcome = storage.ledger.hold(hold(1, id, amount)).await;
        assert_eq!(kind(outcome), StorageErrorKind::Conflict);
    }
    before.assert_unchanged(&storage).await;
}
