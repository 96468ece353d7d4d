//! Cases for [`crate::ProviderSubscriptionStore`].

use tollgate_types::{AccountId, Money, RenewalState, SubscriptionId};

use super::Factory;
use super::samples::{account, at, funded, kind, nanos, plan, subscribe, week};
use crate::{
    Cadence, Change, Payer, ProviderSubscription, ProviderSubscriptionChange, ProviderSubscriptionState,
    Storage, StorageErrorKind,
};

fn new(number: u128, account: AccountId) -> ProviderSubscription {
    let currency = "usd".parse().unwrap();
    ProviderSubscription {
        id: SubscriptionId::from_u128(number),
        account,
        provider: "stripe".to_owned(),
        plan: "lite".into(),
        price: nanos(30),
        cadence: Cadence::Monthly,
        allowance: nanos(100),
        money: Money {
            amount: 1_500,
            currency,
        },
        state: ProviderSubscriptionState::Pending,
        checkout: None,
        reference: None,
        course: None,
        invoice: None,
        failure: None,
        created_at: at(1),
        updated_at: at(1),
    }
}

fn opened(checkout: &str) -> ProviderSubscriptionChange {
    let checkout = checkout.to_owned();
    ProviderSubscriptionChange::Opened { checkout }
}

fn paid(reference: &str, invoice: &str) -> ProviderSubscriptionChange {
    ProviderSubscriptionChange::Paid {
        reference: reference.to_owned(),
        invoice: invoice.to_owned(),
    }
}

fn refused(reference: &str) -> ProviderSubscriptionChange {
    ProviderSubscriptionChange::Refused {
        reference: reference.to_owned(),
        why: "another_plan".to_owned(),
    }
}

fn failed(why: &str) -> ProviderSubscriptionChange {
    ProviderSubscriptionChange::Failed { why: why.to_owned() }
}

/// Creates a paid provider subscription and its local subscription. The provider's ids are derived
/// from its number.
async fn started(storage: &Storage, number: u128, account: AccountId) -> SubscriptionId {
    let store = &storage.provider_subscriptions;
    store.create(new(number, account)).await.unwrap();
    let mut terms = plan(number, account, 100);
    terms.payer = Payer::Provider;
    let id = subscribe(storage, terms).await.terms.id;
    let reference = format!("sub_{number}");
    store.change(id, paid(&reference, "in_1"), at(2)).await.unwrap();
    id
}

/// Checks that subscriptions can be read after reopening: by id, by the provider's id, and while
/// the checkout page is open.
pub async fn written_then_read(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 1).await, funded(&storage, 2, 1).await);
    let store = &storage.provider_subscriptions;
    for (number, account) in [(1, one), (2, one), (3, one), (4, other)] {
        store.create(new(number, account)).await.unwrap();
    }
    for number in [1, 2, 4] {
        let id = SubscriptionId::from_u128(number);
        let change = opened(&format!("cs_{number}"));
        store.change(id, change, at(2)).await.unwrap();
    }
    let id = SubscriptionId::from_u128(1);
    let changed = store.change(id, paid("sub_1", "in_1"), at(9)).await.unwrap();
    let expected = ProviderSubscription {
        state: ProviderSubscriptionState::Started,
        checkout: Some("cs_1".to_owned()),
        reference: Some("sub_1".to_owned()),
        course: Some(RenewalState::Renews),
        invoice: Some("in_1".to_owned()),
        updated_at: at(9),
        ..new(1, one)
    };
    assert_eq!(changed, expected);
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    let store = &storage.provider_subscriptions;
    assert_eq!(store.get(id).await.unwrap(), Some(expected.clone()));
    assert_eq!(store.by_reference("sub_1").await.unwrap(), Some(expected));
    assert_eq!(store.by_reference("sub_2").await.unwrap(), None);
    assert_eq!(store.get(SubscriptionId::from_u128(9)).await.unwrap(), None);
    let pending = store.pending(one).await.unwrap();
    let pending: Vec<_> = pending.iter().map(|found| found.id.as_u128()).collect();
    assert_eq!(pending, [2], "the first is paid, and the third has no page");
}

