//! SQL of job webhooks that SQLite and PostgreSQL share.

use tollgate_storage::{Delivery, DeliveryOutcome, DeliveryState, JobDelivery, Result, StorageError};
use tollgate_types::{JobId, JobStatus, Timestamp};

use crate::columns::columns;
use crate::rows::{corrupt, id_from};

/// Selects whether any webhook is due. Senders poll with it, so it neither writes nor locks.
pub(crate) const IS_DUE: &str = "SELECT EXISTS (SELECT 1 FROM job WHERE webhook_state = 'pending' \
    AND completed_at IS NOT NULL AND (webhook_due_at <= $1 OR webhook_due_at > $2)) AS is_due";
/// Leases due webhooks with fairness between accounts: the first webhook of every account precedes
/// the second webhook of any account. Leased webhooks of an account count.
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
            WHERE due.webhook_state = 'pending' AND due.completed_at IS NOT NULL \
                AND (due.webhook_due_at <= $1 OR due.webhook_due_at > $5) \
        ) AS placed WHERE place <= $4 ORDER BY place, since, chosen LIMIT $3) AS next \
    WHERE account_id = next.owner AND id = next.chosen AND webhook_state = 'pending' \
        AND (webhook_due_at <= $1 OR webhook_due_at > $5) \
    RETURNING *";
pub(crate) const FINISH: &str = "UPDATE job SET webhook_state = $4, webhook_failure = $5, \
    webhook_due_at = COALESCE($6, webhook_due_at), webhook_delivered_at = $7, webhook_leased = 0 \
    WHERE account_id = $1 AND id = $2 AND webhook_attempts = $3 AND webhook_state = 'pending'";
pub(crate) const DELIVERY: &str = "SELECT webhook_state, webhook_attempts, webhook_due_at, webhook_failure, \
    webhook_delivered_at FROM job WHERE account_id = $1 AND id = $2 AND webhook_state IS NOT NULL";
/// Selects the ended jobs of an account with webhooks, for [`JobDeliveryColumns`].
macro_rules! job_deliveries {
    ($which:literal) => {
        concat!(
            "SELECT id, kind, status, completed_at, webhook, webhook_state, webhook_attempts, webhook_due_at, \
             webhook_failure, webhook_delivered_at FROM job WHERE account_id = $1 AND webhook_state IS NOT NULL \
             AND completed_at IS NOT NULL ",
            $which
        )
    };
}

pub(crate) const LIST: &str = job_deliveries!("AND id < $2 ORDER BY id DESC LIMIT $3");
pub(crate) const ENDED: &str = job_deliveries!("AND id = $2");
/// Makes the delivery of an ended job due, unless an attempt is in progress.
pub(crate) const REDELIVER: &str = "UPDATE job SET webhook_state = 'pending', webhook_due_at = $3, webhook_leased = 0, \
    webhook_delivered_at = NULL WHERE account_id = $1 AND id = $2 AND webhook_state IS NOT NULL \
    AND completed_at IS NOT NULL AND (webhook_leased = 0 OR webhook_due_at <= $3)";
pub(crate) const SECRET: &str = "SELECT number FROM webhook_secret WHERE account_id = $1";
pub(crate) const RENEW_SECRET: &str = "INSERT INTO webhook_secret (account_id, number) \
    SELECT id, 2 FROM account WHERE id = $1 \
    ON CONFLICT (account_id) DO UPDATE SET number = webhook_secret.number + 1 RETURNING number";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    IS_DUE,
    CLAIM,
    FINISH,
    DELIVERY,
    LIST,
    ENDED,
    REDELIVER,
    SECRET,
    RENEW_SECRET,
];

/// Binds a claim to [`CLAIM`], for any engine.
macro_rules! claim {
    ($claim:expr) => {{
        let claim: tollgate_storage::DeliveryClaim = $claim;
        sqlx::query($crate::webhooks::CLAIM)
            .bind(claim.now.as_micros())
            .bind(claim.until.as_micros())
            .bind(i64::from(claim.limit))
            .bind(i64::from(claim.per_account))
            .bind(claim.latest_due().as_micros())
    }};
}

