//! Accounts whose time is ahead, so that a test sees in a moment what takes months: weeks, renewals, what is owed, what expires.
//!
//! A test clock runs as any other clock does and is ahead by what it was advanced; it never goes back. All that an account
//! pays and has goes by it: calls, plan, lots. What others have a part in goes by the time that it is.

use std::time::Duration;

use tollgate_storage::{Account, AccountChange, AccountChanged, Storage, StorageError, SubscriptionState};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, Timestamp};

use crate::plans::{GRACE, Plans, renew_all};
use crate::refusal::no_such_account;

/// How far a clock is advanced at once.
pub const MOST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What moves test clocks, and what follows from that.
#[derive(Clone, Copy)]
pub struct TestClocks<'a> {
    /// Everything that is kept.
    pub storage: &'a Storage,
    /// The plans that are offered.
    pub plans: &'a Plans,
    /// Makes ids.
    pub ids: &'a IdSource,
    /// The time that it is.
    pub clock: &'a dyn Clock,
}

impl TestClocks<'_> {
    /// Advances an account's clock to this time of its own, and has everything happen in its order that falls due on the way.
    /// 404 for an account that is not there, 400 for one without a clock, and for a time that is not ahead of its own or too
    /// far.
    pub async fn advance(&self, id: AccountId, to: Timestamp) -> Result<AccountChanged, Error> {
        let found = self.storage.accounts.get(id).await.map_err(Error::internal)?;
        let before = found.ok_or_else(|| no_such_account(StorageError::not_found(id)))?;
        let refuse = |message: String| Err(Error::new(ErrorCode::InvalidParameter, message).with_param("to"));
        if before.test_clock.is_none() {
            return refuse(
                "The account has no test clock. Make one with `accounts create --test-clock`.".into(),
            );
        }
        let now = before.time(self.clock.now());
        if to <= now {
            let now = now.to_rfc3339();
            return refuse(format!(
                "A test clock only goes forward, and that of the account shows {now}."
            ));
        }
        if to.since(now) > MOST {
            return refuse("A test clock is advanced by 366 days at once at the most.".into());
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

    /// Does for an account with a clock what is done for the others when their time has come. A failure is logged and the next
    /// pass tries again.
    pub async fn catch_up(&self, account: &Account) {
        let now = account.time(self.clock.now());
        // Looking has them expire.
        if let Err(error) = self.storage.lots.lots(account.id, now).await {
            tracing::warn!(%error, account.id = %account.id, "cannot have lots of credits expire");
        }
        let subscriptions = &*self.storage.subscriptions;
        match subscriptions.list(account.id).await {
            Ok(mut due) => {
                due.retain(|due| !due.state.is_terminal() && due.terms.paid_through <= now);
                renew_all(subscriptions, self.plans, self.ids, due, now).await;
            }
            Err(error) => {
                tracing::warn!(%error, account.id = %account.id, "cannot look for subscriptions that are due");
            }
        }
    }

    /// When something falls due next.
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
