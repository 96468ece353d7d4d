//! SQL of jobs that SQLite and PostgreSQL share.

use std::collections::BTreeMap;

use sqlx::AssertSqlSafe;
use tollgate_storage::job::SUSPECT_DEATHS;
use tollgate_storage::{
    Job, JobActivity, JobCancel, JobError, JobEvent, JobFilter, JobLease, JobStep, LeasedDelivery, LeasedJob,
    NewHold, NewJob, Result, Settlement, StorageError, StorageErrorKind,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, ErrorCode, HoldId, JobId, JobStatus, RequestId, StepState, Timestamp, Unit, Usage,
    WorkerId,
};

use crate::columns::columns;
use crate::rows::{corrupt, id_from, principal_from, quantity_from, version_from};
use crate::webhooks::attempts_from;

pub(crate) const INSERT: &str = "INSERT INTO job (account_id, id, key_id, member_id, request_id, hold_id, held, price_version, kind, \
    model, status, phase, body, start_by, due_at, created_at, cancel_requested, epoch, deaths, last_event, usage, \
    webhook, webhook_state) \
    SELECT id, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'queued', '', $11, $12, $13, $13, 0, 0, 0, 0, '{}', \
    $14, CASE WHEN $14 IS NULL THEN NULL ELSE 'pending' END FROM account WHERE id = $1";
pub(crate) const GET: &str = "SELECT * FROM job WHERE account_id = $1 AND id = $2";
pub(crate) const LIST: &str = "SELECT * FROM job WHERE account_id = $1 AND id < $2 AND id > $3 AND kind = COALESCE($4, kind) \
    AND status = COALESCE($5, status) ORDER BY id DESC LIMIT $6";
pub(crate) const NEWEST: &str =
    "SELECT id, last_event FROM job WHERE account_id = $1 ORDER BY id DESC LIMIT 1";
pub(crate) const UNFINISHED: &str = "SELECT id, last_event FROM job WHERE account_id = $1 \
    AND status IN ('queued', 'in_progress') ORDER BY id LIMIT $2";
/// Lists jobs in ascending order; [`newest_first`] reverses the rows.
pub(crate) const LIST_ASCENDING: &str = "SELECT * FROM job WHERE account_id = $1 AND id < $2 AND id > $3 AND kind = COALESCE($4, kind) \
    AND status = COALESCE($5, status) ORDER BY id LIMIT $6";
/// Searches the jobs of all accounts. Only operators may use it, because it may scan all jobs.
pub(crate) const SEARCH: &str = "SELECT * FROM job WHERE account_id = COALESCE($1, account_id) AND id = COALESCE($2, id) \
    AND kind = COALESCE($3, kind) AND id < $4 AND ($5 = 0 OR status IN ('queued', 'in_progress')) ORDER BY id DESC LIMIT $6";
pub(crate) const STEPS: &str = "SELECT * FROM job_step WHERE account_id = $1 AND job_id = $2 ORDER BY number";
pub(crate) const EVENTS: &str = "SELECT * FROM job_event WHERE account_id = $1 AND job_id = $2 AND sequence > $3 \
    ORDER BY sequence LIMIT $4";

/// Selects whether any job is due and not leased. Workers poll with it, so it neither writes nor
/// locks.
pub(crate) const IS_WAITING: &str = "SELECT EXISTS (SELECT 1 FROM job WHERE status IN ('queued', 'in_progress') \
    AND (due_at <= $1 OR due_at > $2) AND (lease_until IS NULL OR lease_until <= $1 OR lease_until > $3)) AS is_waiting";
/// Shortens leases that end later than any lease can. Such leases were written while the clock was
/// ahead.
pub(crate) const SHORTEN_LEASES: &str = "UPDATE job SET lease_until = $1 \
    WHERE status = 'in_progress' AND lease_until > $2";
const _: () = assert!(SUSPECT_DEATHS == 2, "must equal the number in CLAIM_HEAD");

