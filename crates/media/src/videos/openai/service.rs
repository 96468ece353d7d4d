//! The use cases. A film is a job; what is told of it follows from the job, what was asked for and what was made.

use std::collections::VecDeque;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate_accounts::Caller;
use tollgate_storage::{Job, JobFilter, Media, StorageErrorKind};
use tollgate_types::{AccountId, Error, ErrorCode, JobId, JobStatus, MediaId};

use super::read::{self, Sent, as_named_here};
use super::wire::{DeletedVideo, Video, VideoError, VideoList, Wanted};
use crate::MediaRoom;
use crate::jobs::unavailable;
use crate::order::{self, Order, Outcome};
use crate::shelf::KEPT;
use crate::submission::Asked;
use crate::videos::craft::{KIND, Wish};
use crate::videos::service;

pub(super) const ENDPOINT: &str = "/v1/videos";
/// Jobs that are read at once.
const BATCH: u32 = 100;

/// Accepts a film.
pub(super) async fn create(asked: Asked<'_>, sent: &Sent) -> Result<Video, Error> {
    let request = read::request(sent)?;
    let accepted = service::accept(&asked, request, ENDPOINT).await;
    let id = accepted.map_err(as_named_here)?;
    accepted_film(&asked, id).await
}

/// Accepts the same film with another prompt.
pub(super) async fn remix(asked: Asked<'_>, id: &str) -> Result<Video, Error> {
    let prompt = read::remix(&asked.body)?;
    let job = find(asked.room, asked.caller.account_id(), id).await?;
    if job.status != JobStatus::Completed {
        return Err(not_there(&job));
    }
    let order: Order<Wish> = order::open(&asked.room.studio.vault, &job, &job.terms.body)?;
    let wish = Wish {
        prompt,
        remixed_from: Some(job.terms.id.to_string()),
        ..order.wish
    };
    let id = service::again(&asked, &job.model, wish, ENDPOINT).await?;
    accepted_film(&asked, id).await
}

async fn accepted_film(asked: &Asked<'_>, id: JobId) -> Result<Video, Error> {
    let found = asked.room.jobs.get(asked.caller.account_id(), id).await;
    let job = found.map_err(|error| unavailable(&error))?;
    let job = job.ok_or_else(|| Error::internal(format!("{id} is not there")))?;
    video(asked.room, &job)
}

pub(super) async fn get(room: &MediaRoom, caller: &Caller, id: &str) -> Result<Video, Error> {
    video(room, &find(room, caller.account_id(), id).await?)
}

/// The film's job, if it is one, is the account's, and was not deleted.
pub(super) async fn find(room: &MediaRoom, account: AccountId, id: &str) -> Result<Job, Error> {
    let shown = || not_found(id);
    let id: JobId = id.parse().map_err(|_| shown())?;
    let found = room.jobs.get(account, id).await;
    let job = found.map_err(|error| unavailable(&error))?;
    let job = job.filter(|job| *job.terms.kind == *KIND).ok_or_else(shown)?;
    match is_deleted(room, &job).await? {
        true => Err(shown()),
        false => Ok(job),
    }
}

/// Films that were not deleted. Oldest first, all of them are looked through: jobs are kept newest first, and for 30 days.
pub(super) async fn list(room: &MediaRoom, caller: &Caller, wanted: Wanted) -> Result<VideoList, Error> {
    let most = wanted.limit + 1;
    let mut found: VecDeque<Job> = VecDeque::new();
    let mut before = wanted.after.filter(|_| !wanted.oldest_first);
    'pages: loop {
        let filter = JobFilter {
            kind: Some(KIND.to_owned()),
            status: None,
            before,
            after: None,
        };
        let page = room.jobs.list(caller.account_id(), filter, BATCH).await;
        let page = page.map_err(|error| unavailable(&error))?;
        let is_last = page.len() < BATCH as usize;
        for job in page {
            before = Some(job.terms.id);
            if wanted.oldest_first && wanted.after == before {
                break 'pages;
            }
            if is_deleted(room, &job).await? {
                continue;
            }
            found.push_back(job);
            match wanted.oldest_first {
                true if found.len() > most => drop(found.pop_front()),
                false if found.len() == most => break 'pages,
                _ => {}
            }
        }
        if is_last {
            break;
        }
    }
    if wanted.oldest_first {
        found.make_contiguous().reverse();
    }
    let has_more = found.len() == most;
    let data = found.iter().take(wanted.limit).map(|job| video(room, job));
    let data: Vec<Video> = data.collect::<Result<_, _>>()?;
    Ok(VideoList {
        object: "list",
        first_id: data.first().map(|video| video.id.clone()),
        last_id: data.last().map(|video| video.id.clone()),
        data,
        has_more,
    })
}

