//! Implements polling, listing, event streams and cancellation of jobs.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tollgate_accounts::Caller;
use tollgate_edge::sse;
use tollgate_storage::{Job, JobCancel, JobEvent, JobFilter, StorageErrorKind};
use tollgate_types::{Clock, Error, ErrorCode, JobId};

use super::records::unavailable;
use super::wire::{JobList, JobRecord};
use crate::MediaState;

/// Maximum number of events that are read in one query.
const PAGE_SIZE: u32 = 100;
/// Time without an event after which the stream sends a ping.
const PING_INTERVAL: Duration = Duration::from_secs(15);

pub(super) async fn get(
    state: &MediaState,
    origin: &str,
    caller: &Caller,
    id: &str,
    wait: Duration,
) -> Result<JobRecord, Error> {
    let id = parse(id)?;
    let waited = state.jobs.wait(caller.account_id(), id, None, wait).await;
    let job = waited
        .map_err(|error| unavailable(&error))?
        .ok_or_else(|| unknown(id))?;
    state.records.whole(origin, &job).await
}

pub(super) async fn list(
    state: &MediaState,
    origin: &str,
    caller: &Caller,
    filter: JobFilter,
    limit: u32,
) -> Result<JobList, Error> {
    let listed = state.jobs.list(caller.account_id(), filter, limit + 1).await;
    let mut jobs = listed.map_err(|error| unavailable(&error))?;
    let has_more = jobs.len() > limit as usize;
    jobs.truncate(limit as usize);
    let records = jobs.iter().map(|job| state.records.brief(origin, job));
    let data: Vec<JobRecord> = records.collect::<Result<_, _>>()?;
    Ok(JobList {
        object: "list",
        first_id: data.first().map(|job| job.id.clone()),
        last_id: data.last().map(|job| job.id.clone()),
        data,
        has_more,
    })
}

/// Cancels a job and returns its record. A job that has ended is returned unchanged.
pub(super) async fn cancel(
    state: &MediaState,
    origin: &str,
    caller: &Caller,
    id: &str,
    now: &dyn Clock,
) -> Result<JobRecord, Error> {
    let id = parse(id)?;
    let cancelled = state.jobs.cancel(caller.account_id(), id, now.now()).await;
    let job = match cancelled {
        Ok(JobCancel::Cancelled(job) | JobCancel::Requested(job) | JobCancel::Ended(job)) => job,
        Err(error) if error.kind == StorageErrorKind::NotFound => return Err(unknown(id)),
        Err(error) => return Err(unavailable(&error)),
    };
    state.records.whole(origin, &job).await
}

/// Streams the events of a job after sequence number `after`. The stream ends after the job's last
/// event, or if the storage cannot be read.
pub(super) async fn events(
    state: &MediaState,
    caller: &Caller,
    id: &str,
    after: u64,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, Error> {
    let (id, account) = (parse(id)?, caller.account_id());
    let found = state.jobs.get(account, id).await;
    let job = found
        .map_err(|error| unavailable(&error))?
        .ok_or_else(|| unknown(id))?;
    let follow = JobSubscriber {
        state: state.clone(),
        job,
        after,
        ready: Vec::new().into_iter(),
        has_ended: false,
    };
    Ok(Box::pin(stream::unfold(follow, JobSubscriber::next)))
}

/// State of one event stream.
struct JobSubscriber {
    state: MediaState,
    job: Job,
    after: u64,
    ready: std::vec::IntoIter<JobEvent>,
    has_ended: bool,
}

impl JobSubscriber {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(event) = self.ready.next() {
                self.after = event.sequence;
                let more = match self.state.records.views.of(&self.job) {
                    Some(view) => view.event(&self.job, &event),
                    None => serde_json::from_slice(&event.body).unwrap_or_default(),
                };
                return Some((written(self.job.terms.id, &event, more), self));
            }
            let read = self
                .state
                .jobs
                .events(self.job.account, self.job.terms.id, self.after, PAGE_SIZE)
                .await;
            let events = read.ok()?;
            if !events.is_empty() {
                self.ready = events.into_iter();
                continue;
            }
            if self.has_ended {
                return None;
            }
            let job = self.wait().await?;
            let has_new_events = job.last_event > self.after;
            // The job may have ended between the two reads, so the stream reads its last events
            // once more.
            self.has_ended = job.status.is_terminal();
            if !has_new_events && !self.has_ended {
                return Some((sse::PING, self));
            }
        }
    }

    async fn wait(&self) -> Option<Job> {
        let after = Some(self.after);
        self.state
            .jobs
            .wait(self.job.account, self.job.terms.id, after, PING_INTERVAL)
            .await
            .ok()?
    }
}

/// Serializes a job event as a server-sent event. The id is the sequence number; a client sends it
/// as `Last-Event-ID` to resume after a lost connection.
fn written(id: JobId, event: &JobEvent, more: Value) -> Bytes {
    let mut data = json!({
        "type": &*event.kind,
        "sequence": event.sequence,
        "job_id": id.to_string(),
        "created_at": event.at.to_rfc3339(),
    });
    if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
        data.extend(more);
    }
    Bytes::from(format!(
        "id: {}\nevent: {}\ndata: {data}\n\n",
        event.sequence, event.kind
    ))
}

fn parse(id: &str) -> Result<JobId, Error> {
    id.parse().map_err(|_| not_found(id))
}

fn unknown(id: JobId) -> Error {
    not_found(&id.to_string())
}

fn not_found(id: &str) -> Error {
    let shown: String = id.chars().take(60).collect();
    let message = format!("Job '{shown}' does not exist. Ended jobs are deleted after 30 days.");
    Error::new(ErrorCode::NotFound, message).with_param("job_id")
}
