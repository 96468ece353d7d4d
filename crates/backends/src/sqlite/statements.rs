//! SQL statements that write a batch.

use std::sync::Arc;

use sqlx::sqlite::SqliteConnection;
use tollgate_storage::audit::TransferRow;
use tollgate_storage::{LedgerAccount, Link, Result};
use tollgate_types::AccountId;

use super::batch::{Batch, Kind, Placed, RARE_UNITS, Shrunk, USUAL};
use super::bulk::{Bulk, Values};
use super::chain::{Chained, Heads};
use super::refund;
use crate::ids::HoldKey;
use crate::journal::record::{Hold, Shrink, Window};
use crate::rows::{corrupt, id_bytes, quantity_column, storage_error, version_column};

/// Prepared statements that write a batch. A violated constraint rolls back the whole transaction,
/// because the state in memory would be wrong.
pub(super) struct BatchWriter {
    hold: Bulk,
    hold_gone: Bulk,
    heads: Heads,
    transfers: Bulk,
    legs_plain: Bulk,
    usage: Bulk,
    usage_plain: Bulk,
    balance: Bulk,
    credits: Bulk,
}

const HOLD: &str = "INSERT OR ROLLBACK INTO hold (account_id, id, key_id, request_id, amount, price_version, model, \
    endpoint, created_at, expires_at, allowance, plan_name, window_id, member_id)";
const TRANSFERS: &str = "INSERT OR ROLLBACK INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, \
    created_at, price_version, sequence, prev_hash, hash)";
// The legs of a plain call are adjacent in the table and in the chain. One row of this statement
// writes all legs of a call with an amount above zero. The first of the call's hashes is the hash
// before its first leg.
const LEGS_PLAIN: &str = "INSERT OR ROLLBACK INTO transfer (price_version, account_id, entry_id, leg, subject, debit, \
    credit, amount, created_at, sequence, prev_hash, hash) \
    SELECT ?, call.column1, call.column2, leg.column1, 'hold', leg.column2, leg.column3, \
    CASE leg.column1 WHEN 1 THEN call.column3 WHEN 2 THEN call.column4 ELSE call.column3 - call.column4 END AS moved, \
    CASE leg.column1 WHEN 1 THEN call.column5 ELSE call.column6 END, \
    call.column7 + CASE leg.column1 WHEN 3 THEN 1 + (call.column4 > 0) ELSE leg.column1 - 1 END, \
    substr(call.column8, 1 + 32 * CASE leg.column1 WHEN 3 THEN 1 + (call.column4 > 0) ELSE leg.column1 - 1 END, 32), \
    substr(call.column8, 33 + 32 * CASE leg.column1 WHEN 3 THEN 1 + (call.column4 > 0) ELSE leg.column1 - 1 END, 32) \
    FROM (";
const LEGS_PLAIN_TAIL: &str = ") AS call CROSS JOIN (VALUES (1, 'credits', 'hold'), (2, 'hold', 'revenue:usage'), \
    (3, 'hold', 'credits')) AS leg WHERE moved > 0";
// The first hold of a request has the id of the request. In this case `column4` is NULL and the id
// is bound once.
const USAGE: &str = "INSERT OR ROLLBACK INTO usage_row (endpoint, model, provider, price_version, outcome, estimated, \
    account_id, id, key_id, request_id, created_at, first_at, ended_at, held, charge, \
    input, cache_read, output, reasoning, cache_write, input_audio, output_audio, \
    cache_write_1h, image, video, audio, characters, searches, input_image, cache_read_audio, overrun, included, \
    plan_name, window_id, member_id) \
    SELECT ?, ?, ?, ?, ?, ?, column1, column2, column3, coalesce(column4, column2), column5, column6, column7, \
    column8, column9, column10, column11, column12, column13, column14, column15, column16, column17, column18, \
    column19, column20, column21, column22, column23, column24, column25, column26, column27, column28, \
    column29 FROM (";
