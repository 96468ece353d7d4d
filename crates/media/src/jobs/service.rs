//! Polls, lists, events and the wish to cancel.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tollgate_accounts::Caller;
use tollgate_edge::sse;
use tollgate_storage::{Job, JobCancel, JobEvent, JobFilter, StorageErrorKind};
use tollgate_types::{AccountId, Clock, Error, ErrorCode, JobId};

use super::records::unavailable;
use super::wire::{JobList, JobRecord};
use crate::MediaRoom;

/// Events that are read at once.
const BATCH: u32 = 100;
/// After so long without an event there is a sign of life.
const SILENCE: Duration = Duration::from_secs(15);

pub(super) async fn get(
    room: &MediaRoom,
    origin: &str,
    caller: &Caller,
    id: &str,
    wait: Duration,
) -> Result<JobRecord, Error> {
    let id = parse(id)?;
    let waited = room.jobs.wait(caller.account_id(), id, None, wait).await;
    let job = waited
        .map_err(|error| unavailable(&error))?
        .ok_or_else(|| unknown(id))?;
    room.records.whole(origin, &job).await
}

pub(super) async fn list(
    room: &MediaRoom,
    origin: &str,
    caller: &Caller,
    filter: JobFilter,
    limit: u32,
) -> Result<JobList, Error> {
    let listed = room.jobs.list(caller.account_id(), filter, limit + 1).await;
    let mut jobs = listed.map_err(|error| unavailable(&error))?;
    let has_more = jobs.len() > limit as usize;
    jobs.truncate(limit as usize);
    let records = jobs.iter().map(|job| room.records.brief(origin, job));
    let data: Vec<JobRecord> = records.collect::<Result<_, _>>()?;
    Ok(JobList {
        object: "list",
        first_id: data.first().map(|job| job.id.clone()),
        last_id: data.last().map(|job| job.id.clone()),
        data,
        has_more,
    })
}

/// The job as it is once its owner does not want it. One that has ended is answered as it is.
pub(super) async fn cancel(
    room: &MediaRoom,
    origin: &str,
    caller: &Caller,
    id: &str,
    now: &dyn Clock,
) -> Result<JobRecord, Error> {
    let id = parse(id)?;
    let cancelled = room.jobs.cancel(caller.account_id(), id, now.now()).await;
    let job = match cancelled {
        Ok(JobCancel::Cancelled(job) | JobCancel::Requested(job) | JobCancel::Ended(job)) => job,
        Err(error) if error.kind == StorageErrorKind::NotFound => return Err(unknown(id)),
        Err(error) => return Err(unavailable(&error)),
    };
    room.records.whole(origin, &job).await
}

/// The events of a job behind the one of this number, as they happen; the last one is its end.
pub(super) async fn events(
    room: &MediaRoom,
    caller: &Caller,
    id: &str,
    after: u64,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, Error> {
    let (id, account) = (parse(id)?, caller.account_id());
    let found = room.jobs.get(account, id).await;
    found
        .map_err(|error| unavailable(&error))?
        .ok_or_else(|| unknown(id))?;
    let follow = Follow {
        room: room.clone(),
        account,
        id,
        after,
        ready: Vec::new().into_iter(),
        has_ended: false,
    };
    Ok(Box::pin(stream::unfold(follow, Follow::next)))
}

/// Somebody who follows a job.
struct Follow {
    room: MediaRoom,
    account: AccountId,
    id: JobId,
    after: u64,
    ready: std::vec::IntoIter<JobEvent>,
    has_ended: bool,
}

impl Follow {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if let Some(event) = self.ready.next() {
                self.after = event.sequence;
                return Some((written(self.id, &event), self));
            }
            let read = self
                .room
                .jobs
                .events(self.account, self.id, self.after, BATCH)
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
            let has_news = job.last_event > self.after;
            // It may have ended between the two looks: then its last events are read once more.
            self.has_ended = job.status.is_terminal();
            if !has_news && !self.has_ended {
                return Some((sse::PING, self));
            }
        }
    }

    async fn wait(&self) -> Option<Job> {
        let after = Some(self.after);
        self.room
            .jobs
            .wait(self.account, self.id, after, SILENCE)
            .await
            .ok()?
    }
}

/// One event with its number, from which a caller goes on who has lost the connection.
fn written(id: JobId, event: &JobEvent) -> Bytes {
    let more: Value = serde_json::from_slice(&event.body).unwrap_or_default();
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
    let message = format!("There is no job '{shown}'. Jobs are known for 30 days after they have ended.");
    Error::new(ErrorCode::NotFound, message).with_param("job_id")
}
