//! What a film goes on with: found, looked at and kept when the job is accepted.

use std::time::Duration;

use tollgate_types::{AccountId, Error, ErrorCode, JobStatus, MediaId};
use tollgate_upstream::{FetchError, FetchRequest, MediaKind, Source};

use super::read::Before;
use crate::input::{FILMS, Finder, Found, INPUT, looked_at, unreadable};
use crate::jobs::unavailable;
use crate::order::{self, Outcome};
use crate::read::invalid;
use crate::shelf::Facts;
use crate::{MediaRoom, compose, images, videos};

/// What was found.
pub(super) enum Beginning {
    /// A picture: the film begins with it.
    Picture(Found),
    /// A film, and its last frame.
    Film { film: Found, last_frame: Found },
}

/// Finds it.
pub(super) async fn beginning(
    room: &MediaRoom,
    finder: &Finder<'_>,
    before: &Before,
) -> Result<Beginning, Error> {
    match before {
        Before::Job(id) => {
            let media = of_job(room, finder.account, id).await?;
            let read = room.shelf.read(finder.account, media).await;
            let (media, bytes) = read.map_err(|error| unavailable(&error))?.ok_or_else(swept)?;
            let source = Source {
                bytes,
                mime_type: media.mime_type.as_str().into(),
            };
            match media.mime_type.starts_with("image/") {
                true => Ok(Beginning::Picture(Found {
                    path: "extend_from.job_id".to_owned(),
                    facts: facts(&source, media.width, media.height, None),
                    source,
                })),
                false => film(room, "extend_from.job_id", source).await,
            }
        }
        Before::Address(url) => {
            let path = "extend_from.video_url";
            if let Some(own) = finder.named_here(path, url, FILMS).await? {
                return film(room, path, own).await;
            }
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err(invalid(path, &FetchError::NotAnAddress.to_string()));
            }
            let request = FetchRequest {
                url,
                kind: MediaKind::Video,
                most_bytes: MediaKind::Video.most_bytes(),
                media_types: FILMS,
            };
            let fetched = finder.pipeline.media.fetcher.fetch(&request).await;
            let fetched = fetched.map_err(|error| invalid(path, &error.to_string()))?;
            let source = Source {
                bytes: fetched.bytes,
                mime_type: fetched.media_type.into(),
            };
            film(room, path, source).await
        }
    }
}

/// The first thing that a finished job of the account has made (choices, J9).
async fn of_job(room: &MediaRoom, account: AccountId, id: &str) -> Result<MediaId, Error> {
    let path = "extend_from.job_id";
    let unknown = || {
        let shown: String = id.chars().take(60).collect();
        Error::new(ErrorCode::NotFound, format!("There is no job '{shown}'.")).with_param(path)
    };
    let id = id.parse().map_err(|_| unknown())?;
    let found = room
        .jobs
        .get(account, id)
        .await
        .map_err(|error| unavailable(&error))?;
    let job = found.ok_or_else(unknown)?;
    match job.status {
        JobStatus::Completed => {}
        JobStatus::Queued | JobStatus::InProgress => {
            let message = "The job is not finished yet. Poll it until it is, then go on with it.";
            return Err(Error::new(ErrorCode::Conflict, message).with_param(path));
        }
        JobStatus::Failed | JobStatus::Cancelled | JobStatus::Expired => {
            let message = "The job has made nothing that a film could go on with.";
            return Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(path));
        }
    }
    let makes_media = [images::KIND, videos::KIND, compose::KIND].contains(&&*job.terms.kind);
    let sealed = job.result.as_ref().filter(|_| makes_media).ok_or_else(|| {
        let message = "The job has made neither a picture nor a film.";
        Error::new(ErrorCode::ParameterOutOfRange, message).with_param(path)
    })?;
    let outcome: Outcome = order::open(&room.studio.vault, &job, sealed)?;
    let first = outcome.pieces.first().map(|piece| piece.media);
    first.ok_or_else(swept)
}

fn swept() -> Error {
    let message = "What the job has made is not kept any more.";
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param("extend_from.job_id")
}

/// Looks at a film and takes its last frame.
async fn film(room: &MediaRoom, path: &str, source: Source) -> Result<Beginning, Error> {
    let tools = &room.studio.tools;
    let (scratch, probe) = looked_at(tools, path, &source).await?;
    let told = |error| unreadable(path, error);
    let seen = probe.film().map_err(told)?.clone();
    let last = tools.last_frame(&scratch.file(INPUT)).await.map_err(told)?;
    let last = Source {
        bytes: last.into(),
        mime_type: "image/png".into(),
    };
    let (width, height) = (Some(seen.size.width), Some(seen.size.height));
    let found = |source: Source, duration| Found {
        path: path.to_owned(),
        facts: facts(&source, width, height, duration),
        source,
    };
    Ok(Beginning::Film {
        film: found(source, Some(seen.duration)),
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
