//! Cases for [`crate::AccountStore`].

use std::time::Duration;

use tollgate_types::id::TransferId;
use tollgate_types::{
    AccountId, CalibrationId, ChatId, Credits, FileId, JobId, JobStatus, MediaId, ResponseId,
};

use super::calibration::{insert, new as calibration};
use super::chat::{save as save_chat, save_of as chat};
use super::client_secret::{create as create_secret, find as find_secret, secret};
use super::file::{QUOTA, file};
use super::idempotency::claim;
use super::job::{accept, end, lease};
use super::media::media;
use super::member::member;
use super::notice::{alert, notice};
use super::response::{response, save};
use super::samples::{
    account, at, call, concurrently, funded, hold, key, kind, nanos, plan, settlement, subscribe, take,
    warm_up,
};
use super::{Factory, LedgerSnapshot};
use crate::{
    Account, AccountChange, AccountChanged, AccountState, Balance, ClaimOutcome, CloseBlockers, CloseOutcome,
    KeyState, LedgerAccount, Limits, MemberRole, Storage, StorageErrorKind, Withdrawal,
};

/// Checks that a created account is read back with every field and a balance of zero.
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
    assert_eq!(LedgerSnapshot::read(&storage).await.ledgers.len(), 2);
}

/// Checks that an id is used once; the first account stays unchanged.
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

/// Checks that accounts are listed in unsigned order of id, page by page, each once.
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

