//! Cases for [`crate::ChatStore`].

use tollgate_types::{AccountId, ChatId, MemberId, RequestId};

use super::Factory;
use super::samples::{START, at, concurrently, funded, kind, warm_up};
use crate::{
    AccountChange, AccountState, Chat, ChatSave, ChatSaveOutcome, ChatTurn, Storage, StorageErrorKind,
};

/// Cap above the number of chats in these cases.
const CAP: u32 = 50;

/// Makes the first save of a chat, with one turn.
pub(super) fn save_of(number: u128, account: AccountId) -> ChatSave {
    ChatSave {
        account,
        id: ChatId::from_u128(number),
        created_by: None,
        kind: "chat".to_owned(),
        title: Some(b"title".to_vec()),
        models: vec!["maker/model".to_owned()],
        settings: b"settings".to_vec(),
        base_revision: 0,
        from: 0,
        turns: vec![turn(1)],
        digest: [1; 32],
        cap: CAP,
        max_turns: 500,
        max_bytes: 4 << 20,
        at: START,
    }
}

/// Saves a chat; panics if the save is refused.
pub(super) async fn save(storage: &Storage, save: ChatSave) -> Chat {
    match storage.chats.save(save).await.unwrap() {
        ChatSaveOutcome::Saved(chat) => chat,
        refused => unreachable!("{refused:?}"),
    }
}

/// Makes a turn whose body is this byte and whose size is ten times as large.
fn turn(byte: u8) -> ChatTurn {
    ChatTurn {
        body: vec![byte],
        bytes: u32::from(byte) * 10,
        requests: vec![RequestId::from_u128(u128::from(byte))],
    }
}

/// Makes the save after the one that returned `chat`, with the digest of this byte.
fn next(chat: &Chat, digest: u8, from: u32, turns: &[u8]) -> ChatSave {
    ChatSave {
        title: None,
        base_revision: chat.revision,
        from,
        turns: turns.iter().copied().map(turn).collect(),
        digest: [digest; 32],
        at: at(u64::from(digest)),
        ..save_of(chat.id.as_u128(), chat.account)
    }
}

/// Returns the bodies of a chat's turns; `None` if the chat does not exist.
async fn bodies(storage: &Storage, account: AccountId, number: u128) -> Option<Vec<u8>> {
    let loaded = storage.chats.load(account, ChatId::from_u128(number)).await;
    let (chat, turns) = loaded.unwrap()?;
    assert_eq!(chat.turns as usize, turns.len());
    let bytes: u64 = turns.iter().map(|turn| u64::from(turn.bytes)).sum();
    assert_eq!(chat.bytes, bytes);
    Some(turns.into_iter().flat_map(|turn| turn.body).collect())
}

/// Checks that a chat and its turns are read back verbatim.
pub async fn saved_then_read(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let whole = ChatSave {
        created_by: Some(MemberId::from_u128(u128::MAX)),
        kind: "image \"é\"".to_owned(),
        title: Some(vec![0, 255]),
        models: vec!["maker/größer:7b".to_owned(), "\"".to_owned()],
        settings: Vec::new(),
        turns: vec![
            ChatTurn {
                body: vec![0; 100_000],
                bytes: u32::MAX,
                requests: vec![RequestId::from_u128(u128::MAX), RequestId::from_u128(0)],
            },
            ChatTurn {
                body: Vec::new(),
                bytes: 0,
                requests: Vec::new(),
            },
        ],
        max_bytes: u64::MAX,
        at: at(7),
        ..save_of(u128::MAX, account)
    };
    let empty = ChatSave {
        models: Vec::new(),
        turns: Vec::new(),
        ..save_of(1, account)
    };
    for new in [whole, empty] {
        let saved = save(&storage, new.clone()).await;
        let expected = Chat {
            id: new.id,
            account,
            created_by: new.created_by,
            kind: new.kind,
            title: new.title.unwrap(),
            models: new.models,
            settings: new.settings,
            revision: 1,
            turns: u32::try_from(new.turns.len()).unwrap(),
            bytes: new.turns.iter().map(|turn| u64::from(turn.bytes)).sum(),
            created_at: new.at,
            updated_at: new.at,
        };
        assert_eq!(saved, expected);
        let read = storage.chats.get(account, new.id).await.unwrap();
        assert_eq!(read.as_ref(), Some(&expected));
        let loaded = storage.chats.load(account, new.id).await.unwrap();
        assert_eq!(loaded, Some((expected, new.turns)));
    }
    assert_eq!(storage.chats.count(account).await.unwrap(), 2);
    let unknown = ChatId::from_u128(2);
    assert_eq!(storage.chats.get(account, unknown).await.unwrap(), None);
    assert_eq!(storage.chats.load(account, unknown).await.unwrap(), None);
}

