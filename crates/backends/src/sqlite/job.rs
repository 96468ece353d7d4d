//! Implements [`JobStore`] on SQLite. A hold is in the journal before its job is in the database,
//! and a job has ended in the database before its hold is resolved in the journal. If the process
//! dies between the two steps, [`super::recover`] resolves the hold.

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use tollgate_storage::{
    HoldOutcome, Job, JobActivity, JobAdvance, JobCancel, JobClaim, JobEnd, JobEvent, JobFilter, JobLease,
    JobSearch, JobStep, JobStore, LeasedJob, LedgerStore, NewHold, NewJob, NewJobEvent, OpenJobs, Resolution,
    Result, Settlement, StorageError,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, JobId, JobStatus, Timestamp, WorkerId};

use super::holds::HoldState;
use super::writer::Command;
use super::{Core, Sqlite};
use crate::jobs::{
    ADVANCE, END_QUEUED, ENDED, EVENTS, FORGET, GET, HOLD_OF, JobColumns, JobEventColumns, NEWEST, OVERDUE,
    OpenJobColumns, RELEASE, RENEW, REQUEST_CANCEL, STEP, STEPS, StepColumns, UNFINISHED, bind_end,
    bind_event, bind_job, bind_list, bind_search, bind_step, cancel_outcome, claim as claim_statement,
    is_waiting, newest_first, not_forgettable, of_job, of_lease, shorten_leases, void_lease, without_expiry,
};
use crate::journal::record::crashed;
use crate::parts::bind_part;
use crate::rows::{id_bytes, id_from, quantity_column, storage_error};

/// Statement that expires all leases of an earlier process.
const ABANDON: &str = "UPDATE job SET lease_until = 0 WHERE lease_until IS NOT NULL";

#[async_trait]
impl JobStore for Sqlite {
    async fn accept(&self, job: NewJob, hold: NewHold) -> Result<HoldOutcome> {
        let engine = self.clone();
        self.run_to_completion(async move { engine.accept_job(job, without_expiry(hold)).await })
            .await
    }

    async fn get(&self, account: AccountId, id: JobId) -> Result<Option<Job>> {
        self.read(move |connection| Box::pin(get(connection, account, id)))
            .await
    }

    async fn list(&self, account: AccountId, filter: JobFilter, limit: u32) -> Result<Vec<Job>> {
        self.read(move |connection| Box::pin(list(connection, account, filter, limit)))
            .await
    }

    async fn open_jobs(&self, account: AccountId, limit: u32) -> Result<OpenJobs> {
        self.read(move |connection| Box::pin(open_jobs(connection, account, limit)))
            .await
    }

    async fn search(&self, search: JobSearch, limit: u32) -> Result<Vec<Job>> {
        self.read(move |connection| Box::pin(find(connection, search, limit)))
            .await
    }

    async fn claim(&self, claim: JobClaim) -> Result<Vec<LeasedJob>> {
        let check = claim.clone();
        if !self
            .read(move |connection| Box::pin(is_waiting(connection, check)))
            .await?
        {
            return Ok(Vec::new());
        }
        self.write(
            move |connection| Box::pin(claim_some(connection, claim)),
            |claimed| claimed,
        )
        .await
    }

    async fn renew(&self, worker: WorkerId, until: Timestamp) -> Result<Vec<JobId>> {
        self.write(
            move |connection| Box::pin(renew(connection, worker, until)),
            |cancelled| cancelled,
        )
        .await
    }

    async fn advance(&self, lease: JobLease, advance: JobAdvance, at: Timestamp) -> Result<()> {
        self.write(
            move |connection| Box::pin(write_advance(connection, lease, advance, at)),
            |()| (),
        )
        .await
    }

    async fn release(&self, lease: JobLease, due: Timestamp) -> Result<()> {
        self.write(
            move |connection| Box::pin(release(connection, lease, due)),
            |()| (),
        )
        .await
    }

    async fn shrink_hold(&self, lease: JobLease, needed: Credits, at: Timestamp) -> Result<Credits> {
        let hold = self
            .read(move |connection| Box::pin(hold_of(connection, lease)))
            .await?;
        self.shrink((lease.account, hold), needed, at)
    }

