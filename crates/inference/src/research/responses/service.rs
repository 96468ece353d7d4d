//! Creates, shows, follows, cancels and deletes the responses of research models.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tollgate_edge::RequestContext;
use tollgate_formats::openai_responses::{Echo, Identity};
use tollgate_jobs::sealed;
use tollgate_storage::{Job, JobCancel, StorageErrorKind};
use tollgate_types::{AccountId, Error, ErrorCode, JobId, JobStatus, ResponseId, Retry, Scope};

use super::super::answer::Ending;
use super::super::follow::{Followed, Follower};
use super::super::payload::Payload;
use super::super::service::{self, ResearchRequest, Submission};
use super::super::{KIND, LONGEST_WAIT, Research};
use super::output::Output;
use super::read::{self, ResponseRequest};
use super::stream::Subscriber;
use crate::responses::store::{has_ended, not_finished, unavailable};
use crate::responses::subscription::EventStream;

const ENDPOINT: &str = "/v1/responses";
/// Maximum time for which a cancellation waits for the end of the job.
const CANCEL_WAIT: Duration = Duration::from_secs(5);

/// A created response.
pub(crate) enum Created {
    Whole(Bytes),
    Stream(EventStream),
}

/// Creates the job of a request. Returns the queued response of a background request, a stream of
/// events, or the response of the ended job. The job continues if the caller disconnects.
pub(crate) async fn create(request: ResearchRequest<'_>) -> Result<Created, Error> {
    request.caller.check_scope(Scope::Research)?;
    let (research, ctx, account) = (request.research, request.ctx, request.caller.account_id());
    let (submission, is_streamed, sites) = parsed(request)?;
    let is_background = submission
        .response
        .as_ref()
        .is_some_and(|settings| settings.is_background);
    let created = service::create(submission).await;
    let reference = created.map_err(|error| read::named(error, sites.as_deref()))?;
    let id = reference.job_id.parse();
    let id = id.map_err(|_| Error::internal("the id of a job is invalid"))?;
    let created = response(research, ctx, (account, id), is_background, is_streamed).await;
    // A repeated request would create another job.
    created.map_err(|error| error.with_retry(Retry::Never))
}

