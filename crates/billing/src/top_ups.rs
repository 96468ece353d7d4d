//! Top-ups: credits that are paid for through a payment provider, by somebody on its page or by a card that it keeps.
//!
//! The provider's word is what counts, and it may come twice, late, in any order, or on two ways at once. So the grant is
//! named by the provider's id of the money that moved: however often that is told, the credits come once.

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
    ChargeOutcome, EventFault, NewCheckout, NewPayer, Paid, PaymentError, PaymentEvent, PaymentProvider,
    SavedCharge,
};

use crate::refusal::{invalid, no_such_account};

pub use plans::{MARGIN, OpenedPlan};

/// After so many charges that failed one after another no further one is tried.
pub const MOST_FAILURES: u32 = 3;
/// When a charge whose outcome nobody told is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(5 * 60);
/// How long a charge may be asked for again: providers remember for a day that they have heard it before.
const GIVE_UP: Duration = Duration::from_secs(23 * 60 * 60);
/// Accounts and top-ups that one pass looks at together.
const PAGE: u32 = 500;

/// What is sold, and where pages lead.
#[derive(Clone, Debug)]
pub struct TopUpSettings {
    /// What a credit costs.
    pub price: CreditPrice,
    /// The fewest credits of one top-up.
    pub least: Credits,
    /// The most.
    pub most: Credits,
    /// Who sells, as pages and receipts have it.
    pub seller: String,
    /// Where the provider's pages lead back to.
    pub return_url: String,
}

/// A page on which a top-up is paid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The top-up.
    pub top_up: TopUp,
    /// The address of the page.
    pub url: String,
}

/// What an event came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Credits are there, now or since it was told before.
    Credited,
    /// A top-up was not paid.
    Failed,
    /// Credits were taken back, as far as they are there.
    Returned,
    /// A plan begins, goes on, is owed or ends, now or since it was told before.
    Plan,
    /// It concerns neither credits nor plans.
    Ignored,
}

/// Sells credits, and plans that the provider renews.
pub struct TopUps {
    provider: Arc<dyn PaymentProvider>,
    settings: TopUpSettings,
    storage: Storage,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
}

impl TopUps {
    /// Sells credits through this provider.
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

    /// The provider.
    pub fn provider(&self) -> &dyn PaymentProvider {
        &*self.provider
    }