/// Returns the statement that leases due jobs with fairness between accounts, for this number of
/// caps: the first job of every account precedes the second job of any account. Running jobs of an
/// account count.
///
/// The parameters after the sixth are kind, maximum per account and maximum per worker of each cap.
/// Jobs beyond a cap of their kind get no place, so that they delay no other job of the account.
/// Jobs beyond the maximum of their account take no slot of the worker.
pub(crate) fn claim(caps: usize) -> AssertSqlSafe<String> {
    let mut cap = "SELECT CAST(NULL AS TEXT) AS kind, 0 AS per_account, 0 AS per_worker".to_owned();
    for first in (7..).step_by(3).take(caps) {
        let [kind, account, worker] = [first, first + 1, first + 2];
        cap.push_str(&format!(
            " UNION ALL SELECT CAST(${kind} AS TEXT), CAST(${account} AS BIGINT), CAST(${worker} AS BIGINT)"
        ));
    }
    AssertSqlSafe(format!("{CLAIM_HEAD}{cap}{CLAIM_TAIL}"))
}

const CLAIM_HEAD: &str = "UPDATE job SET worker = $1, epoch = epoch + 1, lease_until = $3, status = 'in_progress', \
    deaths = CASE WHEN worker IS NULL THEN deaths WHEN activity = 'working_alone' THEN deaths + 1 \
        WHEN activity = 'working' AND deaths < 2 THEN deaths + 1 ELSE deaths END, \
    activity = CASE WHEN activity = 'working_alone' THEN 'working' ELSE activity END, started_at = COALESCE(started_at, $2), \
    last_event = CASE WHEN started_at IS NULL THEN last_event + 1 ELSE last_event END \
    FROM (WITH cap AS (";
/// Only running jobs have leases. The condition on their status selects the index of unfinished
/// jobs.
const CLAIM_TAIL: &str = "), \
        running AS (SELECT account_id, kind, count(*) AS jobs, sum(CASE WHEN worker = $1 THEN 1 ELSE 0 END) AS own \
            FROM job WHERE status IN ('queued', 'in_progress') AND lease_until > $2 GROUP BY account_id, kind), \
        of_account AS (SELECT account_id, sum(jobs) AS jobs FROM running GROUP BY account_id), \
        of_worker AS (SELECT kind, sum(own) AS jobs FROM running GROUP BY kind), \
        waiting AS (SELECT job.account_id, job.id, job.kind, cap.per_account, cap.per_worker, \
                row_number() OVER (PARTITION BY job.account_id, job.kind ORDER BY job.id) \
                    + COALESCE(running.jobs, 0) AS kind_place \
            FROM job LEFT JOIN cap ON cap.kind = job.kind \
            LEFT JOIN running ON running.account_id = job.account_id AND running.kind = job.kind \
            WHERE job.status IN ('queued', 'in_progress') AND (job.due_at <= $2 OR job.due_at > $6) \
                AND (job.lease_until IS NULL OR job.lease_until <= $2) \
                AND (job.status <> 'queued' OR job.start_by IS NULL OR job.start_by > $2)), \
        placed AS (SELECT waiting.account_id, waiting.id, waiting.kind, \
                waiting.per_worker - COALESCE(of_worker.jobs, 0) AS free_slots, \
                row_number() OVER (PARTITION BY waiting.account_id ORDER BY waiting.id) \
                    + COALESCE(of_account.jobs, 0) AS place \
            FROM waiting LEFT JOIN of_account ON of_account.account_id = waiting.account_id \
            LEFT JOIN of_worker ON of_worker.kind = waiting.kind \
            WHERE waiting.per_account IS NULL OR (waiting.kind_place <= waiting.per_account \
                AND COALESCE(of_worker.jobs, 0) < waiting.per_worker)), \
        ranked AS (SELECT account_id, id, place, free_slots, \
                row_number() OVER (PARTITION BY kind ORDER BY place, id) AS worker_place \
            FROM placed WHERE place <= $5) \
        SELECT account_id AS owner, id AS chosen FROM ranked WHERE free_slots IS NULL OR worker_place <= free_slots \
            ORDER BY place, id LIMIT $4) AS next \
    WHERE account_id = next.owner AND id = next.chosen AND status IN ('queued', 'in_progress') \
        AND (lease_until IS NULL OR lease_until <= $2) RETURNING *";

