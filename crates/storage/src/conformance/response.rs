//! Cases for [`crate::ResponseStore`].

use tollgate_types::{AccountId, ResponseId};

use super::Factory;
use super::samples::{START, at, funded, kind};
use crate::{ChainLimits, NewResponse, Result, Storage, StorageErrorKind, StoredResponse};

/// Limits above any chain here.
const ALL: ChainLimits = ChainLimits {
    links: 9,
    bytes: 1 << 20,
};

/// Makes a response that expires an hour after [`START`].
pub(super) fn response(number: u128, account: AccountId, previous: Option<u128>) -> StoredResponse {
    StoredResponse {
        id: ResponseId::from_u128(number),
        account,
        previous: previous.map(ResponseId::from_u128),
        created_at: START,
        expires_at: at(3600),
        content: format!("what was said in {number}").into_bytes(),
    }
}

/// Stores a response without items.
pub(super) async fn save(storage: &Storage, response: StoredResponse) -> Result<()> {
    let items = Vec::new();
    storage.responses.save(NewResponse { response, items }).await
}

/// Checks that a response is read back verbatim, regardless of its bytes.
pub async fn saved_then_read(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    let mut whole = response(u128::MAX, account, Some(7));
    whole.content = (0..=255).cycle().take(70_000).collect();
    let mut empty = response(2, account, None);
    empty.content.clear();
    for saved in [whole, empty] {
        save(&storage, saved.clone()).await.unwrap();
        let read = storage.responses.get(account, saved.id, START).await.unwrap();
        assert_eq!(read, Some(saved));
    }
    let unknown = storage
        .responses
        .get(account, ResponseId::from_u128(3), START)
        .await
        .unwrap();
    assert_eq!(unknown, None);
}

/// Checks that an id is used once across accounts, by an existing account.
pub async fn saved_once(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let first = response(5, account, None);
    save(&storage, first.clone()).await.unwrap();
    for again in [response(5, account, Some(1)), response(5, other, None)] {
        assert_eq!(kind(save(&storage, again).await), StorageErrorKind::Conflict);
    }
    assert_eq!(
        storage.responses.get(account, first.id, START).await.unwrap(),
        Some(first)
    );
    let unknown_account = response(6, AccountId::from_u128(99), None);
    assert_eq!(
        kind(save(&storage, unknown_account).await),
        StorageErrorKind::NotFound
    );
}

