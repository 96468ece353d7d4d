//! Cases for [`crate::NoticeStore`].

use tollgate_types::{AccountId, NoticeId};

use super::Factory;
use super::samples::{account, at, concurrently, funded, kind, nanos};
use crate::{BalanceAlert, Channel, Notice, NoticeOutcome, NoticeState, StorageErrorKind};

pub(super) fn alert(account: AccountId) -> BalanceAlert {
    BalanceAlert {
        account,
        below: nanos(5),
        webhook: Some("https://example.com/hook".to_owned()),
        email: None,
        is_low: false,
    }
}

pub(super) fn notice(number: u128, account: AccountId, due: u64) -> Notice {
    Notice {
        id: NoticeId::from_u128(number),
        account,
        channel: Channel::Webhook,
        address: "https://example.com/hook".to_owned(),
        body: r#"{"type":"balance.low"}"#.to_owned(),
        state: NoticeState::Pending,
        attempts: 0,
        due_at: at(due),
        failure: None,
        created_at: at(due),
    }
}

/// Checks that alerts are set, replaced, listed and removed, each for an existing account.
pub async fn alerts_are_set(factory: Factory) {
    let storage = factory.open().await;
    let store = &storage.notices;
    let mut accounts = Vec::new();
    for number in 1..=3 {
        let id = funded(&storage, number, 1).await;
        store.set_alert(id, Some(alert(id))).await.unwrap();
        accounts.push(id);
    }
    let other = BalanceAlert {
        email: Some("a@example.com".to_owned()),
        webhook: None,
        ..alert(accounts[1])
    };
    store.set_alert(accounts[1], Some(other.clone())).await.unwrap();
    assert_eq!(store.alert(accounts[1]).await.unwrap(), Some(other.clone()));
    store.set_alert(accounts[0], None).await.unwrap();
    assert_eq!(store.alert(accounts[0]).await.unwrap(), None);
    let all = [other, alert(accounts[2])];
    assert_eq!(store.alerts(None, 9).await.unwrap(), all);
    assert_eq!(store.alerts(None, 1).await.unwrap(), all[..1]);
    assert_eq!(store.alerts(Some(accounts[1]), 9).await.unwrap(), all[1..]);
    let unknown_account = account(99).id;
    let unknown = store
        .set_alert(unknown_account, Some(alert(unknown_account)))
        .await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
    assert_eq!(
        kind(store.set_alert(unknown_account, None).await),
        StorageErrorKind::NotFound
    );
}

/// Checks that, of concurrent reports of a low balance, one is recorded, and another after the
/// balance recovered.
pub async fn low_balance_is_recorded_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1).await;
    let store = &storage.notices;
    assert!(
        !store.note_low(id, true, vec![notice(50, id, 1)]).await.unwrap(),
        "no alert is set"
    );
    store.set_alert(id, Some(alert(id))).await.unwrap();
    let noted = concurrently(8, |number| {
        let store = store.clone();
        Box::pin(async move {
            let notices = vec![notice(number as u128 + 1, id, 1)];
            store.note_low(id, true, notices).await.unwrap()
        })
    })
    .await;
    assert_eq!(noted.iter().filter(|noted| **noted).count(), 1);
    assert_eq!(store.list(id, 9).await.unwrap().len(), 1);
    assert!(store.alert(id).await.unwrap().unwrap().is_low);
    assert!(store.note_low(id, false, Vec::new()).await.unwrap());
    assert!(!store.note_low(id, false, Vec::new()).await.unwrap());
    assert!(store.note_low(id, true, vec![notice(20, id, 2)]).await.unwrap());
    let sent = store.list(id, 9).await.unwrap();
    assert_eq!((sent.len(), sent[0].clone()), (2, notice(20, id, 2)));
    assert_eq!(store.list(id, 1).await.unwrap(), sent[..1]);
}

