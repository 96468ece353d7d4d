//! Videos in the format of OpenAI's API. A video is a view of a job, its payload and its result.

use std::collections::VecDeque;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate_accounts::Caller;
use tollgate_billing::ItemizedQuote;
use tollgate_jobs::sealed;
use tollgate_storage::{Job, JobFilter, Media, StorageErrorKind};
use tollgate_types::{AccountId, Error, ErrorCode, JobId, JobStatus, MediaId};

use super::read::{self, Sent, as_named_here};
use super::wire::{DeletedVideo, PageParams, Video, VideoError, VideoList};
use crate::MediaState;
use crate::job_payload::{JobPayload, Outcome};
use crate::jobs::unavailable;
use crate::storage::RETENTION;
use crate::submission::Submission;
use crate::videos::generator::{KIND, Params};
use crate::videos::service;

pub(super) const ENDPOINT: &str = "/v1/videos";
/// Maximum number of jobs that are read in one query.
const PAGE_SIZE: u32 = 100;

/// Accepts the job of a new video.
pub(super) async fn create(submission: Submission<'_>, sent: &Sent) -> Result<Video, Error> {
    let request = read::request(sent)?;
    let accepted = service::accept(&submission, request, ENDPOINT).await;
    let id = accepted.map_err(as_named_here)?;
    accepted_video(&submission, id).await
}

/// Returns the hold that `POST /v1/videos` would take for the same JSON request.
pub async fn quote(submission: Submission<'_>) -> Result<ItemizedQuote, Error> {
    let request = read::request(&Sent::Json(submission.body.clone()))?;
    let quote = service::quote_request(&submission, request, ENDPOINT).await;
    quote.map_err(as_named_here)
}

/// Accepts the job of a video with the parameters of another video and a new prompt.
pub(super) async fn remix(submission: Submission<'_>, id: &str) -> Result<Video, Error> {
    let prompt = read::remix(&submission.body)?;
    let job = find(submission.state, submission.caller.account_id(), id).await?;
    if job.status != JobStatus::Completed {
        return Err(not_available(&job));
    }
    let payload: JobPayload<Params> =
        sealed::open(&submission.state.media_jobs.vault, &job, &job.terms.body)?;
    let params = Params {
        prompt,
        remixed_from: Some(job.terms.id.to_string()),
        ..payload.params
    };
    let id = service::create_remix(&submission, &job.model, params, ENDPOINT).await?;
    accepted_video(&submission, id).await
}

async fn accepted_video(submission: &Submission<'_>, id: JobId) -> Result<Video, Error> {
    let found = submission
        .state
        .jobs
        .get(submission.caller.account_id(), id)
        .await;
    let job = found.map_err(|error| unavailable(&error))?;
    let job = job.ok_or_else(|| Error::internal(format!("{id} does not exist")))?;
    video(submission.state, &job)
}

pub(super) async fn get(state: &MediaState, caller: &Caller, id: &str) -> Result<Video, Error> {
    video(state, &find(state, caller.account_id(), id).await?)
}

/// Returns the job of a video. Returns an error if the job does not exist in this account, is no
/// video job, or was deleted.
pub(super) async fn find(state: &MediaState, account: AccountId, id: &str) -> Result<Job, Error> {
    let shown = || not_found(id);
    let id: JobId = id.parse().map_err(|_| shown())?;
    let found = state.jobs.get(account, id).await;
    let job = found.map_err(|error| unavailable(&error))?;
    let job = job.filter(|job| *job.terms.kind == *KIND).ok_or_else(shown)?;
    match is_deleted(state, &job).await? {
        true => Err(shown()),
        false => Ok(job),
    }
}

