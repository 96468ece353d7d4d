//! Verifies signed URLs and reads the stored objects.

use std::ops::Range;

use tollgate_accounts::{Disposition, Refusal};
use tollgate_storage::{Blob, Media};
use tollgate_types::{Error, ErrorCode, MediaId};

use crate::jobs::unavailable;
use crate::storage::MediaStorage;

/// An object whose URL was verified.
pub(crate) struct Opened {
    /// Metadata of the object.
    pub(crate) media: Media,
    /// Value of `content-disposition`: display or download.
    pub(crate) disposition: Disposition,
}

/// Returns the object at a signed URL. An invalid signature and an unknown object return the same
/// error, so that a client cannot probe for ids.
pub(super) async fn open(storage: &MediaStorage, id: &str, query: &str) -> Result<Opened, Error> {
    let id: MediaId = id.parse().map_err(|_| not_found())?;
    let found = storage.media.get(id).await.map_err(|error| unavailable(&error))?;
    let media = found.ok_or_else(not_found)?;
    let now = storage.clock.now();
    let disposition = match storage.addresses.verify(media.account, id, query, now) {
        Ok(disposition) => disposition,
        Err(Refusal::Expired) => return Err(gone()),
        Err(Refusal::BadSignature | Refusal::UnknownKey) => return Err(not_found()),
    };
    match media.is_available(now) {
        true => Ok(Opened { media, disposition }),
        false => Err(gone()),
    }
}

/// Reads the bytes of an object, or a range of them.
pub(super) async fn bytes(
    storage: &MediaStorage,
    media: &Media,
    range: Option<Range<u64>>,
) -> Result<Blob, Error> {
    let found = storage.blobs.get(media.blob(), range).await;
    found.map_err(|error| unavailable(&error))?.ok_or_else(gone)
}

fn not_found() -> Error {
    let message = "No object exists at this URL. Poll the job that created the object for a valid URL.";
    Error::new(ErrorCode::NotFound, message)
}

fn gone() -> Error {
    let message = "This URL has expired. Poll the job that created the object. While the object is stored, each poll \
                   returns a new URL.";
    Error::new(ErrorCode::Gone, message)
}