pub(crate) const RENEW: &str = "UPDATE job SET lease_until = $2 WHERE worker = $1 AND lease_until IS NOT NULL \
    RETURNING id, cancel_requested";
pub(crate) const ADVANCE: &str = "UPDATE job SET phase = COALESCE($5, phase), progress = COALESCE($6, progress), \
    last_event = last_event + $7, deaths = CASE WHEN $8 = 1 THEN 0 ELSE deaths END, \
    activity = COALESCE($9, activity) \
    WHERE account_id = $1 AND id = $2 AND worker = $3 AND epoch = $4 AND status = 'in_progress' RETURNING last_event";
pub(crate) const RELEASE: &str = "UPDATE job SET worker = NULL, lease_until = NULL, due_at = $5 \
    WHERE account_id = $1 AND id = $2 AND worker = $3 AND epoch = $4 AND status = 'in_progress'";
pub(crate) const STEP: &str = "SELECT * FROM job_step WHERE account_id = $1 AND job_id = $2 AND number = $3";
pub(crate) const WRITE_STEP: &str = "INSERT INTO job_step (account_id, job_id, number, state, attempt, handle, outcome, \
    updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (account_id, job_id, number) DO UPDATE SET \
    state = excluded.state, attempt = excluded.attempt, handle = excluded.handle, outcome = excluded.outcome, \
    updated_at = excluded.updated_at";
pub(crate) const WRITE_EVENT: &str = "INSERT INTO job_event (account_id, job_id, sequence, kind, body, at) \
    VALUES ($1, $2, $3, $4, $5, $6)";

/// Ends a job, provided that its worker still has the lease.
pub(crate) const FINISH: &str = "UPDATE job SET status = $3, result = $4, error_code = $5, error_message = $6, \
    error_param = $7, charge = $8, overrun = $9, usage = $10, outcome = $11, estimated = $12, provider = $13, \
    first_at = $14, completed_at = $15, last_event = last_event + $16, \
    progress = CASE WHEN $3 = 'completed' THEN 100 ELSE progress END, lease_until = NULL \
    WHERE account_id = $1 AND id = $2 AND worker = $17 AND epoch = $18 AND status = 'in_progress' RETURNING last_event";
/// Ends a queued job at no charge.
pub(crate) const END_QUEUED: &str = "UPDATE job SET status = $3, charge = 0, overrun = 0, outcome = $4, estimated = 0, \
    provider = '', completed_at = $5, last_event = last_event + 1, cancel_requested = $6 \
    WHERE account_id = $1 AND id = $2 AND status = 'queued' RETURNING *";
/// Requests the cancellation of a running job. Changes no row if the cancellation was already
/// requested.
pub(crate) const REQUEST_CANCEL: &str = "UPDATE job SET cancel_requested = 1, last_event = last_event + 1 \
    WHERE account_id = $1 AND id = $2 AND status = 'in_progress' AND cancel_requested = 0 RETURNING *";
/// Selects the hold of a job, provided that its worker still has the lease.
pub(crate) const HOLD_OF: &str = "SELECT hold_id FROM job \
    WHERE account_id = $1 AND id = $2 AND worker = $3 AND epoch = $4 AND status = 'in_progress'";
pub(crate) const OVERDUE: &str = "SELECT account_id, id FROM job WHERE status = 'queued' AND start_by <= $1 \
    ORDER BY start_by LIMIT $2";
pub(crate) const ENDED: &str = "SELECT account_id, id FROM job WHERE completed_at < $1 \
    AND COALESCE(webhook_state, '') <> 'pending' ORDER BY completed_at LIMIT $2";
/// Statements that delete a job. Its batch lines stay, without content, because their charges
/// belong to the ledger.
pub(crate) const FORGET: [&str; 4] = [
    "UPDATE batch_line SET content = substr(content, 1, 0) WHERE account_id = $1 AND batch_id = $2",
    "DELETE FROM job_event WHERE account_id = $1 AND job_id = $2",
    "DELETE FROM job_step WHERE account_id = $1 AND job_id = $2",
    "DELETE FROM job WHERE account_id = $1 AND id = $2",
];

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    INSERT,
    GET,
    LIST,
    LIST_ASCENDING,
    NEWEST,
    UNFINISHED,
    SEARCH,
    STEPS,
    EVENTS,
    IS_WAITING,
    SHORTEN_LEASES,
    RENEW,
    ADVANCE,
    RELEASE,
    STEP,
    WRITE_STEP,
    WRITE_EVENT,
    FINISH,
    END_QUEUED,
    REQUEST_CANCEL,
    HOLD_OF,
    OVERDUE,
    ENDED,
    FORGET[0],
    FORGET[1],
    FORGET[2],
    FORGET[3],
];

