//! Readers of columns by name. `crate::rows` contains the conversions that both engines share.

use sqlx::postgres::{PgRow, Postgres};
use sqlx::{Decode, FromRow, Row, Type};
use tollgate_storage::{Account, AccountState, Limits, Result, StorageError};
use tollgate_types::{AccountId, Credits, Timestamp};

use super::error::corrupt;
use crate::rows::{limit_from, test_clock_from};

/// Column form of an id: 16 bytes, big-endian.
pub(super) type IdBytes = [u8; 16];

/// Reads a column of any type.
pub(super) fn get<'r, T: Decode<'r, Postgres> + Type<Postgres>>(row: &'r PgRow, column: &str) -> Result<T> {
    row.try_get(column).map_err(corrupt)
}

/// Reads an id, stored as 16 big-endian bytes.
pub(super) fn id(row: &PgRow, column: &str) -> Result<u128> {
    get::<IdBytes>(row, column).map(u128::from_be_bytes)
}

/// Reads an amount in nano-credits.
pub(super) fn credits(row: &PgRow, column: &str) -> Result<Credits> {
    get(row, column).map(Credits::from_nanos)
}

/// Reads a timestamp in microseconds.
pub(super) fn timestamp(row: &PgRow, column: &str) -> Result<Timestamp> {
    get(row, column).map(Timestamp::from_micros)
}

/// Reads a name of a closed set; `parse` returns `None` for unknown names.
pub(super) fn name<T>(row: &PgRow, column: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T> {
    let name: &str = get(row, column)?;
    parse(name).ok_or_else(|| corrupt(format!("unknown {column} '{name}'")))
}

/// Reads all columns of a row into a type of the storage port.
pub(super) fn whole<C, T>(row: &PgRow) -> Result<T>
where
    C: for<'r> FromRow<'r, PgRow> + TryInto<T, Error = StorageError>,
{
    C::from_row(row).map_err(corrupt)?.try_into()
}

/// Reads an account. `columns` are the names of its columns in the order of the pattern below,
/// because a join may rename them.
pub(super) fn account(row: &PgRow, columns: [&str; 14]) -> Result<Account> {
    let [
        id_column,
        name_column,
        state,
        rpm,
        tpm,
        keys,
        gpus,
        agents,
        chats,
        files,
        files_gib,
        batch_tokens,
        test_clock,
        created_at,
    ] = columns;
    let limit = |column: &str| limit_from(get(row, column)?);
    let (tpm, batch_tokens): (Option<i64>, Option<i64>) = (get(row, tpm)?, get(row, batch_tokens)?);
    let limits = Limits {
        rpm: limit(rpm)?,
        tpm: tpm.map(i64::cast_unsigned),
        keys: limit(keys)?,
        gpus: limit(gpus)?,
        agents: limit(agents)?,
        chats: limit(chats)?,
        files: limit(files)?,
        files_gib: limit(files_gib)?,
        batch_tokens: batch_tokens.map(i64::cast_unsigned),
    };
    Ok(Account {
        id: AccountId::from_u128(id(row, id_column)?),
        name: get(row, name_column)?,
        state: name(row, state, AccountState::parse)?,
        limits,
        test_clock: test_clock_from(get(row, test_clock)?)?,
        created_at: timestamp(row, created_at)?,
    })
}
