//! Cases for [`crate::MediaStore`].

use std::time::Duration;

use tollgate_types::{AccountId, MediaId};

use super::Factory;
use super::samples::{START, at, funded, kind};
use crate::media::MAX_RETENTION;
use crate::{Media, StorageErrorKind};

/// Makes an image that expires an hour after [`START`].
pub(super) fn media(number: u128, account: AccountId) -> Media {
    Media {
        id: MediaId::from_u128(number),
        account,
        object: number ^ 100,
        sha256: [7; 32],
        bytes: 5,
        mime_type: "image/png".to_owned(),
        width: Some(640),
        height: Some(480),
        duration: None,
        created_at: START,
        expires_at: at(3600),
        source: None,
        deleted_at: None,
    }
}

/// Checks that an object is read back verbatim, by its id and by its account.
pub async fn inserted_then_read(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let whole = Media {
        object: u128::MAX,
        sha256: [255; 32],
        bytes: 5 << 40,
        mime_type: "video/mp4".to_owned(),
        width: Some(u32::MAX),
        height: None,
        duration: Some(Duration::from_micros(11_900_001)),
        source: Some(1 << 127),
        ..media(u128::MAX, account)
    };
    for written in [whole, media(2, account)] {
        storage.media.insert(written.clone()).await.unwrap();
        let read = storage.media.get(written.id).await.unwrap();
        assert_eq!(read.as_ref(), Some(&written));
        let read = storage.media.of_account(account, written.id).await.unwrap();
        assert_eq!(read, Some(written));
    }
    assert_eq!(storage.media.get(MediaId::from_u128(3)).await.unwrap(), None);
}

/// Checks that an id is used once across accounts, by an existing account.
pub async fn inserted_once(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    storage.media.insert(media(5, account)).await.unwrap();
    for again in [media(5, account), media(5, other)] {
        assert_eq!(
            kind(storage.media.insert(again).await),
            StorageErrorKind::Conflict
        );
    }
    let unknown_account = media(6, AccountId::from_u128(99));
    assert_eq!(
        kind(storage.media.insert(unknown_account).await),
        StorageErrorKind::NotFound
    );
}

/// Checks that objects of other accounts cannot be read, extended or forgotten.
pub async fn media_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let mine = media(5, account);
    storage.media.insert(mine.clone()).await.unwrap();
    assert_eq!(storage.media.of_account(other, mine.id).await.unwrap(), None);
    let extended = storage.media.extend(other, mine.id, START, at(7200)).await;
    assert_eq!(extended.unwrap(), None);
    assert!(!storage.media.forget(other, mine.id, START).await.unwrap());
    assert_eq!(storage.media.get(mine.id).await.unwrap(), Some(mine));
}

/// Checks that retention can be extended up to its maximum, never shortened, and not after the
/// expiry.
pub async fn retention_is_extended_within_bounds(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let id = media(5, account).id;
    storage.media.insert(media(5, account)).await.unwrap();
    let last = START.plus(MAX_RETENTION);
    for (now, until, expected_until) in [
        (START, at(3600), Some(at(3600))),
        (START, at(1800), Some(at(3600))),
        (at(3599), at(7200), Some(at(7200))),
        (at(7200), at(9000), None),
        (at(7199), last.plus(Duration::from_secs(1)), Some(last)),
        (last, last, None),
    ] {
        let extended = storage.media.extend(account, id, now, until).await.unwrap();
        assert_eq!(extended, expected_until, "{now:?} {until:?}");
    }
    let read = storage.media.get(id).await.unwrap().unwrap();
    assert_eq!(read.expires_at, last);
    let unknown = MediaId::from_u128(6);
    let extended = storage.media.extend(account, unknown, START, at(1)).await;
    assert_eq!(extended.unwrap(), None);
}

/// Checks that expired objects are listed, oldest first, until their bytes are deleted, and that
/// their rows remain afterwards.
pub async fn forgotten_leaves_a_tombstone(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    for (number, seconds) in [(1, 30), (2, 10), (3, 20), (4, 40)] {
        let expires_at = at(seconds);
        let row = Media {
            expires_at,
            ..media(number, account)
        };
        storage.media.insert(row).await.unwrap();
    }
    let expired = async |now, limit| -> Vec<u128> {
        let found = storage.media.expired(now, limit).await.unwrap();
        found.iter().map(|media| media.id.as_u128()).collect()
    };
    assert_eq!(expired(at(9), 9).await, [0; 0]);
    assert_eq!(expired(at(30), 2).await, [2, 3]);
    assert_eq!(expired(at(30), 9).await, [2, 3, 1]);
    let id = MediaId::from_u128(3);
    assert!(storage.media.forget(account, id, at(31)).await.unwrap());
    assert!(!storage.media.forget(account, id, at(32)).await.unwrap());
    assert_eq!(expired(at(30), 9).await, [2, 1]);
    let left = storage.media.get(id).await.unwrap().unwrap();
    assert_eq!(left.deleted_at, Some(at(31)));
    assert!(!left.is_available(START));
    let extended = storage.media.extend(account, id, START, at(100)).await;
    assert_eq!(extended.unwrap(), None);
    assert!(storage.media.insert(media(3, account)).await.is_err());
    assert!(
        !storage
            .media
            .forget(account, MediaId::from_u128(9), at(31))
            .await
            .unwrap()
    );
}
