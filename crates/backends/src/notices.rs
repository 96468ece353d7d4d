//! SQL of notices that SQLite and PostgreSQL share.

use tollgate_storage::{BalanceAlert, Channel, Notice, NoticeState, Result, StorageError};
use tollgate_types::{AccountId, Credits, NoticeId, Timestamp};

use crate::columns::columns;
use crate::rows::{corrupt, id_from};

// The column `secret` is no longer read, because every account has a secret, with or without an
// alert.
pub(crate) const SET_ALERT: &str = "INSERT INTO balance_alert (account_id, below, webhook, email, secret, is_low) \
    SELECT id, $2, $3, $4, 1, $5 FROM account WHERE id = $1 \
    ON CONFLICT (account_id) DO UPDATE SET below = excluded.below, webhook = excluded.webhook, \
    email = excluded.email, is_low = excluded.is_low";
pub(crate) const DELETE_ALERT: &str = "DELETE FROM balance_alert WHERE account_id = $1";
pub(crate) const ALERT: &str = "SELECT * FROM balance_alert WHERE account_id = $1";
pub(crate) const ALERTS: &str =
    "SELECT * FROM balance_alert WHERE account_id > $1 ORDER BY account_id LIMIT $2";
pub(crate) const NOTE_LOW: &str =
    "UPDATE balance_alert SET is_low = $2 WHERE account_id = $1 AND is_low <> $2";
pub(crate) const INSERT: &str = "INSERT INTO notice (account_id, id, channel, address, body, state, attempts, due_at, \
    failure, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
pub(crate) const FINISH: &str = "UPDATE notice SET state = $4, failure = $5, due_at = $6 \
    WHERE account_id = $1 AND id = $2 AND attempts = $3 AND state = 'pending'";
pub(crate) const LIST: &str = "SELECT * FROM notice WHERE account_id = $1 ORDER BY id DESC LIMIT $2";

/// Binds a notice to [`INSERT`], for any engine.
macro_rules! bind_notice {
    ($notice:expr) => {{
        let notice: &tollgate_storage::Notice = $notice;
        sqlx::query($crate::notices::INSERT)
            .bind($crate::rows::id_bytes(notice.account.as_u128()))
            .bind($crate::rows::id_bytes(notice.id.as_u128()))
            .bind(notice.channel.as_str())
            .bind(notice.address.clone())
            .bind(notice.body.clone())
            .bind(notice.state.as_str())
            .bind(i64::from(notice.attempts))
            .bind(notice.due_at.as_micros())
            .bind(notice.failure.clone())
            .bind(notice.created_at.as_micros())
    }};
}

/// Binds an account and its alert to [`SET_ALERT`], or the account to [`DELETE_ALERT`], for any
/// engine.
macro_rules! set_alert {
    ($account:expr, $alert:expr) => {{
        let account = $crate::rows::id_bytes($account.as_u128());
        match $alert {
            None => sqlx::query($crate::notices::DELETE_ALERT).bind(account),
            Some(alert) => sqlx::query($crate::notices::SET_ALERT)
                .bind(account)
                .bind(alert.below.nanos())
                .bind(alert.webhook)
                .bind(alert.email)
                .bind(i64::from(alert.is_low)),
        }
    }};
}

/// Binds the outcome of a delivery attempt to [`FINISH`], for any engine.
macro_rules! finish {
    ($notice:expr, $outcome:expr) => {{
        let notice: &tollgate_storage::Notice = $notice;
        let (state, failure, due_at) = $outcome.parts(notice.due_at);
        sqlx::query($crate::notices::FINISH)
            .bind($crate::rows::id_bytes(notice.account.as_u128()))
            .bind($crate::rows::id_bytes(notice.id.as_u128()))
            .bind(i64::from(notice.attempts))
            .bind(state.as_str())
            .bind(failure)
            .bind(due_at.as_micros())
    }};
}

pub(crate) use {bind_notice, finish, set_alert};

columns! {
    /// A row of `balance_alert`.
    pub(crate) struct AlertColumns {
        account_id: Vec<u8>,
        below: i64,
        webhook: Option<String>,
        email: Option<String>,
        is_low: i64,
    }
}

impl TryFrom<AlertColumns> for BalanceAlert {
    type Error = StorageError;

    fn try_from(columns: AlertColumns) -> Result<BalanceAlert> {
        Ok(BalanceAlert {
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            below: Credits::from_nanos(columns.below),
            webhook: columns.webhook,
            email: columns.email,
            is_low: columns.is_low != 0,
        })
    }
}

columns! {
    /// A row of `notice`.
    pub(crate) struct NoticeColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        channel: String,
        address: String,
        body: String,
        state: String,
        attempts: i64,
        due_at: i64,
        failure: Option<String>,
        created_at: i64,
    }
}

impl TryFrom<NoticeColumns> for Notice {
    type Error = StorageError;

    fn try_from(columns: NoticeColumns) -> Result<Notice> {
        let unknown = |what: &str, name: &str| corrupt(format!("unknown {what} '{name}'"));
        let attempts = u32::try_from(columns.attempts);
        Ok(Notice {
            id: NoticeId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            channel: Channel::parse(&columns.channel).ok_or_else(|| unknown("channel", &columns.channel))?,
            address: columns.address,
            body: columns.body,
            state: NoticeState::parse(&columns.state)
                .ok_or_else(|| unknown("notice state", &columns.state))?,
            attempts: attempts.map_err(|_| corrupt(format!("invalid attempt count {}", columns.attempts)))?,
            due_at: Timestamp::from_micros(columns.due_at),
            failure: columns.failure,
            created_at: Timestamp::from_micros(columns.created_at),
        })
    }
}