const USAGE_PLAIN: &str = "INSERT OR ROLLBACK INTO usage_row (endpoint, model, provider, price_version, outcome, \
    estimated, account_id, id, key_id, request_id, created_at, first_at, ended_at, held, charge, \
    input, cache_read, output, reasoning, cache_write, input_audio, output_audio, \
    cache_write_1h, overrun) \
    SELECT ?, ?, ?, ?, ?, ?, column1, column2, column3, coalesce(column4, column2), column5, column6, column7, \
    column8, column9, column10, column11, column12, column13, 0, 0, 0, 0, 0 FROM (";
// An upsert, because the planner may scan all balances for an update with a joined list of rows.
// The SELECT computes the new balance, because the proposed row must satisfy the constraints.
// Without a stored row the balance is NULL, which violates a constraint.
const BALANCE: &str = "INSERT OR ROLLBACK INTO ledger_account (kind, account_id, balance) \
    SELECT ?, moved.column1, moved.column2 + (SELECT stored.balance FROM ledger_account AS stored \
    WHERE stored.account_id = moved.column1 AND stored.kind = ?) FROM (";
const BALANCE_TAIL: &str = ") AS moved WHERE true \
    ON CONFLICT (account_id, kind) DO UPDATE SET balance = excluded.balance";
// Like `BALANCE`, for credits and with the end of the chain.
const CREDITS: &str = "INSERT OR ROLLBACK INTO ledger_account (kind, account_id, balance, chain_sequence, \
    chain_previous, chain_hash) \
    SELECT 'credits', moved.column1, moved.column2 + (SELECT stored.balance FROM ledger_account AS stored \
    WHERE stored.account_id = moved.column1 AND stored.kind = 'credits'), moved.column3, \
    substr(moved.column4, 1, 32), substr(moved.column4, 33, 32) FROM (";
const CREDITS_TAIL: &str = ") AS moved WHERE true \
    ON CONFLICT (account_id, kind) DO UPDATE SET balance = excluded.balance, \
    chain_sequence = excluded.chain_sequence, chain_previous = excluded.chain_previous, chain_hash = excluded.chain_hash";
const WINDOW: &str = "UPDATE subscription SET window_number = $2 WHERE id = $1";
const SHRINK: &str = "UPDATE hold SET returned = $3, times_returned = $4 WHERE account_id = $1 AND id = $2";
const MARK: &str = "UPDATE journal_mark SET committed = $1 WHERE committed < $1";

impl BatchWriter {
    /// Builds the statements.
    pub(super) fn new() -> BatchWriter {
        BatchWriter {
            hold: Bulk::new(HOLD, 14, ""),
            hold_gone: Bulk::new("DELETE FROM hold WHERE (account_id, id) IN (", 2, ")"),
            heads: Heads::new(),
            transfers: Bulk::new(TRANSFERS, 12, ""),
            legs_plain: Bulk::new(LEGS_PLAIN, 8, LEGS_PLAIN_TAIL),
            usage: Bulk::new(USAGE, 29, ")"),
            usage_plain: Bulk::new(USAGE_PLAIN, 13, ")"),
            balance: Bulk::new(BALANCE, 2, BALANCE_TAIL),
            credits: Bulk::new(CREDITS, 4, CREDITS_TAIL),
        }
    }

    /// Clears the cached chain ends. Required after a rollback, and after other statements wrote
    /// transfers.
    pub(super) fn forget_chains(&mut self) {
        self.heads.forget();
    }

