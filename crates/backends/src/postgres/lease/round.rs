//! A round: one call of `lease_round` in the database. A node sends its report about one lease and
//! receives the reply of the database.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Row as _;
use tollgate_storage::{Result, Settlement, StorageError, StorageErrorKind};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Principal, Timestamp, Unit};

use super::super::error::while_running;
use super::super::ledger::{has_noted_units, inserted_units, noted_units};
use super::super::pool::{Pool, Statement};
use super::super::{rows, usage_hour};
use super::micros;
use crate::journal::record::Hold;
use crate::journal::segment::Installation;
use crate::rows::{key_column, member_column, quantity_column, version_column};

/// A call that has ended.
pub(super) struct Call {
    /// Sequence number of its hold in the journal.
    pub(super) seq: u64,
    /// Its resolved hold.
    pub(super) hold: Arc<Hold>,
    /// Its settlement; the charge is at most the held amount.
    pub(super) settlement: Settlement,
}

/// The report of a node about one lease.
pub(super) struct Report {
    pub(super) lease: TransferId,
    /// Number of the round. The database ignores a round whose number is not above the number of
    /// the last round that it executed.
    pub(super) round: i64,
    /// Whether the round opens the lease if it does not exist.
    pub(super) opens: bool,
    /// Requested size after the round, in nano-credits like all amounts in this module. `None`
    /// leaves the size unchanged.
    pub(super) target: Option<i64>,
    /// Minimum balance of the account for a lease.
    pub(super) min_balance: i64,
    /// Amount that running calls hold.
    pub(super) in_flight: i64,
    /// Calls that ended since the last report.
    pub(super) calls: Vec<Call>,
}

impl Report {
    /// Creates a report that closes a lease without open holds.
    pub(super) fn closing(lease: TransferId) -> Report {
        Report {
            lease,
            round: LAST_ROUNDS,
            opens: false,
            target: Some(0),
            min_balance: i64::MAX,
            in_flight: 0,
            calls: Vec::new(),
        }
    }
}

/// Terms of a lease.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// Node that owns the lease.
    pub(super) node: TransferId,
    /// Lifetime without renewal.
    pub(super) ttl: Duration,
    /// Additional time after the lifetime, after which another node may close the lease.
    pub(super) keep: Duration,
}

/// Number of the first closing round; rounds from this number on close the lease.
pub(super) const LAST_ROUNDS: i64 = 1 << 62;

/// Reply of the database to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Credits of the lease, in nano-credits.
    pub(super) leased: i64,
    /// Credits of the account outside the lease, in nano-credits.
    pub(super) available: i64,
    /// Whether the lease exists.
    pub(super) is_open: bool,
    /// Whether the node may take more holds from the lease.
    pub(super) may_hold: bool,
}

/// Sends a report and returns the reply. A report with an unknown outcome can be sent again.
pub(super) async fn exchange(
    pool: &Pool,
    account: AccountId,
    terms: Terms,
    report: &Report,
) -> Result<Reply> {
    let row = pool.one(statement(account, terms, report)).await?;
    let reply = Reply {
        leased: rows::get(&row, "leased")?,
        available: rows::get(&row, "available")?,
        is_open: rows::get(&row, "is_open")?,
        may_hold: rows::get(&row, "may_hold")?,
    };
    let oldest = report.calls.iter().map(|call| call.hold.created_at).min();
    if let Some(oldest) = oldest.filter(|_| !reply.is_open) {
        // Without the lease, the mark of usage hours may have passed these calls.
        usage_hour::rewind(pool, account, oldest).await?;
    }
    Ok(reply)
}