/// Checks that a due notice is sent by one process at a time, and the outcome of an attempt is
/// recorded once.
pub async fn due_notices_are_claimed_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1).await;
    let store = &storage.notices;
    store.set_alert(id, Some(alert(id))).await.unwrap();
    let notices = vec![notice(1, id, 3), notice(2, id, 1), notice(3, id, 9)];
    assert!(store.note_low(id, true, notices).await.unwrap());
    assert!(store.claim(at(0), at(5), 9).await.unwrap().is_empty());
    let claimed = concurrently(4, |_| {
        let store = store.clone();
        Box::pin(async move { store.claim(at(4), at(60), 1).await.unwrap() })
    })
    .await;
    let mut claimed: Vec<Notice> = claimed.into_iter().flatten().collect();
    claimed.sort_by_key(|notice| notice.id.as_u128());
    let numbers: Vec<u128> = claimed.iter().map(|notice| notice.id.as_u128()).collect();
    assert_eq!(numbers, [1, 2]);
    assert!(
        claimed
            .iter()
            .all(|notice| notice.attempts == 1 && notice.due_at == at(60))
    );
    let again = NoticeOutcome::Retry {
        due_at: at(20),
        why: "503".to_owned(),
    };
    store.finish(&claimed[0], again).await.unwrap();
    store.finish(&claimed[1], NoticeOutcome::Delivered).await.unwrap();
    let second = store.claim(at(20), at(70), 9).await.unwrap();
    let of = |notice: &Notice| (notice.id.as_u128(), notice.attempts, notice.failure.clone());
    let mut second: Vec<_> = second.iter().map(of).collect();
    second.sort();
    assert_eq!(second, [(1, 2, Some("503".to_owned())), (3, 1, None)]);
    // The first attempt reports its outcome again, too late.
    store.finish(&claimed[0], NoticeOutcome::Delivered).await.unwrap();
    let now = store.list(id, 9).await.unwrap();
    let states: Vec<_> = now.iter().map(|notice| notice.state).collect();
    assert_eq!(
        states,
        [NoticeState::Pending, NoticeState::Delivered, NoticeState::Pending]
    );
    let given_up = NoticeOutcome::Failed {
        why: "gone".to_owned(),
    };
    store.finish(&now[2], given_up).await.unwrap();
    let now = store.list(id, 9).await.unwrap();
    assert_eq!(
        (now[2].state, now[2].failure.as_deref()),
        (NoticeState::Failed, Some("gone"))
    );
}

/// Checks that a notice postponed by a fast clock is due once the clock is right.
pub async fn notices_dated_by_a_fast_clock_are_due(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1).await;
    let store = &storage.notices;
    store.set_alert(id, Some(alert(id))).await.unwrap();
    let notices = vec![notice(1, id, 30 * 24 * 3_600), notice(2, id, 27 * 3_600)];
    assert!(store.note_low(id, true, notices).await.unwrap());
    let due = store.claim(at(10), at(60), 9).await.unwrap();
    let numbers: Vec<u128> = due.iter().map(|notice| notice.id.as_u128()).collect();
    assert_eq!(numbers, [1], "the longest wait is not over");
}

/// Checks that finished notices are deleted after a time, pending ones never.
pub async fn finished_notices_are_swept(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1).await;
    let store = &storage.notices;
    store.set_alert(id, Some(alert(id))).await.unwrap();
    let notices = (1..=4).map(|number| notice(number, id, 1)).collect();
    store.note_low(id, true, notices).await.unwrap();
    let claimed = store.claim(at(1), at(5), 3).await.unwrap();
    for notice in &claimed {
        store.finish(notice, NoticeOutcome::Delivered).await.unwrap();
    }
    assert_eq!(store.sweep(at(1), 9).await.unwrap(), 0);
    assert_eq!(store.sweep(at(2), 2).await.unwrap(), 2);
    assert_eq!(store.sweep(at(2), 2).await.unwrap(), 1);
    let left = store.list(id, 9).await.unwrap();
    assert_eq!((left.len(), left[0].state), (1, NoticeState::Pending));
}
