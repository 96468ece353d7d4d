//! [`crate::AccountStore`].

use tollgate_types::AccountId;

use super::samples::{account, kind};
use super::{Books, Factory};
use crate::{Account, AccountState, Balance, Limits, StorageErrorKind};

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
        },
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

/// Both limits are replaced together, and can be taken away.
pub async fn limits_are_replaced(factory: Factory) {
    let storage = factory.open().await;
    let id = account(1).id;
    storage.accounts.create(account(1)).await.unwrap();
    storage.accounts.create(account(2)).await.unwrap();
    let cases = [
        (Some(0), None),
        (None, Some(0)),
        (Some(60), Some(2_000_000)),
        (None, None),
    ];
    for (rpm, tpm) in cases {
        let limits = Limits { rpm, tpm };
        storage.accounts.set_limits(id, limits).await.unwrap();
        let stored = storage.accounts.get(id).await.unwrap().unwrap();
        assert_eq!(stored, Account { limits, ..account(1) });
    }
    assert_eq!(
        storage.accounts.get(account(2).id).await.unwrap(),
        Some(account(2))
    );
}

/// An account is suspended and made active again.
pub async fn state_is_set(factory: Factory) {
    let storage = factory.open().await;
    let id = account(1).id;
    storage.accounts.create(account(1)).await.unwrap();
    for state in [
        AccountState::Suspended,
        AccountState::Suspended,
        AccountState::Active,
    ] {
        storage.accounts.set_state(id, state).await.unwrap();
        let stored = storage.accounts.get(id).await.unwrap().unwrap();
        assert_eq!(stored, Account { state, ..account(1) });
    }
}

/// What is not there cannot be changed.
pub async fn unknown_account_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let id = AccountId::from_u128(1);
    let limits = storage.accounts.set_limits(id, Limits::default()).await;
    assert_eq!(kind(limits), StorageErrorKind::NotFound);
    let state = storage.accounts.set_state(id, AccountState::Suspended).await;
    assert_eq!(kind(state), StorageErrorKind::NotFound);
    assert_eq!(kind(storage.ledger.balance(id).await), StorageErrorKind::NotFound);
    assert_eq!(storage.accounts.get(id).await.unwrap(), None);
}
