//! What callers name that goes into a job: fetched, read and kept when the job is accepted, so that whoever carries it out
//! sees the same bytes however often.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tollgate_pipeline::Pipeline;
use tollgate_storage::{Media, blob};
use tollgate_studio::{Error as StudioError, Probe, Scratch, Tools, picture};
use tollgate_types::{AccountId, Error, ErrorCode, MediaId, RequestId};
use tollgate_upstream::{FetchError, FetchRequest, MediaKind, Source};

use crate::jobs::unavailable;
use crate::read::invalid;
use crate::shelf::{Facts, INPUT_KEPT, Shelf};

/// The most bytes of everything that goes into one job, films aside.
const MOST_BYTES: u64 = 32 << 20;
/// Pictures that are read.
const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/webp"];

/// Films that are read.
pub(crate) const FILMS: &[&str] = &["video/mp4", "video/webm"];
/// Recordings that are read.
const SOUNDS: &[&str] = &[
    "audio/mpeg",
    "audio/wav",
    "audio/flac",
    "audio/ogg",
    "audio/mp4",
    "audio/aac",
];
/// What a file is called that is looked at.
pub(crate) const INPUT: &str = "input";

/// Something that goes into a job, and the parameter that names it.
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) source: Source,
    pub(crate) facts: Facts,
}

/// Finds what a caller names.
pub(crate) struct Finder<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) shelf: &'a Shelf,
    pub(crate) account: AccountId,
    /// Where the caller has reached the service: what is made here can be named by its address here.
    pub(crate) origin: &'a str,
}

impl Finder<'_> {
    /// Pictures, in their order.
    pub(crate) async fn pictures(&self, named: &[(String, String)]) -> Result<Vec<Found>, Error> {
        let mut found = Vec::with_capacity(named.len());
        let mut left = MOST_BYTES;
        for (path, address) in named {
            let picture = self.picture(path, address, left).await?;
            left -= (picture.source.bytes.len() as u64).min(left);
            found.push(picture);
        }
        Ok(found)
    }

    async fn picture(&self, path: &str, address: &str, most: u64) -> Result<Found, Error> {
        let source = self
            .bytes(path, address, MediaKind::Image, PICTURES, most)
            .await?;
        let size = picture::dimensions(&source.bytes).map_err(|error| invalid(path, &error.to_string()))?;
        let facts = Facts {
            mime_type: source.mime_type.to_string(),
            width: Some(size.width),
            height: Some(size.height),
            duration: None,
        };
        Ok(Found {
            path: path.to_owned(),
            source,
            facts,
        })
    }

    /// A film that is at most so large.
    pub(crate) async fn film(
        &self,
        tools: &Tools,
        path: &str,
        address: &str,
        most: u64,
    ) -> Result<Found, Error> {
        let source = self.bytes(path, address, MediaKind::Video, FILMS, most).await?;
        let (_, probe) = looked_at(tools, path, &source).await?;
        let seen = probe.film().map_err(|error| unreadable(path, error))?;
        let facts = Facts {
            mime_type: source.mime_type.to_string(),
            width: Some(seen.size.width),
            height: Some(seen.size.height),
            duration: Some(seen.duration),
        };
        Ok(Found {
            path: path.to_owned(),
            source,
            facts,
        })
    }

    /// A recording that is at most so large.
    pub(crate) async fn sound(
        &self,
        tools: &Tools,
        path: &str,
        address: &str,
        most: u64,
    ) -> Result<Found, Error> {
        let source = self.bytes(path, address, MediaKind::Audio, SOUNDS, most).await?;
        let (_, probe) = looked_at(tools, path, &source).await?;
        let heard = probe.audio.ok_or_else(|| invalid(path, "has no sound"))?;
        let facts = Facts {
            mime_type: source.mime_type.to_string(),
            duration: Some(heard.duration),
            ..Facts::default()
        };
        Ok(Found {
            path: path.to_owned(),
            source,
            facts,
        })
    }

    /// The bytes that a `data:` address holds, that were made here, or that are at an address anywhere.
    async fn bytes(
        &self,
        path: &str,
        address: &str,
        kind: MediaKind,
        types: &'static [&'static str],
        most: u64,
    ) -> Result<Source, Error> {
        let refused = |error: FetchError| invalid(path, &error.to_string());
        if let Some(data) = address.strip_prefix("data:") {
            let (_, text) = data.split_once(";base64,").ok_or_else(|| {
                invalid(
                    path,
                    "is no data URL with base64, such as data:image/png;base64,…",
                )
            })?;
            let bytes = STANDARD
                .decode(text.trim())
                .map_err(|_| invalid(path, "is not base64"))?;
            if bytes.len() as u64 > most.min(kind.most_bytes()) {
                return Err(refused(FetchError::TooLarge));
            }
            let mime_type = mime_of(&bytes, types).ok_or_else(|| refused(FetchError::WrongType))?;
            return Ok(Source {
                bytes: bytes.into(),
                mime_type: mime_type.into(),
            });
        }
        if let Some(own) = self.named_here(path, address, types).await? {
            return Ok(own);
        }
        let request = FetchRequest {
            url: address,
            kind,
            most_bytes: most.max(1),
            media_types: types,
        };
        let fetched = self
            .pipeline
            .media
            .fetcher
            .fetch(&request)
            .await
            .map_err(refused)?;
        Ok(Source {
            bytes: fetched.bytes,
            mime_type: fetched.media_type.into(),
        })
    }

    /// What an address of this service names; nothing when it is another's.
    pub(crate) async fn named_here(
        &self,
        path: &str,
        address: &str,
        types: &[&str],
    ) -> Result<Option<Source>, Error> {
        match self.own(address) {
            Some(own) => self.made_here(path, own, types).await.map(Some),
            None => Ok(None),
        }
    }

    /// Id and query of an address of this service.
    fn own<'t>(&self, address: &'t str) -> Option<(MediaId, &'t str)> {
        let rest = address.strip_prefix(self.origin)?.strip_prefix("/v1/media/")?;
        let (id, query) = rest.split_once('?').unwrap_or((rest, ""));
        Some((id.parse().ok()?, query))
    }

    /// Only what the caller owns, by an address that is signed, as anybody would have to have one.
    async fn made_here(
        &self,
        path: &str,
        (id, query): (MediaId, &str),
        types: &[&str],
    ) -> Result<Source, Error> {
        let refused = || invalid(path, &FetchError::Unreachable.to_string());
        let now = self.shelf.clock.now();
        let is_signed = self.shelf.addresses.verify(self.account, id, query, now).is_ok();
        if !is_signed {
            return Err(refused());
        }
        let read = self.shelf.read(self.account, id).await;
        let (media, bytes) = read.map_err(|error| unavailable(&error))?.ok_or_else(refused)?;
        if !types.contains(&media.mime_type.as_str()) {
            return Err(invalid(path, &FetchError::WrongType.to_string()));
        }
        Ok(Source {
            bytes,
            mime_type: media.mime_type.into(),
        })
    }

    /// Keeps what was found for as long as the job may last.
    pub(crate) async fn keep(&self, request: RequestId, found: Vec<Found>) -> Result<Vec<Media>, Error> {
        let mut kept = Vec::with_capacity(found.len());
        for one in found {
            let content = blob::whole(one.source.bytes);
            let source = request.as_u128();
            match self
                .shelf
                .keep(self.account, content, one.facts, source, INPUT_KEPT)
                .await
            {
                Ok(media) => kept.push(media),
                Err(error) => {
                    self.shelf.discard(&kept).await;
                    tracing::warn!(param = %one.path, %error, "cannot keep what goes into a job");
                    return Err(unavailable(&error));
                }
            }
        }
        Ok(kept)
    }
}