/// Checks that a save replaces the turns from its position on, the models and the settings. Title,
/// kind and creator stay unless the save has a title.
pub async fn turns_are_replaced_from_a_position(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let first = ChatSave {
        created_by: Some(MemberId::from_u128(5)),
        ..save_of(1, account)
    };
    let mut chat = save(&storage, first).await;
    for (digest, from, turns, expected) in [
        (2, 1, &[2, 3][..], &[1, 2, 3][..]),
        (3, 1, &[4], &[1, 4]),
        (4, 2, &[], &[1, 4]),
        (5, 1, &[], &[1]),
        (6, 0, &[6, 7, 8], &[6, 7, 8]),
        (7, 0, &[], &[]),
    ] {
        chat = save(&storage, next(&chat, digest, from, turns)).await;
        assert_eq!(chat.revision, u32::from(digest));
        assert_eq!((chat.created_at, chat.updated_at), (START, at(u64::from(digest))));
        let stored = storage.chats.get(account, chat.id).await.unwrap();
        assert_eq!(stored.as_ref(), Some(&chat));
        assert_eq!(bodies(&storage, account, 1).await.unwrap(), expected);
    }
    let changed = ChatSave {
        created_by: None,
        kind: "other".to_owned(),
        title: Some(b"new".to_vec()),
        models: vec!["a".to_owned(), "b".to_owned()],
        settings: b"changed".to_vec(),
        ..next(&chat, 8, 0, &[9])
    };
    let expected = Chat {
        title: b"new".to_vec(),
        models: changed.models.clone(),
        settings: changed.settings.clone(),
        revision: 8,
        turns: 1,
        bytes: 90,
        updated_at: at(8),
        ..chat
    };
    assert_eq!(expected.created_by, Some(MemberId::from_u128(5)));
    assert_eq!(save(&storage, changed).await, expected);
}

/// Checks that a repeated creation or save returns the stored chat and writes nothing, even if the
/// account is full. A further save ends the repetition.
pub async fn repeated_saves_write_nothing(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let first = save_of(1, account);
    let chat = save(&storage, first.clone()).await;
    let second = next(&chat, 2, 1, &[2]);
    for (repeated, expected) in [(first.clone(), &[1][..]), (second.clone(), &[1, 2])] {
        let saved = save(&storage, repeated.clone()).await;
        let again = ChatSave {
            turns: vec![turn(9)],
            cap: 0,
            at: at(99),
            ..repeated
        };
        assert_eq!(save(&storage, again).await, saved);
        assert_eq!(bodies(&storage, account, 1).await.unwrap(), expected);
    }
    let late = storage.chats.save(first).await.unwrap();
    assert_eq!(late, ChatSaveOutcome::Conflict);
    assert_eq!(storage.chats.count(account).await.unwrap(), 1);
}

/// Checks that a save with another revision conflicts and writes nothing. A chat that was deleted
/// conflicts, too.
pub async fn other_revisions_conflict(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let chat = save(&storage, save_of(1, account)).await;
    let chat = save(&storage, next(&chat, 2, 1, &[2])).await;
    for (base_revision, digest) in [(0, 1), (0, 2), (1, 3), (3, 2), (u32::MAX, 2)] {
        let other = ChatSave {
            base_revision,
            ..next(&chat, digest, 0, &[9])
        };
        let outcome = storage.chats.save(other).await.unwrap();
        assert_eq!(outcome, ChatSaveOutcome::Conflict, "{base_revision}");
    }
    assert_eq!(
        storage.chats.get(account, chat.id).await.unwrap(),
        Some(chat.clone())
    );
    assert_eq!(bodies(&storage, account, 1).await.unwrap(), [1, 2]);
    assert!(storage.chats.delete(account, chat.id).await.unwrap());
    let outcome = storage.chats.save(next(&chat, 3, 1, &[3])).await.unwrap();
    assert_eq!(outcome, ChatSaveOutcome::Conflict);
    assert_eq!(bodies(&storage, account, 1).await, None);
}

