//! Accepts a chat completion request for a research model, and follows its job.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tollgate_edge::RequestContext;
use tollgate_storage::Job;
use tollgate_types::{AccountId, Error, JobId, Retry, Scope};

use super::super::answer::Ending;
use super::super::service::{self, ResearchRequest, Submission};
use super::super::{LONGEST_WAIT, Research};
use super::encode::Identity;
use super::read::{self, ChatRequest, Usage};
use super::stream::ChatStream;
use crate::conversion::with_param_name;
use crate::responses::store::unavailable;

const ENDPOINT: &str = "/v1/chat/completions";

/// An accepted chat completion request.
pub(crate) struct ChatReport {
    /// Id of the job.
    pub(crate) job: String,
    pub(crate) content: Result<Content, Error>,
}

/// Content of a response.
pub(crate) enum Content {
    Whole(Bytes),
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

/// Creates the job of a request and returns its report, or a stream of its progress and its report.
/// The job continues if the caller disconnects.
pub(crate) async fn create(request: ResearchRequest<'_>) -> Result<ChatReport, Error> {
    request.caller.check_scope(Scope::Research)?;
    let (research, ctx, account) = (request.research, request.ctx, request.caller.account_id());
    let (submission, usage, output_cap) = parsed(request)?;
    let created = service::create(submission).await;
    let reference = created.map_err(|error| named(error, output_cap))?;
    let content = content(research, ctx, account, &reference.job_id, usage).await;
    Ok(ChatReport {
        job: reference.job_id,
        // A repeated request would create another job.
        content: content.map_err(|error| error.with_retry(Retry::Never)),
    })
}

/// Returns the submission of a request, for quotes.
pub(crate) fn submission(request: ResearchRequest<'_>) -> Result<Submission<'_>, Error> {
    parsed(request).map(|(submission, ..)| submission)
}

/// Returns the submission of a request, the place of the usage in its stream, and the name of the
/// parameter that limits the report.
fn parsed(request: ResearchRequest<'_>) -> Result<(Submission<'_>, Option<Usage>, &'static str), Error> {
    let ResearchRequest {
        research,
        ctx,
        caller,
        origin,
        body,
    } = request;
    let ChatRequest {
        request,
        stream,
        output_cap,
    } = read::body(&body)?;
    let submission = Submission {
        research,
        ctx,
        caller,
        origin,
        endpoint: ENDPOINT,
        request,
        response: None,
    };
    Ok((submission, stream, output_cap))
}

/// Renames the parameter of an error to the name that the request uses.
fn named(error: Error, output_cap: &'static str) -> Error {
    match error.param.as_deref() {
        Some("max_output_tokens") => with_param_name(error, |_| output_cap.to_owned()),
        _ => error,
    }
}

async fn content(
    research: &Arc<Research>,
    ctx: &RequestContext,
    account: AccountId,
    id: &str,
    usage: Option<Usage>,
) -> Result<Content, Error> {
    let id: JobId = id
        .parse()
        .map_err(|_| Error::internal("the id of a job is invalid"))?;
    if let Some(usage) = usage {
        let job = research.jobs.get(account, id).await;
        let job = job.map_err(|error| unavailable(&error))?;
        let job = job.ok_or_else(|| Error::internal("an accepted job does not exist"))?;
        let chunks = ChatStream::new(research.clone(), job, usage);
        return Ok(Content::Stream(Box::pin(stream::unfold(
            chunks,
            ChatStream::next,
        ))));
    }
    let job = service::ended(research, account, id, LONGEST_WAIT).await?;
    ctx.note_cost(job.charge.unwrap_or_default());
    whole(research, &job).map(Content::Whole)
}

fn whole(research: &Research, job: &Job) -> Result<Bytes, Error> {
    let answer = Ending::of(research, job)?.into_answer()?;
    let completion = Identity::of(job).completion(job, answer.as_ref());
    Ok(Bytes::from(completion.to_string()))
}
