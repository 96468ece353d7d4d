//! Credits: what is granted, what is left of it, and what is given back.

use std::time::Duration;

use tollgate_storage::refund::{grant_id, refund_id};
use tollgate_storage::{Grant, Lot, LotKind, LotTerms, NewRefund, RefundOutcome, StorageErrorKind, UsageRow};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Error, ErrorCode, RequestId, Timestamp};

use super::GrantWish;
use super::accounts::{no_such_account, time_of};
use super::execute::balance;
use super::view::{BalanceView, GrantedView, LotView, RefundView, WithdrawalView};
use crate::wiring::Domains;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A hundred years.
const MOST_DAYS: u32 = 36_500;

/// Characters of a text that an operator writes beside an amount.
const LONGEST_TEXT: usize = 200;

/// Puts credits into an account; once under a key, where one is given.
pub(super) async fn grant(
    domains: &Domains,
    account: AccountId,
    wish: GrantWish,
) -> Result<GrantedView, Error> {
    if wish.amount <= Credits::ZERO {
        return Err(invalid("amount", "An amount is above 0."));
    }
    let now = time_of(domains, account).await?;
    let key = text("id", wish.key.clone())?;
    let id = match key.as_str() {
        "" => TransferId::from_u128(domains.ids.next(now)),
        key => grant_id(account, key),
    };
    let (amount, is_relative) = (wish.amount, wish.expires_in_days.is_some());
    let terms = terms(wish, now)?;
    let before = match key.is_empty() {
        true => None,
        false => granted_before(domains, account, id).await?,
    };
    if let Some(lot) = before {
        let is_same = lot.amount == amount && same_terms(&lot.terms, &terms, is_relative);
        let lot = is_same.then_some(lot).ok_or_else(|| {
            let message = "Another grant was made under this id. Take another id, or send the same grant.";
            Error::new(ErrorCode::Conflict, message).with_param("id")
        })?;
        return Ok(granted(&lot, balance(domains, account).await?, true));
    }
    let lot = Lot::new(id, account, amount, terms, now);
    let grant = Grant {
        id,
        account,
        amount,
        at: now,
        terms: lot.terms.clone(),
    };
    let made = domains.storage.ledger.grant(grant).await;
    let balance = made.map_err(|error| match error.kind {
        StorageErrorKind::Conflict => invalid("amount", "The balance would be too large."),
        _ => no_such_account(error),
    })?;
    Ok(granted(&lot, balance.into(), false))
}

async fn granted_before(domains: &Domains, account: AccountId, id: TransferId) -> Result<Option<Lot>, Error> {
    let lots = domains
        .storage
        .lots
        .lots(account, time_of(domains, account).await?)
        .await;
    let lots = lots.map_err(no_such_account)?;
    Ok(lots.into_iter().find(|lot| lot.id == id))
}

/// Whether a grant is the one that was made. An end that is given in days is another instant every time.
fn same_terms(made: &LotTerms, sent: &LotTerms, is_relative: bool) -> bool {
    let expires_at = match is_relative {
        true => made.expires_at,
        false => sent.expires_at,
    };
    let sent = LotTerms {
        expires_at,
        ..sent.clone()
    };
    *made == sent
}

fn granted(lot: &Lot, balance: BalanceView, repeated: bool) -> GrantedView {
    GrantedView {
        id: lot.id,
        kind: lot.terms.kind.as_str().to_owned(),
        amount: lot.amount,
        priority: lot.terms.priority,
        expires_at: lot.terms.expires_at.map(Timestamp::to_rfc3339),
        note: lot.terms.note.clone(),
        repeated,
        credits: balance.credits,
        held: balance.held,
    }
}

/// The instant so many days from now.
pub(super) fn in_days(now: Timestamp, days: u32) -> Result<Timestamp, Error> {
    match days {
        1..=MOST_DAYS => Ok(now.plus(DAY * days)),
        _ => Err(invalid("expires_in_days", "It is from 1 to 36500 days.")),
    }
}

fn terms(wish: GrantWish, now: Timestamp) -> Result<LotTerms, Error> {
    if wish.expires_in_days.is_some() && wish.expires_at.is_some() {
        let message = "It stands for itself: leave out one of 'expires_at' and 'expires_in_days'.";
        return Err(invalid("expires_at", message));
    }
    let in_days = wish.expires_in_days.map(|days| in_days(now, days)).transpose()?;
    let expires_at = in_days.or(wish.expires_at);
    if expires_at.is_some_and(|at| at <= now) {
        return Err(invalid("expires_at", "Credits expire in the future."));
    }
    Ok(LotTerms {
        kind: if wish.promotion {
            LotKind::Promotion
        } else {
            LotKind::Purchase
        },
        priority: wish.priority.unwrap_or(LotTerms::PRIORITY),
        expires_at,
        note: text("note", wish.note)?,
    })
}