/// Checks that responses of other accounts cannot be read, alone or in a chain, or deleted.
pub async fn responses_belong_to_one_account(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    save(&storage, response(5, account, None)).await.unwrap();
    save(&storage, response(6, other, Some(5))).await.unwrap();
    let id = ResponseId::from_u128(5);
    assert_eq!(storage.responses.get(other, id, START).await.unwrap(), None);
    assert!(
        storage
            .responses
            .chain(other, id, START, ALL)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(!storage.responses.delete(other, id, START).await.unwrap());
    let chain = storage
        .responses
        .chain(other, ResponseId::from_u128(6), START, ALL)
        .await
        .unwrap();
    assert_eq!(chain, [response(6, other, Some(5))]);
    assert!(storage.responses.get(account, id, START).await.unwrap().is_some());
}

/// Checks that a response is found by its items, by its account and until its expiry.
pub async fn found_by_its_items(factory: Factory) {
    let storage = factory.open().await;
    let (account, other) = (funded(&storage, 1, 0).await, funded(&storage, 2, 0).await);
    let save_with_items = async |response: StoredResponse, items: &[&str]| {
        let items = items.iter().map(|item| (*item).to_owned()).collect();
        let new = NewResponse { response, items };
        storage.responses.save(new).await.unwrap();
    };
    let found = async |account, item, now| -> Option<u128> {
        let found = storage.responses.with_item(account, item, now).await.unwrap();
        found.map(|response| response.id.as_u128())
    };
    save_with_items(response(5, account, None), &["msg_1", "rs_1"]).await;
    save_with_items(response(6, account, Some(5)), &["msg_2", "msg_1", "msg_2"]).await;
    save_with_items(response(7, other, None), &["msg_1"]).await;
    assert_eq!(found(account, "rs_1", START).await, Some(5));
    assert_eq!(found(account, "msg_1", START).await, Some(5));
    assert_eq!(found(account, "msg_2", START).await, Some(6));
    assert_eq!(found(other, "msg_1", START).await, Some(7));
    assert_eq!(found(other, "msg_2", START).await, None);
    assert_eq!(found(account, "msg_3", START).await, None);
    assert_eq!(found(account, "msg_2", at(3600)).await, None);
    let gone = ResponseId::from_u128(6);
    assert!(storage.responses.delete(account, gone, START).await.unwrap());
    assert_eq!(found(account, "msg_2", START).await, None);
    save_with_items(response(8, account, None), &["msg_2"]).await;
    assert_eq!(found(account, "msg_2", START).await, Some(8));
    assert_eq!(storage.responses.sweep(at(3600), 9).await.unwrap(), 3);
    save_with_items(response(9, account, None), &["msg_1"]).await;
    assert_eq!(found(account, "msg_1", START).await, Some(9));
}

/// Checks that a chain ends with its first response, at its limit, or before a missing response.
pub async fn chain_goes_back(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    // Ids need not follow the order of the chain.
    let links = [(9, None), (4, Some(9)), (7, Some(4)), (5, Some(7)), (6, Some(4))];
    for (number, previous) in links {
        save(&storage, response(number, account, previous)).await.unwrap();
    }
    let numbers = async |id: u128, links: u32| -> Vec<u128> {
        let id = ResponseId::from_u128(id);
        let limits = ChainLimits { links, ..ALL };
        let chain = storage.responses.chain(account, id, START, limits).await.unwrap();
        chain.iter().map(|link| link.id.as_u128()).collect()
    };
    assert_eq!(numbers(5, 9).await, [5, 7, 4, 9]);
    assert_eq!(numbers(6, 9).await, [6, 4, 9]);
    assert_eq!(numbers(9, 9).await, [9]);
    assert_eq!(numbers(5, 4).await, [5, 7, 4, 9]);
    assert_eq!(numbers(5, 3).await, [5, 7, 4]);
    assert_eq!(numbers(5, 0).await, [0; 0]);
    assert_eq!(numbers(1, 9).await, [0; 0]);
    let gone = ResponseId::from_u128(4);
    assert!(storage.responses.delete(account, gone, START).await.unwrap());
    assert_eq!(numbers(5, 9).await, [5, 7]);
}

/// Checks that a chain is read up to its limit of bytes, but always with its newest response.
pub async fn chain_is_read_up_to_its_bytes(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    for (number, previous, size) in [(1, None, 100), (2, Some(1), 50), (3, Some(2), 200)] {
        let mut link = response(number, account, previous);
        link.content = vec![0; size];
        save(&storage, link).await.unwrap();
    }
    for (bytes, links) in [(0, 1), (249, 1), (250, 2), (349, 2), (350, 3), (u64::MAX, 3)] {
        let limits = ChainLimits { links: 9, bytes };
        let chain = storage
            .responses
            .chain(account, ResponseId::from_u128(3), START, limits)
            .await
            .unwrap();
        assert_eq!(chain.len(), links, "{bytes}");
    }
}

/// Checks that the chain of a response that continues itself ends.
pub async fn cyclic_chains_end(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    save(&storage, response(5, account, Some(5))).await.unwrap();
    let chain = storage
        .responses
        .chain(account, ResponseId::from_u128(5), START, ALL)
        .await
        .unwrap();
    assert!(chain.len() <= 9, "{}", chain.len());
}

/// Checks that a response can be deleted once.
pub async fn deleted_once(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    save(&storage, response(5, account, None)).await.unwrap();
    let id = ResponseId::from_u128(5);
    assert!(storage.responses.delete(account, id, START).await.unwrap());
    assert!(!storage.responses.delete(account, id, START).await.unwrap());
    assert_eq!(storage.responses.get(account, id, START).await.unwrap(), None);
}

/// Checks that an expired response is not found, swept or not.
pub async fn expired_responses_are_not_found(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    save(&storage, response(5, account, None)).await.unwrap();
    save(
        &storage,
        StoredResponse {
            expires_at: at(7200),
            ..response(6, account, Some(5))
        },
    )
    .await
    .unwrap();
    let (first, second) = (ResponseId::from_u128(5), ResponseId::from_u128(6));
    let exists = async |id, now| storage.responses.get(account, id, now).await.unwrap().is_some();
    assert!(exists(first, at(3599)).await);
    assert!(!exists(first, at(3600)).await);
    assert!(exists(second, at(3600)).await);
    let chain = storage
        .responses
        .chain(account, second, at(3600), ALL)
        .await
        .unwrap();
    assert_eq!(chain.len(), 1);
    assert!(!storage.responses.delete(account, first, at(3600)).await.unwrap());
}

/// Checks that the sweep deletes only expired responses, up to the limit.
pub async fn sweep_deletes_expired_rows(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 0).await;
    for number in 1..=5 {
        save(
            &storage,
            StoredResponse {
                expires_at: at(u64::try_from(number).unwrap_or_default()),
                ..response(number, account, None)
            },
        )
        .await
        .unwrap();
    }
    assert_eq!(storage.responses.sweep(START, 10).await.unwrap(), 0);
    assert_eq!(storage.responses.sweep(at(4), 3).await.unwrap(), 3);
    assert_eq!(storage.responses.sweep(at(4), 3).await.unwrap(), 1);
    assert_eq!(storage.responses.sweep(at(4), 3).await.unwrap(), 0);
    let last = storage
        .responses
        .get(account, ResponseId::from_u128(5), at(4))
        .await
        .unwrap();
    assert!(last.is_some());
}
