//! Top-ups: credits bought through a payment provider, on its checkout page or with a saved card.
//!
//! The state of a payment follows from the provider's events, which may arrive twice, late, in any
//! order, or concurrently over two paths. The id of a grant is therefore derived from the
//! provider's id of the payment, so that repeated events grant the credits once.

mod plans;

use std::sync::Arc;
use std::time::Duration;

use jiff::ToSpan;
use jiff::tz::TimeZone;
use tollgate_storage::top_up::{grant_id, share_of};
use tollgate_storage::{
    AutoTopUp, Grant, LotTerms, Storage, StorageError, StorageErrorKind, TopUp, TopUpChange, TopUpKind,
    TopUpState,
};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, CreditPrice, Credits, Error, ErrorCode, Money, Timestamp, TopUpId};
use tollgate_upstream::{
    ChargeOutcome, EventError, NewCheckout, NewPayer, Paid, PaymentError, PaymentEvent, PaymentProvider,
    SavedCharge,
};

use crate::refusal::{invalid, no_such_account};

pub use plans::{MARGIN, OpenedPlan};

/// Number of consecutive failed charges after which automatic top-ups stop.
pub const MAX_FAILURES: u32 = 3;
/// Minimum age of a charge with an unknown outcome before it is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Maximum age of a charge that is retried. Providers recognize a repeated idempotency key for a
/// day.
const RETRY_TIMEOUT: Duration = Duration::from_secs(23 * 60 * 60);
/// Number of accounts or top-ups per page of a pass.
const PAGE: u32 = 500;

/// Price, limits and page texts of top-ups.
#[derive(Clone, Debug)]
pub struct TopUpSettings {
    /// Price of a credit.
    pub price: CreditPrice,
    /// Minimum number of credits of one top-up.
    pub min_amount: Credits,
    /// Maximum number of credits of one top-up.
    pub max_amount: Credits,
    /// Name of the seller on checkout pages and receipts.
    pub seller: String,
    /// URL to which the provider's pages redirect.
    pub return_url: String,
}

/// A checkout page of a top-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedTopUp {
    /// The pending top-up.
    pub top_up: TopUp,
    /// URL of the checkout page.
    pub url: String,
}

/// Outcome of a payment event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// The credits are granted, by this or an earlier event.
    Credited,
    /// The payment of a top-up failed.
    Failed,
    /// The unspent credits of a refunded payment were withdrawn.
    Returned,
    /// An event of a plan was processed, now or earlier.
    Plan,
    /// The event concerns neither credits nor plans of this gateway, or is the refund of a plan
    /// invoice.
    Ignored,
}

/// Service that sells credits, and plans that the payment provider renews.
pub struct TopUps {
    provider: Arc<dyn PaymentProvider>,
    settings: TopUpSettings,
    storage: Storage,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
}

impl TopUps {
    /// Creates the service for one payment provider.
    pub fn new(
        provider: Arc<dyn PaymentProvider>,
        settings: TopUpSettings,
        storage: Storage,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
    ) -> Self {
        Self {
            provider,
            settings,
            storage,
            clock,
            ids,
        }
    }

    /// Returns the payment provider.
    pub fn provider(&self) -> &dyn PaymentProvider {
        &*self.provider
    }

    /// Creates a top-up and returns its checkout page.
    pub async fn open(&self, account: AccountId, credits: Credits) -> Result<OpenedTopUp, Error> {
        let new = self.new_top_up(account, TopUpKind::Checkout, credits)?;
        let payer = self.payer(account).await?;
        let created = self.storage.top_ups.create(new.clone()).await;
        created.map_err(Error::internal)?;
        let checkout = NewCheckout {
            top_up: new.id,
            payer,
            money: new.money,
            title: self.title(credits),
            success_url: self.settings.return_url.clone(),
            cancel_url: self.settings.return_url.clone(),
        };
        match self.provider.open_checkout(&checkout).await {
            Ok(page) => Ok(OpenedTopUp {
                top_up: new,
                url: page.url,
            }),
            Err(error) => {
                self.fail(new.id, "not_opened").await?;
                Err(unavailable(&error))
            }
        }
    }

