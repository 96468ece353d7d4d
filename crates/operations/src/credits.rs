//! Commands on credits: grants, lots, refunds and withdrawals.

use std::time::Duration;

use tollgate_storage::refund::{grant_id, refund_id};
use tollgate_storage::{Grant, Lot, LotKind, LotTerms, NewRefund, RefundOutcome, StorageErrorKind, UsageRow};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Error, ErrorCode, RequestId, Timestamp};

use crate::GrantParams;
use crate::Operations;
use crate::accounts::{no_such_account, time_of};
use crate::execute::balance;
use crate::view::{BalanceView, GrantedView, LotView, RefundView, WithdrawalView};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of days until credits or keys expire: one hundred years.
const MAX_EXPIRY_DAYS: u32 = 36_500;

/// Maximum length of notes, reasons and idempotency keys, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// Adds credits to an account. A repeated grant with the same key and terms adds nothing and
/// returns the first grant; different terms are an error.
pub(crate) async fn grant(
    operations: &Operations,
    account: AccountId,
    params: GrantParams,
) -> Result<GrantedView, Error> {
    if params.amount <= Credits::ZERO {
        return Err(invalid("amount", "'amount' must be above 0."));
    }
    let now = time_of(operations, account).await?;
    let key = text("id", params.key.clone())?;
    let id = match key.as_str() {
        "" => TransferId::from_u128(operations.ids.next(now)),
        key => grant_id(account, key),
    };
    let (amount, is_relative) = (params.amount, params.expires_in_days.is_some());
    let terms = terms(params, now)?;
    let before = match key.is_empty() {
        true => None,
        false => granted_before(operations, account, id).await?,
    };
    if let Some(lot) = before {
        let is_same = lot.amount == amount && same_terms(&lot.terms, &terms, is_relative);
        let lot = is_same.then_some(lot).ok_or_else(|| {
            let message = "This id belongs to a different grant. Use another id, or repeat the same grant.";
            Error::new(ErrorCode::Conflict, message).with_param("id")
        })?;
        return Ok(granted(&lot, balance(operations, account).await?, true));
    }
    let lot = Lot::new(id, account, amount, terms, now);
    let grant = Grant {
        id,
        account,
        amount,
        at: now,
        terms: lot.terms.clone(),
    };
    let stored = operations.storage.ledger.grant(grant).await;
    let balance = stored.map_err(|error| match error.kind {
        StorageErrorKind::Conflict => invalid("amount", "The balance would be too large."),
        _ => no_such_account(error),
    })?;
    Ok(granted(&lot, balance.into(), false))
}

async fn granted_before(
    operations: &Operations,
    account: AccountId,
    id: TransferId,
) -> Result<Option<Lot>, Error> {
    let lots = operations
        .storage
        .lots
        .lots(account, time_of(operations, account).await?)
        .await;
    let lots = lots.map_err(no_such_account)?;
    Ok(lots.into_iter().find(|lot| lot.id == id))
}

