//! Commands on credits: grants, lots, refunds and withdrawals.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_storage::refund::{grant_id, refund_id};
use tollgate_storage::{
    Grant, Lot, LotKind, LotTerms, NewRefund, Product, RefundOutcome, StorageErrorKind, SubscriptionState,
    UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Error, ErrorCode, RequestId, Timestamp};

use crate::accounts::{no_such_account, time_of};
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::{MemberPermission, Permission};
use crate::view::{BalanceView, GrantedView, LotView, RefundView, WithdrawalView};
use crate::{Actor, Operations};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of days until credits or keys expire: one hundred years.
const MAX_EXPIRY_DAYS: u32 = 36_500;

/// Maximum length of notes, reasons and idempotency keys, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// Adds credits to an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantCredits {
    pub account: AccountId,
    /// Amount and terms of the grant.
    #[serde(flatten)]
    pub grant: GrantParams,
}

impl Operation for GrantCredits {
    const NAME: &'static str = "grant_credits";
    type Reply = GrantedView;

    fn declaration(&self) -> Declaration {
        Declaration::change("credits.grant", Permission::Grants).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(grant(operations, self.account, self.grant).await?.into())
    }
}

/// Amount and terms of a grant of credits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantParams {
    /// Idempotency key of the grant within the account. If `None`, each command creates another
    /// grant.
    #[serde(default)]
    pub key: Option<String>,
    /// Credits to add, above zero.
    pub amount: Credits,
    /// Whether the credits are a promotion of the operator; otherwise they were paid for.
    #[serde(default)]
    pub promotion: bool,
    /// Number of days until unused credits expire, 1 to 36500.
    #[serde(default)]
    pub expires_in_days: Option<u32>,
    /// Expiry of unused credits. Cannot be combined with `expires_in_days`.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// Spending priority; lower values are spent first. `None` for
    /// [`LotTerms::PRIORITY`](tollgate_storage::LotTerms::PRIORITY).
    #[serde(default)]
    pub priority: Option<u8>,
    /// Note for operators.
    #[serde(default)]
    pub note: Option<String>,
}

/// Lists the grants and refunds of an account with their remaining credits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListLots {
    pub account: AccountId,
    /// Whether to include used-up grants.
    pub all: bool,
}

impl Operation for ListLots {
    const NAME: &'static str = "list_lots";
    type Reply = Vec<LotView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(lots(operations, self.account, self.all).await?.into())
    }
}

/// Returns the available and held credits of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowBalance {
    pub account: AccountId,
}

impl Operation for ShowBalance {
    const NAME: &'static str = "show_balance";
    type Reply = BalanceView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(balance(operations, self.account).await?.into())
    }
}

/// Refunds the charge of a call, or a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefundCall {
    /// Id of the request that made the call.
    pub request: RequestId,
    /// Account that must own the call; `None` accepts any.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// Credits to refund; `None` for the full refundable amount.
    pub amount: Option<Credits>,
    /// Note for operators.
    pub reason: Option<String>,
    /// Idempotency key of the refund. If `None`, the amount identifies the refund.
    pub key: Option<String>,
}

impl Operation for RefundCall {
    const NAME: &'static str = "refund_call";
    type Reply = RefundView;

    fn declaration(&self) -> Declaration {
        Declaration::change("credits.refund", Permission::Refunds).of_object(self.request)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(refund(operations, self).await?.into())
    }
}

/// Withdraws the unused part of a purchase or promotion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefundGrant {
    /// Id of the grant.
    pub id: TransferId,
}

impl Operation for RefundGrant {
    const NAME: &'static str = "refund_grant";
    type Reply = WithdrawalView;

    fn declaration(&self) -> Declaration {
        Declaration::change("credits.refund_grant", Permission::Grants).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(refund_grant(operations, self.id).await?.into())
    }
}

/// Adds credits to an account. A repeated grant with the same key and terms adds nothing and
/// returns the first grant; different terms are an error.
async fn grant(
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
            let message = "This id belongs to a grant with other terms. Use a new id, or repeat that grant with the same terms.";
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
            format!("'{param}' must have at most 200 characters, none of them control characters."),
        ));
    }
    Ok(text)
}

/// Returns the error for an invalid parameter.
pub(crate) fn invalid(param: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// Lists the lots of an account in spending order. With `all`, the list includes used-up lots.
async fn lots(operations: &Operations, account: AccountId, all: bool) -> Result<Vec<LotView>, Error> {
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

/// Refunds the charge of a call, or a part of it.
async fn refund(operations: &Operations, params: RefundCall) -> Result<RefundView, Error> {
    let RefundCall {
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
        let message = "This request has no usage row: it made no call, its call is still running, or another account made it.";
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
        "At most {refundable} credits of this call can be refunded: {charge} were charged and {refunded} already refunded."
    );
    let weeks = match row.included {
        Credits::ZERO => String::new(),
        included => {
            format!(
                " A plan allowance paid {included} of the charge. This part can be refunded only while the week of the allowance is open."
            )
        }
    };
    invalid("amount", limit_text + &weeks)
}

/// Withdraws the unused part of a purchase or promotion. Fails if it has no unused credits.
async fn refund_grant(operations: &Operations, id: TransferId) -> Result<WithdrawalView, Error> {
    let (lots, now) = (&operations.storage.lots, operations.clock.now());
    let withdrawal = lots.withdraw(id, Credits::MAX, now).await;
    let withdrawal = withdrawal.map_err(|error| match error.kind {
        StorageErrorKind::NotFound => {
            let message = "The grant does not exist. List the grants of the account to find the id.";
            Error::new(ErrorCode::NotFound, message)
        }
        StorageErrorKind::Conflict => invalid(
            "id",
            "This id belongs to a refund. Only purchases and promotions can be withdrawn.",
        ),
        _ => Error::internal(error),
    })?;
    if withdrawal.amount.is_zero() {
        let message =
            "The grant has no unused credits to withdraw. Credits that running calls hold are not withdrawn.";
        return Err(invalid("id", message));
    }
    Ok(WithdrawalView {
        id,
        account: withdrawal.account,
        withdrawn: withdrawal.amount,
    })
}

/// Returns the available and held credits of an account, and its allowance if a plan is active.
pub(crate) async fn balance(operations: &Operations, account: AccountId) -> Result<BalanceView, Error> {
    let storage = &operations.storage;
    let balance = storage.ledger.balance(account).await.map_err(no_such_account)?;
    let subscriptions = storage.subscriptions.list(account).await;
    let subscriptions = subscriptions.map_err(Error::internal)?;
    let has_plan = subscriptions.iter().any(|subscription| {
        subscription.terms.product == Product::Plan && subscription.state == SubscriptionState::Active
    });
    if !has_plan {
        return Ok(balance.into());
    }
    let at = time_of(operations, account).await?;
    let spendable = storage.ledger.spendable(account, Arc::default(), at).await;
    let spendable = spendable.map_err(Error::internal)?;
    Ok(BalanceView {
        credits: spendable.credits,
        allowance: Some(spendable.allowance),
        spendable: Some(spendable.total()),
        ..balance.into()
    })
}