/// Binds a claim to [`IS_WAITING`], for any engine.
macro_rules! is_waiting {
    ($claim:expr) => {
        sqlx::query($crate::jobs::IS_WAITING)
            .bind($claim.now.as_micros())
            .bind($claim.latest_due().as_micros())
            .bind($claim.latest_lease().as_micros())
    };
}

/// Binds a claim to [`SHORTEN_LEASES`], for any engine.
macro_rules! shorten_leases {
    ($claim:expr) => {
        sqlx::query($crate::jobs::SHORTEN_LEASES)
            .bind($claim.until.as_micros())
            .bind($claim.latest_lease().as_micros())
    };
}

/// Binds an account and a job id to a statement, for any engine.
macro_rules! of_job {
    ($statement:expr, $account:expr, $job:expr) => {
        sqlx::query($statement)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($crate::rows::id_bytes($job.as_u128()))
    };
}

/// Binds an account, a filter and a limit to [`LIST`] or [`LIST_ASCENDING`].
macro_rules! bind_list {
    ($account:expr, $filter:expr, $limit:expr) => {
        sqlx::query(match $filter.after {
            Some(_) => $crate::jobs::LIST_ASCENDING,
            None => $crate::jobs::LIST,
        })
        .bind($crate::rows::id_bytes($account.as_u128()))
        .bind($crate::rows::page_edge(
            $filter.before.map(JobId::as_u128),
            u8::MAX,
        ))
        .bind($crate::rows::page_edge(
            $filter.after.map(JobId::as_u128),
            u8::MIN,
        ))
        .bind($filter.kind.clone())
        .bind($filter.status.map(JobStatus::as_str))
        .bind(i64::from($limit))
    };
}

/// Binds an operator's search to [`SEARCH`].
macro_rules! bind_search {
    ($search:expr, $limit:expr) => {
        sqlx::query($crate::jobs::SEARCH)
            .bind($search.account.map(|id| $crate::rows::id_bytes(id.as_u128())))
            .bind($search.id.map(|id| $crate::rows::id_bytes(id.as_u128())))
            .bind($search.kind.clone())
            .bind($crate::rows::page_edge(
                $search.before.map(JobId::as_u128),
                u8::MAX,
            ))
            .bind(i64::from($search.is_unfinished))
            .bind(i64::from($limit))
    };
}

/// Binds a lease to a statement, for any engine: account, job, worker and epoch.
macro_rules! of_lease {
    ($statement:expr, $lease:expr) => {
        $crate::jobs::of_job!($statement, $lease.account, $lease.job)
            .bind($crate::rows::id_bytes($lease.worker.as_u128()))
            .bind($crate::rows::quantity_column($lease.epoch))
    };
}

/// Binds a new job to [`INSERT`].
macro_rules! bind_job {
    ($job:expr, $hold:expr) => {
        $crate::jobs::of_job!($crate::jobs::INSERT, $hold.account, $job.id)
            .bind($crate::rows::key_column($hold.principal))
            .bind($crate::rows::member_column($hold.principal))
            .bind($crate::rows::id_bytes($hold.request.as_u128()))
            .bind($crate::rows::id_bytes($hold.id.as_u128()))
            .bind($hold.amount.nanos())
            .bind($crate::rows::version_column($hold.price_version))
            .bind($job.kind.to_string())
            .bind($hold.model.to_string())
            .bind($job.body.clone())
            .bind($job.start_by.map(tollgate_types::Timestamp::as_micros))
            .bind($hold.created_at.as_micros())
            .bind($job.webhook.clone())
    };
}

