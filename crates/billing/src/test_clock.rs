//! Test clocks: accounts whose time is ahead of real time, so that tests can simulate months of
//! renewals, overdue payments and expiries.
//!
//! A test clock runs at the speed of real time, ahead of it by the sum of its advances, and never
//! moves back. Calls, plan and lots of the account use the time of the test clock. Everything
//! shared with other accounts uses real time.

use std::time::Duration;

use tollgate_storage::{Account, AccountChange, AccountChanged, Storage, StorageError, SubscriptionState};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, Timestamp};

use crate::plans::{GRACE, Plans, renew_all};
use crate::refusal::no_such_account;

/// Maximum duration of one advance.
pub const MAX_ADVANCE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Service that advances test clocks and processes the events that become due.
#[derive(Clone, Copy)]
pub struct TestClocks<'a> {
    /// Stores of accounts, subscriptions and lots.
    pub storage: &'a Storage,
    /// The currently offered plans.
    pub plans: &'a Plans,
    /// Source of subscription ids.
    pub ids: &'a IdSource,
    /// Clock of the real time.
    pub clock: &'a dyn Clock,
}

impl TestClocks<'_> {
    /// Advances an account's clock to `to`, in the account's own time, and processes the events
    /// that are due until then, in order. 404 for an unknown account; 400 for an account without a
    /// test clock, or for a time that is not ahead or more than 366 days ahead.
    pub async fn advance(&self, id: AccountId, to: Timestamp) -> Result<AccountChanged, Error> {
        let found = self.storage.accounts.get(id).await.map_err(Error::internal)?;
        let before = found.ok_or_else(|| no_such_account(StorageError::not_found(id)))?;
        let refuse = |message: String| Err(Error::new(ErrorCode::InvalidParameter, message).with_param("to"));
        if before.test_clock.is_none() {
            return refuse(
                "The account has no test clock. Create an account with one: `tollgate accounts create --test-clock`.".into(),
            );
        }
        let now = before.time(self.clock.now());
        if to <= now {
            let now = now.to_rfc3339();
            return refuse(format!(
                "A test clock only moves forward. The clock of this account is at {now}."
            ));
        }
        if to.since(now) > MAX_ADVANCE {
            return refuse("A test clock can advance by at most 366 days per request.".into());
        }
        let mut after = before.clone();
        loop {
            self.catch_up(&after).await;
            let now = after.time(self.clock.now());
            if now >= to {
                return Ok(AccountChanged { before, after });
            }
            let next = self
                .next_event(&after, now)
                .await?
                .map_or(to, |next| next.min(to));
            let ahead = after
                .test_clock
                .unwrap_or_default()
                .saturating_add(next.since(now));
            let change = AccountChange {
                test_clock: Some(ahead),
                ..AccountChange::default()
            };
            let changed = self.storage.accounts.change(id, change).await;
            after = changed.map_err(no_such_account)?.after;
        }
    }

    /// Expires lots and renews subscriptions of an account with a test clock. A failure is logged,
    /// and the next pass tries again.
    pub async fn catch_up(&self, account: &Account) {
        let now = account.time(self.clock.now());
        // Listing the lots expires the due ones.
        if let Err(error) = self.storage.lots.lots(account.id, now).await {
            tracing::warn!(%error, account.id = %account.id, "cannot expire credit lots");
        }
        let subscriptions = &*self.storage.subscriptions;
        match subscriptions.list(account.id).await {
            Ok(mut due) => {
                due.retain(|due| !due.state.is_terminal() && due.terms.paid_through <= now);
                renew_all(subscriptions, self.plans, self.ids, due, now).await;
            }
            Err(error) => {
                tracing::warn!(%error, account.id = %account.id, "cannot read the due subscriptions");
            }
        }
    }

    /// Returns the time of the next renewal, end of a grace period or expiry of a lot; `None` if
    /// there is none.
    async fn next_event(&self, account: &Account, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        let storage = self.storage;
        let subscriptions = storage.subscriptions.list(account.id).await;
        let subscriptions = subscriptions.map_err(Error::internal)?.into_iter();
        let periods = subscriptions.filter_map(|found| match found.state {
            SubscriptionState::Active => Some(found.terms.paid_through),
            SubscriptionState::PastDue => found.past_due_since.map(|since| since.plus(GRACE)),
            SubscriptionState::Canceled | SubscriptionState::Expired => None,
        });
        let lots = storage
            .lots
            .lots(account.id, now)
            .await
            .map_err(Error::internal)?;
        let lots = lots.into_iter().filter_map(|lot| lot.terms.expires_at);
        Ok(periods.chain(lots).filter(|event| *event > now).min())
    }
}