/// Checks that a subscription is paid by one subscription of the provider, even after a failure,
/// and that a repeated change has no effect.
pub async fn paid_by_one_provider_subscription(factory: Factory) {
    let storage = factory.open().await;
    let owner = funded(&storage, 1, 1).await;
    let store = &storage.provider_subscriptions;
    store.create(new(1, owner)).await.unwrap();
    let id = SubscriptionId::from_u128(1);
    let early = store
        .change(
            id,
            ProviderSubscriptionChange::RenewalState(RenewalState::Ends),
            at(2),
        )
        .await;
    assert_eq!(
        kind(early),
        StorageErrorKind::Conflict,
        "the provider has none yet"
    );
    let now = store.change(id, failed("expired"), at(2)).await.unwrap();
    assert_eq!(
        (now.state, now.failure.as_deref()),
        (ProviderSubscriptionState::Failed, Some("expired"))
    );
    let first = store.change(id, paid("sub_1", "in_1"), at(3)).await.unwrap();
    assert_eq!(
        (first.state, first.failure.clone()),
        (ProviderSubscriptionState::Started, None)
    );
    for repeated in [paid("sub_1", "in_1"), failed("late")] {
        assert_eq!(store.change(id, repeated, at(4)).await.unwrap(), first);
    }
    for other in [
        paid("sub_2", "in_9"),
        refused("sub_2"),
        refused("sub_1"),
        opened("cs_9"),
    ] {
        let changed = store.change(id, other.clone(), at(4)).await;
        assert_eq!(kind(changed), StorageErrorKind::Conflict, "{other:?}");
    }
    let next = store.change(id, paid("sub_1", "in_2"), at(5)).await.unwrap();
    assert_eq!((next.invoice.as_deref(), next.updated_at), (Some("in_2"), at(5)));
    let unknown = store
        .change(SubscriptionId::from_u128(9), failed("x"), at(5))
        .await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
}

/// Checks that a refused subscription stays at the provider until the provider has ended it, and
/// never starts.
pub async fn refused_subscriptions_have_to_end(factory: Factory) {
    let storage = factory.open().await;
    let owner = funded(&storage, 1, 1).await;
    let store = &storage.provider_subscriptions;
    store.create(new(1, owner)).await.unwrap();
    let id = SubscriptionId::from_u128(1);
    let first = store.change(id, refused("sub_1"), at(2)).await.unwrap();
    assert_eq!(store.change(id, refused("sub_1"), at(3)).await.unwrap(), first);
    assert_eq!(store.out_of_sync(9).await.unwrap(), [first]);
    let late = store.change(id, paid("sub_1", "in_1"), at(3)).await;
    assert_eq!(kind(late), StorageErrorKind::Conflict);
    let ended = ProviderSubscriptionChange::RenewalState(RenewalState::Ended);
    let ended = store.change(id, ended, at(4)).await.unwrap();
    assert_eq!(ended.failure.as_deref(), Some("another_plan"));
    assert!(store.out_of_sync(9).await.unwrap().is_empty());
}

/// Checks that overdue subscriptions are due, and those with another renewal state at the provider
/// are out of sync.
pub async fn due_and_out_of_sync_are_listed(factory: Factory) {
    let storage = factory.open().await;
    let store = &storage.provider_subscriptions;
    let mut ids = Vec::new();
    for number in 1..=3 {
        let owner = funded(&storage, number, 1).await;
        ids.push(started(&storage, number, owner).await);
    }
    let by_hand = funded(&storage, 4, 100).await;
    subscribe(&storage, plan(4, by_hand, 100)).await;
    let due = async |now, limit| -> Vec<SubscriptionId> {
        let due = store.due(now, limit).await.unwrap();
        due.into_iter().map(|found| found.id).collect()
    };
    let out_of_sync = async |limit| -> Vec<(SubscriptionId, RenewalState)> {
        let mut desired_renewal = Vec::new();
        for found in store.out_of_sync(limit).await.unwrap() {
            let subscription = storage.subscriptions.get(found.id).await.unwrap();
            desired_renewal.push((found.id, found.desired_renewal(subscription.as_ref())));
        }
        desired_renewal
    };
    let change = async |id, changes: &[Change]| {
        for change in changes {
            let changed = storage.subscriptions.change(id, change.clone(), at(3));
            changed.await.unwrap();
        }
    };
    assert!(due(at(3), 9).await.is_empty());
    assert_eq!(due(week(4), 9).await, ids);
    assert_eq!(due(week(4), 2).await, ids[..2]);
    assert!(out_of_sync(9).await.is_empty());
    change(ids[0], &[Change::CancelAtPeriodEnd]).await;
    change(ids[1], &[Change::PastDue, Change::Expire]).await;
    assert_eq!(due(week(4), 9).await, [ids[0], ids[2]]);
    assert_eq!(
        out_of_sync(9).await,
        [(ids[0], RenewalState::Ends), (ids[1], RenewalState::Ended)]
    );
    assert_eq!(out_of_sync(1).await, [(ids[0], RenewalState::Ends)]);
    for (id, course) in [(ids[0], RenewalState::Ends), (ids[1], RenewalState::Ended)] {
        let renewal_change = ProviderSubscriptionChange::RenewalState(course);
        store.change(id, renewal_change, at(4)).await.unwrap();
    }
    assert!(out_of_sync(9).await.is_empty());
    change(ids[0], &[Change::Resume]).await;
    assert_eq!(out_of_sync(9).await, [(ids[0], RenewalState::Renews)]);
}

/// Checks that an id is used once, and the account must exist.
pub async fn used_id_and_unknown_account(factory: Factory) {
    let storage = factory.open().await;
    let owner = funded(&storage, 1, 1).await;
    let store = &storage.provider_subscriptions;
    store.create(new(1, owner)).await.unwrap();
    let again = store.create(new(1, owner)).await;
    assert_eq!(kind(again), StorageErrorKind::Conflict);
    let unknown = store.create(new(2, account(99).id)).await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
}
