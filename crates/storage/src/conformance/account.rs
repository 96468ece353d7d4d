//! [`crate::AccountStore`].

use std::time::Duration;

use tollgate_types::AccountId;

use super::samples::{account, at_once, kind, warm_up};
use super::{Books, Factory};
use crate::{Account, AccountChange, AccountChanged, AccountState, Balance, Limits, StorageErrorKind};

/// What is created is read back, every field of it, with a balance of zero.
pub async fn create_then_get(factory: Factory) {
    let storage = factory.open().await;
    let plain = account(1);
    let full = Account {
        id: AccountId::from_u128(u128::MAX),
        name: "Zoë's \"café\" — 株式会社; DROP TABLE account".to_owned(),
        state: AccountState::Suspended,
        limits: Limits {
            rpm: Some(u32::MAX),
            tpm: Some(u64::MAX),
            keys: Some(0),
            gpus: Some(1),
            agents: Some(2),
            chats: Some(u32::MAX),
            files: Some(0),
            files_gib: Some(u32::MAX),
            batch_tokens: Some(u64::MAX),
        },
        test_clock: Some(Duration::from_micros(7)),
        created_at: super::samples::at(7),
    };
    for account in [&plain, &full] {
        storage.accounts.create(account.clone()).await.unwrap();
        assert_eq!(
            storage.accounts.get(account.id).await.unwrap().as_ref(),
            Some(account)
        );
        assert_eq!(
            storage.ledger.balance(account.id).await.unwrap(),
            Balance::default()
        );
    }
    assert_eq!(storage.accounts.get(AccountId::from_u128(2)).await.unwrap(), None);
    assert_eq!(Books::read(&storage).await.books.len(), 2);
}

/// An id is used once; the first account stays as it is.
pub async fn create_twice_is_a_conflict(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let other = Account {
        name: "other".to_owned(),
        ..account(1)
    };
    assert_eq!(
        kind(storage.accounts.create(other).await),
        StorageErrorKind::Conflict
    );
    assert_eq!(
        storage.accounts.get(account(1).id).await.unwrap(),
        Some(account(1))
    );
}

/// Accounts are listed in unsigned order of id, page by page, each once.
pub async fn list_pages_in_order_of_id(factory: Factory) {
    let storage = factory.open().await;
    let sorted = [
        0,
        2,
        0x10,
        1 << 64,
        i128::MAX.cast_unsigned(),
        1 << 127,
        u128::MAX,
    ];
    for place in [3, 6, 0, 5, 1, 4, 2] {
        storage.accounts.create(account(sorted[place])).await.unwrap();
    }
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = storage.accounts.list(after, 3).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        listed.extend(page);
    }
    assert_eq!(listed, sorted.map(account));
    assert_eq!(
        storage.accounts.list(None, 100).await.unwrap().len(),
        sorted.len()
    );
    assert_eq!(storage.accounts.list(None, 0).await.unwrap(), []);
}

