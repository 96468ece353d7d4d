//! Cases for [`crate::SessionStore`].

use tollgate_types::{AdminId, PersonId, SessionId, Timestamp};

use super::Factory;
use super::admin::admin;
use super::person::new_person;
use super::samples::{START, account, at, digest, kind};
use crate::{Session, SessionOwner, Storage, StorageErrorKind};

/// Makes a session whose digest begins with its number, created at [`START`], that expires an hour
/// later.
pub(super) fn session(number: u128, owner: SessionOwner) -> Session {
    Session {
        id: SessionId::from_u128(number),
        digest: digest(number),
        owner,
        created_at: START,
        last_seen_at: at(1),
        expires_at: at(3600),
        proved_at: at(2),
        client: format!("Firefox on Linux {number}"),
        address: "2001:db8::1".to_owned(),
    }
}

/// Creates two people and an administrator. The ids of one person and the administrator are the
/// same number.
async fn owners(storage: &Storage) -> [SessionOwner; 3] {
    storage.accounts.create(account(1)).await.unwrap();
    let mut people = Vec::new();
    for number in [1001, 1002] {
        let person = new_person(storage, number, account(1).id).await.id;
        let owner = SessionOwner::Person(person);
        storage.sessions.delete_others(owner, None).await.unwrap();
        people.push(owner);
    }
    storage.admins.create(admin(1001, "jo")).await.unwrap();
    [
        people[0],
        people[1],
        SessionOwner::Admin(AdminId::from_u128(1001)),
    ]
}

async fn create(storage: &Storage, session: Session) -> Session {
    storage.sessions.create(session.clone(), None).await.unwrap();
    session
}

async fn ids(storage: &Storage, owner: SessionOwner) -> Vec<u128> {
    let listed = storage.sessions.list(owner).await.unwrap();
    listed.iter().map(|session| session.id.as_u128()).collect()
}

/// Checks that a session is found by the first half of its digest and listed for its owner, with
/// every field, expired or not.
pub async fn created_then_found(factory: Factory) {
    let storage = factory.open().await;
    let [one, two, admin] = owners(&storage).await;
    let mut expected = Vec::new();
    for (number, owner) in [(1 << 120, one), (2, one), (3, admin)] {
        expected.push(create(&storage, session(number, owner)).await);
    }
    let expired = Session {
        expires_at: Timestamp::from_micros(0),
        client: String::new(),
        address: String::new(),
        ..session(4, admin)
    };
    expected.push(create(&storage, expired).await);
    for session in &expected {
        let prefix = session.id.as_u128().to_be_bytes();
        assert_eq!(
            storage.sessions.find(prefix).await.unwrap().as_ref(),
            Some(session)
        );
    }
    assert_eq!(storage.sessions.find([0; 16]).await.unwrap(), None);
    assert_eq!(
        storage.sessions.list(one).await.unwrap(),
        [expected[1].clone(), expected[0].clone()]
    );
    assert_eq!(storage.sessions.list(two).await.unwrap(), []);
    assert_eq!(storage.sessions.list(admin).await.unwrap(), expected[2..]);
}

/// Checks that a session replaces another in one step: if it cannot be stored, the other remains.
pub async fn replaced_in_one_step(factory: Factory) {
    let storage = factory.open().await;
    let [one, two, _] = owners(&storage).await;
    let sessions = &storage.sessions;
    let replaced = SessionId::from_u128(1);
    create(&storage, session(1, one)).await;
    create(&storage, session(2, two)).await;
    let same_digest = Session {
        digest: digest(2),
        ..session(3, one)
    };
    let same_id = Session {
        digest: digest(3),
        ..session(2, one)
    };
    let strangers = [
        SessionOwner::Person(PersonId::from_u128(9)),
        SessionOwner::Admin(AdminId::from_u128(9)),
    ];
    for (new, expected) in [
        (same_digest, StorageErrorKind::Conflict),
        (same_id, StorageErrorKind::Conflict),
        (session(3, strangers[0]), StorageErrorKind::NotFound),
        (session(3, strangers[1]), StorageErrorKind::NotFound),
    ] {
        let refused = sessions.create(new, Some(replaced)).await;
        assert_eq!(kind(refused), expected);
        assert_eq!(ids(&storage, one).await, [1]);
    }
    sessions.create(session(3, one), Some(replaced)).await.unwrap();
    assert_eq!(ids(&storage, one).await, [3]);
    sessions.create(session(4, one), Some(replaced)).await.unwrap();
    assert_eq!(ids(&storage, one).await, [3, 4]);
    assert_eq!(ids(&storage, two).await, [2]);
}

