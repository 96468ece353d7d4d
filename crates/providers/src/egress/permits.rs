//! Permits of the egress client. They limit all fetches together and those of each account, so that
//! slow servers of one account do not block the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate_types::AccountId;

/// Semaphores of the client: one for all fetches and posts, and one for each active account.
pub(super) struct FetchPermits {
    all: Arc<Semaphore>,
    per_account: usize,
    /// Accounts with a running or waiting fetch.
    accounts: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

/// A permit for one fetch or post. Dropping the value releases the permit.
pub(super) struct FetchPermit<'t> {
    _all: OwnedSemaphorePermit,
    _own: Option<AccountPermit<'t>>,
}

/// A permit of one account, or a position in the account's queue.
struct AccountPermit<'t> {
    permits: &'t FetchPermits,
    account: AccountId,
    permit: Option<OwnedSemaphorePermit>,
}

impl FetchPermits {
    /// Allows `max` concurrent fetches in total and `per_account` for each account; at least one of
    /// each.
    pub(super) fn new(max: usize, per_account: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(max.max(1))),
            per_account: per_account.max(1),
            accounts: Mutex::default(),
        }
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub(super) async fn take(&self, account: Option<AccountId>) -> Option<FetchPermit<'_>> {
        let own = match account {
            Some(account) => Some(self.take_account(account).await?),
            None => None,
        };
        // The semaphore is never closed.
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(FetchPermit { _all: all, _own: own })
    }

    async fn take_account(&self, account: AccountId) -> Option<AccountPermit<'_>> {
        let mut account_permit = AccountPermit {
            permits: self,
            account,
            permit: None,
        };
        let own = {
            let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
            let usual = || Arc::new(Semaphore::new(self.per_account));
            accounts.entry(account).or_insert_with(usual).clone()
        };
        account_permit.permit = Some(own.acquire_owned().await.ok()?);
        Some(account_permit)
    }
}

impl Drop for AccountPermit<'_> {
    fn drop(&mut self) {
        self.permit = None;
        let mut accounts = self
            .permits
            .accounts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Other running and waiting fetches of the account hold references to the semaphore.
        if accounts
            .get(&self.account)
            .is_some_and(|own| Arc::strong_count(own) == 1)
        {
            accounts.remove(&self.account);
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
        let count = || permits.accounts.lock().unwrap().len();
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