/// Binds a step to [`WRITE_STEP`].
macro_rules! bind_step {
    ($lease:expr, $step:expr, $at:expr) => {
        $crate::jobs::of_job!($crate::jobs::WRITE_STEP, $lease.account, $lease.job)
            .bind(i64::from($step.number))
            .bind($step.state.as_str())
            .bind(i64::from($step.attempt))
            .bind($step.handle.clone())
            .bind($step.outcome.clone())
            .bind($at.as_micros())
    };
}

/// Binds an event to [`WRITE_EVENT`].
macro_rules! bind_event {
    ($account:expr, $job:expr, $sequence:expr, $event:expr, $at:expr) => {
        $crate::jobs::of_job!($crate::jobs::WRITE_EVENT, $account, $job)
            .bind($sequence)
            .bind($event.kind.to_string())
            .bind($event.body.clone())
            .bind($at.as_micros())
    };
}

/// Binds the end of a job to [`FINISH`]; `$events` is the number of events to add.
macro_rules! bind_end {
    ($lease:expr, $end:expr, $events:expr) => {{
        let (end, settlement): (&tollgate_storage::JobEnd, _) = (&$end, &$end.settlement);
        let error = end.error.as_ref();
        $crate::jobs::of_job!($crate::jobs::FINISH, $lease.account, $lease.job)
            .bind(end.status.as_str())
            .bind(end.result.clone())
            .bind(error.map(|error| error.code.as_str()))
            .bind(error.map(|error| error.message.clone()))
            .bind(error.and_then(|error| error.param.clone()))
            .bind(settlement.charge.nanos())
            .bind(settlement.overrun.nanos())
            .bind($crate::jobs::usage_column(&settlement.usage))
            .bind(settlement.outcome.as_str())
            .bind(i64::from(settlement.estimated))
            .bind(settlement.target.to_string())
            .bind(settlement.first_at.map(tollgate_types::Timestamp::as_micros))
            .bind(settlement.ended_at.as_micros())
            .bind($events)
            .bind($crate::rows::id_bytes($lease.worker.as_u128()))
            .bind($crate::rows::quantity_column($lease.epoch))
    }};
}

pub(crate) use {
    bind_end, bind_event, bind_job, bind_list, bind_search, bind_step, is_waiting, of_job, of_lease,
    shorten_leases,
};

/// Collects listed jobs, newest first. Rows of [`LIST_ASCENDING`] are reversed.
pub(crate) fn newest_first(found: impl Iterator<Item = Result<Job>>, filter: &JobFilter) -> Result<Vec<Job>> {
    let mut jobs: Vec<Job> = found.collect::<Result<_>>()?;
    if filter.after.is_some() {
        jobs.reverse();
    }
    Ok(jobs)
}

/// Returns the outcome of a cancellation request for a job that had already started.
pub(crate) fn cancel_outcome(job: Job) -> JobCancel {
    match job.status.is_terminal() {
        true => JobCancel::Ended(Box::new(job)),
        false => JobCancel::Requested(Box::new(job)),
    }
}

/// Removes the expiry of a job's hold, because the hold lasts as long as the job.
pub(crate) fn without_expiry(hold: NewHold) -> NewHold {
    NewHold {
        expires_at: Timestamp::from_micros(i64::MAX),
        ..hold
    }
}

/// Returns the error for a lease that is no longer valid (`Conflict`).
pub(crate) fn void_lease(lease: JobLease) -> StorageError {
    StorageError::new(
        StorageErrorKind::Conflict,
        format!("the lease of {} is no longer valid", lease.job),
    )
}

/// Returns the error for a job that has not ended or whose webhook is still pending (`Conflict`).
pub(crate) fn not_forgettable(job: JobId) -> StorageError {
    let message = format!("{job} has not ended, or its webhook is pending");
    StorageError::new(StorageErrorKind::Conflict, message)
}

/// Converts quantities to a JSON column, keyed by unit name.
pub(crate) fn usage_column(usage: &Usage) -> String {
    let quantities: BTreeMap<&str, u64> = usage.iter().map(|(unit, count)| (unit.as_str(), count)).collect();
    serde_json::to_string(&quantities).unwrap_or_default()
}

