//! Refunds. Each refund is one transaction under the account's lock.

use sqlx::PgConnection;
use sqlx::postgres::PgRow;
use tollgate_storage::audit::Leg;
use tollgate_storage::refund::Refundable;
use tollgate_storage::{Lot, NewRefund, Refund, RefundOutcome, Result, StorageError, UsageRow};
use tollgate_types::{AccountId, HoldId, Timestamp};

use super::error::while_running;
use super::lot::{assigned, update};
use super::rows;
use super::subscription::{execute, lock, move_credits};
use super::usage::usage_columns;
use crate::rows::{RefundColumns, UsageColumns};

/// Refunds a call, fully or in part.
pub(super) async fn refund_call(connection: &mut PgConnection, new: NewRefund) -> Result<RefundOutcome> {
    lock(connection, new.account).await?;
    let row = usage_row(connection, new.account, new.hold).await?;
    let before = refunds(connection, new.account, new.hold).await?;
    if let Some(refund) = before.iter().find(|refund| refund.id == new.id) {
        let (refund, is_repeated) = (refund.clone(), true);
        return Ok(RefundOutcome::Done { refund, is_repeated });
    }
    let is_open = is_week_open(connection, &row).await?;
    let refund = match Refundable::of(&row, &before, is_open).refund(&new) {
        Ok(refund) => refund,
        Err(refundable) => return Ok(RefundOutcome::Denied { refundable }),
    };
    let (lots, assigned, _) = assigned(connection, new.account).await?;
    update(connection, &lots, &assigned).await?;
    write(connection, &refund).await?;
    Ok(RefundOutcome::Done {
        refund,
        is_repeated: false,
    })
}

async fn usage_row(connection: &mut PgConnection, account: AccountId, hold: HoldId) -> Result<UsageRow> {
    let statement = concat!(
        "SELECT ",
        usage_columns!(),
        " FROM usage_row WHERE account_id = $1 AND id = $2"
    );
    let row = sqlx::query(statement)
        .bind(account.as_u128().to_be_bytes())
        .bind(hold.as_u128().to_be_bytes())
        .fetch_optional(connection)
        .await
        .map_err(while_running)?;
    rows::whole::<UsageColumns, _>(&row.ok_or_else(|| StorageError::not_found(hold))?)
}

async fn refunds(connection: &mut PgConnection, account: AccountId, hold: HoldId) -> Result<Vec<Refund>> {
    let found = sqlx::query("SELECT * FROM refund WHERE account_id = $1 AND hold_id = $2")
        .bind(account.as_u128().to_be_bytes())
        .bind(hold.as_u128().to_be_bytes())
        .fetch_all(connection)
        .await
        .map_err(while_running)?;
    found.iter().map(rows::whole::<RefundColumns, _>).collect()
}

/// Whether the plan week that paid for a call is open.
async fn is_week_open(connection: &mut PgConnection, row: &UsageRow) -> Result<bool> {
    let Some(plan) = &row.plan else {
        return Ok(false);
    };
    let statement = sqlx::query(
        "SELECT EXISTS (SELECT FROM subscription WHERE account_id = $1 AND product = 'plan'
            AND state IN ('active', 'past_due') AND window_entry(id, window_number) = $2) AS is_open",
    );
    let statement = statement
        .bind(row.account.as_u128().to_be_bytes())
        .bind(plan.window.as_u128().to_be_bytes());
    let found: PgRow = statement.fetch_one(connection).await.map_err(while_running)?;
    rows::get(&found, "is_open")
}

async fn write(connection: &mut PgConnection, refund: &Refund) -> Result<()> {
    let statement = sqlx::query(
        "INSERT INTO refund (id, account_id, hold_id, credits, allowance, reason, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)",
    );
    let statement = statement
        .bind(refund.id.as_u128().to_be_bytes())
        .bind(refund.account.as_u128().to_be_bytes())
        .bind(refund.hold.as_u128().to_be_bytes())
        .bind(refund.credits.nanos())
        .bind(refund.allowance.nanos())
        .bind(refund.reason.clone())
        .bind(refund.created_at.as_micros());
    execute(connection, statement).await?;
    for (leg, amount) in [
        (Leg::Refund, refund.credits),
        (Leg::RefundAllowance, refund.allowance),
    ] {
        let transfer = (refund.id, "refund", leg, amount);
        move_credits(connection, refund.account, transfer, refund.created_at).await?;
    }
    match refund.lot() {
        Some(lot) => insert(connection, lot).await,
        None => Ok(()),
    }
}

async fn insert(connection: &mut PgConnection, lot: Lot) -> Result<()> {
    let statement = sqlx::query(
        "INSERT INTO credit_lot (account_id, id, kind, amount, remaining, expired, withdrawn, priority, expires_at,
            note, created_at)
        VALUES ($1, $2, $3, $4, $4, 0, 0, $5, $6, $7, $8)",
    );
    let statement = statement
        .bind(lot.account.as_u128().to_be_bytes())
        .bind(lot.id.as_u128().to_be_bytes())
        .bind(lot.terms.kind.as_str())
        .bind(lot.amount.nanos())
        .bind(i64::from(lot.terms.priority))
        .bind(lot.terms.expires_at.map(Timestamp::as_micros))
        .bind(lot.terms.note)
        .bind(lot.created_at.as_micros());
    execute(connection, statement).await
}