/// What bytes begin like, of these types.
fn mime_of(bytes: &[u8], types: &[&'static str]) -> Option<&'static str> {
    let begins = |at: usize, with: &[u8]| bytes.get(at..at + with.len()) == Some(with);
    let found = match picture::Encoding::of(bytes) {
        Some(encoding) => vec![encoding.mime_type()],
        None if begins(4, b"ftyp") => vec!["video/mp4", "audio/mp4"],
        None if begins(0, b"\x1a\x45\xdf\xa3") => vec!["video/webm"],
        None if begins(0, b"RIFF") && begins(8, b"WAVE") => vec!["audio/wav"],
        None if begins(0, b"fLaC") => vec!["audio/flac"],
        None if begins(0, b"OggS") => vec!["audio/ogg"],
        None if begins(0, b"ID3") || begins(0, b"\xff\xfb") => vec!["audio/mpeg"],
        None => Vec::new(),
    };
    found.into_iter().find(|mime| types.contains(mime))
}

/// What is in a film or a recording, and the folder in which it lies as `input`.
pub(crate) async fn looked_at(tools: &Tools, path: &str, source: &Source) -> Result<(Scratch, Probe), Error> {
    let scratch = Scratch::make().map_err(|error| unreadable(path, error))?;
    let written = tokio::fs::write(scratch.file(INPUT), &source.bytes).await;
    written.map_err(|error| Error::internal(error.to_string()))?;
    let probe = tools.probe(&scratch.file(INPUT)).await;
    Ok((scratch, probe.map_err(|error| unreadable(path, error))?))
}

/// What a caller is told of something that cannot be read.
pub(crate) fn unreadable(path: &str, error: StudioError) -> Error {
    match error {
        StudioError::Input(what) | StudioError::TooLarge(what) => invalid(path, &what),
        StudioError::Missing(_) | StudioError::NoFont => {
            let message =
                "This service cannot read films and recordings at the moment: a program for that is missing.";
            Error::new(ErrorCode::ModelUnavailable, message)
                .with_param(path)
                .with_source(error.to_string())
        }
        StudioError::Failed(..) | StudioError::TooSlow(..) | StudioError::Unfit(_) => {
            tracing::info!(%error, "what a caller sends cannot be read");
            invalid(path, "cannot be read")
        }
        StudioError::File(error) => Error::internal(error.to_string()),
    }
}

/// What was kept for a job; nothing when it is not there any more.
pub(crate) async fn kept(shelf: &Shelf, account: AccountId, id: MediaId) -> Result<Source, Error> {
    let read = shelf
        .read(account, id)
        .await
        .map_err(|error| unavailable(&error))?;
    let (media, bytes): (Media, Bytes) =
        read.ok_or_else(|| Error::internal(format!("{id}, which goes into a job, is gone")))?;
    Ok(Source {
        bytes,
        mime_type: Arc::from(media.mime_type),
    })
}
