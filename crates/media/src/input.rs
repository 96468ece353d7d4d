//! Input media of jobs. They are fetched, checked and stored when the job is accepted, so that each
//! execution of the job reads the same bytes.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tollgate_edge::members::invalid;
use tollgate_media_tools::{Error as MediaToolError, Probe, Scratch, Tools, image};
use tollgate_pipeline::Pipeline;
use tollgate_pipeline::media::fetch_error;
use tollgate_storage::{Media, blob};
use tollgate_types::{AccountId, Error, ErrorCode, MediaId, RequestId};
use tollgate_upstream::{FetchError, FetchRequest, MediaKind, Source};

use crate::jobs::unavailable;
use crate::storage::{Facts, INPUT_RETENTION, MediaStorage};

/// Maximum total size of the input images of one job, in bytes: 32 MiB.
const MAX_TOTAL_BYTES: u64 = 32 << 20;
/// Accepted media types of input images.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/webp"];

/// Accepted media types of input videos.
pub(crate) const VIDEO_TYPES: &[&str] = &["video/mp4", "video/webm"];
/// Accepted media types of input recordings.
const AUDIO_TYPES: &[&str] = &[
    "audio/mpeg",
    "audio/wav",
    "audio/flac",
    "audio/ogg",
    "audio/mp4",
    "audio/aac",
];
/// Name of the input file in the scratch folder that [`probe_input`] returns.
pub(crate) const INPUT_FILE: &str = "input";

/// A fetched input, with the path of its parameter.
pub(crate) struct FoundInput {
    pub(crate) path: String,
    pub(crate) source: Source,
    pub(crate) facts: Facts,
}

/// Fetches input media by the URLs in a request.
pub(crate) struct Finder<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) storage: &'a MediaStorage,
    pub(crate) account: AccountId,
    /// Base URL of the gateway, as the caller addressed it. URLs that begin with this base URL and
    /// `/v1/media/` refer to stored objects of the gateway.
    pub(crate) origin: &'a str,
}

