//! Implements [`JobStore`] on PostgreSQL. One transaction creates a job and its hold; one
//! transaction ends the job and settles the hold.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection};
use tollgate_storage::audit::{Leg, MAX_EARLY_RELEASES};
use tollgate_storage::{
    HoldOutcome, Job, JobActivity, JobAdvance, JobCancel, JobClaim, JobEnd, JobEvent, JobFilter, JobLease,
    JobSearch, JobStep, JobStore, LeasedJob, NewHold, NewJob, NewJobEvent, OpenJobs, Resolution, Result,
    Settlement, StorageError,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, JobId, JobStatus, Timestamp, WorkerId};

use super::error::{corrupt, while_running};
use super::ledger::{held, hold_statement, resolution, settle_statement};
use super::lot::transact;
use super::pool::Statement;
use super::subscription::execute;
use super::{Node, rows};
use crate::jobs::{
    ADVANCE, END_QUEUED, ENDED, EVENTS, FORGET, GET, HOLD_OF, JobColumns, JobEventColumns, NEWEST, OVERDUE,
    OpenJobColumns, RELEASE, RENEW, REQUEST_CANCEL, STEP, STEPS, StepColumns, UNFINISHED, bind_end,
    bind_event, bind_job, bind_list, bind_search, bind_step, cancel_outcome, claim as claim_statement,
    is_waiting, newest_first, not_forgettable, of_job, of_lease, shorten_leases, void_lease, without_expiry,
};
use crate::parts::bind_part;
use crate::rows::{id_bytes, quantity_column};

/// Serializes claims, so that no account exceeds its maximum of running jobs. The number is
/// arbitrary; no other advisory lock may use it.
const CLAIM_LOCK: &str = "SELECT pg_advisory_xact_lock(7021860144)";

pub(super) struct Jobs(pub(super) Arc<Node>);

#[async_trait]
impl JobStore for Jobs {
    async fn accept(&self, job: NewJob, hold: NewHold) -> Result<HoldOutcome> {
        let hold = without_expiry(hold);
        self.0
            .hold_with_recall(&hold, || self.try_accept(&job, &hold))
            .await
    }

    async fn get(&self, account: AccountId, id: JobId) -> Result<Option<Job>> {
        let row = self.0.pool.optional(of_job!(GET, account, id)).await?;
        row.as_ref().map(job).transpose()
    }

    async fn list(&self, account: AccountId, filter: JobFilter, limit: u32) -> Result<Vec<Job>> {
        let rows = self.0.pool.all(bind_list!(account, filter, limit)).await?;
        newest_first(rows.iter().map(job), &filter)
    }

    async fn open_jobs(&self, account: AccountId, limit: u32) -> Result<OpenJobs> {
        let account = id_bytes(account.as_u128());
        let progress = |row: &PgRow| OpenJobColumns::from_row(row).map_err(corrupt)?.progress();
        let newest = sqlx::query(NEWEST).bind(account.clone());
        let newest = self.0.pool.optional(newest).await?;
        let unfinished = sqlx::query(UNFINISHED).bind(account).bind(i64::from(limit));
        let unfinished = self.0.pool.all(unfinished).await?;
        Ok(OpenJobs {
            newest: newest.as_ref().map(progress).transpose()?.map(|(id, _)| id),
            unfinished: unfinished.iter().map(progress).collect::<Result<_>>()?,
        })
    }

    async fn search(&self, search: JobSearch, limit: u32) -> Result<Vec<Job>> {
        let found = self.0.pool.all(bind_search!(search, limit)).await?;
        found.iter().map(job).collect()
    }

    async fn claim(&self, claim: JobClaim) -> Result<Vec<LeasedJob>> {
        let check = is_waiting!(claim);
        if !rows::get::<bool>(&self.0.pool.one(check).await?, "is_waiting")? {
            return Ok(Vec::new());
        }
        transact(&self.0.pool, move |connection| {
            Box::pin(claim_some(connection, claim))
        })
        .await
    }

    async fn renew(&self, worker: WorkerId, until: Timestamp) -> Result<Vec<JobId>> {
        let statement = sqlx::query(RENEW)
            .bind(id_bytes(worker.as_u128()))
            .bind(until.as_micros());
        let mut cancelled = Vec::new();
        for row in self.0.pool.all(statement).await? {
            if rows::get::<i64>(&row, "cancel_requested")? != 0 {
                cancelled.push(JobId::from_u128(rows::id(&row, "id")?));
            }
        }
        Ok(cancelled)
    }

