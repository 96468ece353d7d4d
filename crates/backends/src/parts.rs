//! SQL of usage-row parts that SQLite and PostgreSQL share.

use tollgate_storage::{Result, StorageError, UsagePart};
use tollgate_types::{Credits, HoldId};

use crate::columns::columns;
use crate::rows::{QuantityColumns, canonical_model, corrupt, id_from, version_from};

/// Inserts a part of a usage row. An existing part stays unchanged.
pub(crate) const INSERT: &str = "INSERT INTO usage_part (account_id, id, number, name, model, provider, price_version, cost, \
    input, cache_read, cache_write, input_audio, output, reasoning, output_audio, cache_write_1h, \
    image, video, audio, characters, searches, input_image, cache_read_audio) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23) \
    ON CONFLICT (account_id, id, number) DO NOTHING";
pub(crate) const LIST: &str = concat!(
    "SELECT usage_part.*, ",
    canonical_model!("usage_part"),
    " AS canonical_model FROM usage_part WHERE account_id = $1 AND id = $2 ORDER BY number"
);

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, LIST];

/// Binds a part of a settlement to [`INSERT`], for any engine.
macro_rules! bind_part {
    ($settlement:expr, $part:expr) => {{
        let part: &tollgate_storage::UsagePart = $part;
        let statement = sqlx::query($crate::parts::INSERT)
            .bind($crate::rows::id_bytes($settlement.account.as_u128()))
            .bind($crate::rows::id_bytes($settlement.hold.as_u128()))
            .bind(i64::from(part.number))
            .bind(part.name.to_string())
            .bind(part.model.to_string())
            .bind(part.target.to_string())
            .bind($crate::rows::version_column(part.price_version))
            .bind(part.cost.nanos());
        let units = tollgate_types::Unit::ALL.into_iter();
        units.fold(statement, |statement, unit| {
            statement.bind($crate::rows::quantity_column(part.usage.get(unit)))
        })
    }};
}

pub(crate) use bind_part;

columns! {
    /// A row of `usage_part`.
    pub(crate) struct PartColumns {
        id: Vec<u8>,
        number: i64,
        name: String,
        model: String,
        /// Canonical model id. `None` in audit rows, because an audit checks only prices.
        canonical_model: Option<String>,
        provider: String,
        price_version: i64,
        cost: i64,
    } with {
        quantities: QuantityColumns,
    }
}

impl TryFrom<PartColumns> for UsagePart {
    type Error = StorageError;

    fn try_from(columns: PartColumns) -> Result<UsagePart> {
        let number = columns.number;
        Ok(UsagePart {
            number: u32::try_from(number)
                .map_err(|_| corrupt(format!("invalid usage part number {number}")))?,
            name: columns.name.into(),
            model: columns.canonical_model.unwrap_or(columns.model).into(),
            target: columns.provider.into(),
            price_version: version_from(columns.price_version),
            usage: columns.quantities.try_into()?,
            cost: Credits::from_nanos(columns.cost),
        })
    }
}

impl PartColumns {
    /// Converts the row to the id of its usage row and the part.
    pub(crate) fn of_row(self) -> Result<(HoldId, UsagePart)> {
        let row = HoldId::from_u128(id_from(&self.id)?);
        Ok((row, self.try_into()?))
    }
}
