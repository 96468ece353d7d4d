//! Cases for [`crate::FileStore`].

use tollgate_types::{AccountId, FileId};

use super::Factory;
use super::samples::{START, at, concurrently, funded, kind};
use crate::{FileFilter, FilePurpose, FileRecord, FileUse, StorageErrorKind};

/// Quota above the use of these files.
pub(super) const QUOTA: FileUse = FileUse {
    files: 100,
    bytes: 1 << 50,
};

/// Makes a file of ten bytes that does not expire.
pub(super) fn file(number: u128, account: AccountId) -> FileRecord {
    FileRecord {
        id: FileId::from_u128(number),
        account,
        object: number ^ 100,
        sha256: [7; 32],
        bytes: 10,
        filename: "a.pdf".to_owned(),
        media_type: "application/pdf".to_owned(),
        purpose: FilePurpose::UserData,
        lines: None,
        created_at: START,
        expires_at: None,
    }
}

/// Checks that a file is read back verbatim.
pub async fn inserted_then_read(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let whole = FileRecord {
        object: u128::MAX,
        sha256: [255; 32],
        bytes: 1 << 40,
        filename: "fü\"r.jsonl".to_owned(),
        purpose: FilePurpose::Batch,
        lines: Some(50_000),
        expires_at: Some(at(3600)),
        ..file(u128::MAX, account)
    };
    for written in [whole, file(2, account)] {
        assert!(storage.files.insert(written.clone(), QUOTA).await.unwrap());
        let read = storage.files.get(account, written.id, START).await.unwrap();
        assert_eq!(read, Some(written));
    }
    for purpose in FilePurpose::ALL {
        assert_eq!(FilePurpose::parse(purpose.as_str()), Some(purpose));
    }
    let unknown = storage.files.get(account, FileId::from_u128(3), START).await;
    assert_eq!(unknown.unwrap(), None);
}

/// Checks that an id is used once, by an existing account.
pub async fn ids_are_used_once(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    assert!(storage.files.insert(file(5, account), QUOTA).await.unwrap());
    let again = storage.files.insert(file(5, account), QUOTA).await;
    assert_eq!(kind(again), StorageErrorKind::Conflict);
    let unknown_account = file(6, AccountId::from_u128(99));
    let inserted = storage.files.insert(unknown_account, QUOTA).await;
    assert_eq!(kind(inserted), StorageErrorKind::NotFound);
}

/// Checks that files of other accounts cannot be read, listed or deleted.
pub async fn files_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let mine = file(5, account);
    storage.files.insert(mine.clone(), QUOTA).await.unwrap();
    assert_eq!(storage.files.get(other, mine.id, START).await.unwrap(), None);
    let listed = storage.files.list(other, FileFilter::default(), START, 10).await;
    assert_eq!(listed.unwrap(), []);
    assert!(!storage.files.delete(other, mine.id, START).await.unwrap());
    assert!(!storage.files.forget(other, mine.id, START).await.unwrap());
    assert_eq!(
        storage.files.used(other, START).await.unwrap(),
        FileUse::default()
    );
    assert_eq!(
        storage.files.get(account, mine.id, START).await.unwrap(),
        Some(mine)
    );
}