    /// Returns the URL of the provider's portal for receipts and saved cards.
    pub async fn open_portal(&self, account: AccountId) -> Result<String, Error> {
        let payer = self.payer(account).await?;
        let opened = self.provider.open_portal(&payer, &self.settings.return_url).await;
        opened.map_err(|error| unavailable(&error))
    }

    /// Sets or removes the automatic top-up of an account and returns it. The stored number of
    /// failures becomes `auto.failures`.
    pub async fn set_auto(
        &self,
        account: AccountId,
        auto: Option<AutoTopUp>,
    ) -> Result<Option<AutoTopUp>, Error> {
        if let Some(auto) = &auto {
            self.check_amount(auto.amount)?;
            if auto.below <= Credits::ZERO {
                return Err(invalid("below", "'below' must be above 0."));
            }
            if auto.monthly_limit < auto.amount {
                return Err(invalid(
                    "monthly_limit",
                    "'monthly_limit' must be at least 'amount'.",
                ));
            }
        }
        let set = self.storage.top_ups.set_auto(account, auto.clone()).await;
        set.map_err(no_such_account)?;
        Ok(auto)
    }

    /// Verifies and processes an event of the payment provider. `signature` is the value of the
    /// provider's signature header.
    pub async fn receive(&self, signature: Option<&str>, body: &[u8]) -> Result<EventOutcome, Error> {
        let event = self.provider.read_event(signature, body, self.clock.now());
        let event = event.map_err(|fault| {
            tracing::warn!(%fault, provider = self.provider.name(), "rejected an event of the payment provider");
            let error = Error::new(ErrorCode::InvalidParameter, format!("The event was rejected: {fault}."));
            match fault {
                EventError::Signature | EventError::Stale => error.with_param(self.provider.signature_header()),
                EventError::Malformed(_) => error,
            }
        })?;
        match event {
            PaymentEvent::Paid(paid) => {
                self.credit(&paid).await?;
                Ok(EventOutcome::Credited)
            }
            PaymentEvent::Failed { top_up, why } => {
                self.fail(top_up, &why).await?;
                Ok(EventOutcome::Failed)
            }
            PaymentEvent::Returned { reference, total } => self.withdraw_refunded(&reference, total).await,
            PaymentEvent::PlanPaid(invoice) => self.plan_paid(&invoice).await,
            PaymentEvent::PlanNotPaid(invoice) => self.plan_not_paid(&invoice).await,
            PaymentEvent::PlanChanged(of) => self.plan_changed(&of).await,
            PaymentEvent::PlanEnded(of) => self.plan_ended(&of).await,
            PaymentEvent::PlanNotStarted { subscription, why } => {
                self.plan_not_started(subscription, &why).await?;
                Ok(EventOutcome::Plan)
            }
            PaymentEvent::Other { kind } => {
                tracing::debug!(kind, "ignored an event that concerns neither credits nor plans");
                Ok(EventOutcome::Ignored)
            }
        }
    }