/// Checks that a full account gets no new chat, but saves its chats unless it has more than the
/// cap. Chats of other accounts do not count.
pub async fn cap_is_enforced(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    save(&storage, save_of(9, other)).await;
    let capped = |save, cap| ChatSave { cap, ..save };
    let mut chat = save(&storage, capped(save_of(1, account), 2)).await;
    save(&storage, capped(save_of(2, account), 2)).await;
    let full = async |save| {
        let outcome = storage.chats.save(save).await.unwrap();
        assert_eq!(outcome, ChatSaveOutcome::Full);
    };
    full(capped(save_of(3, account), 2)).await;
    chat = save(&storage, capped(next(&chat, 2, 1, &[2]), 2)).await;
    full(capped(next(&chat, 3, 2, &[3]), 1)).await;
    full(capped(save_of(3, account), 0)).await;
    assert_eq!(bodies(&storage, account, 1).await.unwrap(), [1, 2]);
    assert!(storage.chats.delete(account, ChatId::from_u128(2)).await.unwrap());
    save(&storage, capped(next(&chat, 3, 2, &[3]), 1)).await;
    save(&storage, capped(save_of(3, account), 2)).await;
    assert_eq!(storage.chats.count(account).await.unwrap(), 2);
}

/// Checks that a limit of the account takes precedence over the cap.
pub async fn own_limit_replaces_the_cap(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let limit = async |chats| {
        let change = AccountChange {
            chats: Some(chats),
            ..AccountChange::default()
        };
        storage.accounts.change(account, change).await.unwrap();
    };
    limit(Some(1)).await;
    save(&storage, save_of(1, account)).await;
    let second = save_of(2, account);
    let outcome = storage.chats.save(second.clone()).await.unwrap();
    assert_eq!(outcome, ChatSaveOutcome::Full);
    limit(Some(2)).await;
    save(&storage, ChatSave { cap: 0, ..second }).await;
    limit(None).await;
    let third = ChatSave {
        cap: 2,
        ..save_of(3, account)
    };
    assert_eq!(storage.chats.save(third).await.unwrap(), ChatSaveOutcome::Full);
}

/// Checks that concurrent saves of new chats share the cap.
pub async fn concurrent_saves_respect_the_cap(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    warm_up(&storage, account).await;
    save(&storage, save_of(100, account)).await;
    let outcomes = concurrently(16, |number| {
        let storage = storage.clone();
        let new = ChatSave {
            cap: 4,
            ..save_of(number as u128 + 1, account)
        };
        Box::pin(async move { storage.chats.save(new).await.unwrap() })
    })
    .await;
    let full = outcomes
        .iter()
        .filter(|outcome| **outcome == ChatSaveOutcome::Full);
    assert_eq!(full.count(), 13);
    assert_eq!(storage.chats.count(account).await.unwrap(), 4);
}

/// Checks that of concurrent saves of one revision, one succeeds and the others conflict. Equal
/// saves all return its chat.
pub async fn concurrent_saves_of_one_revision_succeed_once(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    warm_up(&storage, account).await;
    let chat = save(&storage, save_of(1, account)).await;
    let outcomes = concurrently(16, |number| {
        let storage = storage.clone();
        let new = next(&chat, u8::try_from(number / 4).unwrap() + 2, 1, &[number as u8]);
        Box::pin(async move { storage.chats.save(new).await.unwrap() })
    })
    .await;
    let saved: Vec<_> = outcomes
        .iter()
        .filter(|outcome| **outcome != ChatSaveOutcome::Conflict)
        .collect();
    assert_eq!(saved.len(), 4, "{outcomes:?}");
    assert!(saved.iter().all(|outcome| *outcome == saved[0]));
    let stored = storage.chats.get(account, chat.id).await.unwrap().unwrap();
    assert_eq!(*saved[0], ChatSaveOutcome::Saved(stored));
    assert_eq!(bodies(&storage, account, 1).await.unwrap().len(), 2);
}