    /// Writes the batch into the open transaction. Returns `Corrupt` if the rows of the database do
    /// not match the batch.
    pub(super) async fn write(&mut self, connection: &mut SqliteConnection, batch: &Batch) -> Result<()> {
        let chained = self.heads.chain(connection, batch).await?;
        self.hold
            .run(connection, |_| (), batch.stored(), bind_hold)
            .await?;
        self.transfers
            .run(connection, |_| (), &chained.rows, bind_transfer)
            .await?;
        for window in batch.windows() {
            write_window(connection, window).await?;
        }
        for refund in batch.refunds() {
            refund::write(connection, refund).await?;
        }
        for Shrunk { shrink, .. } in batch.shrunk() {
            write_shrink(connection, shrink).await?;
        }
        for (kind, calls) in batch.by_kind() {
            let version = |values: &mut Values| bind_version(&kind, values);
            let common = |values: &mut Values| bind_kind(&kind, values);
            if kind.is_plain {
                let bind = |call: &Placed<'_>, row: &mut Values| bind_plain_legs(call, &chained, row);
                self.legs_plain.run(connection, version, &calls, bind).await?;
                self.usage_plain
                    .run(connection, common, &calls, bind_plain_usage)
                    .await?;
            } else {
                self.usage.run(connection, common, &calls, bind_usage).await?;
            }
        }
        let gone = batch.gone();
        let bind = |(account, hold): &HoldKey, row: &mut Values| {
            row.id(account.as_u128()).id(hold.as_u128());
        };
        expect_rows(
            self.hold_gone.run(connection, |_| (), &gone, bind).await?,
            gone.len(),
        )?;
        self.move_credits(connection, batch, &chained).await?;
        for (account, moves) in [
            (LedgerAccount::Hold, batch.moves(|moves| moves.held)),
            (LedgerAccount::RevenueUsage, batch.moves(|moves| moves.revenue)),
            (LedgerAccount::ExpenseOverrun, batch.moves(|moves| moves.overrun)),
            (LedgerAccount::Allowance, batch.moves(|moves| moves.allowance)),
            (
                LedgerAccount::RevenueIncluded,
                batch.moves(|moves| moves.included),
            ),
            (LedgerAccount::Breakage, batch.moves(|moves| moves.breakage)),
            (LedgerAccount::GrantPlan, batch.moves(|moves| moves.granted)),
            (LedgerAccount::RevenueRefunds, batch.moves(|moves| moves.refunded)),
        ] {
            self.move_balances(connection, account, &moves).await?;
        }
        if batch.last() > 0 {
            let last = batch.last().cast_signed();
            sqlx::query(MARK)
                .bind(last)
                .execute(connection)
                .await
                .map_err(storage_error)?;
        }
        Ok(())
    }

    /// Changes credits and chain ends.
    async fn move_credits(
        &self,
        connection: &mut SqliteConnection,
        batch: &Batch,
        chained: &Chained,
    ) -> Result<()> {
        let bind = |(account, end): &(AccountId, Link), row: &mut Values| {
            row.id(account.as_u128())
                .number(batch.credits_of(*account))
                .number(end.sequence)
                .bytes(&[end.previous.0, end.hash.0].concat());
        };
        let changed = self.credits.run(connection, |_| (), &chained.heads, bind).await?;
        expect_rows(changed, chained.heads.len())
    }

    async fn move_balances(
        &self,
        connection: &mut SqliteConnection,
        account: LedgerAccount,
        moves: &[(AccountId, i64)],
    ) -> Result<()> {
        let kind = |values: &mut Values| {
            values.text(account.as_str()).text(account.as_str());
        };
        let bind = |(account, by): &(AccountId, i64), row: &mut Values| {
            row.id(account.as_u128()).number(*by);
        };
        expect_rows(
            self.balance.run(connection, kind, moves, bind).await?,
            moves.len(),
        )
    }

    /// Returns every statement, for the test that prepares them.
    #[cfg(test)]
    pub(super) fn statements(&self) -> Vec<Arc<str>> {
        let holds = [
            &self.hold,
            &self.hold_gone,
            self.heads.bulk(),
            &self.transfers,
            &self.legs_plain,
        ];
        let others = [&self.usage, &self.usage_plain, &self.balance, &self.credits];
        holds
            .into_iter()
            .chain(others)
            .flat_map(Bulk::forms)
            .chain([MARK, WINDOW, SHRINK].map(Arc::from))
            .collect()
    }
}

/// Marks a week as open. Its transfers and balances are written with those of the batch.
async fn write_window(connection: &mut SqliteConnection, window: &Window) -> Result<()> {
    let open = sqlx::query(WINDOW)
        .bind(id_bytes(window.subscription.as_u128()))
        .bind(window.opened.0);
    let done = open.execute(connection).await.map_err(storage_error)?;
    expect_rows(done.rows_affected(), 1)
}

/// Records an early release. Its transfer and balances are written with those of the batch.
async fn write_shrink(connection: &mut SqliteConnection, shrink: &Shrink) -> Result<()> {
    let returned = sqlx::query(SHRINK)
        .bind(id_bytes(shrink.account.as_u128()))
        .bind(id_bytes(shrink.hold.as_u128()))
        .bind(shrink.returned.amount.nanos())
        .bind(i64::from(shrink.returned.times));
    let done = returned.execute(connection).await.map_err(storage_error)?;
    expect_rows(done.rows_affected(), 1)
}

