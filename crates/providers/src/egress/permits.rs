//! Permits of the egress client. They limit all fetches together and those of each account, so that
//! slow servers of one account do not block the others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate_types::AccountId;

/// Semaphores of the client: one for all fetches and posts, and one for each active account.
pub(super) struct FetchPermits {
    all: Arc<Semaphore>,
    accounts: KeyedPermits<AccountId>,
}

/// A permit for one fetch or post. Dropping the value releases the permit.
pub(super) struct FetchPermit<'t> {
    _all: OwnedSemaphorePermit,
    _own: Option<KeyedPermit<'t, AccountId>>,
}

impl FetchPermits {
    /// Allows `max` concurrent fetches in total and `per_account` for each account; at least one of
    /// each.
    pub(super) fn new(max: usize, per_account: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(max.max(1))),
            accounts: KeyedPermits::new(per_account),
        }
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub(super) async fn take(&self, account: Option<AccountId>) -> Option<FetchPermit<'_>> {
        let own = match account {
            Some(account) => Some(self.accounts.take(account).await?),
            None => None,
        };
        // The semaphore is never closed.
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(FetchPermit { _all: all, _own: own })
    }
}

/// A semaphore for each key that is in use.
pub(super) struct KeyedPermits<K: Clone + Eq + Hash> {
    per_key: usize,
    /// Keys with a running or waiting fetch.
    semaphores: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// A permit of one key, or a position in the key's queue.
pub(super) struct KeyedPermit<'t, K: Clone + Eq + Hash> {
    permits: &'t KeyedPermits<K>,
    key: K,
    permit: Option<OwnedSemaphorePermit>,
}

impl<K: Clone + Eq + Hash> KeyedPermits<K> {
    /// Allows `per_key` concurrent fetches for each key; at least one.
    pub(super) fn new(per_key: usize) -> Self {
        Self {
            per_key: per_key.max(1),
            semaphores: Mutex::default(),
        }
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub(super) async fn take(&self, key: K) -> Option<KeyedPermit<'_, K>> {
        let mut permit = KeyedPermit {
            permits: self,
            key: key.clone(),
            permit: None,
        };
        let own = {
            let mut semaphores = self.semaphores.lock().unwrap_or_else(PoisonError::into_inner);
            let usual = || Arc::new(Semaphore::new(self.per_key));
            semaphores.entry(key).or_insert_with(usual).clone()
        };
        permit.permit = Some(own.acquire_owned().await.ok()?);
        Some(permit)
    }
}

impl<K: Clone + Eq + Hash> Drop for KeyedPermit<'_, K> {
    fn drop(&mut self) {
        self.permit = None;
        let mut semaphores = self
            .permits
            .semaphores
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Other running and waiting fetches of the key hold references to the semaphore.
        if semaphores
            .get(&self.key)
            .is_some_and(|own| Arc::strong_count(own) == 1)
        {
            semaphores.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const ONE: AccountId = AccountId::from_u128(1);
    const OTHER: AccountId = AccountId::from_u128(2);

    fn taken(permits: &FetchPermits, account: Option<AccountId>) -> Option<FetchPermit<'_>> {
        permits.take(account).now_or_never().flatten()
    }

    #[test]
    fn accounts_are_limited_within_the_global_limit() {
        let permits = FetchPermits::new(3, 2);
        let first = taken(&permits, Some(ONE)).unwrap();
        let _second = taken(&permits, Some(ONE)).unwrap();
        assert!(
            taken(&permits, Some(ONE)).is_none(),
            "the account limit does not apply"
        );
        let other = taken(&permits, Some(OTHER)).unwrap();
        assert!(taken(&permits, Some(OTHER)).is_none(), "all are taken");
        assert!(taken(&permits, None).is_none());
        drop(first);
        let _third = taken(&permits, Some(ONE)).unwrap();
        drop(other);
        let _provider = taken(&permits, None).unwrap();
    }

    #[test]
    fn accounts_without_fetches_are_forgotten() {
        let permits = FetchPermits::new(1, 1);
        let count = || permits.accounts.semaphores.lock().unwrap().len();
        let account_permit = taken(&permits, Some(ONE)).unwrap();
        assert!(
            taken(&permits, Some(OTHER)).is_none(),
            "more fetches than allowed run"
        );
        assert_eq!(count(), 1);
        drop(account_permit);
        assert_eq!(count(), 0);
    }
}