/// Checks that a save with too many turns or bytes, or with a gap after the stored turns, writes
/// nothing. Replaced turns do not count.
pub async fn size_is_limited(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let limited = |save| ChatSave {
        max_turns: 3,
        max_bytes: 60,
        ..save
    };
    let gap = ChatSave {
        from: 1,
        ..save_of(1, account)
    };
    let outcome = storage.chats.save(limited(gap)).await.unwrap();
    assert_eq!(outcome, ChatSaveOutcome::Gap);
    let mut chat = save(&storage, limited(save_of(1, account))).await;
    for (from, turns, expected) in [
        (1, &[1, 1, 1][..], ChatSaveOutcome::TooLarge),
        (1, &[6], ChatSaveOutcome::TooLarge),
        (0, &[7], ChatSaveOutcome::TooLarge),
        (2, &[1], ChatSaveOutcome::Gap),
        (u32::MAX, &[1], ChatSaveOutcome::Gap),
    ] {
        let outcome = storage.chats.save(limited(next(&chat, 2, from, turns))).await;
        assert_eq!(outcome.unwrap(), expected, "{from}");
        assert_eq!(bodies(&storage, account, 1).await.unwrap(), [1]);
    }
    for (digest, from, turns) in [(2, 1, &[2, 3][..]), (3, 0, &[6])] {
        chat = save(&storage, limited(next(&chat, digest, from, turns))).await;
        assert_eq!(chat.bytes, 60);
    }
    assert_eq!(bodies(&storage, account, 1).await.unwrap(), [6]);
}

/// Checks that lists are sorted by the last update, then by the id, and continue after a chat. An
/// unknown chat is not found.
pub async fn last_updated_first_in_pages(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    for (number, seconds) in [(1, 30), (2, 20), (3, 20), (u128::MAX, 20), (4, 10)] {
        let new = ChatSave {
            at: at(seconds),
            ..save_of(number, account)
        };
        save(&storage, new).await;
    }
    let list = async |after: Option<u128>, limit| {
        let after = after.map(ChatId::from_u128);
        let chats = storage.chats.list(account, after, limit).await;
        chats.map(|chats| chats.iter().map(|chat| chat.id.as_u128()).collect::<Vec<_>>())
    };
    for (after, limit, expected) in [
        (None, 10, &[1, u128::MAX, 3, 2, 4][..]),
        (None, 2, &[1, u128::MAX]),
        (Some(u128::MAX), 2, &[3, 2]),
        (Some(2), 10, &[4]),
        (Some(4), 10, &[]),
        (None, 0, &[]),
    ] {
        assert_eq!(list(after, limit).await.unwrap(), expected, "{after:?}");
    }
    let chat = storage
        .chats
        .get(account, ChatId::from_u128(2))
        .await
        .unwrap()
        .unwrap();
    save(&storage, next(&chat, 40, 1, &[])).await;
    assert_eq!(list(None, 2).await.unwrap(), [2, 1]);
    assert_eq!(kind(list(Some(9), 10).await), StorageErrorKind::NotFound);
}

/// Checks that a new title changes the time of the update, but not the revision.
pub async fn renamed_between_saves(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let chat = save(&storage, save_of(1, account)).await;
    let renamed = storage
        .chats
        .rename(account, chat.id, b"new".to_vec(), at(5))
        .await
        .unwrap();
    let expected = Chat {
        title: b"new".to_vec(),
        updated_at: at(5),
        ..chat.clone()
    };
    assert_eq!(renamed.as_ref(), Some(&expected));
    assert_eq!(storage.chats.get(account, chat.id).await.unwrap(), renamed);
    let saved = save(&storage, next(&chat, 6, 1, &[2])).await;
    assert_eq!((saved.revision, saved.title), (2, b"new".to_vec()));
    let unknown = storage
        .chats
        .rename(account, ChatId::from_u128(2), Vec::new(), at(5))
        .await;
    assert_eq!(unknown.unwrap(), None);
}

