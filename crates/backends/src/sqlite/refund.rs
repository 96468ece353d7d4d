//! Refunds. A refund depends on the open week, so the engine decides the refund in memory and
//! writes it to the journal, like a call.

use std::sync::Arc;

use sqlx::sqlite::SqliteConnection;
use tollgate_storage::lot::assign;
use tollgate_storage::refund::Refundable;
use tollgate_storage::{Lot, NewRefund, Refund, RefundOutcome, Result, StorageError, UsageRow};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId};

use super::Core;
use super::account::conflict;
use super::balances::AccountBalances;
use super::lot::{changed, insert, update};
use super::usage::usage_columns;
use crate::ids::lock;
use crate::journal::Entry;
use crate::rows::{RefundColumns, UsageColumns, id_bytes, storage_error};

const ROW: &str = concat!(
    "SELECT ",
    usage_columns!(),
    " FROM usage_row WHERE usage_row.account_id = $1 AND usage_row.id = $2"
);
const OF_CALL: &str = "SELECT id, account_id, hold_id, credits, allowance, reason, created_at FROM refund \
    WHERE account_id = $1 AND hold_id = $2";
const OF_ANOTHER: &str = "SELECT EXISTS (SELECT 1 FROM refund WHERE id = $1 AND hold_id <> $2)";
const INSERT: &str = "INSERT INTO refund (id, account_id, hold_id, credits, allowance, reason, created_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

impl Core {
    /// Refunds a call, fully or in part. A repeated id returns the earlier refund. Returns
    /// `NotFound` if the call has no usage row, and `Conflict` if the id belongs to a refund of
    /// another call.
    pub(super) async fn refund_call(&self, new: NewRefund) -> Result<RefundOutcome> {
        let _change_guard = self.changing.lock().await;
        self.flush_resolved().await?;
        let (account, hold) = (new.account, new.hold);
        let id = new.id;
        let read = self.read(move |connection| Box::pin(call(connection, account, hold, id)));
        let (row, before, is_of_another) = read.await?;
        let row = row.ok_or_else(|| StorageError::not_found(hold))?;
        if is_of_another {
            return Err(conflict(format!("{id} is a refund of another call")));
        }
        if let Some(refund) = before.iter().find(|refund| refund.id == new.id) {
            let (refund, is_repeated) = (refund.clone(), true);
            return Ok(RefundOutcome::Done { refund, is_repeated });
        }
        let account_balances = self.account_balances(account)?;
        let lots = self.lots_with_remaining(account).await?;
        let (refund, changed) = match self.decide_refund(&account_balances, &row, &before, &new, &lots)? {
            Ok(decided) => decided,
            Err(refundable) => return Ok(RefundOutcome::Denied { refundable }),
        };
        // Earlier journal records are committed with this write or before it, so the refund is in
        // the database when the write returns.
        self.write(
            move |connection| Box::pin(async move { update(connection, &changed).await }),
            |()| (),
        )
        .await?;
        Ok(RefundOutcome::Done {
            refund,
            is_repeated: false,
        })
    }

    /// Determines the amount of a refund and writes the refund to the journal. Returns the refund
    /// and the lots to update, or the refundable amount if the refund is denied.
    fn decide_refund(
        &self,
        account_balances: &Arc<AccountBalances>,
        row: &UsageRow,
        before: &[Refund],
        new: &NewRefund,
        lots: &[Lot],
    ) -> Result<std::result::Result<(Refund, Vec<Lot>), Credits>> {
        let mut sums = lock(&account_balances.sums);
        let is_open = row.plan.as_ref().is_some_and(|plan| sums.is_open(plan));
        let refund = match Refundable::of(row, before, is_open).refund(new) {
            Ok(refund) => refund,
            Err(refundable) => return Ok(Err(refundable)),
        };
        let mut assigned = lots.to_vec();
        assign(&mut assigned, sums.funds());
        let entry = refund.clone();
        self.append(|seq| Entry::Refund { seq, refund: entry })?;
        sums.credits += refund.credits.nanos();
        sums.allowance += refund.allowance.nanos();
        Ok(Ok((refund, changed(lots, assigned))))
    }
}

/// Returns the usage row of a call, the refunds of the call, and whether `id` belongs to a refund
/// of another call.
async fn call(
    connection: &mut SqliteConnection,
    account: AccountId,
    hold: HoldId,
    id: TransferId,
) -> Result<(Option<UsageRow>, Vec<Refund>, bool)> {
    let row: Option<UsageColumns> = sqlx::query_as(ROW)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(hold.as_u128()))
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let refunds: Vec<RefundColumns> = sqlx::query_as(OF_CALL)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(hold.as_u128()))
        .fetch_all(&mut *connection)
        .await
        .map_err(storage_error)?;
    let other: bool = sqlx::query_scalar(OF_ANOTHER)
        .bind(id_bytes(id.as_u128()))
        .bind(id_bytes(hold.as_u128()))
        .fetch_one(connection)
        .await
        .map_err(storage_error)?;
    let refunds = refunds.into_iter().map(Refund::try_from).collect::<Result<_>>()?;
    Ok((row.map(UsageRow::try_from).transpose()?, refunds, other))
}

/// Inserts the row and the lot of a refund. The transfers and balances of the refund are written
/// with those of the batch.
pub(super) async fn write(connection: &mut SqliteConnection, refund: &Refund) -> Result<()> {
    let row = sqlx::query(INSERT)
        .bind(id_bytes(refund.id.as_u128()))
        .bind(id_bytes(refund.account.as_u128()))
        .bind(id_bytes(refund.hold.as_u128()))
        .bind(refund.credits.nanos())
        .bind(refund.allowance.nanos())
        .bind(refund.reason.clone())
        .bind(refund.created_at.as_micros());
    row.execute(&mut *connection).await.map_err(storage_error)?;
    match refund.lot() {
        Some(lot) => insert(connection, &lot).await,
        None => Ok(()),
    }
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[ROW, OF_CALL, OF_ANOTHER, INSERT];
