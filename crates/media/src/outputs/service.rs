//! An object for whoever has its address.

use std::ops::Range;

use tollgate_accounts::{Disposition, Refusal};
use tollgate_storage::{Blob, Media};
use tollgate_types::{Error, ErrorCode, MediaId};

use crate::jobs::unavailable;
use crate::shelf::Shelf;

/// An object that may be handed out.
pub(crate) struct Opened {
    /// The object.
    pub(crate) media: Media,
    /// What a browser does with it.
    pub(crate) disposition: Disposition,
}

/// The object at an address. One that was never signed and one that does not exist are the same to whoever asks.
pub(super) async fn open(shelf: &Shelf, id: &str, query: &str) -> Result<Opened, Error> {
    let id: MediaId = id.parse().map_err(|_| nothing())?;
    let found = shelf.media.get(id).await.map_err(|error| unavailable(&error))?;
    let media = found.ok_or_else(nothing)?;
    let now = shelf.clock.now();
    let disposition = match shelf.addresses.verify(media.account, id, query, now) {
        Ok(disposition) => disposition,
        Err(Refusal::Expired) => return Err(gone()),
        Err(Refusal::BadSignature | Refusal::UnknownKey) => return Err(nothing()),
    };
    match media.is_there(now) {
        true => Ok(Opened { media, disposition }),
        false => Err(gone()),
    }
}

/// Its bytes, or a part of them.
pub(super) async fn bytes(shelf: &Shelf, media: &Media, range: Option<Range<u64>>) -> Result<Blob, Error> {
    let found = shelf.blobs.get(media.blob(), range).await;
    found.map_err(|error| unavailable(&error))?.ok_or_else(gone)
}

fn nothing() -> Error {
    let message = "There is nothing at this address. Poll the job that made the object for its addresses.";
    Error::new(ErrorCode::NotFound, message)
}

fn gone() -> Error {
    let message = "The time of this address is over. Poll the job that made the object: while the object is kept, each poll \
                   makes a new address.";
    Error::new(ErrorCode::Gone, message)
}