    /// Tops up the low balances and retries charges with an unknown outcome. Several nodes may call
    /// this concurrently, because an account has at most one pending charge. A failure is logged,
    /// and the next pass tries again.
    pub async fn fill_up(&self) {
        if let Err(error) = self.retry_pending().await {
            tracing::warn!(%error, "cannot read the pending charges");
        }
        let mut after = None;
        loop {
            let page = match self.storage.top_ups.autos(after, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the automatic top-ups");
                    return;
                }
            };
            let Some(last) = page.last() else { return };
            after = Some(last.account);
            for auto in page {
                let account = auto.account;
                if let Err(error) = self.fill_up_one(auto).await {
                    tracing::warn!(%error, account.id = %account, "cannot top up the balance of {account}");
                }
            }
        }
    }

    async fn fill_up_one(&self, auto: AutoTopUp) -> Result<(), Error> {
        let account = auto.account;
        if auto.failures >= MAX_FAILURES || !self.is_low(&auto).await? {
            return Ok(());
        }
        let used = self.used_this_month(account).await?;
        let fits = |used: Credits| used <= auto.monthly_limit;
        if !used.checked_add(auto.amount).is_some_and(fits) {
            return Ok(());
        }
        let new = self.new_top_up(account, TopUpKind::Auto, auto.amount)?;
        let created = self.storage.top_ups.create(new.clone()).await;
        if !created.map_err(no_such_account)? {
            return Ok(());
        }
        // The created top-up excludes other nodes, and any earlier top-up has ended. The checks
        // above may be outdated, so they are repeated.
        if !self.is_low(&auto).await? || !fits(self.used_this_month(account).await?) {
            return self.fail(new.id, "not_needed").await;
        }
        self.charge(&new).await
    }

    async fn is_low(&self, auto: &AutoTopUp) -> Result<bool, Error> {
        let balance = self.storage.ledger.balance(auto.account).await;
        Ok(balance.map_err(no_such_account)?.credits < auto.below)
    }

    async fn used_this_month(&self, account: AccountId) -> Result<Credits, Error> {
        let since = month_of(self.clock.now());
        let used = self.storage.top_ups.auto_since(account, since).await;
        used.map_err(Error::internal)
    }

    /// Charges the saved card of the account.
    async fn charge(&self, top_up: &TopUp) -> Result<(), Error> {
        let charge = SavedCharge {
            top_up: top_up.id,
            payer: self.payer(top_up.account).await?,
            money: top_up.money,
            title: self.title(top_up.credits),
        };
        match self.provider.charge_saved(&charge).await {
            Ok(ChargeOutcome::Paid(paid)) => self.credit(&paid).await,
            Ok(ChargeOutcome::Processing { .. }) => Ok(()),
            Ok(ChargeOutcome::Declined { why }) => self.fail(top_up.id, &why).await,
            // The outcome is unknown: the top-up stays pending and is retried.
            Err(error) if error.is_transient => Err(unavailable(&error)),
            Err(error) => {
                tracing::warn!(%error, top_up.id = %top_up.id, "the payment provider rejected the charge");
                self.fail(top_up.id, "refused").await
            }
        }
    }

    async fn retry_pending(&self) -> Result<(), Error> {
        let now = self.clock.now();
        let pending = self
            .storage
            .top_ups
            .pending_auto(now.minus(RETRY_INTERVAL), PAGE)
            .await;
        for top_up in pending.map_err(Error::internal)? {
            let asked = match now.since(top_up.created_at) < RETRY_TIMEOUT {
                true => self.charge(&top_up).await,
                false => self.fail(top_up.id, "no_answer").await,
            };
            if let Err(error) = asked {
                tracing::warn!(%error, top_up.id = %top_up.id, "cannot retry the pending charge of {}", top_up.id);
            }
        }
        Ok(())
    }

    /// Grants the paid credits to the account. Repeated calls for a payment grant the credits once.
    async fn credit(&self, paid: &Paid) -> Result<(), Error> {
        let top_up = self.find(paid.top_up).await?;
        let credits = self.bought(&top_up, paid.money)?;
        let now = self.clock.now();
        let name = self.provider.name();
        let grant = grant_id(name, &paid.reference);
        let granted = self.storage.ledger.grant(Grant {
            id: grant,
            account: top_up.account,
            amount: credits,
            at: now,
            terms: LotTerms {
                note: format!("{name} {}", paid.reference),
                ..LotTerms::default()
            },
        });
        granted.await.map_err(conflict)?;
        let change = TopUpChange::Paid {
            reference: paid.reference.clone(),
            money: paid.money,
            credits,
            grant,
        };
        let changed = self.storage.top_ups.change(top_up.id, change, now).await;
        changed.map_err(conflict)?;
        if top_up.state != TopUpState::Paid {
            tracing::info!(account.id = %top_up.account, %credits, "{} was paid", top_up.id);
            self.note_auto(&top_up, |_| 0).await?;
        }
        Ok(())
    }

    /// Returns the credits of a payment: the agreed credits, or those at the current price if
    /// another amount was paid.
    fn bought(&self, top_up: &TopUp, money: Money) -> Result<Credits, Error> {
        let promised = (money == top_up.money).then_some(top_up.credits);
        let credits = promised.or_else(|| self.settings.price.credits_for(money));
        credits.filter(|credits| *credits > Credits::ZERO).ok_or_else(|| {
            tracing::error!(top_up.id = %top_up.id, ?money, "the payment of {} buys no credits", top_up.id);
            Error::new(ErrorCode::Conflict, "The payment buys no credits: its amount is too small, or its currency is not that of the credit price.")
        })
    }

    async fn fail(&self, id: TopUpId, why: &str) -> Result<(), Error> {
        let top_up = self.find(id).await?;
        if top_up.state != TopUpState::Pending {
            return Ok(());
        }
        let why = why.to_owned();
        let change = TopUpChange::Failed { why: why.clone() };
        let changed = self.storage.top_ups.change(id, change, self.clock.now()).await;
        changed.map_err(conflict)?;
        if why != "not_needed" {
            tracing::info!(account.id = %top_up.account, why, "{id} was not paid");
            self.note_auto(&top_up, |failures| failures.saturating_add(1))
                .await?;
        }
        Ok(())
    }

    /// Updates the number of consecutive failed charges of an automatic top-up.
    async fn note_auto(&self, top_up: &TopUp, failures: impl FnOnce(u32) -> u32) -> Result<(), Error> {
        if top_up.kind != TopUpKind::Auto {
            return Ok(());
        }
        let store = &self.storage.top_ups;
        let Some(mut auto) = store.auto(top_up.account).await.map_err(Error::internal)? else {
            return Ok(());
        };
        auto.failures = failures(auto.failures);
        if auto.failures >= MAX_FAILURES {
            tracing::warn!(
                account.id = %top_up.account,
                "automatic top-ups of {} are paused: {MAX_FAILURES} consecutive charges failed", top_up.account
            );
        }
        let set = store.set_auto(top_up.account, Some(auto)).await;
        set.map_err(Error::internal)
    }

    /// Withdraws the unspent credits of a refunded payment. For the payment of a plan invoice,
    /// withdraws none.
    async fn withdraw_refunded(&self, reference: &str, total: Money) -> Result<EventOutcome, Error> {
        let found = self.storage.top_ups.by_reference(reference).await;
        let Some(top_up) = found.map_err(Error::internal)? else {
            let of_invoice = self.provider.is_invoice_payment(reference).await;
            return match of_invoice.map_err(|error| unavailable(&error))? {
                true => {
                    tracing::warn!(
                        reference,
                        ?total,
                        "an invoice of a plan was refunded; the subscription continues until it is cancelled"
                    );
                    Ok(EventOutcome::Ignored)
                }
                false => Err(unknown()),
            };
        };
        let Some(lot) = top_up.grant else {
            return Err(unknown());
        };
        let now = self.clock.now();
        let change = TopUpChange::Returned { total: total.amount };
        let changed = self.storage.top_ups.change(top_up.id, change, now).await;
        let changed = changed.map_err(conflict)?;
        let owed = share_of(changed.credits, changed.returned, changed.money.amount);
        let taken = self
            .storage
            .lots
            .withdraw(lot, owed, now)
            .await
            .map_err(conflict)?
            .amount;
        tracing::info!(account.id = %top_up.account, %owed, %taken, "a payment for {} was refunded, fully or in part", top_up.id);
        Ok(EventOutcome::Returned)
    }

    async fn find(&self, id: TopUpId) -> Result<TopUp, Error> {
        let found = self.storage.top_ups.get(id).await.map_err(Error::internal)?;
        found.ok_or_else(|| {
            tracing::error!(top_up.id = %id, "the payment provider sent an event for {id}, which does not exist");
            unknown()
        })
    }

    fn new_top_up(&self, account: AccountId, kind: TopUpKind, credits: Credits) -> Result<TopUp, Error> {
        self.check_amount(credits)?;
        let now = self.clock.now();
        let money = self.settings.price.of(credits);
        Ok(TopUp {
            id: TopUpId::from_u128(self.ids.next(now)),
            account,
            kind,
            state: TopUpState::Pending,
            money: money.ok_or_else(|| invalid("amount", "'amount' is too large."))?,
            credits,
            reference: None,
            grant: None,
            returned: 0,
            failure: None,
            created_at: now,
            updated_at: now,
        })
    }

    fn check_amount(&self, credits: Credits) -> Result<(), Error> {
        let TopUpSettings {
            min_amount,
            max_amount,
            ..
        } = self.settings;
        match credits >= min_amount && credits <= max_amount {
            true => Ok(()),
            false => {
                let message =
                    format!("A top-up must be from {min_amount} to {max_amount} credits, see [payments].");
                Err(invalid("amount", message))
            }
        }
    }

    fn title(&self, credits: Credits) -> String {
        format!("{credits} credits, {}", self.settings.seller)
    }

    /// Returns the id of the account at the provider; creates it if there is none.
    async fn payer(&self, account: AccountId) -> Result<String, Error> {
        let (store, name) = (&self.storage.top_ups, self.provider.name());
        if let Some(payer) = store.payer(account, name).await.map_err(Error::internal)? {
            return Ok(payer);
        }
        let found = self
            .storage
            .accounts
            .get(account)
            .await
            .map_err(Error::internal)?;
        let found = found.ok_or_else(|| no_such_account(StorageError::not_found(account)))?;
        let new = NewPayer {
            account,
            name: found.name,
        };
        let created = self.provider.create_payer(&new).await;
        let created = created.map_err(|error| unavailable(&error))?;
        let stored = store.save_payer(account, name, &created, self.clock.now()).await;
        stored.map_err(no_such_account)
    }
}

