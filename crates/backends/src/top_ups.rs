//! SQL of top-ups that SQLite and PostgreSQL share.

use tollgate_storage::{AutoTopUp, Result, StorageError, TopUp, TopUpKind, TopUpState};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Money, Timestamp, TopUpId};

use crate::columns::columns;
use crate::rows::{corrupt, id_from};

pub(crate) const PAYER: &str = "SELECT payer FROM payer WHERE account_id = $1 AND provider = $2";
pub(crate) const SAVE_PAYER: &str = "INSERT INTO payer (account_id, provider, payer, created_at) \
    SELECT id, $2, $3, $4 FROM account WHERE id = $1 ON CONFLICT DO NOTHING";
pub(crate) const INSERT: &str = "INSERT INTO top_up (account_id, id, kind, state, currency, amount, credits, reference, \
    grant_id, returned, failure, created_at, updated_at) \
    SELECT id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 FROM account WHERE id = $1 ON CONFLICT DO NOTHING";
pub(crate) const GET: &str = "SELECT * FROM top_up WHERE id = $1";
pub(crate) const BY_REFERENCE: &str = "SELECT * FROM top_up WHERE reference = $1";
pub(crate) const LIST: &str = "SELECT * FROM top_up WHERE id < $1 ORDER BY id DESC LIMIT $2";
pub(crate) const LIST_OF_ACCOUNT: &str =
    "SELECT * FROM top_up WHERE id < $1 AND account_id = $3 ORDER BY id DESC LIMIT $2";
pub(crate) const UPDATE: &str = "UPDATE top_up SET kind = $3, state = $4, currency = $5, amount = $6, credits = $7, \
    reference = $8, grant_id = $9, returned = $10, failure = $11, created_at = $12, updated_at = $13 \
    WHERE account_id = $1 AND id = $2";
pub(crate) const PENDING_AUTO: &str = "SELECT * FROM top_up WHERE kind = 'auto' AND state = 'pending' \
    AND updated_at < $1 ORDER BY id LIMIT $2";
pub(crate) const AUTO_SINCE: &str = "SELECT CAST(coalesce(sum(credits), 0) AS BIGINT) AS credits FROM top_up \
    WHERE account_id = $1 AND kind = 'auto' AND state <> 'failed' AND created_at >= $2";
pub(crate) const SET_AUTO: &str = "INSERT INTO auto_top_up (account_id, below, amount, monthly_limit, failures) \
    SELECT id, $2, $3, $4, $5 FROM account WHERE id = $1 \
    ON CONFLICT (account_id) DO UPDATE SET below = excluded.below, amount = excluded.amount, \
    monthly_limit = excluded.monthly_limit, failures = excluded.failures";
pub(crate) const DELETE_AUTO: &str = "DELETE FROM auto_top_up WHERE account_id = $1";
pub(crate) const AUTO: &str = "SELECT * FROM auto_top_up WHERE account_id = $1";
pub(crate) const AUTOS: &str = "SELECT * FROM auto_top_up WHERE account_id > $1 ORDER BY account_id LIMIT $2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    PAYER,
    SAVE_PAYER,
    INSERT,
    GET,
    BY_REFERENCE,
    LIST,
    LIST_OF_ACCOUNT,
    UPDATE,
    PENDING_AUTO,
    AUTO_SINCE,
    SET_AUTO,
    DELETE_AUTO,
    AUTO,
    AUTOS,
];

/// Binds a top-up to [`INSERT`] or [`UPDATE`], for any engine.
macro_rules! bind_top_up {
    ($statement:expr, $top_up:expr) => {{
        let top_up: &tollgate_storage::TopUp = $top_up;
        sqlx::query($statement)
            .bind($crate::rows::id_bytes(top_up.account.as_u128()))
            .bind($crate::rows::id_bytes(top_up.id.as_u128()))
            .bind(top_up.kind.as_str())
            .bind(top_up.state.as_str())
            .bind(top_up.money.currency.to_string())
            .bind(top_up.money.amount)
            .bind(top_up.credits.nanos())
            .bind(top_up.reference.clone())
            .bind(top_up.grant.map(|grant| $crate::rows::id_bytes(grant.as_u128())))
            .bind(top_up.returned)
            .bind(top_up.failure.clone())
            .bind(top_up.created_at.as_micros())
            .bind(top_up.updated_at.as_micros())
    }};
}

pub(crate) use bind_top_up;

columns! {
    /// A row of `top_up`.
    pub(crate) struct TopUpColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        kind: String,
        state: String,
        currency: String,
        amount: i64,
        credits: i64,
        reference: Option<String>,
        grant_id: Option<Vec<u8>>,
        returned: i64,
        failure: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<TopUpColumns> for TopUp {
    type Error = StorageError;

    fn try_from(columns: TopUpColumns) -> Result<TopUp> {
        let unknown = |what: &str, name: &str| corrupt(format!("unknown {what} '{name}'"));
        let currency = columns.currency.parse();
        let grant = columns.grant_id.as_deref().map(id_from).transpose()?;
        Ok(TopUp {
            id: TopUpId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            kind: TopUpKind::parse(&columns.kind).ok_or_else(|| unknown("top-up kind", &columns.kind))?,
            state: TopUpState::parse(&columns.state)
                .ok_or_else(|| unknown("top-up state", &columns.state))?,
            money: Money {
                amount: columns.amount,
                currency: currency.map_err(|_| unknown("currency", &columns.currency))?,
            },
            credits: Credits::from_nanos(columns.credits),
            reference: columns.reference,
            grant: grant.map(TransferId::from_u128),
            returned: columns.returned,
            failure: columns.failure,
            created_at: Timestamp::from_micros(columns.created_at),
            updated_at: Timestamp::from_micros(columns.updated_at),
        })
    }
}

columns! {
    /// A row of `auto_top_up`.
    pub(crate) struct AutoColumns {
        account_id: Vec<u8>,
        below: i64,
        amount: i64,
        monthly_limit: i64,
        failures: i64,
    }
}

impl TryFrom<AutoColumns> for AutoTopUp {
    type Error = StorageError;

    fn try_from(columns: AutoColumns) -> Result<AutoTopUp> {
        let failures = u32::try_from(columns.failures);
        Ok(AutoTopUp {
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            below: Credits::from_nanos(columns.below),
            amount: Credits::from_nanos(columns.amount),
            monthly_limit: Credits::from_nanos(columns.monthly_limit),
            failures: failures.map_err(|_| corrupt(format!("{} failures", columns.failures)))?,
        })
    }
}
