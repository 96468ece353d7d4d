//! Content of a video: the file, a thumbnail or a sprite sheet.

use std::time::Duration;

use tollgate_accounts::Caller;
use tollgate_media_tools::{Error as MediaToolError, Scratch};
use tollgate_storage::{Job, Media};
use tollgate_types::{Error, ErrorCode, JobStatus};

use super::service;
use super::wire::Variant;
use crate::MediaState;
use crate::jobs::unavailable;

/// Width of a thumbnail, in pixels.
const THUMBNAIL_WIDTH: u32 = 480;
/// Width of one frame of a sprite sheet, in pixels.
const TILE_WIDTH: u32 = 240;
/// Number of rows, and number of columns, of a sprite sheet.
const TILES_PER_SIDE: u32 = 4;

/// A variant of a video's content.
pub(super) enum Asset {
    /// The stored video file.
    Video(Media),
    /// A thumbnail or sprite sheet, as JPEG.
    Image(Vec<u8>),
}

/// Returns a variant of a completed video's content.
pub(super) async fn open(
    state: &MediaState,
    caller: &Caller,
    id: &str,
    variant: Variant,
) -> Result<Asset, Error> {
    let job = service::find(state, caller.account_id(), id).await?;
    if job.status != JobStatus::Completed {
        return Err(service::not_available(&job));
    }
    let video = service::output_media(state, &job).await?.ok_or_else(gone)?;
    match variant {
        Variant::Video => Ok(Asset::Video(video)),
        Variant::Thumbnail | Variant::Spritesheet => {
            image(state, &job, &video, variant).await.map(Asset::Image)
        }
    }
}

async fn image(state: &MediaState, job: &Job, video: &Media, variant: Variant) -> Result<Vec<u8>, Error> {
    let read = state.storage.read(job.account, video.id).await;
    let (_, bytes) = read.map_err(|error| unavailable(&error))?.ok_or_else(gone)?;
    let scratch = Scratch::make().map_err(failed)?;
    let place = scratch.file("video.mp4");
    let written = tokio::fs::write(&place, &bytes).await;
    written.map_err(|error| Error::internal(error.to_string()))?;
    drop(bytes);
    let tools = &state.media_jobs.tools;
    let output_media = match variant {
        Variant::Spritesheet => {
            tools
                .contact_sheet(&place, TILES_PER_SIDE, TILES_PER_SIDE, TILE_WIDTH)
                .await
        }
        _ => {
            // The first frames of a video are often black.
            let at = video.duration.unwrap_or_default() / 10;
            tools
                .thumbnail(&place, at.min(Duration::from_secs(3)), THUMBNAIL_WIDTH)
                .await
        }
    };
    output_media.map_err(failed)
}

fn failed(error: MediaToolError) -> Error {
    match error {
        MediaToolError::Missing(_) => {
            let message =
                "This server cannot create thumbnails and sprite sheets because FFmpeg is not installed.";
            Error::new(ErrorCode::ModelUnavailable, message).with_source(error.to_string())
        }
        other => Error::internal(other.to_string()),
    }
}

fn gone() -> Error {
    Error::new(ErrorCode::Gone, "The video is no longer stored.").with_param("video_id")
}
