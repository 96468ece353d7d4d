//! The content of a film, and small pictures of it.

use std::time::Duration;

use tollgate_accounts::Caller;
use tollgate_storage::{Job, Media};
use tollgate_studio::{Error as StudioError, Scratch};
use tollgate_types::{Error, ErrorCode, JobStatus};

use super::service;
use super::wire::Variant;
use crate::MediaRoom;
use crate::jobs::unavailable;

/// How wide a small picture is, and how wide and how many those on a sheet are.
const THUMBNAIL: u32 = 480;
const TILE: u32 = 240;
const TILES: u32 = 4;

/// What is answered.
pub(super) enum Asset {
    /// The film.
    Film(Media),
    /// A JPEG.
    Picture(Vec<u8>),
}

/// What is wanted of a film.
pub(super) async fn open(
    room: &MediaRoom,
    caller: &Caller,
    id: &str,
    variant: Variant,
) -> Result<Asset, Error> {
    let job = service::find(room, caller.account_id(), id).await?;
    if job.status != JobStatus::Completed {
        return Err(service::not_there(&job));
    }
    let film = service::made(room, &job).await?.ok_or_else(gone)?;
    match variant {
        Variant::Video => Ok(Asset::Film(film)),
        Variant::Thumbnail | Variant::Spritesheet => {
            picture(room, &job, &film, variant).await.map(Asset::Picture)
        }
    }
}

async fn picture(room: &MediaRoom, job: &Job, film: &Media, variant: Variant) -> Result<Vec<u8>, Error> {
    let read = room.shelf.read(job.account, film.id).await;
    let (_, bytes) = read.map_err(|error| unavailable(&error))?.ok_or_else(gone)?;
    let scratch = Scratch::make().map_err(failed)?;
    let place = scratch.file("film.mp4");
    let written = tokio::fs::write(&place, &bytes).await;
    written.map_err(|error| Error::internal(error.to_string()))?;
    drop(bytes);
    let tools = &room.studio.tools;
    let made = match variant {
        Variant::Spritesheet => tools.contact_sheet(&place, TILES, TILES, TILE).await,
        _ => {
            // Films often begin in the dark.
            let at = film.duration.unwrap_or_default() / 10;
            tools
                .thumbnail(&place, at.min(Duration::from_secs(3)), THUMBNAIL)
                .await
        }
    };
    made.map_err(failed)
}

fn failed(error: StudioError) -> Error {
    match error {
        StudioError::Missing(_) => {
            let message =
                "This service cannot make pictures of films at the moment: a program for films is missing.";
            Error::new(ErrorCode::ModelUnavailable, message).with_source(error.to_string())
        }
        other => Error::internal(other.to_string()),
    }
}

fn gone() -> Error {
    Error::new(ErrorCode::Gone, "The film is not kept any more.").with_param("video_id")
}