/// Checks that accounts can use the same chat id, and none reads or changes chats of another.
pub async fn chats_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let mine = save(&storage, save_of(1, account)).await;
    let (store, id) = (&storage.chats, mine.id);
    assert_eq!(store.get(other, id).await.unwrap(), None);
    assert_eq!(store.load(other, id).await.unwrap(), None);
    assert_eq!(store.rename(other, id, Vec::new(), at(1)).await.unwrap(), None);
    assert!(!store.delete(other, id).await.unwrap());
    assert_eq!(store.delete_all(other, None).await.unwrap(), 0);
    assert_eq!(store.list(other, None, 10).await.unwrap(), []);
    assert_eq!(store.count(other).await.unwrap(), 0);
    let continued = store.save(ChatSave {
        account: other,
        ..next(&mine, 2, 1, &[2])
    });
    assert_eq!(continued.await.unwrap(), ChatSaveOutcome::Conflict);
    let theirs = ChatSave {
        turns: vec![turn(5), turn(6)],
        ..save_of(1, other)
    };
    save(&storage, theirs).await;
    assert!(store.delete(other, id).await.unwrap());
    assert_eq!(store.get(account, id).await.unwrap(), Some(mine));
    assert_eq!(bodies(&storage, account, 1).await.unwrap(), [1]);
}

/// Checks that a deleted chat has no turns: a new chat with its id begins empty.
pub async fn deleted_with_their_turns(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let id = ChatId::from_u128(1);
    let long = ChatSave {
        turns: vec![turn(1), turn(2), turn(3)],
        ..save_of(1, account)
    };
    for number in [1, 2] {
        save(
            &storage,
            ChatSave {
                id: ChatId::from_u128(number),
                ..long.clone()
            },
        )
        .await;
    }
    assert!(storage.chats.delete(account, id).await.unwrap());
    assert!(!storage.chats.delete(account, id).await.unwrap());
    assert_eq!(storage.chats.get(account, id).await.unwrap(), None);
    save(
        &storage,
        ChatSave {
            turns: Vec::new(),
            ..long
        },
    )
    .await;
    assert_eq!(bodies(&storage, account, 1).await, Some(Vec::new()));
    assert_eq!(bodies(&storage, account, 2).await.unwrap(), [1, 2, 3]);
}

/// Checks that all chats of an account, or those created by a member, are deleted with their turns.
pub async fn deleted_by_creator(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let member = MemberId::from_u128;
    for (number, owner, creator) in [
        (1, account, Some(7)),
        (2, account, Some(7)),
        (3, account, Some(8)),
        (4, account, None),
        (5, other, Some(7)),
    ] {
        let new = ChatSave {
            created_by: creator.map(member),
            ..save_of(number, owner)
        };
        save(&storage, new).await;
    }
    let store = &storage.chats;
    assert_eq!(store.delete_all(account, Some(member(9))).await.unwrap(), 0);
    assert_eq!(store.delete_all(account, Some(member(7))).await.unwrap(), 2);
    assert_eq!(store.count(account).await.unwrap(), 2);
    assert_eq!(store.delete_all(account, None).await.unwrap(), 2);
    assert_eq!(store.delete_all(account, None).await.unwrap(), 0);
    for number in 1..=4 {
        let empty = ChatSave {
            turns: Vec::new(),
            ..save_of(number, account)
        };
        save(&storage, empty).await;
        assert_eq!(bodies(&storage, account, number).await, Some(Vec::new()));
    }
    assert_eq!(bodies(&storage, other, 5).await.unwrap(), [1]);
}

/// Checks that an unknown or a closed account, and a new chat without a title, are refused.
pub async fn unknown_and_closed_accounts_save_nothing(factory: Factory) {
    let storage = factory.open().await;
    let unknown = storage.chats.save(save_of(1, AccountId::from_u128(9))).await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
    let account = funded(&storage, 1, 0).await;
    let untitled = ChatSave {
        title: None,
        ..save_of(1, account)
    };
    let refused = storage.chats.save(untitled).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    let suspend = AccountChange {
        state: Some(AccountState::Suspended),
        ..AccountChange::default()
    };
    storage.accounts.change(account, suspend).await.unwrap();
    save(&storage, save_of(1, account)).await;
    storage.accounts.close_account(account, at(50)).await.unwrap();
    let closed = storage.chats.save(save_of(2, account)).await;
    assert_eq!(kind(closed), StorageErrorKind::Conflict);
    assert_eq!(storage.chats.count(account).await.unwrap(), 0);
}