/// Whether a repeated grant has the terms of the stored one. With `is_relative`, the expiry is not
/// compared, because a number of days resolves to a different time in each request.
fn same_terms(stored: &LotTerms, sent: &LotTerms, is_relative: bool) -> bool {
    let expires_at = match is_relative {
        true => stored.expires_at,
        false => sent.expires_at,
    };
    let sent = LotTerms {
        expires_at,
        ..sent.clone()
    };
    *stored == sent
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

/// Returns the time that is `days` after `now`. Fails unless `days` is from 1 to
/// [`MAX_EXPIRY_DAYS`].
pub(crate) fn in_days(now: Timestamp, days: u32) -> Result<Timestamp, Error> {
    match days {
        1..=MAX_EXPIRY_DAYS => Ok(now.plus(DAY * days)),
        _ => Err(invalid(
            "expires_in_days",
            "'expires_in_days' must be from 1 to 36500.",
        )),
    }
}

fn terms(params: GrantParams, now: Timestamp) -> Result<LotTerms, Error> {
    if params.expires_in_days.is_some() && params.expires_at.is_some() {
        let message = "Send only one of 'expires_at' and 'expires_in_days'.";
        return Err(invalid("expires_at", message));
    }
    let in_days = params
        .expires_in_days
        .map(|days| in_days(now, days))
        .transpose()?;
    let expires_at = in_days.or(params.expires_at);
    if expires_at.is_some_and(|at| at <= now) {
        return Err(invalid("expires_at", "'expires_at' must be in the future."));
    }
    Ok(LotTerms {
        kind: if params.promotion {
            LotKind::Promotion
        } else {
            LotKind::Purchase
        },
        priority: params.priority.unwrap_or(LotTerms::PRIORITY),
        expires_at,
        note: text("note", params.note)?,
    })
}

/// Validates a text of an operator and returns it; returns an empty string if it was omitted.
fn text(param: &str, text: Option<String>) -> Result<String, Error> {
    let text = text.unwrap_or_default();
    if text.chars().count() > MAX_TEXT_CHARS || text.chars().any(char::is_control) {
        return Err(invalid(
            param,
            "The text must be one line of at most 200 characters.",
        ));
    }
    Ok(text)
}

fn invalid(param: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// Lists the lots of an account in spending order. With `all`, the list includes used-up lots.
pub(crate) async fn lots(
    operations: &Operations,
    account: AccountId,
    all: bool,
) -> Result<Vec<LotView>, Error> {
    balance(operations, account).await?;
    let lots = operations
        .storage
        .lots
        .lots(account, time_of(operations, account).await?)
        .await;
    let lots = lots.map_err(no_such_account)?;
    let shown = |lot: &&Lot| all || lot.remaining > Credits::ZERO;
    Ok(lots.iter().filter(shown).map(LotView::of).collect())
}

/// The call, the amount and the idempotency key of a refund.
pub(crate) struct RefundParams {
    /// Id of the request that made the call.
    pub(crate) request: RequestId,
    /// Account that must own the call; `None` accepts any.
    pub(crate) account: Option<AccountId>,
    /// Credits to refund; `None` for the full refundable amount.
    pub(crate) amount: Option<Credits>,
    /// Note for operators.
    pub(crate) reason: Option<String>,
    /// Idempotency key of the refund. If `None`, the amount identifies the refund.
    pub(crate) key: Option<String>,
}

/// Refunds the charge of a call, or a part of it.
pub(crate) async fn refund(operations: &Operations, params: RefundParams) -> Result<RefundView, Error> {
    let RefundParams {
        request,
        account,
        amount,
        reason,
        key,
    } = params;
    let reason = text("reason", reason)?;
    if amount.is_some_and(|amount| amount <= Credits::ZERO) {
        return Err(invalid("amount", "'amount' must be above 0."));
    }
    let key = match (text("key", key)?, amount) {
        (key, _) if !key.is_empty() => format!("key {key}"),
        (_, Some(amount)) => format!("amount {amount}"),
        (_, None) => "all".to_owned(),
    };
    let row = operations.storage.usage.of_request(request).await;
    let row = row.map_err(Error::internal)?;
    let row = row.filter(|row| account.is_none_or(|account| account == row.account));
    let row = row.ok_or_else(|| {
        let message = "This request has no usage row: it was never served, or is still running.";
        Error::new(ErrorCode::NotFound, message)
    })?;
    let new = NewRefund {
        id: refund_id(row.id, &key),
        account: row.account,
        hold: row.id,
        amount,
        reason,
        at: time_of(operations, row.account).await?,
    };
    let outcome = operations
        .storage
        .lots
        .refund(new)
        .await
        .map_err(Error::internal)?;
    let (refund, repeated) = match outcome {
        RefundOutcome::Done { refund, is_repeated } => (refund, is_repeated),
        RefundOutcome::Denied { refundable } => return Err(not_refundable(&row, refundable)),
    };
    Ok(RefundView {
        id: refund.id,
        account: refund.account,
        account_name: None,
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
    let limit_text = format!(
        "At most {refundable} credits of this call can be refunded: {charge} were charged, {refunded} refunded."
    );
    let weeks = match row.included {
        Credits::ZERO => String::new(),
        included => {
            format!(" A plan paid {included} of it, refundable only to its week while that week is open.")
        }
    };
    invalid("amount", limit_text + &weeks)
}

/// Withdraws the unused part of a purchase or promotion. Fails if it has no unused credits.
pub(crate) async fn refund_grant(operations: &Operations, id: TransferId) -> Result<WithdrawalView, Error> {
    let (lots, now) = (&operations.storage.lots, operations.clock.now());
    let withdrawal = lots.withdraw(id, Credits::MAX, now).await;
    let withdrawal = withdrawal.map_err(|error| match error.kind {
        StorageErrorKind::NotFound => {
            let message = "There is no such grant. List the grants of the account to find the id.";
            Error::new(ErrorCode::NotFound, message)
        }
        StorageErrorKind::Conflict => invalid(
            "id",
            "This is a refund; only purchases and promotions can be withdrawn.",
        ),
        _ => Error::internal(error),
    })?;
    if withdrawal.amount.is_zero() {
        let message = "The grant has no unused credits, or running calls hold them.";
        return Err(invalid("id", message));
    }
    Ok(WithdrawalView {
        id,
        account: withdrawal.account,
        withdrawn: withdrawal.amount,
    })
}