pub(crate) fn usage_from(column: &str) -> Result<Usage> {
    let unreadable = || corrupt(format!("invalid usage '{column}'"));
    let quantities: BTreeMap<String, u64> = serde_json::from_str(column).map_err(|_| unreadable())?;
    quantities
        .iter()
        .try_fold(Usage::ZERO, |usage, (name, quantity)| {
            let unit = Unit::parse(name).ok_or_else(unreadable)?;
            Ok(usage.with(unit, *quantity))
        })
}

columns! {
    /// A row of `job`.
    pub(crate) struct JobColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        key_id: Option<Vec<u8>>,
        member_id: Option<Vec<u8>>,
        request_id: Vec<u8>,
        hold_id: Vec<u8>,
        held: i64,
        price_version: i64,
        kind: String,
        model: String,
        status: String,
        phase: String,
        progress: Option<i64>,
        body: Vec<u8>,
        result: Option<Vec<u8>>,
        error_code: Option<String>,
        error_message: Option<String>,
        error_param: Option<String>,
        start_by: Option<i64>,
        created_at: i64,
        started_at: Option<i64>,
        completed_at: Option<i64>,
        cancel_requested: i64,
        worker: Option<Vec<u8>>,
        epoch: i64,
        deaths: i64,
        activity: String,
        last_event: i64,
        charge: Option<i64>,
        overrun: Option<i64>,
        usage: String,
        outcome: Option<String>,
        estimated: Option<i64>,
        provider: Option<String>,
        first_at: Option<i64>,
        webhook: Option<Vec<u8>>,
        webhook_state: Option<String>,
        webhook_attempts: i64,
    }
}

columns! {
    /// A row of [`NEWEST`] or [`UNFINISHED`].
    pub(crate) struct OpenJobColumns {
        id: Vec<u8>,
        last_event: i64,
    }
}

impl OpenJobColumns {
    /// Returns the job with the number of its last event.
    pub(crate) fn progress(self) -> Result<(JobId, u64)> {
        let id = JobId::from_u128(id_from(&self.id)?);
        Ok((id, quantity_from(self.last_event)?))
    }
}

impl JobColumns {
    /// Whether the job has ended and no webhook is pending.
    pub(crate) fn is_forgettable(&self) -> bool {
        self.completed_at.is_some() && self.webhook_state.as_deref() != Some("pending")
    }

    /// Converts the row to a leased webhook delivery, which reports the end of the job.
    pub(crate) fn delivery(self) -> Result<LeasedDelivery> {
        let attempt = attempts_from(self.webhook_attempts)?;
        Ok(LeasedDelivery {
            job: Job::try_from(self)?,
            attempt,
        })
    }

    /// Converts the row to a leased job. Its steps are read separately.
    pub(crate) fn leased(self) -> Result<LeasedJob> {
        let worker = self.worker.as_deref().map(id_from).transpose()?;
        let (epoch, deaths) = (quantity_from(self.epoch)?, self.deaths);
        let activity = JobActivity::parse(&self.activity);
        let activity = activity.ok_or_else(|| corrupt(format!("unknown activity '{}'", self.activity)))?;
        let job = Job::try_from(self)?;
        Ok(LeasedJob {
            lease: JobLease {
                account: job.account,
                job: job.terms.id,
                worker: WorkerId::from_u128(worker.ok_or_else(|| corrupt("a lease has no worker"))?),
                epoch,
            },
            deaths: u32::try_from(deaths).map_err(|_| corrupt(format!("invalid death count {deaths}")))?,
            activity,
            steps: Vec::new(),
            job,
        })
    }

    /// Whether the job ended under this lease.
    pub(crate) fn ended_under(&self, lease: JobLease) -> bool {
        self.charge.is_some()
            && self.worker.as_deref() == Some(&lease.worker.as_u128().to_be_bytes()[..])
            && u64::try_from(self.epoch) == Ok(lease.epoch)
    }