/// Checks that lists are in either order, of one purpose or of all, and continue after a file that
/// may have been deleted.
pub async fn listed_in_pages(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    for number in [1, 2, 4, 5] {
        let purpose = match number {
            2 | 5 => FilePurpose::Batch,
            _ => FilePurpose::Vision,
        };
        let file = FileRecord {
            purpose,
            ..file(number, account)
        };
        storage.files.insert(file, QUOTA).await.unwrap();
    }
    for (purpose, after, is_ascending, limit, expected) in [
        (None, None, false, 10, &[5, 4, 2, 1][..]),
        (None, None, true, 3, &[1, 2, 4]),
        (None, Some(4), false, 10, &[2, 1]),
        (None, Some(3), true, 1, &[4]),
        (None, Some(1), false, 10, &[]),
        (Some(FilePurpose::Batch), None, false, 10, &[5, 2]),
        (Some(FilePurpose::Batch), Some(2), true, 10, &[5]),
        (Some(FilePurpose::Evals), None, true, 10, &[]),
    ] {
        let filter = FileFilter {
            purpose,
            after: after.map(FileId::from_u128),
            is_ascending,
        };
        let listed = storage.files.list(account, filter, START, limit).await.unwrap();
        let ids: Vec<_> = listed.iter().map(|file| file.id.as_u128()).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
}

/// Checks that an account cannot exceed its quota of files or bytes; a rejected file stores
/// nothing. Deleted and expired files free their space immediately.
pub async fn quota_is_enforced(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let max = FileUse { files: 2, bytes: 25 };
    let insert = async |number, bytes, expires_at, created_at| {
        let file = FileRecord {
            bytes,
            expires_at,
            created_at,
            ..file(number, account)
        };
        storage.files.insert(file, max).await.unwrap()
    };
    assert!(!insert(1, 26, None, START).await);
    assert!(insert(1, 15, None, START).await);
    assert!(!insert(2, 11, None, START).await);
    assert!(insert(2, 10, Some(at(60)), START).await);
    assert!(!insert(3, 0, None, START).await, "the third");
    let used = storage.files.used(account, at(59)).await.unwrap();
    assert_eq!(used, FileUse { files: 2, bytes: 25 });
    assert!(!insert(3, 1, None, at(59)).await);
    assert!(insert(3, 10, None, at(60)).await, "the second's time is over");
    assert!(
        storage
            .files
            .delete(account, FileId::from_u128(1), at(60))
            .await
            .unwrap()
    );
    assert!(insert(4, 15, None, at(60)).await);
    let used = storage.files.used(account, at(60)).await.unwrap();
    assert_eq!(used, FileUse { files: 2, bytes: 25 });
}

/// Checks that, of concurrent inserts, only one uses the rest of the quota.
pub async fn concurrent_inserts_respect_the_quota(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let max = FileUse { files: 1, bytes: 100 };
    let inserted = concurrently(8, |number| {
        let storage = storage.clone();
        Box::pin(async move {
            let file = file(number as u128 + 1, account);
            storage.files.insert(file, max).await.unwrap()
        })
    })
    .await;
    assert_eq!(inserted.into_iter().filter(|inserted| *inserted).count(), 1);
}

/// Checks that deleted and expired files are invisible, and leftover until they are forgotten;
/// visible files are never forgotten.
pub async fn deleted_files_are_hidden_then_forgotten(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    for (number, expires_at) in [(1, None), (2, Some(at(60))), (3, None)] {
        let file = FileRecord {
            expires_at,
            ..file(number, account)
        };
        storage.files.insert(file, QUOTA).await.unwrap();
    }
    let id = FileId::from_u128;
    let leftover = async |now, limit| -> Vec<u128> {
        let found = storage.files.leftover(now, limit).await.unwrap();
        let mut found: Vec<_> = found.iter().map(|(id, _)| id.as_u128()).collect();
        found.sort_unstable();
        found
    };
    assert_eq!(leftover(at(59), 9).await, [0; 0]);
    assert!(!storage.files.forget(account, id(1), at(59)).await.unwrap());
    assert!(storage.files.delete(account, id(1), at(10)).await.unwrap());
    assert!(!storage.files.delete(account, id(1), at(11)).await.unwrap());
    assert_eq!(storage.files.get(account, id(1), at(11)).await.unwrap(), None);
    assert!(storage.files.get(account, id(2), at(59)).await.unwrap().is_some());
    assert_eq!(storage.files.get(account, id(2), at(60)).await.unwrap(), None);
    assert!(
        !storage.files.delete(account, id(2), at(60)).await.unwrap(),
        "it is over"
    );
    assert_eq!(leftover(at(60), 9).await, [1, 2]);
    assert_eq!(leftover(at(60), 1).await.len(), 1);
    let listed = storage
        .files
        .list(account, FileFilter::default(), at(60), 9)
        .await
        .unwrap();
    assert_eq!(listed.len(), 1);
    assert!(storage.files.forget(account, id(1), at(60)).await.unwrap());
    assert!(!storage.files.forget(account, id(1), at(60)).await.unwrap());
    assert!(storage.files.forget(account, id(2), at(60)).await.unwrap());
    assert_eq!(leftover(at(99), 9).await, [0; 0]);
    assert!(storage.files.get(account, id(3), at(99)).await.unwrap().is_some());
}

/// Checks that an upload is invisible. It ends by the insert of its file, or becomes leftover: when
/// it is abandoned, or when its time is over.
pub async fn uploads_are_inserted_or_left_over(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let id = FileId::from_u128;
    let begin = async |number| {
        let blob = file(number, account).blob();
        storage.files.begin(blob, id(number), START, at(60)).await
    };
    for number in 1..=3 {
        begin(number).await.unwrap();
        assert_eq!(storage.files.get(account, id(number), START).await.unwrap(), None);
        assert!(!storage.files.delete(account, id(number), START).await.unwrap());
    }
    assert_eq!(kind(begin(1).await), StorageErrorKind::Conflict);
    let unknown_account = file(9, AccountId::from_u128(99)).blob();
    let started = storage.files.begin(unknown_account, id(9), START, at(60)).await;
    assert_eq!(kind(started), StorageErrorKind::NotFound);
    assert_eq!(
        storage.files.used(account, START).await.unwrap(),
        FileUse::default()
    );

    let elsewhere = FileRecord {
        object: 77,
        ..file(1, account)
    };
    let inserted = storage.files.insert(elsewhere, QUOTA).await;
    assert_eq!(kind(inserted), StorageErrorKind::Conflict);
    assert!(storage.files.insert(file(1, account), QUOTA).await.unwrap());
    assert_eq!(
        storage.files.get(account, id(1), START).await.unwrap(),
        Some(file(1, account))
    );
    assert!(
        !storage.files.abandon_upload(account, id(1), at(1)).await.unwrap(),
        "it is kept"
    );

    let leftover = async |now| -> Vec<u128> {
        let found = storage.files.leftover(now, 9).await.unwrap();
        found.iter().map(|(_, blob)| blob.object).collect()
    };
    assert!(storage.files.abandon_upload(account, id(2), at(1)).await.unwrap());
    assert_eq!(leftover(at(1)).await, [file(2, account).object]);
    assert!(storage.files.forget(account, id(2), at(1)).await.unwrap());
    assert_eq!(leftover(at(60)).await, [file(3, account).object]);
    let late = FileRecord {
        created_at: at(60),
        ..file(3, account)
    };
    let inserted = storage.files.insert(late, QUOTA).await;
    assert_eq!(
        kind(inserted),
        StorageErrorKind::Conflict,
        "its bytes may be on their way out"
    );
}