    async fn advance(&self, lease: JobLease, advance: JobAdvance, at: Timestamp) -> Result<()> {
        transact(&self.0.pool, move |connection| {
            Box::pin(write_advance(connection, lease, advance, at))
        })
        .await
    }

    async fn release(&self, lease: JobLease, due: Timestamp) -> Result<()> {
        let statement = of_lease!(RELEASE, lease).bind(due.as_micros());
        match self.0.pool.execute(statement).await? {
            0 => Err(void_lease(lease)),
            _ => Ok(()),
        }
    }

    async fn shrink_hold(&self, lease: JobLease, needed: Credits, at: Timestamp) -> Result<Credits> {
        transact(&self.0.pool, move |connection| {
            Box::pin(shrink_hold(connection, lease, needed, at))
        })
        .await
    }

    async fn finish(&self, lease: JobLease, end: JobEnd) -> Result<Resolution> {
        transact(&self.0.pool, move |connection| {
            Box::pin(finish(connection, lease, end))
        })
        .await
    }

    async fn cancel(&self, account: AccountId, id: JobId, at: Timestamp) -> Result<JobCancel> {
        transact(&self.0.pool, move |connection| {
            Box::pin(cancel(connection, account, id, at))
        })
        .await
    }

    async fn events(&self, account: AccountId, id: JobId, after: u64, limit: u32) -> Result<Vec<JobEvent>> {
        let statement = of_job!(EVENTS, account, id)
            .bind(quantity_column(after))
            .bind(i64::from(limit));
        let found = self.0.pool.all(statement).await?;
        found.iter().map(rows::whole::<JobEventColumns, _>).collect()
    }

    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let mut expired = 0;
        for (account, id) in self.ids(OVERDUE, now, limit).await? {
            let end = (JobStatus::Expired, Outcome::Timeout);
            let ended = transact(&self.0.pool, move |connection| {
                Box::pin(end_queued(connection, account, id, end, now))
            })
            .await?;
            expired += u64::from(ended.is_some());
        }
        Ok(expired)
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64> {
        let ended = self.ids(ENDED, before, limit).await?;
        let swept = u64::try_from(ended.len()).map_err(corrupt)?;
        transact(&self.0.pool, move |connection| {
            Box::pin(forget(connection, ended))
        })
        .await?;
        Ok(swept)
    }

    async fn forget(&self, account: AccountId, id: JobId) -> Result<bool> {
        let row = self.0.pool.optional(of_job!(GET, account, id)).await?;
        let Some(columns) = row
            .as_ref()
            .map(JobColumns::from_row)
            .transpose()
            .map_err(corrupt)?
        else {
            return Ok(false);
        };
        // Needs no lock, because an ended job without a pending webhook stays in that state.
        if !columns.is_forgettable() {
            return Err(not_forgettable(id));
        }
        transact(&self.0.pool, move |connection| {
            Box::pin(forget(connection, vec![(account, id)]))
        })
        .await?;
        Ok(true)
    }
}

impl Jobs {
    async fn try_accept(&self, job: &NewJob, hold: &NewHold) -> Result<HoldOutcome> {
        let (job, hold) = (job.clone(), hold.clone());
        transact(&self.0.pool, move |connection| {
            Box::pin(accept(connection, job, hold))
        })
        .await
    }

    async fn ids(
        &self,
        statement: &'static str,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<(AccountId, JobId)>> {
        let statement = sqlx::query(statement).bind(at.as_micros()).bind(i64::from(limit));
        let both = |row: PgRow| {
            let (account, job) = (rows::id(&row, "account_id")?, rows::id(&row, "id")?);
            Ok((AccountId::from_u128(account), JobId::from_u128(job)))
        };
        self.0.pool.all(statement).await?.into_iter().map(both).collect()
    }
}

fn job(row: &PgRow) -> Result<Job> {
    rows::whole::<JobColumns, _>(row)
}

async fn optional(connection: &mut PgConnection, statement: Statement) -> Result<Option<PgRow>> {
    statement.fetch_optional(connection).await.map_err(while_running)
}