    async fn finish(&self, lease: JobLease, end: JobEnd) -> Result<Resolution> {
        let (engine, settlement) = (self.clone(), end.settlement.clone());
        self.run_to_completion(async move {
            engine
                .write(
                    move |connection| Box::pin(finish(connection, lease, end)),
                    |()| (),
                )
                .await?;
            engine.settle(settlement).await
        })
        .await
    }

    async fn cancel(&self, account: AccountId, id: JobId, at: Timestamp) -> Result<JobCancel> {
        let engine = self.clone();
        self.run_to_completion(async move { engine.cancel_job(account, id, at).await })
            .await
    }

    async fn events(&self, account: AccountId, id: JobId, after: u64, limit: u32) -> Result<Vec<JobEvent>> {
        self.read(move |connection| Box::pin(events(connection, account, id, after, limit)))
            .await
    }

    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let engine = self.clone();
        self.run_to_completion(async move {
            let overdue = engine
                .read(move |connection| Box::pin(ids(connection, OVERDUE, now, limit)))
                .await?;
            let mut expired = 0;
            for (account, id) in overdue {
                let end = (JobStatus::Expired, Outcome::Timeout);
                expired += u64::from(engine.end_queued(account, id, end, now).await?.is_some());
            }
            Ok(expired)
        })
        .await
    }

    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.write(
            move |connection| Box::pin(sweep(connection, before, limit)),
            |swept| swept,
        )
        .await
    }

    async fn forget(&self, account: AccountId, id: JobId) -> Result<bool> {
        let engine = self.clone();
        self.run_to_completion(async move {
            let ended = engine
                .read(move |connection| Box::pin(ended(connection, account, id)))
                .await?;
            let Some(settlement) = ended else {
                return Ok(false);
            };
            // Settles first, because a recovery needs the job to determine the settlement of the
            // hold.
            engine.settle(settlement).await?;
            engine
                .write(
                    move |connection| Box::pin(forget(connection, account, id)),
                    |()| (),
                )
                .await?;
            Ok(true)
        })
        .await
    }
}

impl Sqlite {
    async fn accept_job(&self, job: NewJob, hold: NewHold) -> Result<HoldOutcome> {
        let key = (hold.account, hold.id);
        let outcome = self.hold(hold.clone()).await?;
        if let HoldOutcome::Denied { .. } = outcome {
            return Ok(outcome);
        }
        self.store_hold(key);
        let stored = self
            .write(move |connection| Box::pin(insert(connection, job, hold)), |()| ())
            .await;
        match stored {
            Ok(()) => Ok(outcome),
            Err(error) => {
                self.settle(crashed(key, self.clock.now())).await?;
                Err(error)
            }
        }
    }

    async fn cancel_job(&self, account: AccountId, id: JobId, at: Timestamp) -> Result<JobCancel> {
        let end = (JobStatus::Cancelled, Outcome::Cancelled);
        if let Some(job) = self.end_queued(account, id, end, at).await? {
            return Ok(JobCancel::Cancelled(Box::new(job)));
        }
        let started = self
            .write(
                move |connection| Box::pin(request_cancel(connection, account, id, at)),
                |started| started,
            )
            .await?;
        started
            .map(cancel_outcome)
            .ok_or_else(|| StorageError::not_found(id))
    }

    /// Ends a queued job and releases its hold. Returns `None` if the job is not queued.
    async fn end_queued(
        &self,
        account: AccountId,
        id: JobId,
        (status, outcome): (JobStatus, Outcome),
        at: Timestamp,
    ) -> Result<Option<Job>> {
        let ended = self
            .write(
                move |connection| Box::pin(end_queued(connection, account, id, (status, outcome), at)),
                |ended| ended,
            )
            .await?;
        if let Some(job) = &ended {
            self.settle(Settlement::free(account, job.hold, outcome, at))
                .await?;
        }
        Ok(ended)
    }
}

impl Core {
    /// Requests a row for an open hold. The writer inserts the row before it runs later commands.
    fn store_hold(&self, key: crate::ids::HoldKey) {
        let seq = match self.holds.shard(key.1).get(key) {
            Some(HoldState::Open { seq, .. }) => *seq,
            _ => return,
        };
        self.inbox.send(Command::Store { seq });
    }
}