/// Checks that a change affects only its fields; limits can be removed.
pub async fn changes_leave_other_fields(factory: Factory) {
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

/// Checks that concurrent changes of different fields are all applied.
pub async fn concurrent_changes_are_all_applied(factory: Factory) {
    let storage = factory.open().await;
    let id = account(1).id;
    storage.accounts.create(account(1)).await.unwrap();
    warm_up(&storage, id).await;
    let changed = concurrently(4, |number| {
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

/// Checks that a test clock exists from the creation of the account or never, and does not go back.
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

/// Checks that an unknown account cannot be changed.
pub async fn unknown_account_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let id = AccountId::from_u128(1);
    let changed = storage.accounts.change(id, AccountChange::default()).await;
    assert_eq!(kind(changed), StorageErrorKind::NotFound);
    assert_eq!(kind(storage.ledger.balance(id).await), StorageErrorKind::NotFound);
    assert_eq!(storage.accounts.get(id).await.unwrap(), None);
}

/// Asserts that the account is closed, and returns it.
async fn closed(storage: &Storage, id: AccountId) -> Account {
    match storage.accounts.close_account(id, at(50)).await.unwrap() {
        CloseOutcome::Closed(account) => account,
        refused @ CloseOutcome::Refused(_) => unreachable!("{refused:?}"),
    }
}

async fn suspend(storage: &Storage, id: AccountId) {
    let change = AccountChange {
        state: Some(AccountState::Suspended),
        ..AccountChange::default()
    };
    storage.accounts.change(id, change).await.unwrap();
}

/// Checks that a closed account has only its ledger and no personal data; other accounts stay
/// unchanged.
pub async fn closed_accounts_keep_only_their_ledger(factory: Factory) {
    let storage = factory.open().await;
    let ids = [funded(&storage, 1, 100).await, funded(&storage, 2, 100).await];
    for (place, id) in (1_u128..).zip(ids) {
        let number = |n: u128| place * 100 + n;
        storage.keys.create(key(number(1), id)).await.unwrap();
        call(&storage, hold(number(2), id, 50), 30).await;
        storage
            .members
            .add(member(number(3), id.as_u128(), MemberRole::Owner))
            .await
            .unwrap();
        storage.notices.set_alert(id, Some(alert(id))).await.unwrap();
        let notices = vec![notice(number(4), id, 1)];
        assert!(storage.notices.note_low(id, true, notices).await.unwrap());
        save(&storage, response(number(5), id, None)).await.unwrap();
        storage.files.insert(file(number(6), id), QUOTA).await.unwrap();
        storage.media.insert(media(number(7), id)).await.unwrap();
        insert(&storage, calibration(number(8), id)).await;
        save_chat(&storage, chat(number(12), id)).await;
        create_secret(&storage, secret(number(13), id)).await;
        storage.idempotency.claim(claim(id, number(9))).await.unwrap();
        storage.webhooks.renew_secret(id).await.unwrap();
        accept(&storage, number(10), id).await;
        let leased = lease(&storage, 1, 10).await;
        let ended = end(&leased.job, JobStatus::Completed, 4);
        storage.jobs.finish(leased.lease, ended).await.unwrap();
    }
    let before = LedgerSnapshot::read(&storage).await;
    let [id, other] = ids;
    suspend(&storage, id).await;
    let account = closed(&storage, id).await;
    assert_eq!(
        (account.state, account.name.as_str()),
        (AccountState::Closed, "closed account")
    );
    assert_eq!(storage.accounts.get(id).await.unwrap(), Some(account.clone()));
    let after = LedgerSnapshot::read(&storage).await;
    for balance in LedgerAccount::ALL {
        assert_eq!(after.of(id).balance(balance), before.of(id).balance(balance));
    }
    assert_eq!(after.of(id).transfers, before.of(id).transfers);
    assert_eq!(after.of(other), before.of(other));
    for (place, id, exists) in [(1_u128, id, false), (2, other, true)] {
        let number = |n: u128| place * 100 + n;
        let keys = storage.keys.list(id).await.unwrap();
        assert_eq!(keys[0].state == KeyState::Active, exists);
        assert_eq!(keys[0].name.is_empty(), !exists);
        assert_eq!(keys[0].revoked_at, (!exists).then_some(at(50)));
        assert_eq!(!storage.members.list(id).await.unwrap().is_empty(), exists);
        assert_eq!(storage.notices.alert(id).await.unwrap().is_some(), exists);
        assert_eq!(!storage.notices.list(id, 9).await.unwrap().is_empty(), exists);
        let found = storage
            .responses
            .get(id, ResponseId::from_u128(number(5)), at(50))
            .await;
        assert_eq!(found.unwrap().is_some(), exists);
        let found = storage.files.get(id, FileId::from_u128(number(6)), at(50)).await;
        assert_eq!(found.unwrap().is_some(), exists);
        let stored_media = storage.media.of_account(id, MediaId::from_u128(number(7))).await;
        assert_eq!(
            stored_media
                .unwrap()
                .is_some_and(|stored_media| stored_media.expires_at > at(50)),
            exists
        );
        let learned = storage
            .calibrations
            .get(id, CalibrationId::from_u128(number(8)))
            .await;
        assert_eq!(learned.unwrap().is_some(), exists);
        let loaded = storage.chats.load(id, ChatId::from_u128(number(12))).await;
        assert_eq!(loaded.unwrap().is_some(), exists);
        assert_eq!(find_secret(&storage, number(13), at(50)).await.is_some(), exists);
        let job = storage.jobs.get(id, JobId::from_u128(number(10))).await;
        assert_eq!(job.unwrap().is_some(), exists);
        assert_eq!(storage.webhooks.secret(id).await.unwrap() > 1, exists);
        let again = storage.idempotency.claim(claim(id, number(11))).await.unwrap();
        assert_eq!(matches!(again, ClaimOutcome::First), !exists, "{again:?}");
    }
    let leftover = storage.files.leftover(at(50), 9).await.unwrap();
    assert_eq!(leftover.len(), 1, "its bytes are deleted by the next round");
    // Closing again removes data written since and changes nothing else.
    save(&storage, response(9, id, None)).await.unwrap();
    assert_eq!(closed(&storage, id).await, account);
    let found = storage.responses.get(id, ResponseId::from_u128(9), at(50)).await;
    assert_eq!(found.unwrap(), None);
    let changed = storage.accounts.change(id, AccountChange::default()).await;
    assert_eq!(kind(changed), StorageErrorKind::Conflict);
    // The rest of its grants can be withdrawn.
    let taken = storage
        .lots
        .withdraw(TransferId::from_u128(1), Credits::MAX, at(60))
        .await;
    assert_eq!(
        taken.unwrap(),
        Withdrawal {
            account: id,
            amount: nanos(66)
        }
    );
    LedgerSnapshot::read(&storage).await;
}

/// Checks that an account that is active, or has calls, jobs or subscriptions, is not closed.
pub async fn accounts_with_open_work_are_not_closed(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let refused = async || match storage.accounts.close_account(id, at(50)).await.unwrap() {
        CloseOutcome::Refused(unfinished) => unfinished,
        done @ CloseOutcome::Closed(_) => unreachable!("{done:?}"),
    };
    let nothing = CloseBlockers::default();
    assert_eq!(
        refused().await,
        CloseBlockers {
            is_active: true,
            ..nothing
        }
    );
    suspend(&storage, id).await;
    let held = take(&storage, hold(11, id, 10)).await;
    let calls = CloseBlockers { calls: 1, ..nothing };
    assert_eq!(refused().await, calls);
    storage.ledger.settle(settlement(&held, 1)).await.unwrap();
    accept(&storage, 12, id).await;
    let jobs = CloseBlockers {
        calls: 1,
        jobs: 1,
        ..nothing
    };
    assert_eq!(refused().await, jobs);
    storage
        .jobs
        .cancel(id, JobId::from_u128(12), at(20))
        .await
        .unwrap();
    subscribe(&storage, plan(13, id, 7)).await;
    let subscriptions = CloseBlockers {
        subscriptions: 1,
        ..nothing
    };
    assert_eq!(refused().await, subscriptions);
    let account = storage.accounts.get(id).await.unwrap().unwrap();
    assert_eq!(account.state, AccountState::Suspended);
    let unknown = storage
        .accounts
        .close_account(AccountId::from_u128(77), at(50))
        .await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
}