fn bind_hold(hold: &Arc<Hold>, row: &mut Values) {
    row.id(hold.account.as_u128())
        .id(hold.id.as_u128())
        .optional_id(hold.key())
        .id(hold.request.as_u128())
        .number(hold.amount.nanos())
        .number(version_column(hold.price_version))
        .text(&hold.model)
        .text(&hold.endpoint)
        .number(hold.created_at.as_micros())
        .number(hold.expires_at.as_micros())
        .number(hold.allowance());
    bind_plan_and_member(hold, row);
}

fn bind_plan_and_member(hold: &Hold, row: &mut Values) {
    let plan = hold.plan.as_ref().map(|share| &share.plan);
    row.optional_text(plan.map(|plan| &*plan.name))
        .optional_id(plan.map(|plan| plan.window.as_u128()))
        .optional_id(hold.member());
}

fn bind_kind(kind: &Kind<'_>, values: &mut Values) {
    values
        .text(kind.endpoint)
        .text(kind.model)
        .text(kind.provider)
        .number(version_column(kind.price_version))
        .text(kind.outcome.as_str())
        .number(kind.estimated.into());
}

fn bind_transfer((account, transfer): &(AccountId, TransferRow), row: &mut Values) {
    let link = transfer.link;
    row.id(account.as_u128())
        .id(transfer.subject.entry())
        .number(transfer.leg.as_i16().into())
        .text(transfer.subject.as_str())
        .text(transfer.debit.as_str())
        .text(transfer.credit.as_str())
        .number(transfer.amount.nanos())
        .number(transfer.created_at.as_micros())
        .optional_number(transfer.price_version.map(version_column))
        .optional_number(link.map(|link| link.sequence))
        .optional_bytes(link.as_ref().map(|link| &link.previous.0[..]))
        .optional_bytes(link.as_ref().map(|link| &link.hash.0[..]));
}

fn bind_version(kind: &Kind<'_>, values: &mut Values) {
    values.number(version_column(kind.price_version));
}

fn bind_plain_legs((_, index, call): &Placed<'_>, chained: &Chained, row: &mut Values) {
    let (hold, settlement) = (&call.hold, &call.settlement);
    let (sequence, hashes) = chained.plain(*index);
    row.id(hold.account.as_u128())
        .id(hold.id.as_u128())
        .number(hold.amount.nanos())
        .number(settlement.charge.nanos())
        .number(hold.created_at.as_micros())
        .number(settlement.ended_at.as_micros())
        .number(sequence)
        .bytes(hashes);
}

fn bind_plain_usage((_, _, call): &Placed<'_>, row: &mut Values) {
    let (hold, settlement) = (&call.hold, &call.settlement);
    let (id, request) = (hold.id.as_u128(), hold.request.as_u128());
    row.id(hold.account.as_u128())
        .id(id)
        .optional_id(hold.key())
        .optional_id((request != id).then_some(request))
        .number(hold.created_at.as_micros())
        .optional_number(settlement.first_at.map(|at| at.as_micros()))
        .number(settlement.ended_at.as_micros())
        .number(hold.amount.nanos())
        .number(settlement.charge.nanos());
    for unit in USUAL {
        row.number(quantity_column(settlement.usage.get(unit)));
    }
}

fn bind_usage(placed: &Placed<'_>, row: &mut Values) {
    bind_plain_usage(placed, row);
    let (_, _, call) = placed;
    let settlement = &call.settlement;
    for unit in RARE_UNITS {
        row.number(quantity_column(settlement.usage.get(unit)));
    }
    let split = call.hold.split(settlement.charge, call.week);
    row.number(settlement.overrun.nanos()).number(split.included);
    bind_plan_and_member(&call.hold, row);
}

fn expect_rows(changed: u64, expected: usize) -> Result<()> {
    if changed == expected as u64 {
        return Ok(());
    }
    let text =
        format!("expected to change {expected} rows, changed {changed}: another process writes the database");
    Err(corrupt(text))
}