/// Expires all leases of earlier runs, so that jobs can be leased immediately.
pub(super) async fn abandon(connection: &mut SqliteConnection) -> Result<()> {
    let abandoned = sqlx::query(ABANDON).execute(connection).await;
    abandoned.map(drop).map_err(storage_error)
}

/// Returns the settlement of the job that uses a hold: `None` if no job uses the hold, `Some(None)`
/// if the job has not ended.
pub(super) async fn of_hold(
    connection: &mut SqliteConnection,
    (account, hold): crate::ids::HoldKey,
) -> Result<Option<Option<Settlement>>> {
    let columns: Option<JobColumns> = sqlx::query_as(OF_HOLD)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(hold.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(|columns| columns.settlement()).transpose()
}

const OF_HOLD: &str = "SELECT * FROM job WHERE account_id = $1 AND hold_id = $2";

fn job(row: &SqliteRow) -> Result<Job> {
    JobColumns::from_row(row).map_err(storage_error)?.try_into()
}

async fn insert(connection: &mut SqliteConnection, job: NewJob, hold: NewHold) -> Result<()> {
    let done = bind_job!(job, hold)
        .execute(&mut *connection)
        .await
        .map_err(storage_error)?;
    if done.rows_affected() == 0 {
        return Err(StorageError::not_found(hold.account));
    }
    let events = [NewJobEvent::status_changed(JobStatus::Queued)];
    write_events(connection, (hold.account, job.id), 1, &events, hold.created_at).await?;
    let count = "UPDATE job SET last_event = 1 WHERE account_id = $1 AND id = $2";
    let counted = of_job!(count, hold.account, job.id).execute(connection).await;
    counted.map(drop).map_err(storage_error)
}

async fn get(connection: &mut SqliteConnection, account: AccountId, id: JobId) -> Result<Option<Job>> {
    let row = of_job!(GET, account, id)
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    row.as_ref().map(job).transpose()
}

async fn open_jobs(connection: &mut SqliteConnection, account: AccountId, limit: u32) -> Result<OpenJobs> {
    let account = id_bytes(account.as_u128());
    let progress = |row: &SqliteRow| OpenJobColumns::from_row(row).map_err(storage_error)?.progress();
    let newest = sqlx::query(NEWEST).bind(account.clone());
    let newest = newest.fetch_optional(&mut *connection).await;
    let newest = newest
        .map_err(storage_error)?
        .as_ref()
        .map(progress)
        .transpose()?;
    let unfinished = sqlx::query(UNFINISHED).bind(account).bind(i64::from(limit));
    let unfinished = unfinished.fetch_all(connection).await.map_err(storage_error)?;
    Ok(OpenJobs {
        newest: newest.map(|(id, _)| id),
        unfinished: unfinished.iter().map(progress).collect::<Result<_>>()?,
    })
}

async fn list(
    connection: &mut SqliteConnection,
    account: AccountId,
    filter: JobFilter,
    limit: u32,
) -> Result<Vec<Job>> {
    let rows = bind_list!(account, filter, limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    newest_first(rows.iter().map(job), &filter)
}

async fn find(connection: &mut SqliteConnection, search: JobSearch, limit: u32) -> Result<Vec<Job>> {
    let rows = bind_search!(search, limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.iter().map(job).collect()
}

async fn is_waiting(connection: &mut SqliteConnection, claim: JobClaim) -> Result<bool> {
    let row = is_waiting!(claim).fetch_one(connection).await;
    row.and_then(|row| row.try_get("is_waiting"))
        .map_err(storage_error)
}

async fn claim_some(connection: &mut SqliteConnection, claim: JobClaim) -> Result<Vec<LeasedJob>> {
    let shortened = shorten_leases!(claim).execute(&mut *connection).await;
    shortened.map_err(storage_error)?;
    let mut statement = sqlx::query_as(claim_statement(claim.caps.len()))
        .bind(id_bytes(claim.worker.as_u128()))
        .bind(claim.now.as_micros())
        .bind(claim.until.as_micros())
        .bind(claim.limit)
        .bind(claim.per_account)
        .bind(claim.latest_due().as_micros());
    for cap in &*claim.caps {
        statement = statement
            .bind(cap.kind.to_string())
            .bind(cap.per_account)
            .bind(cap.per_worker);
    }
    let rows: Vec<JobColumns> = statement
        .fetch_all(&mut *connection)
        .await
        .map_err(storage_error)?;
    let mut claimed = Vec::with_capacity(rows.len());
    for row in rows {
        let mut leased = row.leased()?;
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
        let steps: Vec<StepColumns> = sqlx::query_as(STEPS)
            .bind(id_bytes(job.account.as_u128()))
            .bind(id_bytes(job.terms.id.as_u128()))
            .fetch_all(&mut *connection)
            .await
            .map_err(storage_error)?;
        leased.steps = steps.into_iter().map(JobStep::try_from).collect::<Result<_>>()?;
        claimed.push(leased);
    }
    Ok(claimed)
}

async fn renew(connection: &mut SqliteConnection, worker: WorkerId, until: Timestamp) -> Result<Vec<JobId>> {
    let renewed = sqlx::query(RENEW)
        .bind(id_bytes(worker.as_u128()))
        .bind(until.as_micros())
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    let mut cancelled = Vec::new();
    for row in renewed {
        let requested: i64 = row.try_get("cancel_requested").map_err(storage_error)?;
        if requested != 0 {
            let id = id_from(row.try_get("id").map_err(storage_error)?)?;
            cancelled.push(JobId::from_u128(id));
        }
    }
    Ok(cancelled)
}

async fn write_advance(
    connection: &mut SqliteConnection,
    lease: JobLease,
    advance: JobAdvance,
    at: Timestamp,
) -> Result<()> {
    let count = i64::try_from(advance.events.len()).unwrap_or(i64::MAX);
    let row = of_lease!(ADVANCE, lease)
        .bind(advance.phase.as_deref().map(str::to_owned))
        .bind(advance.progress.map(i64::from))
        .bind(count)
        .bind(i64::from(advance.step.is_some()))
        .bind(advance.activity.map(JobActivity::as_str))
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let last = last_event(row.as_ref(), lease)?;
    let first = last - count + 1;
    write_events(connection, (lease.account, lease.job), first, &advance.events, at).await?;
    let Some(step) = advance.step else {
        return Ok(());
    };
    let before: Option<StepColumns> = sqlx::query_as(STEP)
        .bind(id_bytes(lease.account.as_u128()))
        .bind(id_bytes(lease.job.as_u128()))
        .bind(step.number)
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    step.check_after(before.map(JobStep::try_from).transpose()?.as_ref())?;
    let written = bind_step!(lease, step, at).execute(connection).await;
    written.map(drop).map_err(storage_error)
}

async fn hold_of(connection: &mut SqliteConnection, lease: JobLease) -> Result<HoldId> {
    let row = of_lease!(HOLD_OF, lease).fetch_optional(connection).await;
    let row = row.map_err(storage_error)?.ok_or_else(|| void_lease(lease))?;
    let id = id_from(row.try_get("hold_id").map_err(storage_error)?)?;
    Ok(HoldId::from_u128(id))
}

async fn release(connection: &mut SqliteConnection, lease: JobLease, due: Timestamp) -> Result<()> {
    let done = of_lease!(RELEASE, lease)
        .bind(due.as_micros())
        .execute(connection)
        .await
        .map_err(storage_error)?;
    match done.rows_affected() {
        0 => Err(void_lease(lease)),
        _ => Ok(()),
    }
}

/// Ends a job. Changes nothing if the job already ended under the same lease, because its events
/// and parts were written when it ended.
async fn finish(connection: &mut SqliteConnection, lease: JobLease, end: JobEnd) -> Result<()> {
    let before = of_job!(GET, lease.account, lease.job)
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let before = before.as_ref().map(JobColumns::from_row).transpose();
    if before
        .map_err(storage_error)?
        .is_some_and(|job| job.ended_under(lease))
    {
        return Ok(());
    }
    let mut events = end.events.clone();
    events.push(NewJobEvent::status_changed(end.status));
    let count = i64::try_from(events.len()).unwrap_or(i64::MAX);
    let row = bind_end!(lease, end, count)
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let first = last_event(row.as_ref(), lease)? - count + 1;
    let at = end.settlement.ended_at;
    write_events(connection, (lease.account, lease.job), first, &events, at).await?;
    for part in &end.parts {
        let written = bind_part!(end.settlement, part);
        written.execute(&mut *connection).await.map_err(storage_error)?;
    }
    Ok(())
}

fn last_event(row: Option<&SqliteRow>, lease: JobLease) -> Result<i64> {
    let row = row.ok_or_else(|| void_lease(lease))?;
    row.try_get("last_event").map_err(storage_error)
}

async fn end_queued(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: JobId,
    (status, outcome): (JobStatus, Outcome),
    at: Timestamp,
) -> Result<Option<Job>> {
    let row = of_job!(END_QUEUED, account, id)
        .bind(status.as_str())
        .bind(outcome.as_str())
        .bind(at.as_micros())
        .bind(i64::from(status == JobStatus::Cancelled))
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let Some(ended) = row.as_ref().map(job).transpose()? else {
        return Ok(None);
    };
    let events = [NewJobEvent::status_changed(status)];
    write_events(
        connection,
        (account, id),
        quantity_column(ended.last_event),
        &events,
        at,
    )
    .await?;
    Ok(Some(ended))
}

/// Requests the cancellation of a running job. Only the first request writes an event. Returns the
/// job in any state; `None` if the job does not exist.
async fn request_cancel(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: JobId,
    at: Timestamp,
) -> Result<Option<Job>> {
    let row = of_job!(REQUEST_CANCEL, account, id)
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let Some(requested) = row.as_ref().map(job).transpose()? else {
        return get(connection, account, id).await;
    };
    let sequence = quantity_column(requested.last_event);
    let events = [NewJobEvent::cancelling()];
    write_events(connection, (account, id), sequence, &events, at).await?;
    Ok(Some(requested))
}

async fn events(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: JobId,
    after: u64,
    limit: u32,
) -> Result<Vec<JobEvent>> {
    let rows: Vec<JobEventColumns> = sqlx::query_as(EVENTS)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(id.as_u128()))
        .bind(quantity_column(after))
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(JobEvent::try_from).collect()
}

/// Writes events with consecutive numbers, starting at `first`.
async fn write_events(
    connection: &mut SqliteConnection,
    (account, id): (AccountId, JobId),
    first: i64,
    events: &[NewJobEvent],
    at: Timestamp,
) -> Result<()> {
    for (sequence, event) in (first..).zip(events) {
        let written = bind_event!(account, id, sequence, event, at);
        written.execute(&mut *connection).await.map_err(storage_error)?;
    }
    Ok(())
}

async fn ids(
    connection: &mut SqliteConnection,
    statement: &'static str,
    at: Timestamp,
    limit: u32,
) -> Result<Vec<(AccountId, JobId)>> {
    let rows = sqlx::query(statement)
        .bind(at.as_micros())
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    let id = |row: &SqliteRow, column| id_from(row.try_get(column).map_err(storage_error)?);
    let both = |row: SqliteRow| {
        let (account, job) = (id(&row, "account_id")?, id(&row, "id")?);
        Ok((AccountId::from_u128(account), JobId::from_u128(job)))
    };
    rows.into_iter().map(both).collect()
}

async fn sweep(connection: &mut SqliteConnection, before: Timestamp, limit: u32) -> Result<u64> {
    let ended = ids(connection, ENDED, before, limit).await?;
    for (account, id) in &ended {
        forget(connection, *account, *id).await?;
    }
    Ok(u64::try_from(ended.len()).unwrap_or(u64::MAX))
}

async fn forget(connection: &mut SqliteConnection, account: AccountId, id: JobId) -> Result<()> {
    for statement in FORGET {
        let forgotten = of_job!(statement, account, id);
        forgotten.execute(&mut *connection).await.map_err(storage_error)?;
    }
    Ok(())
}

/// Returns the settlement of a job that can be deleted; `None` if the job does not exist. Returns
/// `Conflict` if the job has not ended or its webhook is pending.
async fn ended(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: JobId,
) -> Result<Option<Settlement>> {
    let row = of_job!(GET, account, id)
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    let Some(columns) = row
        .as_ref()
        .map(JobColumns::from_row)
        .transpose()
        .map_err(storage_error)?
    else {
        return Ok(None);
    };
    match columns.is_forgettable() {
        true => columns.settlement()?.ok_or_else(|| not_forgettable(id)).map(Some),
        false => Err(not_forgettable(id)),
    }
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[ABANDON, OF_HOLD];
