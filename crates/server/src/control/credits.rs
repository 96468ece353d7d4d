//! Credits: what is granted, what is left of it, and what is given back.

use std::time::Duration;

use tollgate_storage::refund::refund_id;
use tollgate_storage::{Grant, Lot, LotKind, LotTerms, NewRefund, RefundOutcome, StorageErrorKind, UsageRow};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Error, ErrorCode, RequestId, Timestamp};

use super::GrantWish;
use super::execute::{balance, no_such_account};
use super::view::{BalanceView, LotView, RefundView, WithdrawalView};
use crate::wiring::Domains;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Characters of a text that an operator writes beside an amount.
const LONGEST_TEXT: usize = 200;

/// Puts credits into an account.
pub(super) async fn grant(
    domains: &Domains,
    account: AccountId,
    wish: GrantWish,
) -> Result<BalanceView, Error> {
    if wish.amount <= Credits::ZERO {
        return Err(invalid("amount", "An amount is above 0."));
    }
    let now = domains.clock.now();
    let grant = Grant {
        id: TransferId::from_u128(domains.ids.next(now)),
        account,
        amount: wish.amount,
        at: now,
        terms: terms(wish, now)?,
    };
    let granted = domains.storage.ledger.grant(grant).await;
    let balance = granted.map_err(|error| match error.kind {
        StorageErrorKind::Conflict => invalid("amount", "The balance would be too large."),
        _ => no_such_account(error),
    })?;
    Ok(balance.into())
}

fn terms(wish: GrantWish, now: Timestamp) -> Result<LotTerms, Error> {
    let in_days = wish.expires_in_days.map(|days| now.plus(DAY * days));
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
    let lots = domains.storage.lots.lots(account, domains.clock.now()).await;
    let lots = lots.map_err(no_such_account)?;
    let shown = |lot: &&Lot| all || lot.remaining > Credits::ZERO;
    Ok(lots.iter().filter(shown).map(LotView::of).collect())
}

/// Gives back what was charged for a call.
pub(super) async fn refund(
    domains: &Domains,
    request: RequestId,
    amount: Option<Credits>,
    reason: Option<String>,
    key: Option<String>,
) -> Result<RefundView, Error> {
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
    let row = row.map_err(Error::internal)?.ok_or_else(|| {
        let message = "There is no usage row of this request: it was never served, or still runs.";
        Error::new(ErrorCode::NotFound, message)
    })?;
    let new = NewRefund {
        id: refund_id(row.id, &key),
        account: row.account,
        hold: row.id,
        amount,
        reason,
        at: domains.clock.now(),
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
