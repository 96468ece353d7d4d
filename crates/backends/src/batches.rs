//! SQL of batch lines that SQLite and PostgreSQL share.

use tollgate_storage::{BatchLine, ChargedLine, LineState, Result, StorageError};
use tollgate_types::{Credits, HoldId};

use crate::columns::columns;
use crate::jobs::usage_from;
use crate::rows::{corrupt, id_from, version_from};

/// Inserts a line that has started. Writes only while the lease is valid, like every statement that
/// changes a job.
pub(crate) const BEGIN: &str = "INSERT INTO batch_line (account_id, batch_id, number, hold_id, state, content, price_version, \
    usage, charge, overrun, updated_at) SELECT account_id, id, $5, hold_id, 'begun', $6, $7, '{}', 0, 0, $8 FROM job \
    WHERE account_id = $1 AND id = $2 AND worker = $3 AND epoch = $4 AND status = 'in_progress' ON CONFLICT DO NOTHING";
pub(crate) const IS_LEASED: &str = "SELECT 1 FROM job \
    WHERE account_id = $1 AND id = $2 AND worker = $3 AND epoch = $4 AND status = 'in_progress'";
pub(crate) const END: &str = "UPDATE batch_line SET state = $6, content = $7, usage = $8, charge = $9, overrun = $10, \
    held = $11, updated_at = $12 WHERE account_id = $1 AND batch_id = $2 AND number = $5 AND state = 'begun' AND EXISTS (SELECT 1 FROM job \
    WHERE job.account_id = $1 AND job.id = $2 AND worker = $3 AND epoch = $4 AND status = 'in_progress')";
pub(crate) const RESET_DEATHS: &str = "UPDATE job SET deaths = 0 \
    WHERE account_id = $1 AND id = $2 AND worker = $3 AND epoch = $4 AND status = 'in_progress'";
pub(crate) const UNUSED_HOLD: &str = "SELECT CAST(COALESCE(sum(held - charge), 0) AS BIGINT) AS freed FROM batch_line \
    WHERE account_id = $1 AND batch_id = $2 AND state <> 'begun' AND held > charge";
/// Selects the lines of a hold with empty content, because callers read only their amounts.
pub(crate) const CHARGED: &str = "SELECT number, hold_id, state, substr(content, 1, 0) AS content, price_version, usage, \
    charge, overrun, held FROM batch_line WHERE account_id = $1 AND hold_id = $2 ORDER BY batch_id, number";
pub(crate) const COUNTS: &str = "SELECT state, count(*) AS count FROM batch_line \
    WHERE account_id = $1 AND batch_id = $2 GROUP BY state";
pub(crate) const STATES: &str =
    "SELECT number, state FROM batch_line WHERE account_id = $1 AND batch_id = $2 ORDER BY number";
pub(crate) const LINES: &str = "SELECT * FROM batch_line WHERE account_id = $1 AND batch_id = $2 AND number >= $3 \
    ORDER BY number LIMIT $4";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    BEGIN,
    IS_LEASED,
    END,
    RESET_DEATHS,
    UNUSED_HOLD,
    CHARGED,
    COUNTS,
    STATES,
    LINES,
];

/// Binds a lease, a line and the time to [`END`].
macro_rules! bind_line_end {
    ($lease:expr, $line:expr, $at:expr) => {
        $crate::jobs::of_lease!($crate::batches::END, $lease)
            .bind(i64::from($line.number))
            .bind($line.state.as_str())
            .bind($line.content.clone())
            .bind($crate::jobs::usage_column(&$line.usage))
            .bind($line.charge.nanos())
            .bind($line.overrun.nanos())
            .bind($line.held.nanos())
            .bind($at.as_micros())
    };
}

pub(crate) use bind_line_end;

/// Parses the number and the state of a line.
pub(crate) fn state_from(number: i64, state: &str) -> Result<(u32, LineState)> {
    let state =
        LineState::parse(state).ok_or_else(|| corrupt(format!("unknown batch line state '{state}'")))?;
    Ok((number_from(number)?, state))
}

fn number_from(column: i64) -> Result<u32> {
    u32::try_from(column).map_err(|_| corrupt(format!("invalid batch line number {column}")))
}

columns! {
    /// A row of `batch_line`.
    pub(crate) struct LineColumns {
        number: i64,
        hold_id: Vec<u8>,
        state: String,
        content: Vec<u8>,
        price_version: i64,
        usage: String,
        charge: i64,
        overrun: i64,
        held: i64,
    }
}

impl TryFrom<LineColumns> for BatchLine {
    type Error = StorageError;

    fn try_from(columns: LineColumns) -> Result<BatchLine> {
        let (number, state) = state_from(columns.number, &columns.state)?;
        Ok(BatchLine {
            number,
            state,
            content: columns.content,
            price_version: version_from(columns.price_version),
            usage: usage_from(&columns.usage)?,
            charge: Credits::from_nanos(columns.charge),
            overrun: Credits::from_nanos(columns.overrun),
            held: Credits::from_nanos(columns.held),
        })
    }
}

impl TryFrom<LineColumns> for ChargedLine {
    type Error = StorageError;

    fn try_from(columns: LineColumns) -> Result<ChargedLine> {
        Ok(ChargedLine {
            hold: HoldId::from_u128(id_from(&columns.hold_id)?),
            price_version: version_from(columns.price_version),
            usage: usage_from(&columns.usage)?,
            charge: Credits::from_nanos(columns.charge),
            overrun: Credits::from_nanos(columns.overrun),
        })
    }
}
