//! Webhooks of jobs: what both engines say to their databases, in words that both understand.

use sqlx::FromRow;
use tollgate_storage::{Delivery, DeliveryOutcome, DeliveryState, Result, StorageError};
use tollgate_types::Timestamp;

use crate::rows::corrupt;

/// Whether anybody is to be told: a look that writes nothing and locks nothing, since it is asked all the time.
pub(crate) const IS_DUE: &str = "SELECT EXISTS (SELECT 1 FROM job WHERE webhook_state = 'pending' \
    AND completed_at IS NOT NULL AND webhook_due_at <= $1) AS is_due";
/// What is due, the next of everybody before the second of anybody, counting what is leased.
pub(crate) const CLAIM: &str = "UPDATE job SET webhook_leased = 1, webhook_attempts = webhook_attempts + 1, \
    webhook_due_at = $2 \
    FROM (SELECT owner, chosen FROM ( \
            SELECT due.account_id AS owner, due.id AS chosen, due.webhook_due_at AS since, \
                row_number() OVER (PARTITION BY due.account_id ORDER BY due.webhook_due_at, due.id) \
                    + COALESCE(leased, 0) AS place \
            FROM job AS due \
            LEFT JOIN (SELECT account_id, count(*) AS leased FROM job \
                WHERE webhook_leased = 1 AND webhook_due_at > $1 GROUP BY account_id) AS busy \
                ON busy.account_id = due.account_id \
            WHERE due.webhook_state = 'pending' AND due.completed_at IS NOT NULL AND due.webhook_due_at <= $1 \
        ) AS placed WHERE place <= $4 ORDER BY place, since, chosen LIMIT $3) AS next \
    WHERE account_id = next.owner AND id = next.chosen AND webhook_state = 'pending' AND webhook_due_at <= $1 \
    RETURNING *";
pub(crate) const FINISH: &str = "UPDATE job SET webhook_state = $4, webhook_failure = $5, \
    webhook_due_at = COALESCE($6, webhook_due_at), webhook_delivered_at = $7, webhook_leased = 0 \
    WHERE account_id = $1 AND id = $2 AND webhook_attempts = $3 AND webhook_state = 'pending'";
pub(crate) const DELIVERY: &str = "SELECT webhook_state, webhook_attempts, webhook_due_at, webhook_failure, \
    webhook_delivered_at FROM job WHERE account_id = $1 AND id = $2 AND webhook_state IS NOT NULL";
pub(crate) const SECRET: &str = "SELECT number FROM webhook_secret WHERE account_id = $1";
pub(crate) const RENEW_SECRET: &str = "INSERT INTO webhook_secret (account_id, number) \
    SELECT id, 2 FROM account WHERE id = $1 \
    ON CONFLICT (account_id) DO UPDATE SET number = webhook_secret.number + 1 RETURNING number";

/// Every statement of this file.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[IS_DUE, CLAIM, FINISH, DELIVERY, SECRET, RENEW_SECRET];

/// [`CLAIM`] with its values, for any engine.
macro_rules! claim {
    ($claim:expr) => {{
        let claim: tollgate_storage::DeliveryClaim = $claim;
        sqlx::query($crate::webhooks::CLAIM)
            .bind(claim.now.as_micros())
            .bind(claim.until.as_micros())
            .bind(i64::from(claim.limit))
            .bind(i64::from(claim.per_account))
    }};
}

/// [`FINISH`] with its values, for any engine.
macro_rules! finish {
    ($leased:expr, $outcome:expr) => {{
        let leased: &tollgate_storage::LeasedDelivery = $leased;
        let ended = $crate::webhooks::Ended::from($outcome);
        $crate::jobs::of_job!($crate::webhooks::FINISH, leased.job.account, leased.job.terms.id)
            .bind(i64::from(leased.attempt))
            .bind(ended.state.as_str())
            .bind(ended.failure)
            .bind(ended.due_at.map(tollgate_types::Timestamp::as_micros))
            .bind(ended.delivered_at.map(tollgate_types::Timestamp::as_micros))
    }};
}

pub(crate) use {claim, finish};

/// What an attempt leaves behind.
pub(crate) struct Ended {
    pub(crate) state: DeliveryState,
    pub(crate) failure: Option<String>,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) delivered_at: Option<Timestamp>,
}

impl From<DeliveryOutcome> for Ended {
    fn from(outcome: DeliveryOutcome) -> Self {
        let (state, failure, due_at, delivered_at) = match outcome {
            DeliveryOutcome::Delivered { at } => (DeliveryState::Delivered, None, None, Some(at)),
            DeliveryOutcome::Again { due_at, why } => (DeliveryState::Pending, Some(why), Some(due_at), None),
            DeliveryOutcome::Failed { why } => (DeliveryState::Failed, Some(why), None, None),
        };
        Self {
            state,
            failure,
            due_at,
            delivered_at,
        }
    }
}

/// The number of attempts in a column.
pub(crate) fn attempts_from(column: i64) -> Result<u32> {
    u32::try_from(column).map_err(|_| corrupt(format!("{column} attempts")))
}

/// The number of a secret in its column; that of the first one when there is none.
pub(crate) fn secret_from(column: Option<i64>) -> Result<u32> {
    let number = column.unwrap_or(1);
    u32::try_from(number).map_err(|_| corrupt(format!("a secret of number {number}")))
}

/// What a row of `job` says of its delivery.
#[derive(FromRow)]
pub(crate) struct DeliveryColumns {
    webhook_state: String,
    webhook_attempts: i64,
    webhook_due_at: i64,
    webhook_failure: Option<String>,
    webhook_delivered_at: Option<i64>,
}

impl TryFrom<DeliveryColumns> for Delivery {
    type Error = StorageError;

    fn try_from(columns: DeliveryColumns) -> Result<Delivery> {
        let state = DeliveryState::parse(&columns.webhook_state);
        Ok(Delivery {
            state: state.ok_or_else(|| corrupt(format!("state of delivery '{}'", columns.webhook_state)))?,
            attempts: attempts_from(columns.webhook_attempts)?,
            due_at: Timestamp::from_micros(columns.webhook_due_at),
            failure: columns.webhook_failure,
            delivered_at: columns.webhook_delivered_at.map(Timestamp::from_micros),
        })
    }
}