fn statement(account: AccountId, terms: Terms, report: &Report) -> Statement {
    let calls = &report.calls;
    let ids = |of: fn(&Call) -> u128| -> Vec<Vec<u8>> {
        calls.iter().map(|call| of(call).to_be_bytes().to_vec()).collect()
    };
    let texts =
        |of: fn(&Call) -> &str| -> Vec<String> { calls.iter().map(|call| of(call).to_owned()).collect() };
    let numbers = |of: fn(&Call) -> i64| -> Vec<i64> { calls.iter().map(of).collect() };
    let columns = |column: fn(Option<Principal>) -> Option<Vec<u8>>| -> Vec<Option<Vec<u8>>> {
        calls.iter().map(|call| column(call.hold.principal)).collect()
    };
    let members = columns(member_column);
    let first = |call: &Call| call.settlement.first_at.map(Timestamp::as_micros);
    let first: Vec<Option<i64>> = calls.iter().map(first).collect();
    let duration = |duration| i64::try_from(micros(duration)).unwrap_or(i64::MAX);
    let has_noted_units = calls.iter().any(|call| has_noted_units(&call.settlement.usage));
    let has_notes = has_noted_units || members.iter().any(Option::is_some);
    let mut statement = sqlx::query(if has_notes { ROUND_WITH_NOTES } else { ROUND });
    statement = statement
        .bind(account.as_u128().to_be_bytes())
        .bind(report.lease.as_u128().to_be_bytes())
        .bind(terms.node.as_u128().to_be_bytes())
        .bind(report.round)
        .bind(report.opens)
        .bind(report.target)
        .bind(report.min_balance)
        .bind(report.in_flight)
        .bind(duration(terms.ttl))
        .bind(duration(terms.keep))
        .bind(ids(|call| call.hold.id.as_u128()))
        .bind(columns(key_column))
        .bind(ids(|call| call.hold.request.as_u128()))
        .bind(texts(|call| &call.hold.endpoint))
        .bind(texts(|call| &call.hold.model))
        .bind(texts(|call| &call.settlement.target))
        .bind(numbers(|call| version_column(call.hold.price_version)))
        .bind(numbers(|call| call.hold.amount.nanos()))
        .bind(numbers(|call| call.settlement.charge.nanos()))
        .bind(numbers(|call| call.settlement.overrun.nanos()));
    let quantities = |unit: Unit| -> Vec<i64> {
        let quantity = |call: &Call| quantity_column(call.settlement.usage.get(unit));
        calls.iter().map(quantity).collect()
    };
    for unit in inserted_units() {
        statement = statement.bind(quantities(unit));
    }
    statement = statement
        .bind(texts(|call| call.settlement.outcome.as_str()))
        .bind(numbers(|call| i64::from(call.settlement.estimated)))
        .bind(numbers(|call| call.hold.created_at.as_micros()))
        .bind(first)
        .bind(numbers(|call| call.settlement.ended_at.as_micros()));
    if has_notes {
        for unit in noted_units() {
            statement = statement.bind(quantities(unit));
        }
        statement = statement.bind(members);
    }
    statement
}

const ROUND: &str = "SELECT leased, available, is_open, may_hold FROM lease_round($1, $2, $3, $4, $5, $6, $7, $8, $9,
    $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32,
    $33)";
/// Like [`ROUND`], but also records the units of [`noted_units`] and the members.
const ROUND_WITH_NOTES: &str = "WITH round AS MATERIALIZED (SELECT leased, available, is_open, may_hold
    FROM lease_round($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
        $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33)),
    noted AS MATERIALIZED (SELECT note_made($1, $11, $34, $35, $36, $37, $38, $39, $40), note_members($1, $11, $41)
        FROM round)
    SELECT leased, available, is_open, may_hold FROM round, (SELECT count(*) FROM noted) AS once";

/// Returns the id of the database's installation.
pub(super) async fn installation(pool: &Pool) -> Result<Installation> {
    let row = pool.one(sqlx::query("SELECT id FROM installation")).await?;
    row.try_get("id").map_err(while_running)
}

/// Creates a random 128-bit id.
pub(super) fn new_id() -> Result<TransferId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| StorageError::new(StorageErrorKind::Unavailable, error.to_string()))?;
    Ok(TransferId::from_u128(u128::from_ne_bytes(bytes)))
}