/// Lists the videos that were not deleted. The store lists jobs newest first, so a list in
/// ascending order reads all stored video jobs that are newer than `after`.
pub(super) async fn list(
    state: &MediaState,
    caller: &Caller,
    page_params: PageParams,
) -> Result<VideoList, Error> {
    let max = page_params.limit + 1;
    let mut found: VecDeque<Job> = VecDeque::new();
    let mut before = page_params.after.filter(|_| !page_params.oldest_first);
    'pages: loop {
        let filter = JobFilter {
            kind: Some(KIND.to_owned()),
            status: None,
            before,
            after: None,
        };
        let page = state.jobs.list(caller.account_id(), filter, PAGE_SIZE).await;
        let page = page.map_err(|error| unavailable(&error))?;
        let is_last = page.len() < PAGE_SIZE as usize;
        for job in page {
            before = Some(job.terms.id);
            if page_params.oldest_first && page_params.after == before {
                break 'pages;
            }
            if is_deleted(state, &job).await? {
                continue;
            }
            found.push_back(job);
            match page_params.oldest_first {
                true if found.len() > max => drop(found.pop_front()),
                false if found.len() == max => break 'pages,
                _ => {}
            }
        }
        if is_last {
            break;
        }
    }
    if page_params.oldest_first {
        found.make_contiguous().reverse();
    }
    let has_more = found.len() == max;
    let data = found.iter().take(page_params.limit).map(|job| video(state, job));
    let data: Vec<Video> = data.collect::<Result<_, _>>()?;
    Ok(VideoList {
        object: "list",
        first_id: data.first().map(|video| video.id.clone()),
        last_id: data.last().map(|video| video.id.clone()),
        data,
        has_more,
    })
}

/// Deletes a video and its content. A video that is not completed is cancelled. The job remains
/// available under `/v1/jobs`.
pub(super) async fn delete(state: &MediaState, caller: &Caller, id: &str) -> Result<DeletedVideo, Error> {
    let account = caller.account_id();
    let job = find(state, account, id).await?;
    let now = state.storage.clock.now();
    let failed = |error| unavailable(&error);
    if !job.status.is_terminal() {
        state
            .jobs
            .cancel(account, job.terms.id, now)
            .await
            .map_err(failed)?;
    }
    if let Some(media) = output_media(state, &job).await? {
        state.storage.discard(&[media]).await;
    }
    match state.storage.media.insert(deletion_marker(&job, now)).await {
        Ok(()) => {}
        // A concurrent request has already inserted the marker.
        Err(error) if error.kind == StorageErrorKind::Conflict => {}
        Err(error) => return Err(failed(error)),
    }
    Ok(DeletedVideo {
        id: job.terms.id.to_string(),
        object: "video.deleted",
        deleted: true,
    })
}

/// Returns the output of a completed job; `None` if the job is not completed or the output is no
/// longer stored.
pub(super) async fn output_media(state: &MediaState, job: &Job) -> Result<Option<Media>, Error> {
    let Some(sealed) = job.result.as_ref().filter(|_| job.status == JobStatus::Completed) else {
        return Ok(None);
    };
    let outcome: Outcome = sealed::open(&state.media_jobs.vault, job, sealed)?;
    let Some(item) = outcome.items.first() else {
        return Ok(None);
    };
    let found = state.storage.find_available(job.account, item.media).await;
    found.map_err(|error| unavailable(&error))
}

/// Returns the marker of a deleted video: an empty media object whose id is derived from the id of
/// the job. The row of the job does not change, because it is the billing record.
fn deletion_marker(job: &Job, now: tollgate_types::Timestamp) -> Media {
    let id = deletion_marker_id(job);
    Media {
        id,
        account: job.account,
        object: id.as_u128(),
        sha256: Sha256::digest([]).into(),
        bytes: 0,
        mime_type: "application/x-empty".to_owned(),
        width: None,
        height: None,
        duration: None,
        created_at: now,
        expires_at: now,
        source: Some(job.terms.id.as_u128()),
        deleted_at: Some(now),
    }
}

fn deletion_marker_id(job: &Job) -> MediaId {
    let mut digest = Sha256::new();
    digest.update(b"deleted video\0");
    digest.update(job.account.as_u128().to_be_bytes());
    digest.update(job.terms.id.as_u128().to_be_bytes());
    let digest = digest.finalize();
    let number = digest
        .iter()
        .take(16)
        .fold(0, |id: u128, byte| id << 8 | u128::from(*byte));
    MediaId::from_u128(number)
}