/// Checks that the time of the last use never goes back, and that an unknown session is ignored.
pub async fn last_use_goes_forward(factory: Factory) {
    let storage = factory.open().await;
    let [one, ..] = owners(&storage).await;
    let created = create(&storage, session(1, one)).await;
    create(&storage, session(2, one)).await;
    storage
        .sessions
        .touch(SessionId::from_u128(3), at(9))
        .await
        .unwrap();
    for (seconds, expected) in [(0, 1), (1, 1), (60, 60), (59, 60), (120, 120)] {
        storage.sessions.touch(created.id, at(seconds)).await.unwrap();
        let touched = Session {
            last_seen_at: at(expected),
            ..created.clone()
        };
        assert_eq!(
            storage.sessions.list(one).await.unwrap(),
            [touched, session(2, one)]
        );
    }
}

/// Checks that a session is deleted once, and only for its owner.
pub async fn deleted_by_their_owner(factory: Factory) {
    let storage = factory.open().await;
    let [one, two, admin] = owners(&storage).await;
    for (number, owner) in [(1, one), (2, one), (3, admin)] {
        create(&storage, session(number, owner)).await;
    }
    for (owner, number, expected) in [
        (two, 1, false),
        (admin, 1, false),
        (one, 3, false),
        (one, 9, false),
        (one, 1, true),
        (one, 1, false),
        (admin, 3, true),
    ] {
        let deleted = storage.sessions.delete(owner, SessionId::from_u128(number)).await;
        assert_eq!(deleted.unwrap(), expected, "{owner:?} {number}");
    }
    assert_eq!(ids(&storage, one).await, [2]);
    assert_eq!(ids(&storage, admin).await, [0_u128; 0]);
}

/// Checks that all sessions of an owner are deleted except the named one; those of others remain.
pub async fn others_are_deleted(factory: Factory) {
    let storage = factory.open().await;
    let [one, two, admin] = owners(&storage).await;
    for (number, owner) in [(1, one), (2, one), (3, one), (4, two), (5, admin)] {
        create(&storage, session(number, owner)).await;
    }
    let keep = |number| Some(SessionId::from_u128(number));
    for (owner, keep, deleted, left) in [
        (one, keep(2), 2, vec![2]),
        (one, keep(2), 0, vec![2]),
        // The session of another owner keeps none of this owner.
        (one, keep(4), 1, vec![]),
        (admin, None, 1, vec![]),
        (admin, None, 0, vec![]),
    ] {
        let count = storage.sessions.delete_others(owner, keep).await;
        assert_eq!(count.unwrap(), deleted, "{owner:?} {keep:?}");
        assert_eq!(ids(&storage, owner).await, left);
    }
    assert_eq!(ids(&storage, two).await, [4]);
}

/// Checks that a sweep deletes at most `limit` sessions that expired or were last used before the
/// given times.
pub async fn sweep_deletes_expired_and_idle(factory: Factory) {
    let storage = factory.open().await;
    let [one, _, admin] = owners(&storage).await;
    let (expired, idle) = (at(1000), at(500));
    let micro = std::time::Duration::from_micros(1);
    for (number, owner, expires_at, last_seen_at) in [
        (1, one, expired, idle),
        (2, one, expired.minus(micro), idle),
        (3, admin, expired, idle.minus(micro)),
        (4, admin, at(1), at(1)),
    ] {
        let new = Session {
            expires_at,
            last_seen_at,
            ..session(number, owner)
        };
        create(&storage, new).await;
    }
    let sweep = async |limit| storage.sessions.sweep(expired, idle, limit).await.unwrap();
    assert_eq!(sweep(0).await, 0);
    assert_eq!(sweep(2).await, 2);
    assert_eq!(sweep(2).await, 1);
    assert_eq!(sweep(2).await, 0);
    assert_eq!(ids(&storage, one).await, [1]);
    assert_eq!(ids(&storage, admin).await, [0_u128; 0]);
}
