//! Source of an extended video. The source is fetched when the job is accepted; a video is also
//! probed.

use std::time::Duration;

use tollgate_edge::members::invalid;
use tollgate_jobs::sealed;
use tollgate_pipeline::media::fetch_error;
use tollgate_types::{AccountId, Error, ErrorCode, JobStatus, MediaId};
use tollgate_upstream::{FetchError, FetchRequest, MediaKind, Source};

use super::read::ExtendRef;
use crate::input::{Finder, FoundInput, INPUT_FILE, VIDEO_TYPES, probe_input, unreadable};
use crate::job_payload::Outcome;
use crate::jobs::unavailable;
use crate::storage::Facts;
use crate::{MediaState, compose, images, videos};

/// The fetched source of `extend_from`.
pub(super) enum ExtendSource {
    /// An image, which becomes the first frame.
    Image(FoundInput),
    /// A video, and its last frame as PNG.
    Video {
        video: FoundInput,
        last_frame: FoundInput,
    },
}

/// Fetches the source of `extend_from` from a job or a URL.
pub(super) async fn extend_source(
    state: &MediaState,
    finder: &Finder<'_>,
    before: &ExtendRef,
) -> Result<ExtendSource, Error> {
    match before {
        ExtendRef::Job(id) => {
            let media = of_job(state, finder.account, id).await?;
            let read = state.storage.read(finder.account, media).await;
            let (media, bytes) = read
                .map_err(|error| unavailable(&error))?
                .ok_or_else(expired_output)?;
            let source = Source {
                bytes,
                mime_type: media.mime_type.as_str().into(),
            };
            match media.mime_type.starts_with("image/") {
                true => Ok(ExtendSource::Image(FoundInput {
                    path: "extend_from.job_id".to_owned(),
                    facts: facts(&source, media.width, media.height, None),
                    source,
                })),
                false => video(state, "extend_from.job_id", source).await,
            }
        }
        ExtendRef::Address(url) => {
            let path = "extend_from.video_url";
            if let Some(own) = finder.own_object(path, url, VIDEO_TYPES).await? {
                return video(state, path, own).await;
            }
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err(invalid(path, &FetchError::NotAnAddress.to_string()));
            }
            let request = FetchRequest {
                url,
                account: Some(finder.account),
                kind: MediaKind::Video,
                max_bytes: MediaKind::Video.max_bytes(),
                media_types: VIDEO_TYPES,
            };
            let fetched = finder.pipeline.media.fetcher.fetch(&request).await;
            let fetched = fetched.map_err(|error| fetch_error(path, error))?;
            let source = Source {
                bytes: fetched.bytes,
                mime_type: fetched.media_type.into(),
            };
            video(state, path, source).await
        }
    }
}

/// Returns the first output of a completed job of the account (choices, J9). Returns an error if
/// the job is not completed or has no image or video.
async fn of_job(state: &MediaState, account: AccountId, id: &str) -> Result<MediaId, Error> {
    let path = "extend_from.job_id";
    let unknown = || {
        let shown: String = id.chars().take(60).collect();
        Error::new(ErrorCode::NotFound, format!("Job '{shown}' does not exist.")).with_param(path)
    };
    let id = id.parse().map_err(|_| unknown())?;
    let found = state
        .jobs
        .get(account, id)
        .await
        .map_err(|error| unavailable(&error))?;
    let job = found.ok_or_else(unknown)?;
    match job.status {
        JobStatus::Completed => {}
        JobStatus::Queued | JobStatus::InProgress => {
            let message = "The job is not completed yet. Poll it until its status is 'completed', then send this \
                           request again.";
            return Err(Error::new(ErrorCode::Conflict, message).with_param(path));
        }
        JobStatus::Failed | JobStatus::Cancelled | JobStatus::Expired => {
            let message = "The job has no output to extend because it was not completed.";
            return Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(path));
        }
    }
    let makes_media = [images::KIND, videos::KIND, compose::KIND].contains(&&*job.terms.kind);
    let sealed = job.result.as_ref().filter(|_| makes_media).ok_or_else(|| {
        let message = "The job generated neither an image nor a video.";
        Error::new(ErrorCode::ParameterOutOfRange, message).with_param(path)
    })?;
    let outcome: Outcome = sealed::open(&state.media_jobs.vault, &job, sealed)?;
    let first = outcome.items.first().map(|item| item.media);
    first.ok_or_else(expired_output)
}

fn expired_output() -> Error {
    let message = "The job has no stored image or video to extend.";
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param("extend_from.job_id")
}

/// Probes a video and extracts its last frame.
async fn video(state: &MediaState, path: &str, source: Source) -> Result<ExtendSource, Error> {
    let tools = &state.media_jobs.tools;
    let (scratch, probe) = probe_input(tools, path, &source).await?;
    let to_error = |error| unreadable(path, error);
    let video_stream = probe.video().map_err(to_error)?.clone();
    let last = tools
        .last_frame(&scratch.file(INPUT_FILE))
        .await
        .map_err(to_error)?;
    let last = Source {
        bytes: last.into(),
        mime_type: "image/png".into(),
    };
    let (width, height) = (Some(video_stream.size.width), Some(video_stream.size.height));
    let found = |source: Source, duration| FoundInput {
        path: path.to_owned(),
        facts: facts(&source, width, height, duration),
        source,
    };
    Ok(ExtendSource::Video {
        video: found(source, Some(video_stream.duration)),
        last_frame: found(last, None),
    })
}

fn facts(source: &Source, width: Option<u32>, height: Option<u32>, duration: Option<Duration>) -> Facts {
    Facts {
        mime_type: source.mime_type.to_string(),
        width,
        height,
        duration,
    }
}