/// Inserts a hold and its job. A denied hold writes nothing, so that no rollback is needed.
async fn accept(connection: &mut PgConnection, job: NewJob, hold: NewHold) -> Result<HoldOutcome> {
    let row = hold_statement(&hold)
        .fetch_one(&mut *connection)
        .await
        .map_err(while_running)?;
    let outcome = held(&row)?;
    if let HoldOutcome::Held { .. } = outcome {
        execute(connection, bind_job!(job, hold)).await?;
        let events = [NewJobEvent::status_changed(JobStatus::Queued)];
        write_events(connection, (hold.account, job.id), 1, &events, hold.created_at).await?;
        let count = "UPDATE job SET last_event = 1 WHERE account_id = $1 AND id = $2";
        execute(connection, of_job!(count, hold.account, job.id)).await?;
    }
    Ok(outcome)
}

async fn claim_some(connection: &mut PgConnection, claim: JobClaim) -> Result<Vec<LeasedJob>> {
    execute(connection, sqlx::query(CLAIM_LOCK)).await?;
    execute(connection, shorten_leases!(claim)).await?;
    let mut statement: Statement = sqlx::query(claim_statement(claim.caps.len()))
        .bind(id_bytes(claim.worker.as_u128()))
        .bind(claim.now.as_micros())
        .bind(claim.until.as_micros())
        .bind(i64::from(claim.limit))
        .bind(i64::from(claim.per_account))
        .bind(claim.latest_due().as_micros());
    for cap in &*claim.caps {
        statement = statement
            .bind(cap.kind.to_string())
            .bind(i64::from(cap.per_account))
            .bind(i64::from(cap.per_worker));
    }
    let found = statement
        .fetch_all(&mut *connection)
        .await
        .map_err(while_running)?;
    let mut claimed = Vec::with_capacity(found.len());
    for row in found {
        let mut leased = JobColumns::from_row(&row).map_err(corrupt)?.leased()?;
        let job = &leased.job;
        if leased.lease.epoch == 1 {
            let began = [NewJobEvent::status_changed(JobStatus::InProgress)];
            let sequence = quantity_column(job.last_event);
            write_events(
                connection,
                (job.account, job.terms.id),
                sequence,
                &began,
                claim.now,
            )
            .await?;
        }
        let steps = of_job!(STEPS, job.account, job.terms.id)
            .fetch_all(&mut *connection)
            .await
            .map_err(while_running)?;
        leased.steps = steps
            .iter()
            .map(rows::whole::<StepColumns, _>)
            .collect::<Result<_>>()?;
        claimed.push(leased);
    }
    Ok(claimed)
}

async fn write_advance(
    connection: &mut PgConnection,
    lease: JobLease,
    advance: JobAdvance,
    at: Timestamp,
) -> Result<()> {
    let count = i64::try_from(advance.events.len()).map_err(corrupt)?;
    let statement = of_lease!(ADVANCE, lease)
        .bind(advance.phase.as_deref().map(str::to_owned))
        .bind(advance.progress.map(i64::from))
        .bind(count)
        .bind(i64::from(advance.step.is_some()))
        .bind(advance.activity.map(JobActivity::as_str));
    let last = last_event(optional(connection, statement).await?, lease)?;
    let first = last - count + 1;
    write_events(connection, (lease.account, lease.job), first, &advance.events, at).await?;
    let Some(step) = advance.step else {
        return Ok(());
    };
    let statement = of_job!(STEP, lease.account, lease.job).bind(i64::from(step.number));
    let before = optional(connection, statement).await?;
    let before: Option<JobStep> = before.as_ref().map(rows::whole::<StepColumns, _>).transpose()?;
    step.check_after(before.as_ref())?;
    execute(connection, bind_step!(lease, step, at)).await
}

async fn shrink_hold(
    connection: &mut PgConnection,
    lease: JobLease,
    needed: Credits,
    at: Timestamp,
) -> Result<Credits> {
    let row = optional(connection, of_lease!(HOLD_OF, lease)).await?;
    let hold = rows::id(&row.ok_or_else(|| void_lease(lease))?, "hold_id")?;
    let shrunk = sqlx::query("SELECT held FROM shrink_hold($1, $2, $3, $4, $5, $6)")
        .bind(id_bytes(lease.account.as_u128()))
        .bind(id_bytes(hold))
        .bind(needed.nanos())
        .bind(i64::from(MAX_EARLY_RELEASES))
        .bind(Leg::ReleaseEarly(0).as_i16())
        .bind(at.as_micros())
        .fetch_one(connection)
        .await
        .map_err(while_running)?;
    rows::credits(&shrunk, "held")
}