impl Finder<'_> {
    /// Fetches images in the given order. `named` contains pairs of parameter path and URL. The
    /// total size of fetched images is limited to [`MAX_TOTAL_BYTES`].
    pub(crate) async fn images(&self, named: &[(String, String)]) -> Result<Vec<FoundInput>, Error> {
        let mut found = Vec::with_capacity(named.len());
        let mut left = MAX_TOTAL_BYTES;
        for (path, address) in named {
            let image = self.image(path, address, left).await?;
            left -= (image.source.bytes.len() as u64).min(left);
            found.push(image);
        }
        Ok(found)
    }

    async fn image(&self, path: &str, address: &str, max_bytes: u64) -> Result<FoundInput, Error> {
        let source = self
            .bytes(path, address, MediaKind::Image, IMAGE_TYPES, max_bytes)
            .await?;
        let size = image::dimensions(&source.bytes).map_err(|error| invalid(path, &error.to_string()))?;
        let facts = Facts {
            mime_type: source.mime_type.to_string(),
            width: Some(size.width),
            height: Some(size.height),
            duration: None,
        };
        Ok(FoundInput {
            path: path.to_owned(),
            source,
            facts,
        })
    }

    /// Fetches and probes a video. `max_bytes` limits videos from data URLs and public URLs, but
    /// not stored objects of the gateway.
    pub(crate) async fn video(
        &self,
        tools: &Tools,
        path: &str,
        address: &str,
        max_bytes: u64,
    ) -> Result<FoundInput, Error> {
        let source = self
            .bytes(path, address, MediaKind::Video, VIDEO_TYPES, max_bytes)
            .await?;
        let (_, probe) = probe_input(tools, path, &source).await?;
        let video_stream = probe.video().map_err(|error| unreadable(path, error))?;
        let facts = Facts {
            mime_type: source.mime_type.to_string(),
            width: Some(video_stream.size.width),
            height: Some(video_stream.size.height),
            duration: Some(video_stream.duration),
        };
        Ok(FoundInput {
            path: path.to_owned(),
            source,
            facts,
        })
    }

    /// Fetches and probes a recording. `max_bytes` limits recordings from data URLs and public
    /// URLs, but not stored objects of the gateway.
    pub(crate) async fn audio(
        &self,
        tools: &Tools,
        path: &str,
        address: &str,
        max_bytes: u64,
    ) -> Result<FoundInput, Error> {
        let source = self
            .bytes(path, address, MediaKind::Audio, AUDIO_TYPES, max_bytes)
            .await?;
        let (_, probe) = probe_input(tools, path, &source).await?;
        let audio_stream = probe.audio.ok_or_else(|| invalid(path, "has no audio track"))?;
        let facts = Facts {
            mime_type: source.mime_type.to_string(),
            duration: Some(audio_stream.duration),
            ..Facts::default()
        };
        Ok(FoundInput {
            path: path.to_owned(),
            source,
            facts,
        })
    }

    /// Returns the bytes of a data URL, of an object of this gateway, or of a public URL.
    /// `max_bytes` does not apply to objects of this gateway.
    async fn bytes(
        &self,
        path: &str,
        address: &str,
        kind: MediaKind,
        types: &'static [&'static str],
        max_bytes: u64,
    ) -> Result<Source, Error> {
        let refused = |error| fetch_error(path, error);
        if let Some(data) = address.strip_prefix("data:") {
            let (_, text) = data.split_once(";base64,").ok_or_else(|| {
                invalid(
                    path,
                    "must be a base64-encoded data URL, such as data:image/png;base64,…",
                )
            })?;
            let bytes = STANDARD
                .decode(text.trim())
                .map_err(|_| invalid(path, "is a data URL with invalid base64"))?;
            if bytes.len() as u64 > max_bytes.min(kind.max_bytes()) {
                return Err(refused(FetchError::TooLarge));
            }
            let mime_type = mime_of(&bytes, types).ok_or_else(|| refused(FetchError::WrongType))?;
            return Ok(Source {
                bytes: bytes.into(),
                mime_type: mime_type.into(),
            });
        }
        if let Some(own) = self.own_object(path, address, types).await? {
            return Ok(own);
        }
        let request = FetchRequest {
            url: address,
            account: Some(self.account),
            kind,
            max_bytes: max_bytes.max(1),
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

    /// Returns the stored object to which a URL of this gateway refers; `None` for other URLs.
    /// Returns an error if the signature is invalid, the object is not stored, or its media type is
    /// not in `types`.
    pub(crate) async fn own_object(
        &self,
        path: &str,
        address: &str,
        types: &[&str],
    ) -> Result<Option<Source>, Error> {
        match self.own(address) {
            Some(own) => self.read_own_object(path, own, types).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the media id and the query string of an object URL of this gateway; `None` for other
    /// URLs.
    fn own<'t>(&self, address: &'t str) -> Option<(MediaId, &'t str)> {
        let rest = address.strip_prefix(self.origin)?.strip_prefix("/v1/media/")?;
        let (id, query) = rest.split_once('?').unwrap_or((rest, ""));
        Some((id.parse().ok()?, query))
    }

    /// Reads an object of the caller's account. The URL must have a valid signature, although the
    /// account owns the object.
    async fn read_own_object(
        &self,
        path: &str,
        (id, query): (MediaId, &str),
        types: &[&str],
    ) -> Result<Source, Error> {
        let refused = || invalid(path, &FetchError::Unreachable.to_string());
        let now = self.storage.clock.now();
        let is_signed = self
            .storage
            .addresses
            .verify(self.account, id, query, now)
            .is_ok();
        if !is_signed {
            return Err(refused());
        }
        let read = self.storage.read(self.account, id).await;
        let (media, bytes) = read.map_err(|error| unavailable(&error))?.ok_or_else(refused)?;
        if !types.contains(&media.mime_type.as_str()) {
            return Err(invalid(path, &FetchError::WrongType.to_string()));
        }
        Ok(Source {
            bytes,
            mime_type: media.mime_type.into(),
        })
    }

    /// Stores the inputs for [`INPUT_RETENTION`], which is longer than the duration of any job. If
    /// one input cannot be stored, discards the inputs that were already stored.
    pub(crate) async fn store(
        &self,
        request: RequestId,
        found: Vec<FoundInput>,
    ) -> Result<Vec<Media>, Error> {
        let mut stored = Vec::with_capacity(found.len());
        for one in found {
            let content = blob::whole(one.source.bytes);
            let source = request.as_u128();
            match self
                .storage
                .store(self.account, content, one.facts, source, INPUT_RETENTION)
                .await
            {
                Ok(media) => stored.push(media),
                Err(error) => {
                    self.storage.discard(&stored).await;
                    tracing::warn!(param = %one.path, %error, "cannot store an input of a job");
                    return Err(unavailable(&error));
                }
            }
        }
        Ok(stored)
    }
}

/// Returns the media type that the first bytes of a file indicate, if it is one of `types`.
fn mime_of(bytes: &[u8], types: &[&'static str]) -> Option<&'static str> {
    let begins = |at: usize, with: &[u8]| bytes.get(at..at + with.len()) == Some(with);
    let found = match image::Encoding::of(bytes) {
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

/// Writes a video or recording to [`INPUT_FILE`] in a new scratch folder and probes the file.
/// Returns the folder and the properties of the file.
pub(crate) async fn probe_input(
    tools: &Tools,
    path: &str,
    source: &Source,
) -> Result<(Scratch, Probe), Error> {
    let scratch = Scratch::make().map_err(|error| unreadable(path, error))?;
    let written = tokio::fs::write(scratch.file(INPUT_FILE), &source.bytes).await;
    written.map_err(|error| Error::internal(error.to_string()))?;
    let probe = tools.probe(&scratch.file(INPUT_FILE)).await;
    Ok((scratch, probe.map_err(|error| unreadable(path, error))?))
}

/// Converts an error of the media tools to the error for the caller.
pub(crate) fn unreadable(path: &str, error: MediaToolError) -> Error {
    match error {
        MediaToolError::Input(what) | MediaToolError::TooLarge(what) => invalid(path, &what),
        MediaToolError::Missing(_) | MediaToolError::NoFont => {
            let message = "This server cannot read video and audio files because FFmpeg is not installed.";
            Error::new(ErrorCode::ModelUnavailable, message)
                .with_param(path)
                .with_source(error.to_string())
        }
        MediaToolError::Failed(..) | MediaToolError::TooSlow(..) | MediaToolError::UnexpectedOutput(_) => {
            tracing::info!(%error, "cannot read a caller's media file");
            invalid(path, "cannot be read")
        }
        MediaToolError::File(error) => Error::internal(error.to_string()),
    }
}

/// Returns a stored input of a job. Returns an internal error if the input is no longer stored.
pub(crate) async fn stored(storage: &MediaStorage, account: AccountId, id: MediaId) -> Result<Source, Error> {
    let read = storage
        .read(account, id)
        .await
        .map_err(|error| unavailable(&error))?;
    let (media, bytes): (Media, Bytes) =
        read.ok_or_else(|| Error::internal(format!("input {id} no longer exists")))?;
    Ok(Source {
        bytes,
        mime_type: Arc::from(media.mime_type),
    })
}
