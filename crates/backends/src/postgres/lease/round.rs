//! A round: what a node tells the books about one lease, and what they answer. One call of `lease_round` in the database.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Row as _;
use tollgate_storage::{Result, Settlement, StorageError, StorageErrorKind};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, KeyId, Timestamp, Unit};

use super::super::error::while_running;
use super::super::pool::{Pool, Statement};
use super::super::rows;
use super::micros;
use crate::journal::record::Hold;
use crate::journal::segment::Installation;
use crate::rows::{quantity_column, version_column};

/// A call that has ended.
pub(super) struct Call {
    /// The place of its hold in the journal.
    pub(super) seq: u64,
    /// Its hold.
    pub(super) hold: Arc<Hold>,
    /// How it ended; the charge is at most the held amount.
    pub(super) settlement: Settlement,
}

/// What a node tells.
pub(super) struct Report {
    /// Which lease.
    pub(super) lease: TransferId,
    /// Its number. A round that arrives behind one of a higher number does nothing.
    pub(super) round: i64,
    /// Whether the lease is opened if it is not there.
    pub(super) opens: bool,
    /// How much it is to have afterwards; as it is, when nothing is said. In nano-credits, as all amounts here.
    pub(super) target: Option<i64>,
    /// What the account must have at the least for a lease.
    pub(super) least: i64,
    /// What calls that run hold of it.
    pub(super) in_flight: i64,
    /// Calls that have ended.
    pub(super) calls: Vec<Call>,
}

impl Report {
    /// Closes a lease out of which nothing is held.
    pub(super) fn closing(lease: TransferId) -> Report {
        Report {
            lease,
            round: LAST_ROUNDS,
            opens: false,
            target: Some(0),
            least: i64::MAX,
            in_flight: 0,
            calls: Vec::new(),
        }
    }
}

/// On which terms the lease is.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// Whose it is.
    pub(super) node: TransferId,
    /// How long it lasts unless it is renewed.
    pub(super) life: Duration,
    /// How long it is kept for its node after that.
    pub(super) keep: Duration,
}

/// The number of the first of the last rounds of a lease, which close it.
pub(super) const LAST_ROUNDS: i64 = 1 << 62;

/// What the books answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// What the lease has now.
    pub(super) leased: i64,
    /// The credits beside it.
    pub(super) available: i64,
    /// Whether there is a lease.
    pub(super) is_open: bool,
    /// Whether the node may go on taking holds out of it.
    pub(super) may_hold: bool,
}

/// Makes a report. It may be made again when nobody knows what became of it.
pub(super) async fn exchange(
    pool: &Pool,
    account: AccountId,
    terms: Terms,
    report: &Report,
) -> Result<Reply> {
    let row = pool.one(statement(account, terms, report)).await?;
    Ok(Reply {
        leased: rows::get(&row, "leased")?,
        available: rows::get(&row, "available")?,
        is_open: rows::get(&row, "is_open")?,
        may_hold: rows::get(&row, "may_hold")?,
    })
}

fn statement(account: AccountId, terms: Terms, report: &Report) -> Statement {
    let calls = &report.calls;
    let ids = |of: fn(&Call) -> u128| -> Vec<Vec<u8>> {
        calls.iter().map(|call| of(call).to_be_bytes().to_vec()).collect()
    };
    let texts =
        |of: fn(&Call) -> &str| -> Vec<String> { calls.iter().map(|call| of(call).to_owned()).collect() };
    let numbers = |of: fn(&Call) -> i64| -> Vec<i64> { calls.iter().map(of).collect() };
    let key = |key: KeyId| key.as_u128().to_be_bytes().to_vec();
    let keys: Vec<Option<Vec<u8>>> = calls.iter().map(|call| call.hold.key.map(key)).collect();
    let first = |call: &Call| call.settlement.first_at.map(Timestamp::as_micros);
    let first: Vec<Option<i64>> = calls.iter().map(first).collect();
    let duration = |duration| i64::try_from(micros(duration)).unwrap_or(i64::MAX);
    let has_made = calls.iter().any(|call| call.settlement.usage.has_made());
    let mut statement = sqlx::query(if has_made { ROUND_MADE } else { ROUND });
    statement = statement
        .bind(account.as_u128().to_be_bytes())
        .bind(report.lease.as_u128().to_be_bytes())
        .bind(terms.node.as_u128().to_be_bytes())
        .bind(report.round)
        .bind(report.opens)
        .bind(report.target)
        .bind(report.least)
        .bind(report.in_flight)
        .bind(duration(terms.life))
        .bind(duration(terms.keep))
        .bind(ids(|call| call.hold.id.as_u128()))
        .bind(keys)
        .bind(ids(|call| call.hold.request.as_u128()))
        .bind(texts(|call| &call.hold.endpoint))
        .bind(texts(|call| &call.hold.model))
        .bind(texts(|call| &call.settlement.provider))
        .bind(numbers(|call| version_column(call.hold.price_version)))
        .bind(numbers(|call| call.hold.amount.nanos()))
        .bind(numbers(|call| call.settlement.charge.nanos()))
        .bind(numbers(|call| call.settlement.overrun.nanos()));
    let quantities = |unit: Unit| -> Vec<i64> {
        let quantity = |call: &Call| quantity_column(call.settlement.usage.get(unit));
        calls.iter().map(quantity).collect()
    };
    for unit in Unit::TOKENS {
        statement = statement.bind(quantities(unit));
    }
    statement = statement
        .bind(texts(|call| call.settlement.outcome.as_str()))
        .bind(numbers(|call| i64::from(call.settlement.estimated)))
        .bind(numbers(|call| call.hold.created_at.as_micros()))
        .bind(first)
        .bind(numbers(|call| call.settlement.ended_at.as_micros()));
    if has_made {
        for unit in Unit::MADE {
            statement = statement.bind(quantities(unit));
        }
    }
    statement
}

const ROUND: &str = "SELECT leased, available, is_open, may_hold FROM lease_round($1, $2, $3, $4, $5, $6, $7, $8, $9,
    $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32,
    $33)";
/// The same, and what is no token besides.
const ROUND_MADE: &str = "WITH round AS MATERIALIZED (SELECT leased, available, is_open, may_hold
    FROM lease_round($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
        $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33)),
    noted AS MATERIALIZED (SELECT note_made($1, $11, $34, $35, $36, $37) FROM round)
    SELECT leased, available, is_open, may_hold FROM round, (SELECT count(*) FROM noted) AS once";

/// Which database this is.
pub(super) async fn installation(pool: &Pool) -> Result<Installation> {
    let row = pool.one(sqlx::query("SELECT id FROM installation")).await?;
    row.try_get("id").map_err(while_running)
}

/// An id that nobody else has.
pub(super) fn new_id() -> Result<TransferId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| StorageError::new(StorageErrorKind::Unavailable, error.to_string()))?;
    Ok(TransferId::from_u128(u128::from_ne_bytes(bytes)))
}