/// Ends a job and settles its hold. A job that already ended under the same lease stays unchanged,
/// and its first settlement is returned.
async fn finish(connection: &mut PgConnection, lease: JobLease, end: JobEnd) -> Result<Resolution> {
    let before = optional(connection, of_job!(GET, lease.account, lease.job)).await?;
    let before = before.as_ref().map(JobColumns::from_row).transpose();
    if !before.map_err(corrupt)?.is_some_and(|job| job.ended_under(lease)) {
        let mut events = end.events.clone();
        events.push(NewJobEvent::status_changed(end.status));
        let count = i64::try_from(events.len()).map_err(corrupt)?;
        let ended = optional(connection, bind_end!(lease, end, count)).await?;
        let first = last_event(ended, lease)? - count + 1;
        let at = end.settlement.ended_at;
        write_events(connection, (lease.account, lease.job), first, &events, at).await?;
        for part in &end.parts {
            execute(connection, bind_part!(end.settlement, part)).await?;
        }
    }
    let settled = settle_statement(&end.settlement)
        .fetch_one(connection)
        .await
        .map_err(while_running)?;
    resolution(&settled)
}

fn last_event(row: Option<PgRow>, lease: JobLease) -> Result<i64> {
    rows::get(&row.ok_or_else(|| void_lease(lease))?, "last_event")
}

async fn cancel(
    connection: &mut PgConnection,
    account: AccountId,
    id: JobId,
    at: Timestamp,
) -> Result<JobCancel> {
    let end = (JobStatus::Cancelled, Outcome::Cancelled);
    if let Some(job) = end_queued(connection, account, id, end, at).await? {
        return Ok(JobCancel::Cancelled(Box::new(job)));
    }
    if let Some(row) = optional(connection, of_job!(REQUEST_CANCEL, account, id)).await? {
        let requested = job(&row)?;
        let sequence = quantity_column(requested.last_event);
        let events = [NewJobEvent::cancelling()];
        write_events(connection, (account, id), sequence, &events, at).await?;
        return Ok(JobCancel::Requested(Box::new(requested)));
    }
    let started = optional(connection, of_job!(GET, account, id)).await?;
    let started = started.ok_or_else(|| StorageError::not_found(id))?;
    Ok(cancel_outcome(job(&started)?))
}

async fn end_queued(
    connection: &mut PgConnection,
    account: AccountId,
    id: JobId,
    (status, outcome): (JobStatus, Outcome),
    at: Timestamp,
) -> Result<Option<Job>> {
    let statement = of_job!(END_QUEUED, account, id)
        .bind(status.as_str())
        .bind(outcome.as_str())
        .bind(at.as_micros())
        .bind(i64::from(status == JobStatus::Cancelled));
    let Some(row) = optional(connection, statement).await? else {
        return Ok(None);
    };
    let ended = job(&row)?;
    let events = [NewJobEvent::status_changed(status)];
    write_events(
        connection,
        (account, id),
        quantity_column(ended.last_event),
        &events,
        at,
    )
    .await?;
    let settlement = Settlement::free(account, ended.hold, outcome, at);
    execute(connection, settle_statement(&settlement)).await?;
    Ok(Some(ended))
}

/// Writes events with consecutive numbers, starting at `first`.
async fn write_events(
    connection: &mut PgConnection,
    (account, id): (AccountId, JobId),
    first: i64,
    events: &[NewJobEvent],
    at: Timestamp,
) -> Result<()> {
    for (sequence, event) in (first..).zip(events) {
        execute(connection, bind_event!(account, id, sequence, event, at)).await?;
    }
    Ok(())
}

async fn forget(connection: &mut PgConnection, ended: Vec<(AccountId, JobId)>) -> Result<()> {
    for (account, id) in ended {
        for statement in FORGET {
            execute(connection, of_job!(statement, account, id)).await?;
        }
    }
    Ok(())
}