    /// Returns the settlement of the job's hold; `None` until the job has ended.
    pub(crate) fn settlement(&self) -> Result<Option<Settlement>> {
        let (Some(charge), Some(overrun), Some(outcome), Some(ended_at)) =
            (self.charge, self.overrun, &self.outcome, self.completed_at)
        else {
            return Ok(None);
        };
        let outcome =
            Outcome::parse(outcome).ok_or_else(|| corrupt(format!("unknown outcome '{outcome}'")))?;
        Ok(Some(Settlement {
            hold: HoldId::from_u128(id_from(&self.hold_id)?),
            account: AccountId::from_u128(id_from(&self.account_id)?),
            charge: Credits::from_nanos(charge),
            overrun: Credits::from_nanos(overrun),
            usage: usage_from(&self.usage)?,
            outcome,
            estimated: self.estimated == Some(1),
            target: self.provider.as_deref().unwrap_or_default().into(),
            first_at: self.first_at.map(Timestamp::from_micros),
            ended_at: Timestamp::from_micros(ended_at),
        }))
    }
}

impl TryFrom<JobColumns> for Job {
    type Error = StorageError;

    fn try_from(columns: JobColumns) -> Result<Job> {
        let unknown = |what: &str, name: &str| corrupt(format!("unknown {what} '{name}'"));
        let status = JobStatus::parse(&columns.status);
        let error = columns.error_code.map(|name| {
            let code = ErrorCode::ALL.iter().find(|code| code.as_str() == name);
            Ok(JobError {
                code: *code.ok_or_else(|| unknown("error code", &name))?,
                message: columns.error_message.unwrap_or_default(),
                param: columns.error_param,
            })
        });
        let progress = columns.progress.map(u8::try_from).transpose();
        Ok(Job {
            terms: NewJob {
                id: JobId::from_u128(id_from(&columns.id)?),
                kind: columns.kind.into(),
                body: columns.body,
                start_by: columns.start_by.map(Timestamp::from_micros),
                webhook: columns.webhook,
            },
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            principal: principal_from(columns.key_id, columns.member_id)?,
            request: RequestId::from_u128(id_from(&columns.request_id)?),
            hold: HoldId::from_u128(id_from(&columns.hold_id)?),
            held: Credits::from_nanos(columns.held),
            price_version: version_from(columns.price_version),
            model: columns.model.into(),
            status: status.ok_or_else(|| unknown("job status", &columns.status))?,
            phase: columns.phase.into(),
            progress: progress.map_err(|_| corrupt("invalid progress"))?,
            result: columns.result,
            error: error.transpose()?,
            cancel_requested: columns.cancel_requested != 0,
            created_at: Timestamp::from_micros(columns.created_at),
            started_at: columns.started_at.map(Timestamp::from_micros),
            completed_at: columns.completed_at.map(Timestamp::from_micros),
            charge: columns.charge.map(Credits::from_nanos),
            usage: usage_from(&columns.usage)?,
            last_event: quantity_from(columns.last_event)?,
        })
    }
}

columns! {
    /// A row of `job_step`.
    pub(crate) struct StepColumns {
        number: i64,
        state: String,
        attempt: i64,
        handle: Vec<u8>,
        outcome: Vec<u8>,
    }
}

impl TryFrom<StepColumns> for JobStep {
    type Error = StorageError;

    fn try_from(columns: StepColumns) -> Result<JobStep> {
        let number =
            |column: i64| u32::try_from(column).map_err(|_| corrupt(format!("invalid step number {column}")));
        let state = StepState::parse(&columns.state);
        Ok(JobStep {
            number: number(columns.number)?,
            state: state.ok_or_else(|| corrupt(format!("unknown step state '{}'", columns.state)))?,
            attempt: number(columns.attempt)?,
            handle: columns.handle,
            outcome: columns.outcome,
        })
    }
}

columns! {
    /// A row of `job_event`.
    pub(crate) struct JobEventColumns {
        sequence: i64,
        kind: String,
        body: Vec<u8>,
        at: i64,
    }
}

impl TryFrom<JobEventColumns> for JobEvent {
    type Error = StorageError;

    fn try_from(columns: JobEventColumns) -> Result<JobEvent> {
        Ok(JobEvent {
            sequence: quantity_from(columns.sequence)?,
            kind: columns.kind.into(),
            body: columns.body,
            at: Timestamp::from_micros(columns.at),
        })
    }
}
