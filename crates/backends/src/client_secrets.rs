//! SQL of client secrets that SQLite and PostgreSQL share.

use tollgate_storage::{ClientSecret, Result, StorageError, StorageErrorKind};
use tollgate_types::{AccountId, ClientSecretId, Credits, KeyId, MemberId, Principal, SessionId, Timestamp};

use crate::columns::columns;
use crate::rows::{corrupt, digest_from, id_from, limit_from};

/// Counts the secrets of account `$1` that expire after `$2`.
pub(crate) const LIVE: &str =
    "SELECT count(*) AS live FROM client_secret WHERE account_id = $1 AND expires_at > $2";
pub(crate) const INSERT: &str = "INSERT INTO client_secret (account_id, id, key_id, member_id, digest, \
    digest_prefix, session, model, max_cost, spent, max_seconds, allowed_origins, created_at, expires_at, \
    console_session_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
pub(crate) const FIND: &str = "SELECT * FROM client_secret WHERE digest_prefix = $1 AND expires_at > $2";
/// The comparison subtracts, because a sum could overflow.
pub(crate) const RESERVE: &str = "UPDATE client_secret SET spent = spent + $3 \
    WHERE account_id = $1 AND id = $2 AND (max_cost IS NULL OR spent <= max_cost - $3)";
pub(crate) const RELEASE: &str = "UPDATE client_secret \
    SET spent = CASE WHEN spent > $3 THEN spent - $3 ELSE 0 END WHERE account_id = $1 AND id = $2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[LIVE, INSERT, FIND, RESERVE, RELEASE];

/// Binds a secret to [`INSERT`], for any engine.
macro_rules! bind_secret {
    ($secret:expr) => {{
        let secret: &tollgate_storage::ClientSecret = $secret;
        sqlx::query($crate::client_secrets::INSERT)
            .bind($crate::rows::id_bytes(secret.account.as_u128()))
            .bind($crate::rows::id_bytes(secret.id.as_u128()))
            .bind(
                secret
                    .principal
                    .key()
                    .map(|id| $crate::rows::id_bytes(id.as_u128())),
            )
            .bind(
                secret
                    .principal
                    .member()
                    .map(|id| $crate::rows::id_bytes(id.as_u128())),
            )
            .bind(secret.digest.to_vec())
            .bind(secret.digest[..16].to_vec())
            .bind(secret.session.clone())
            .bind(secret.model.clone())
            .bind(secret.max_cost.map(tollgate_types::Credits::nanos))
            .bind(secret.spent.nanos())
            .bind(secret.max_seconds.map(i64::from))
            .bind($crate::client_secrets::origins_column(&secret.allowed_origins))
            .bind(secret.created_at.as_micros())
            .bind(secret.expires_at.as_micros())
            .bind(
                secret
                    .console_session
                    .map(|id| $crate::rows::id_bytes(id.as_u128())),
            )
    }};
}

/// Binds an account, a secret and an amount to [`RESERVE`] or [`RELEASE`], for any engine.
macro_rules! of_secret {
    ($statement:expr, $account:expr, $id:expr, $amount:expr) => {
        sqlx::query($statement)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($crate::rows::id_bytes($id.as_u128()))
            .bind($amount.nanos())
    };
}

pub(crate) use {bind_secret, of_secret};

/// Returns a `Conflict` error for a negative reservation.
pub(crate) fn check_reservation(amount: Credits) -> Result<()> {
    match amount >= Credits::ZERO {
        true => Ok(()),
        false => Err(invalid("the reservation is negative")),
    }
}

/// Returns the part of a reservation that was not charged. `Conflict` unless the charge is between
/// zero and the reservation.
pub(crate) fn released(held: Credits, charged: Credits) -> Result<Credits> {
    if charged < Credits::ZERO || charged > held {
        return Err(invalid("the charge is not between zero and the reservation"));
    }
    Ok(held.saturating_sub(charged))
}

fn invalid(why: &str) -> StorageError {
    StorageError::new(StorageErrorKind::Conflict, why)
}

/// Converts origins to their column: a JSON array.
pub(crate) fn origins_column(origins: &[String]) -> String {
    serde_json::Value::from(origins).to_string()
}

columns! {
    /// A row of `client_secret`.
    pub(crate) struct ClientSecretColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        key_id: Option<Vec<u8>>,
        member_id: Option<Vec<u8>>,
        digest: Vec<u8>,
        session: Vec<u8>,
        model: Option<String>,
        max_cost: Option<i64>,
        spent: i64,
        max_seconds: Option<i64>,
        allowed_origins: String,
        created_at: i64,
        expires_at: i64,
        console_session_id: Option<Vec<u8>>,
    }
}

impl TryFrom<ClientSecretColumns> for ClientSecret {
    type Error = StorageError;

    fn try_from(columns: ClientSecretColumns) -> Result<ClientSecret> {
        let key = columns.key_id.as_deref().map(id_from).transpose()?;
        let member = columns.member_id.as_deref().map(id_from).transpose()?;
        let console_session = columns.console_session_id.as_deref().map(id_from).transpose()?;
        let principal = Principal::from_columns(key.map(KeyId::from_u128), member.map(MemberId::from_u128));
        let origins = serde_json::from_str(&columns.allowed_origins);
        Ok(ClientSecret {
            id: ClientSecretId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            principal: principal.ok_or_else(|| corrupt("a client secret must have a principal"))?,
            console_session: console_session.map(SessionId::from_u128),
            digest: digest_from(columns.digest)?,
            session: columns.session,
            model: columns.model,
            max_cost: columns.max_cost.map(Credits::from_nanos),
            spent: Credits::from_nanos(columns.spent),
            max_seconds: limit_from(columns.max_seconds)?,
            allowed_origins: origins.map_err(|_| corrupt("invalid origins of a client secret"))?,
            created_at: Timestamp::from_micros(columns.created_at),
            expires_at: Timestamp::from_micros(columns.expires_at),
        })
    }
}