async fn is_deleted(state: &MediaState, job: &Job) -> Result<bool, Error> {
    if !job.status.is_terminal() && !job.cancel_requested {
        return Ok(false);
    }
    let found = state
        .storage
        .media
        .of_account(job.account, deletion_marker_id(job))
        .await;
    Ok(found.map_err(|error| unavailable(&error))?.is_some())
}

/// Builds the video object of a job.
fn video(state: &MediaState, job: &Job) -> Result<Video, Error> {
    let vault = &state.media_jobs.vault;
    let payload: JobPayload<Params> = sealed::open(vault, job, &job.terms.body)?;
    let params = payload.params;
    let sealed = job.result.as_ref().filter(|_| job.status == JobStatus::Completed);
    let outcome: Option<Outcome> = sealed
        .map(|sealed| sealed::open(vault, job, sealed))
        .transpose()?;
    let item = outcome.as_ref().and_then(|outcome| outcome.items.first());
    let (width, height) = item.map_or(params.before_size.unwrap_or(params.size), |item| {
        (item.width, item.height)
    });
    let micros = item.and_then(|item| item.duration);
    let duration = micros.map_or(params.duration, Duration::from_micros);
    Ok(Video {
        id: job.terms.id.to_string(),
        object: "video",
        model: job.model.to_string(),
        status: match job.status {
            JobStatus::Queued => "queued",
            JobStatus::InProgress => "in_progress",
            JobStatus::Completed => "completed",
            JobStatus::Failed | JobStatus::Cancelled | JobStatus::Expired => "failed",
        },
        progress: match job.status {
            JobStatus::Completed => 100,
            _ => job.progress.unwrap_or_default(),
        },
        created_at: job.created_at.as_seconds(),
        completed_at: job.completed_at.map(|at| at.as_seconds()),
        expires_at: outcome.map(|outcome| outcome.created_at.plus(RETENTION).as_seconds()),
        size: format!("{width}x{height}"),
        // A video may be some frames longer or shorter than requested, so the duration is rounded
        // to seconds.
        seconds: (duration + Duration::from_millis(500))
            .as_secs()
            .max(1)
            .to_string(),
        prompt: Some(params.prompt).filter(|prompt| !prompt.is_empty()),
        error: error(job),
        remixed_from_video_id: params.remixed_from,
    })
}

fn error(job: &Job) -> Option<VideoError> {
    let video_error = |code: &str, message: &str| {
        Some(VideoError {
            code: code.to_owned(),
            message: message.to_owned(),
        })
    };
    match (&job.error, job.status) {
        (Some(error), _) => video_error(error.code.as_str(), &error.message),
        (None, JobStatus::Cancelled) => video_error("cancelled", "The video was cancelled."),
        (None, JobStatus::Expired) => video_error("expired", "The video was not started in time."),
        (None, JobStatus::Failed) => video_error(ErrorCode::InternalError.as_str(), "Generation failed."),
        (None, _) => None,
    }
}

/// Returns the error for a video that has no content, because the video is not completed yet or its
/// generation failed.
pub(super) fn not_available(job: &Job) -> Error {
    match job.status.is_terminal() {
        false => {
            let message = "The video is not completed yet. Poll it until its status is 'completed'.";
            Error::new(ErrorCode::Conflict, message).with_param("video_id")
        }
        true => {
            let message =
                "The video has no content because it was not completed. Its 'error' has the reason.";
            Error::new(ErrorCode::NotFound, message).with_param("video_id")
        }
    }
}

fn not_found(id: &str) -> Error {
    let shown: String = id.chars().take(60).collect();
    let message = format!("Video '{shown}' does not exist. Ended videos are deleted after 30 days.");
    Error::new(ErrorCode::NotFound, message).with_param("video_id")
}
