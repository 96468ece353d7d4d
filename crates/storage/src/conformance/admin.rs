//! Cases for [`crate::AdminStore`].

use tollgate_types::AdminId;

use super::Factory;
use super::samples::{START, at, kind};
use crate::{Admin, Role, StorageErrorKind};

pub(super) fn admin(number: u128, name: &str) -> Admin {
    let mut digest = [7; 32];
    digest[..16].copy_from_slice(&number.to_be_bytes());
    Admin {
        id: AdminId::from_u128(number),
        name: name.to_owned(),
        role: Role::Support,
        digest,
        last4: "1234".to_owned(),
        created_at: START,
        revoked_at: None,
    }
}

/// Checks that a created administrator is found by the first half of its digest and listed, with
/// every field.
pub async fn create_then_find(factory: Factory) {
    let storage = factory.open().await;
    let roles = [Role::Viewer, Role::Support, Role::Billing, Role::Owner];
    let mut expected = Vec::new();
    for (number, role) in (1_u128..).zip(roles) {
        let role = Admin {
            role,
            ..admin(number << 120, &format!("jo-{number}"))
        };
        storage.admins.create(role.clone()).await.unwrap();
        expected.push(role);
    }
    assert_eq!(storage.admins.list().await.unwrap(), expected);
    for admin in expected {
        let prefix = admin.id.as_u128().to_be_bytes();
        assert_eq!(storage.admins.find(prefix).await.unwrap(), Some(admin));
    }
    assert_eq!(storage.admins.find([0; 16]).await.unwrap(), None);
}

/// Checks that a name is used by one administrator at a time; ids and digests are used once.
pub async fn names_ids_and_digests_are_used_once(factory: Factory) {
    let storage = factory.open().await;
    storage.admins.create(admin(1, "jo")).await.unwrap();
    let same_digest = Admin {
        digest: admin(1, "").digest,
        ..admin(2, "al")
    };
    for refused in [admin(2, "jo"), admin(1, "al"), same_digest] {
        assert_eq!(
            kind(storage.admins.create(refused).await),
            StorageErrorKind::Conflict
        );
    }
    storage.admins.revoke(AdminId::from_u128(1), at(1)).await.unwrap();
    storage.admins.create(admin(2, "jo")).await.unwrap();
    assert_eq!(storage.admins.list().await.unwrap().len(), 2);
}

/// Checks that a second revocation changes nothing; an unknown administrator cannot be revoked.
pub async fn first_revocation_stays(factory: Factory) {
    let storage = factory.open().await;
    storage.admins.create(admin(1, "jo")).await.unwrap();
    storage.admins.create(admin(2, "al")).await.unwrap();
    let revoked = Admin {
        revoked_at: Some(at(10)),
        ..admin(1, "jo")
    };
    for seconds in [10, 5, 20] {
        let answer = storage.admins.revoke(revoked.id, at(seconds)).await.unwrap();
        assert_eq!(answer, revoked);
    }
    let found = storage.admins.find(1_u128.to_be_bytes()).await.unwrap();
    assert_eq!(found, Some(revoked.clone()));
    assert_eq!(storage.admins.list().await.unwrap(), [revoked, admin(2, "al")]);
    let missing = storage.admins.revoke(AdminId::from_u128(3), at(1)).await;
    assert_eq!(kind(missing), StorageErrorKind::NotFound);
}