/// Returns the start of the calendar month in UTC.
fn month_of(now: Timestamp) -> Timestamp {
    let begin = || {
        let now = jiff::Timestamp::from_microsecond(now.as_micros())
            .ok()?
            .to_zoned(TimeZone::UTC);
        let first = now
            .start_of_day()
            .ok()?
            .checked_sub((i64::from(now.day()) - 1).days())
            .ok()?;
        Some(first.timestamp().as_microsecond())
    };
    begin().map_or(now, Timestamp::from_micros)
}

/// Returns a 404 error, so that the provider sends the event again: the top-up may be stored by
/// then.
fn unknown() -> Error {
    Error::new(ErrorCode::NotFound, "The top-up does not exist.")
}

fn conflict(error: StorageError) -> Error {
    match error.kind {
        StorageErrorKind::Conflict => {
            let message = "The event contradicts the stored state of the top-up.";
            Error::new(ErrorCode::Conflict, message).with_source(error)
        }
        _ => Error::internal(error),
    }
}

fn unavailable(error: &PaymentError) -> Error {
    let (code, what, advice) = match error.is_transient {
        true => (ErrorCode::Overloaded, "is unavailable", " Retry later."),
        false => (ErrorCode::UpstreamError, "rejected the request", ""),
    };
    Error::new(code, format!("The payment provider {what}: {error}.{advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_at_their_first_midnight() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        for (now, begin) in [
            ("2026-11-22T13:00:00Z", "2026-11-01T00:00:00Z"),
            ("2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z"),
            ("2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z"),
        ] {
            assert_eq!(month_of(at(now)), at(begin), "{now}");
        }
    }
}