    /// Opens a page on which somebody pays for so many credits.
    pub async fn open(&self, account: AccountId, credits: Credits) -> Result<Opened, Error> {
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
            Ok(page) => Ok(Opened {
                top_up: new,
                url: page.url,
            }),
            Err(error) => {
                self.fail(new.id, "not_opened").await?;
                Err(unavailable(&error))
            }
        }
    }

    /// The address of a page on which receipts are looked at and cards are changed.
    pub async fn open_portal(&self, account: AccountId) -> Result<String, Error> {
        let payer = self.payer(account).await?;
        let opened = self.provider.open_portal(&payer, &self.settings.return_url).await;
        opened.map_err(|error| unavailable(&error))
    }

    /// Sets by what an account's balance is filled up, or that it is not. Charges that failed are forgotten.
    pub async fn set_auto(
        &self,
        account: AccountId,
        auto: Option<AutoTopUp>,
    ) -> Result<Option<AutoTopUp>, Error> {
        if let Some(auto) = &auto {
            self.check_amount(auto.amount)?;
            if auto.below <= Credits::ZERO {
                return Err(invalid("below", "It is above 0."));
            }
            if auto.monthly_limit < auto.amount {
                return Err(invalid("monthly_limit", "It is at least one top-up."));
            }
        }
        let set = self.storage.top_ups.set_auto(account, auto.clone()).await;
        set.map_err(no_such_account)?;
        Ok(auto)
    }

    /// Carries out what an event says. `signature` is the value of the provider's header.
    pub async fn receive(&self, signature: Option<&str>, body: &[u8]) -> Result<Received, Error> {
        let event = self.provider.read_event(signature, body, self.clock.now());
        let event = event.map_err(|fault| {
            tracing::warn!(%fault, provider = self.provider.name(), "an event of the payment provider is refused");
            let error = Error::new(ErrorCode::InvalidParameter, format!("The event is refused: {fault}."));
            match fault {
                EventFault::Signature | EventFault::Stale => error.with_param(self.provider.signature_header()),
                EventFault::Malformed(_) => error,
            }
        })?;
        match event {
            PaymentEvent::Paid(paid) => {
                self.credit(&paid).await?;
                Ok(Received::Credited)
            }
            PaymentEvent::Failed { top_up, why } => {
                self.fail(top_up, &why).await?;
                Ok(Received::Failed)
            }
            PaymentEvent::Returned { reference, total } => self.take_back(&reference, total).await,
            PaymentEvent::PlanPaid(invoice) => self.plan_paid(&invoice).await,
            PaymentEvent::PlanNotPaid(invoice) => self.plan_not_paid(&invoice).await,
            PaymentEvent::PlanChanged(of) => self.plan_changed(&of).await,
            PaymentEvent::PlanEnded(of) => self.plan_ended(&of).await,
            PaymentEvent::PlanNotBegun { subscription, why } => {
                self.plan_not_begun(subscription, &why).await?;
                Ok(Received::Plan)
            }
            PaymentEvent::Other { kind } => {
                tracing::debug!(kind, "an event that concerns neither credits nor plans");
                Ok(Received::Ignored)
            }
        }
    }

    /// Fills up the balances that are low, and asks again for charges whose outcome nobody told. Several nodes may do so at
    /// once: of an account one charge is under way. A failure is logged and the next pass tries again.
    pub async fn fill_up(&self) {
        if let Err(error) = self.ask_again().await {
            tracing::warn!(%error, "cannot look for charges that are under way");
        }
        let mut after = None;
        loop {
            let page = match self.storage.top_ups.autos(after, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for balances that are to be filled up");
                    return;
                }
            };
            let Some(last) = page.last() else { return };
            after = Some(last.account);
            for auto in page {
                let account = auto.account;
                if let Err(error) = self.fill_up_one(auto).await {
                    tracing::warn!(%error, account.id = %account, "cannot fill up the balance of {account}");
                }
            }
        }
    }

    async fn fill_up_one(&self, auto: AutoTopUp) -> Result<(), Error> {
        let account = auto.account;
        if auto.failures >= MOST_FAILURES || !self.is_low(&auto).await? {
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
        // Only now no other node can be at it, and one that was is done: what was true before may not be any more.
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

    /// Charges the card that is kept for the account.
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
            // Nobody knows whether it was carried out: it stays pending, and is asked for again.
            Err(error) if error.is_transient => Err(unavailable(&error)),
            Err(error) => {
                self.fail(top_up.id, "refused").await?;
                Err(unavailable(&error))
            }
        }
    }

    async fn ask_again(&self) -> Result<(), Error> {
        let now = self.clock.now();
        let pending = self
            .storage
            .top_ups
            .pending_auto(now.minus(ASK_AGAIN), PAGE)
            .await;
        for top_up in pending.map_err(Error::internal)? {
            let asked = match now.since(top_up.created_at) < GIVE_UP {
                true => self.charge(&top_up).await,
                false => self.fail(top_up.id, "no_answer").await,
            };
            if let Err(error) = asked {
                tracing::warn!(%error, top_up.id = %top_up.id, "the outcome of {} is still unknown", top_up.id);
            }
        }
        Ok(())
    }

    /// Puts what was paid into the account, once.
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

    /// What the money buys: what was promised for it, else what it is worth today.
    fn bought(&self, top_up: &TopUp, money: Money) -> Result<Credits, Error> {
        let promised = (money == top_up.money).then_some(top_up.credits);
        let credits = promised.or_else(|| self.settings.price.credits_for(money));
        credits.filter(|credits| *credits > Credits::ZERO).ok_or_else(|| {
            tracing::error!(top_up.id = %top_up.id, ?money, "{} was paid with what buys no credits", top_up.id);
            Error::new(ErrorCode::Conflict, "What was paid buys no credits here.")
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

    /// Counts charges of a card that is kept which failed one after another.
    async fn note_auto(&self, top_up: &TopUp, failures: impl FnOnce(u32) -> u32) -> Result<(), Error> {
        if top_up.kind != TopUpKind::Auto {
            return Ok(());
        }
        let store = &self.storage.top_ups;
        let Some(mut auto) = store.auto(top_up.account).await.map_err(Error::internal)? else {
            return Ok(());
        };
        auto.failures = failures(auto.failures);
        if auto.failures >= MOST_FAILURES {
            tracing::warn!(
                account.id = %top_up.account,
                "the balance of {} is no longer filled up: {MOST_FAILURES} charges failed", top_up.account
            );
        }
        let set = store.set_auto(top_up.account, Some(auto)).await;
        set.map_err(Error::internal)
    }

    /// Takes back of the credits what of the money went back, as far as it is there. What was paid for a plan bought none.
    async fn take_back(&self, reference: &str, total: Money) -> Result<Received, Error> {
        let found = self.storage.top_ups.by_reference(reference).await;
        let Some(top_up) = found.map_err(Error::internal)? else {
            let of_invoice = self.provider.is_of_invoice(reference).await;
            return match of_invoice.map_err(|error| unavailable(&error))? {
                true => {
                    tracing::warn!(
                        reference,
                        ?total,
                        "money of an invoice went back; a plan that it paid for goes on until it is cancelled"
                    );
                    Ok(Received::Ignored)
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
            .map_err(conflict)?;
        tracing::info!(account.id = %top_up.account, %owed, %taken, "money of {} went back", top_up.id);
        Ok(Received::Returned)
    }

    async fn find(&self, id: TopUpId) -> Result<TopUp, Error> {
        let found = self.storage.top_ups.get(id).await.map_err(Error::internal)?;
        found.ok_or_else(|| {
            tracing::error!(top_up.id = %id, "the payment provider speaks of {id}, which nobody asked for here");
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
            money: money.ok_or_else(|| invalid("amount", "It is too large."))?,
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
        let TopUpSettings { least, most, .. } = self.settings;
        match credits >= least && credits <= most {
            true => Ok(()),
            false => {
                let message = format!("A top-up is of {least} to {most} credits ([payments] least, most).");
                Err(invalid("amount", message))
            }
        }
    }

    fn title(&self, credits: Credits) -> String {
        format!("{credits} credits, {}", self.settings.seller)
    }

    /// The provider's id of the account, which is made when there is none.
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
        let made = self.provider.create_payer(&new).await;
        let made = made.map_err(|error| unavailable(&error))?;
        let kept = store.keep_payer(account, name, &made, self.clock.now()).await;
        kept.map_err(no_such_account)
    }
}

/// When the month began, in UTC.
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

/// The provider tells it again: what it speaks of may come to be known.
fn unknown() -> Error {
    Error::new(ErrorCode::NotFound, "There is no such top-up.")
}

fn conflict(error: StorageError) -> Error {
    match error.kind {
        StorageErrorKind::Conflict => {
            let message = "What was told of the top-up does not agree with what is known of it.";
            Error::new(ErrorCode::Conflict, message).with_source(error)
        }
        _ => Error::internal(error),
    }
}

fn unavailable(error: &PaymentError) -> Error {
    let (code, what) = match error.is_transient {
        true => (ErrorCode::Overloaded, "does not answer; try again later"),
        false => (ErrorCode::UpstreamError, "refuses this"),
    };
    Error::new(code, format!("The payment provider {what}: {error}."))
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