/// What an operator wrote, which may be nothing.
fn text(param: &str, text: Option<String>) -> Result<String, Error> {
    let text = text.unwrap_or_default();
    if text.chars().count() > LONGEST_TEXT || text.chars().any(char::is_control) {
        return Err(invalid(param, "It has at most 200 characters, on one line."));
    }
    Ok(text)
}

fn invalid(param: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// The lots of an account in the order in which they are spent; with `all` also those that are used up.
pub(super) async fn lots(domains: &Domains, account: AccountId, all: bool) -> Result<Vec<LotView>, Error> {
    balance(domains, account).await?;
    let lots = domains
        .storage
        .lots
        .lots(account, time_of(domains, account).await?)
        .await;
    let lots = lots.map_err(no_such_account)?;
    let shown = |lot: &&Lot| all || lot.remaining > Credits::ZERO;
    Ok(lots.iter().filter(shown).map(LotView::of).collect())
}

/// A charge to be given back.
pub(super) struct RefundWish {
    /// The request of the call.
    pub(super) request: RequestId,
    /// Whose call it must be, where that is said.
    pub(super) account: Option<AccountId>,
    /// How many credits; all that can be given back when it is not said.
    pub(super) amount: Option<Credits>,
    /// For operators.
    pub(super) reason: Option<String>,
    /// What names the refund; the amount when it is not said.
    pub(super) key: Option<String>,
}

/// Gives back what was charged for a call.
pub(super) async fn refund(domains: &Domains, wish: RefundWish) -> Result<RefundView, Error> {
    let RefundWish {
        request,
        account,
        amount,
        reason,
        key,
    } = wish;
    let reason = text("reason", reason)?;
    if amount.is_some_and(|amount| amount <= Credits::ZERO) {
        return Err(invalid("amount", "An amount is above 0."));
    }
    let key = match (text("key", key)?, amount) {
        (key, _) if !key.is_empty() => format!("key {key}"),
        (_, Some(amount)) => format!("amount {amount}"),
        (_, None) => "all".to_owned(),
    };
    let row = domains.storage.usage.of_request(request).await;
    let row = row.map_err(Error::internal)?;
    let row = row.filter(|row| account.is_none_or(|account| account == row.account));
    let row = row.ok_or_else(|| {
        let message = "There is no usage row of this request: it was never served, or still runs.";
        Error::new(ErrorCode::NotFound, message)
    })?;
    let new = NewRefund {
        id: refund_id(row.id, &key),
        account: row.account,
        hold: row.id,
        amount,
        reason,
        at: time_of(domains, row.account).await?,
    };
    let outcome = domains.storage.lots.refund(new).await.map_err(Error::internal)?;
    let (refund, repeated) = match outcome {
        RefundOutcome::Done { refund, is_repeated } => (refund, is_repeated),
        RefundOutcome::Denied { refundable } => return Err(not_refundable(&row, refundable)),
    };
    Ok(RefundView {
        id: refund.id,
        account: refund.account,
        request,
        credits: refund.credits,
        allowance: refund.allowance,
        created_at: refund.created_at.to_rfc3339(),
        reason: refund.reason,
        repeated,
    })
}

fn not_refundable(row: &UsageRow, refundable: Credits) -> Error {
    let (charge, refunded) = (row.charge, row.refunded);
    let most = format!(
        "{refundable} credits of this call can be given back: {charge} were charged, {refunded} given back."
    );
    let weeks = match row.included {
        Credits::ZERO => String::new(),
        included => {
            format!(" A plan paid {included} of it, which goes back only to its week, while that is open.")
        }
    };
    invalid("amount", most + &weeks)
}

/// Takes back what is left of a grant that was paid for.
pub(super) async fn refund_grant(domains: &Domains, id: TransferId) -> Result<WithdrawalView, Error> {
    let (lots, now) = (&domains.storage.lots, domains.clock.now());
    let withdrawn = lots.withdraw(id, Credits::MAX, now).await;
    let withdrawn = withdrawn.map_err(|error| match error.kind {
        StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "There is no such grant."),
        StorageErrorKind::Conflict => invalid("id", "It was not paid for; only purchases are taken back."),
        _ => Error::internal(error),
    })?;
    if withdrawn.is_zero() {
        let message = "Nothing of the grant is left, or calls that run hold it.";
        return Err(invalid("id", message));
    }
    Ok(WithdrawalView { id, withdrawn })
}
