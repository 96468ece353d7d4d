//! Cases for [`crate::MemberStore`].

use tollgate_types::{AccountId, MemberId, PersonId};

use super::Factory;
use super::person::new_person;
use super::samples::{START, account, concurrently, kind, warm_up};
use crate::{Member, MemberRole, StorageErrorKind};

pub(super) fn member(number: u128, owner: u128, role: MemberRole) -> Member {
    Member {
        id: MemberId::from_u128(number),
        account: AccountId::from_u128(owner),
        person: None,
        email: format!("person-{number}@example.com"),
        role,
        created_at: START,
    }
}

/// Checks that members belong to one account; an address is unique within its account.
pub async fn added_then_listed(factory: Factory) {
    let storage = factory.open().await;
    for number in [1, 2] {
        storage.accounts.create(account(number)).await.unwrap();
    }
    let roles = [
        MemberRole::Viewer,
        MemberRole::Billing,
        MemberRole::Member,
        MemberRole::Admin,
        MemberRole::Owner,
    ];
    let mut expected = Vec::new();
    for (number, role) in (1_u128..).zip(roles) {
        let new = member(number << 120, 1, role);
        storage.members.add(new.clone()).await.unwrap();
        expected.push(new);
    }
    assert_eq!(storage.members.list(account(1).id).await.unwrap(), expected);
    assert_eq!(storage.members.list(account(2).id).await.unwrap(), []);
    let same_address = Member {
        email: expected[0].email.clone(),
        ..member(9, 1, MemberRole::Member)
    };
    assert_eq!(
        kind(storage.members.add(same_address.clone()).await),
        StorageErrorKind::Conflict
    );
    let elsewhere = Member {
        account: account(2).id,
        ..same_address
    };
    storage.members.add(elsewhere.clone()).await.unwrap();
    assert_eq!(storage.members.list(account(2).id).await.unwrap(), [elsewhere]);
    let nowhere = storage.members.add(member(10, 3, MemberRole::Owner)).await;
    assert_eq!(kind(nowhere), StorageErrorKind::NotFound);
}

/// Checks that a person is found as a member of one account, and is a member of an account once.
pub async fn found_by_person(factory: Factory) {
    let storage = factory.open().await;
    for number in [1, 2, 3] {
        storage.accounts.create(account(number)).await.unwrap();
    }
    let person = new_person(&storage, 1, account(1).id).await.id;
    let new = Member {
        person: Some(person),
        ..member(2, 2, MemberRole::Viewer)
    };
    storage.members.add(new.clone()).await.unwrap();
    storage
        .members
        .add(member(3, 3, MemberRole::Owner))
        .await
        .unwrap();
    let accepted = Member {
        person: Some(person),
        ..member(1, 1, MemberRole::Member)
    };
    for (number, person, expected) in [
        (1, person, Some(accepted)),
        (2, person, Some(new)),
        (3, person, None),
        (1, PersonId::from_u128(9), None),
    ] {
        let found = storage.members.of_person(account(number).id, person).await;
        assert_eq!(found.unwrap(), expected, "{number} {person}");
    }
    let again = Member {
        person: Some(person),
        ..member(4, 1, MemberRole::Viewer)
    };
    assert_eq!(kind(storage.members.add(again).await), StorageErrorKind::Conflict);
}

/// Checks that a change or removal affects only members of the named account.
pub async fn changed_and_removed(factory: Factory) {
    let storage = factory.open().await;
    for number in [1, 2] {
        storage.accounts.create(account(number)).await.unwrap();
    }
    let (one, two) = (account(1).id, account(2).id);
    let person = member(1, 1, MemberRole::Viewer);
    storage.members.add(person.clone()).await.unwrap();
    for wrong in [(two, person.id), (one, MemberId::from_u128(2))] {
        let changed = storage
            .members
            .set_role(wrong.0, wrong.1, MemberRole::Owner)
            .await;
        assert_eq!(kind(changed), StorageErrorKind::NotFound);
        let removed = storage.members.remove(wrong.0, wrong.1).await;
        assert_eq!(kind(removed), StorageErrorKind::NotFound);
    }
    let before = storage.members.set_role(one, person.id, MemberRole::Admin).await;
    assert_eq!(before.unwrap(), person);
    let changed = Member {
        role: MemberRole::Admin,
        ..person.clone()
    };
    assert_eq!(
        storage.members.list(one).await.unwrap(),
        std::slice::from_ref(&changed)
    );
    assert_eq!(storage.members.remove(one, person.id).await.unwrap(), changed);
    assert_eq!(storage.members.list(one).await.unwrap(), []);
}

/// Checks that the last owner can be neither removed nor demoted; the second to last can.
pub async fn an_owner_remains(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let id = account(1).id;
    let people = [
        member(1, 1, MemberRole::Owner),
        member(2, 1, MemberRole::Owner),
        member(3, 1, MemberRole::Admin),
    ];
    for person in &people {
        storage.members.add(person.clone()).await.unwrap();
    }
    let members = &storage.members;
    members
        .set_role(id, people[0].id, MemberRole::Member)
        .await
        .unwrap();
    let refused = members.set_role(id, people[1].id, MemberRole::Admin).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    let refused = members.remove(id, people[1].id).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    members
        .set_role(id, people[1].id, MemberRole::Owner)
        .await
        .unwrap();
    members
        .set_role(id, people[2].id, MemberRole::Owner)
        .await
        .unwrap();
    members.remove(id, people[1].id).await.unwrap();
    let left = members.list(id).await.unwrap();
    assert_eq!(MemberRole::last_owner(&left), Some(people[2].id));
}

/// Checks that, of owners who are removed concurrently, one remains.
pub async fn owners_removed_at_once_leave_one(factory: Factory) {
    let storage = factory.open().await;
    storage.accounts.create(account(1)).await.unwrap();
    let id = account(1).id;
    for number in 0..8 {
        let owner = member(number, 1, MemberRole::Owner);
        storage.members.add(owner).await.unwrap();
    }
    warm_up(&storage, id).await;
    let removed = concurrently(8, |number| {
        let members = storage.members.clone();
        Box::pin(async move { members.remove(id, MemberId::from_u128(number as u128)).await })
    })
    .await;
    assert_eq!(removed.iter().filter(|removed| removed.is_ok()).count(), 7);
    assert_eq!(storage.members.list(id).await.unwrap().len(), 1);
}