/// Binds the outcome of a delivery attempt to [`FINISH`], for any engine.
macro_rules! finish {
    ($leased:expr, $outcome:expr) => {{
        let leased: &tollgate_storage::LeasedDelivery = $leased;
        let ended = $crate::webhooks::AttemptResult::from($outcome);
        $crate::jobs::of_job!($crate::webhooks::FINISH, leased.job.account, leased.job.terms.id)
            .bind(i64::from(leased.attempt))
            .bind(ended.state.as_str())
            .bind(ended.failure)
            .bind(ended.due_at.map(tollgate_types::Timestamp::as_micros))
            .bind(ended.delivered_at.map(tollgate_types::Timestamp::as_micros))
    }};
}

/// Binds a page of deliveries to [`LIST`], for any engine.
macro_rules! list {
    ($account:expr, $before:expr, $limit:expr) => {{
        let before = $before.map_or(u128::MAX, |job: tollgate_types::JobId| job.as_u128());
        sqlx::query($crate::webhooks::LIST)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($crate::rows::id_bytes(before))
            .bind(i64::from($limit))
    }};
}

pub(crate) use {claim, finish, list};

/// Columns of `job` that a delivery attempt changes.
pub(crate) struct AttemptResult {
    pub(crate) state: DeliveryState,
    pub(crate) failure: Option<String>,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) delivered_at: Option<Timestamp>,
}

impl From<DeliveryOutcome> for AttemptResult {
    fn from(outcome: DeliveryOutcome) -> Self {
        let (state, failure, due_at, delivered_at) = match outcome {
            DeliveryOutcome::Delivered { at } => (DeliveryState::Delivered, None, None, Some(at)),
            DeliveryOutcome::Retry { due_at, why } => (DeliveryState::Pending, Some(why), Some(due_at), None),
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

/// Converts a column to the number of attempts.
pub(crate) fn attempts_from(column: i64) -> Result<u32> {
    u32::try_from(column).map_err(|_| corrupt(format!("invalid attempt count {column}")))
}

/// Converts a column to the number of a secret. Returns 1, the first secret, if there is no row.
pub(crate) fn secret_from(column: Option<i64>) -> Result<u32> {
    let number = column.unwrap_or(1);
    u32::try_from(number).map_err(|_| corrupt(format!("invalid secret number {number}")))
}

columns! {
    /// Delivery columns of a row of `job`.
    pub(crate) struct DeliveryColumns {
        webhook_state: String,
        webhook_attempts: i64,
        webhook_due_at: i64,
        webhook_failure: Option<String>,
        webhook_delivered_at: Option<i64>,
    }
}

impl TryFrom<DeliveryColumns> for Delivery {
    type Error = StorageError;

    fn try_from(columns: DeliveryColumns) -> Result<Delivery> {
        let state = DeliveryState::parse(&columns.webhook_state);
        Ok(Delivery {
            state: state
                .ok_or_else(|| corrupt(format!("unknown delivery state '{}'", columns.webhook_state)))?,
            attempts: attempts_from(columns.webhook_attempts)?,
            due_at: Timestamp::from_micros(columns.webhook_due_at),
            failure: columns.webhook_failure,
            delivered_at: columns.webhook_delivered_at.map(Timestamp::from_micros),
        })
    }
}

columns! {
    /// A row of [`LIST`] or [`ENDED`].
    pub(crate) struct JobDeliveryColumns {
        id: Vec<u8>,
        kind: String,
        status: String,
        completed_at: i64,
        webhook: Vec<u8>,
    } with {
        delivery: DeliveryColumns,
    }
}

impl TryFrom<JobDeliveryColumns> for JobDelivery {
    type Error = StorageError;

    fn try_from(columns: JobDeliveryColumns) -> Result<JobDelivery> {
        let status = JobStatus::parse(&columns.status);
        Ok(JobDelivery {
            job: JobId::from_u128(id_from(&columns.id)?),
            kind: columns.kind.into(),
            status: status.ok_or_else(|| corrupt(format!("unknown job status '{}'", columns.status)))?,
            completed_at: Timestamp::from_micros(columns.completed_at),
            webhook: columns.webhook,
            delivery: columns.delivery.try_into()?,
        })
    }
}
