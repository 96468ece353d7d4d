//! SQL of calibrations that SQLite and PostgreSQL share.

use tollgate_storage::{Calibration, NewCalibration, Result, StorageError};
use tollgate_types::{AccountId, CalibrationId, Timestamp};

use crate::columns::columns;
use crate::rows::{corrupt, id_from};

/// Selects calibrations with the flag `is_default`: 1 for the chosen calibration of a model, or for
/// its newest version if none is chosen. A choice that refers to a deleted calibration is ignored.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT c.*, CAST(CASE WHEN c.id = COALESCE(\
             (SELECT o.id FROM calibration AS o WHERE o.account_id = c.account_id AND o.id = m.chosen), \
             (SELECT o.id FROM calibration AS o WHERE o.account_id = c.account_id AND o.model = c.model \
             ORDER BY o.version DESC LIMIT 1)) THEN 1 ELSE 0 END AS BIGINT) AS is_default \
             FROM calibration AS c JOIN calibration_model AS m ON m.account_id = c.account_id AND m.model = c.model \
             WHERE c.account_id = $1 AND ",
            $rest
        )
    };
}

pub(crate) const COUNT: &str = "SELECT count(*) AS count FROM calibration WHERE account_id = $1";
pub(crate) const NEXT_VERSION: &str = "INSERT INTO calibration_model (account_id, model, versions) VALUES ($1, $2, 1) \
    ON CONFLICT (account_id, model) DO UPDATE SET versions = calibration_model.versions + 1 RETURNING versions";
pub(crate) const INSERT: &str = "INSERT INTO calibration (account_id, id, model, version, name, profile, examples, summary, \
    created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING";
pub(crate) const GET: &str = select!("c.id = $2");
pub(crate) const DEFAULT: &str =
    select!("c.model = $2 ORDER BY CASE WHEN c.id = m.chosen THEN 0 ELSE 1 END, c.version DESC LIMIT 1");
pub(crate) const LIST: &str =
    select!("c.id < $2 AND c.model = COALESCE($3, c.model) ORDER BY c.id DESC LIMIT $4");
pub(crate) const CHOOSE: &str = "UPDATE calibration_model SET chosen = $2 WHERE account_id = $1 \
    AND model = (SELECT model FROM calibration WHERE account_id = $1 AND id = $2)";
pub(crate) const RELEASE: &str =
    "UPDATE calibration_model SET chosen = NULL WHERE account_id = $1 AND chosen = $2";
pub(crate) const DELETE: &str = "DELETE FROM calibration WHERE account_id = $1 AND id = $2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    COUNT,
    NEXT_VERSION,
    INSERT,
    GET,
    DEFAULT,
    LIST,
    CHOOSE,
    RELEASE,
    DELETE,
];

/// Returns the statement that makes a calibration the default of its model, or the one that removes
/// this choice.
pub(crate) const fn choice(is_chosen: bool) -> &'static str {
    match is_chosen {
        true => CHOOSE,
        false => RELEASE,
    }
}

/// Binds an account and a calibration id to a statement, for any engine.
macro_rules! of_calibration {
    ($statement:expr, $account:expr, $id:expr) => {
        sqlx::query($statement)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($crate::rows::id_bytes($id.as_u128()))
    };
}

/// Binds an account and a model to a statement, for any engine.
macro_rules! of_model {
    ($statement:expr, $account:expr, $model:expr) => {
        sqlx::query($statement)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($model)
    };
}

/// Binds a calibration and its version to [`INSERT`], for any engine.
macro_rules! bind_calibration {
    ($new:expr, $version:expr) => {
        $crate::calibrations::of_calibration!($crate::calibrations::INSERT, $new.account, $new.id)
            .bind($new.model.clone())
            .bind($version)
            .bind($new.name.clone())
            .bind($new.profile.clone())
            .bind(i64::from($new.examples))
            .bind($new.summary.clone())
            .bind($new.created_at.as_micros())
    };
}

/// Binds an account, a filter and a limit to [`LIST`], for any engine.
macro_rules! bind_list {
    ($account:expr, $filter:expr, $limit:expr) => {{
        let after = $filter.after.map(tollgate_types::CalibrationId::as_u128);
        sqlx::query($crate::calibrations::LIST)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($crate::rows::page_edge(after, u8::MAX))
            .bind($filter.model)
            .bind(i64::from($limit))
    }};
}

pub(crate) use {bind_calibration, bind_list, of_calibration, of_model};

columns! {
    /// A row of `calibration` with its `is_default` flag.
    pub(crate) struct CalibrationColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        model: String,
        version: i64,
        name: Option<String>,
        profile: String,
        examples: i64,
        summary: String,
        created_at: i64,
        is_default: i64,
    }
}

impl TryFrom<CalibrationColumns> for Calibration {
    type Error = StorageError;

    fn try_from(columns: CalibrationColumns) -> Result<Calibration> {
        let number = |column: i64| {
            u32::try_from(column)
                .map_err(|_| corrupt(format!("invalid count or version of a calibration: {column}")))
        };
        Ok(Calibration {
            details: NewCalibration {
                id: CalibrationId::from_u128(id_from(&columns.id)?),
                account: AccountId::from_u128(id_from(&columns.account_id)?),
                model: columns.model,
                name: columns.name,
                profile: columns.profile,
                examples: number(columns.examples)?,
                summary: columns.summary,
                created_at: Timestamp::from_micros(columns.created_at),
            },
            version: number(columns.version)?,
            is_default: columns.is_default != 0,
        })
    }
}