/// Returns the submission of a request, for quotes.
pub(crate) fn submission(request: ResearchRequest<'_>) -> Result<Submission<'_>, Error> {
    parsed(request).map(|(submission, ..)| submission)
}

/// Returns the submission of a request, whether its response is streamed, and the path of the sites
/// that a tool may search.
fn parsed(request: ResearchRequest<'_>) -> Result<(Submission<'_>, bool, Option<String>), Error> {
    let ResearchRequest {
        research,
        ctx,
        caller,
        origin,
        body,
    } = request;
    let ResponseRequest {
        request,
        settings,
        is_streamed,
        sites,
    } = read::body(&body)?;
    let submission = Submission {
        research,
        ctx,
        caller,
        origin,
        endpoint: ENDPOINT,
        request,
        response: Some(settings),
    };
    Ok((submission, is_streamed, sites))
}

async fn response(
    research: &Arc<Research>,
    ctx: &RequestContext,
    (account, id): (AccountId, JobId),
    is_background: bool,
    is_streamed: bool,
) -> Result<Created, Error> {
    if is_background || is_streamed {
        let job = research.jobs.get(account, id).await;
        let job = job.map_err(|error| unavailable(&error))?;
        let job = job.ok_or_else(|| Error::internal("an accepted job does not exist"))?;
        return match is_streamed {
            true => subscribe(research, job, None).map(Created::Stream),
            false => whole(research, job).await,
        };
    }
    let job = service::ended(research, account, id, LONGEST_WAIT).await?;
    ctx.note_cost(job.charge.unwrap_or_default());
    match Ending::of(research, &job)? {
        Ending::Failed(error) => Err(error),
        Ending::Complete(_) | Ending::Blocked => whole(research, job).await,
    }
}

async fn whole(research: &Arc<Research>, job: Job) -> Result<Created, Error> {
    let response = shown(research, job).await?;
    Ok(Created::Whole(Bytes::from(response.to_string())))
}

/// Returns the research job of a response; `None` if the account has none with this id.
pub(crate) async fn find(research: &Research, account: AccountId, id: &str) -> Result<Option<Job>, Error> {
    let Ok(id) = id.parse::<ResponseId>() else {
        return Ok(None);
    };
    let job = research.jobs.get(account, JobId::from_u128(id.as_u128())).await;
    let job = job.map_err(|error| unavailable(&error))?;
    Ok(job.filter(|job| &*job.terms.kind == KIND))
}

/// Returns the response object of a job.
pub(crate) async fn shown(research: &Arc<Research>, job: Job) -> Result<Value, Error> {
    let mut output = output(research, &job)?;
    match job.status {
        JobStatus::Queued => return Ok(output.unfinished("queued", None)),
        JobStatus::InProgress => return Ok(output.unfinished("in_progress", None)),
        _ => {}
    }
    let ending = Ending::of(research, &job)?;
    let mut follower = Follower::new(research.clone(), job);
    loop {
        match follower.next().await {
            Some(Followed::Event(kind, body)) => output.add(&kind, &body),
            Some(Followed::Ended) => return output.end(&follower.job, &ending),
            Some(Followed::Idle) => {}
            None => {
                let message = "The gateway cannot read the response at the moment. Retry with backoff.";
                return Err(Error::new(ErrorCode::Overloaded, message));
            }
        }
    }
}

/// Returns the events of a response after this sequence number, up to its final event.
pub(crate) fn subscribe(
    research: &Arc<Research>,
    job: Job,
    after: Option<u64>,
) -> Result<EventStream, Error> {
    let output = output(research, &job)?;
    let subscriber = Subscriber::new(Follower::new(research.clone(), job), output, after);
    Ok(Box::pin(stream::unfold(subscriber, Subscriber::next)))
}

/// Cancels the job of a response and returns the response. A completed response cannot be
/// cancelled.
pub(crate) async fn cancel(research: &Arc<Research>, job: Job) -> Result<Value, Error> {
    let (account, id) = (job.account, job.terms.id);
    let cancelled = research.jobs.cancel(account, id, research.clock.now()).await;
    let job = match cancelled.map_err(|error| unavailable(&error))? {
        JobCancel::Cancelled(job) => *job,
        JobCancel::Ended(job) if job.status == JobStatus::Completed => {
            return Err(has_ended("completed"));
        }
        JobCancel::Ended(job) => *job,
        // Wait until the executing node has processed the cancellation.
        JobCancel::Requested(job) => {
            let waited = research.jobs.wait(account, id, None, CANCEL_WAIT).await;
            waited.map_err(|error| unavailable(&error))?.unwrap_or(*job)
        }
    };
    shown(research, job).await
}

/// Deletes a response with its job. Fails if the job has not ended.
pub(crate) async fn delete(research: &Research, job: &Job) -> Result<(), Error> {
    let deleted = research.jobs.forget(job.account, job.terms.id).await;
    match deleted {
        Ok(_) => Ok(()),
        Err(error) if error.kind == StorageErrorKind::Conflict => Err(not_finished()),
        Err(error) => Err(unavailable(&error)),
    }
}

/// Returns the input items of a response.
pub(crate) fn input(research: &Research, job: &Job) -> Result<Vec<Value>, Error> {
    let payload: Payload = sealed::open(&research.vault, job, &job.terms.body)?;
    let messages = payload.messages.iter();
    Ok(messages
        .map(|message| json!({"type": "message", "role": message.role, "content": message.text}))
        .collect())
}

fn output(research: &Research, job: &Job) -> Result<Output, Error> {
    let payload: Payload = sealed::open(&research.vault, job, &job.terms.body)?;
    let settings = payload.head.response.unwrap_or_default();
    let identity = Identity {
        number: job.terms.id.as_u128(),
        created_at: payload.accepted_at.as_seconds(),
        model: job.model.to_string(),
        store: true,
        background: settings.is_background,
        previous_response_id: None,
    };
    let echo = serde_json::to_vec(&settings.body).map_err(Error::internal)?;
    Ok(Output::new(identity, Echo::of(&echo)?))
}