/// Deletes a film and what was made. One that is not made yet is cancelled. The job stays known under `/v1/jobs`.
pub(super) async fn delete(room: &MediaRoom, caller: &Caller, id: &str) -> Result<DeletedVideo, Error> {
    let account = caller.account_id();
    let job = find(room, account, id).await?;
    let now = room.shelf.clock.now();
    let failed = |error| unavailable(&error);
    if !job.status.is_terminal() {
        room.jobs
            .cancel(account, job.terms.id, now)
            .await
            .map_err(failed)?;
    }
    if let Some(media) = made(room, &job).await? {
        room.shelf.discard(&[media]).await;
    }
    match room.shelf.media.insert(headstone(&job, now)).await {
        Ok(()) => {}
        // Somebody else was faster.
        Err(error) if error.kind == StorageErrorKind::Conflict => {}
        Err(error) => return Err(failed(error)),
    }
    Ok(DeletedVideo {
        id: job.terms.id.to_string(),
        object: "video.deleted",
        deleted: true,
    })
}

/// What a completed job has made, while it is kept.
pub(super) async fn made(room: &MediaRoom, job: &Job) -> Result<Option<Media>, Error> {
    let Some(sealed) = job.result.as_ref().filter(|_| job.status == JobStatus::Completed) else {
        return Ok(None);
    };
    let outcome: Outcome = order::open(&room.studio.vault, job, sealed)?;
    let Some(piece) = outcome.pieces.first() else {
        return Ok(None);
    };
    let found = room.shelf.there(job.account, piece.media).await;
    found.map_err(|error| unavailable(&error))
}

/// That a film was deleted is a row of media without bytes, under an id that follows from the job's. The job's own row is the
/// record of what was paid and does not change.
fn headstone(job: &Job, now: tollgate_types::Timestamp) -> Media {
    let id = headstone_id(job);
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

fn headstone_id(job: &Job) -> MediaId {
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

async fn is_deleted(room: &MediaRoom, job: &Job) -> Result<bool, Error> {
    if !job.status.is_terminal() && !job.cancel_requested {
        return Ok(false);
    }
    let found = room.shelf.media.of_account(job.account, headstone_id(job)).await;
    Ok(found.map_err(|error| unavailable(&error))?.is_some())
}

/// What is told of a film.
fn video(room: &MediaRoom, job: &Job) -> Result<Video, Error> {
    let vault = &room.studio.vault;
    let order: Order<Wish> = order::open(vault, job, &job.terms.body)?;
    let wish = order.wish;
    let sealed = job.result.as_ref().filter(|_| job.status == JobStatus::Completed);
    let outcome: Option<Outcome> = sealed.map(|sealed| order::open(vault, job, sealed)).transpose()?;
    let piece = outcome.as_ref().and_then(|outcome| outcome.pieces.first());
    let (width, height) = piece.map_or(wish.before_size.unwrap_or(wish.size), |piece| {
        (piece.width, piece.height)
    });
    let micros = piece.and_then(|piece| piece.duration);
    let duration = micros.map_or(wish.duration, Duration::from_micros);
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
        expires_at: outcome.map(|outcome| outcome.created_at.plus(KEPT).as_seconds()),
        size: format!("{width}x{height}"),
        // A film may be some frames longer or shorter than was asked for.
        seconds: (duration + Duration::from_millis(500))
            .as_secs()
            .max(1)
            .to_string(),
        prompt: Some(wish.prompt).filter(|prompt| !prompt.is_empty()),
        error: error(job),
        remixed_from_video_id: wish.remixed_from,
    })
}

fn error(job: &Job) -> Option<VideoError> {
    let told = |code: &str, message: &str| {
        Some(VideoError {
            code: code.to_owned(),
            message: message.to_owned(),
        })
    };
    match (&job.error, job.status) {
        (Some(error), _) => told(error.code.as_str(), &error.message),
        (None, JobStatus::Cancelled) => told("cancelled", "It was cancelled before it was made."),
        (None, JobStatus::Expired) => told("expired", "It was not begun in time."),
        (None, JobStatus::Failed) => told(ErrorCode::InternalError.as_str(), "It could not be made."),
        (None, _) => None,
    }
}

/// That a film has no content, or has none yet.
pub(super) fn not_there(job: &Job) -> Error {
    match job.status.is_terminal() {
        false => {
            let message = "The film is not made yet. Poll it until it is completed.";
            Error::new(ErrorCode::Conflict, message).with_param("video_id")
        }
        true => {
            let message = "There is no film: it was not made. Its record says why.";
            Error::new(ErrorCode::NotFound, message).with_param("video_id")
        }
    }
}

fn not_found(id: &str) -> Error {
    let shown: String = id.chars().take(60).collect();
    let message = format!("There is no film '{shown}'. Films are known for 30 days after they have ended.");
    Error::new(ErrorCode::NotFound, message).with_param("video_id")
}