/// A change is of what it says; the rest stays, and limits can be taken away.
pub async fn changes_are_of_what_is_said(factory: Factory) {
    let storage = factory.open().await;
    let id = account(1).id;
    storage.accounts.create(account(1)).await.unwrap();
    storage.accounts.create(account(2)).await.unwrap();
    let none = AccountChange::default();
    let changes = [
        none.clone(),
        AccountChange {
            name: Some("Zoë".to_owned()),
            ..none.clone()
        },
        AccountChange {
            state: Some(AccountState::Suspended),
            ..none.clone()
        },
        AccountChange {
            rpm: Some(Some(0)),
            tpm: Some(Some(u64::MAX)),
            ..none.clone()
        },
        AccountChange {
            keys: Some(Some(1)),
            gpus: Some(Some(2)),
            agents: Some(Some(3)),
            chats: Some(Some(u32::MAX)),
            ..none.clone()
        },
        AccountChange {
            files: Some(Some(4)),
            files_gib: Some(Some(5)),
            batch_tokens: Some(Some(u64::MAX)),
            ..none.clone()
        },
        AccountChange {
            rpm: Some(None),
            keys: Some(None),
            state: Some(AccountState::Active),
            ..none.clone()
        },
        AccountChange {
            tpm: Some(None),
            gpus: Some(None),
            agents: Some(None),
            chats: Some(None),
            files: Some(None),
            files_gib: Some(None),
            batch_tokens: Some(None),
            ..none
        },
    ];
    let mut before = account(1);
    for change in changes {
        let after = change.clone().apply(&before);
        let changed = storage.accounts.change(id, change).await.unwrap();
        let expected = AccountChanged { before, after };
        assert_eq!(changed, expected);
        let stored = storage.accounts.get(id).await.unwrap();
        assert_eq!(stored, Some(expected.after.clone()));
        before = expected.after;
    }
    let expected = Account {
        name: "Zoë".to_owned(),
        ..account(1)
    };
    assert_eq!(before, expected);
    let other = storage.accounts.get(account(2).id).await.unwrap();
    assert_eq!(other, Some(account(2)));
}

/// Changes of different things at once are all kept.
pub async fn changes_at_once_are_all_kept(factory: Factory) {
    let storage = factory.open().await;
    let id = account(1).id;
    storage.accounts.create(account(1)).await.unwrap();
    warm_up(&storage, id).await;
    let changed = at_once(4, |number| {
        let accounts = storage.accounts.clone();
        let mut change = AccountChange::default();
        match number {
            0 => change.rpm = Some(Some(1)),
            1 => change.keys = Some(Some(2)),
            2 => change.name = Some("other".to_owned()),
            _ => change.state = Some(AccountState::Suspended),
        }
        Box::pin(async move { accounts.change(id, change).await })
    })
    .await;
    assert!(changed.iter().all(Result::is_ok));
    let stored = storage.accounts.get(id).await.unwrap().unwrap();
    assert_eq!((stored.limits.rpm, stored.limits.keys), (Some(1), Some(2)));
    assert_eq!(
        (stored.name.as_str(), stored.state),
        ("other", AccountState::Suspended)
    );
}

/// A test clock is there from the beginning or never, and does not go back.
pub async fn test_clocks_go_forward(factory: Factory) {
    let storage = factory.open().await;
    let ahead = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    for (id, test_clock) in [(1, None), (2, Some(Duration::ZERO))] {
        let new = Account {
            test_clock,
            ..account(id)
        };
        storage.accounts.create(new).await.unwrap();
    }
    for (id, days, expected) in [
        (2, 7, Some(ahead(7))),
        (2, 3, Some(ahead(7))),
        (2, 8, Some(ahead(8))),
        (1, 7, None),
    ] {
        let change = AccountChange {
            test_clock: Some(ahead(days)),
            ..AccountChange::default()
        };
        let changed = storage.accounts.change(account(id).id, change).await;
        assert_eq!(changed.unwrap().after.test_clock, expected, "{id} {days}");
    }
    let with = storage.accounts.with_test_clocks().await.unwrap();
    assert_eq!(with.len(), 1);
    assert_eq!(with[0].test_clock, Some(ahead(8)));
    assert_eq!(
        Some(&with[0]),
        storage.accounts.get(with[0].id).await.unwrap().as_ref()
    );
    let (at, later) = (with[0].created_at, with[0].created_at.plus(ahead(8)));
    assert_eq!(with[0].time(at), later);
}

/// What is not there cannot be changed.
pub async fn unknown_account_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let id = AccountId::from_u128(1);
    let changed = storage.accounts.change(id, AccountChange::default()).await;
    assert_eq!(kind(changed), StorageErrorKind::NotFound);
    assert_eq!(kind(storage.ledger.balance(id).await), StorageErrorKind::NotFound);
    assert_eq!(storage.accounts.get(id).await.unwrap(), None);
}
