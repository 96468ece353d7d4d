//! Fetches media by URL: images, audio, videos and documents in a prompt. URLs are untrusted, so
//! the implementation decides which hosts may be reached.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_types::AccountId;
use tollgate_types::decide::StateMediaKind;

/// Kind of media, which determines the size limit and the timeout of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// Image, such as PNG, JPEG or WebP.
    Image,
    /// Speech, music or another recording.
    Audio,
    /// Video, with or without audio.
    Video,
    /// PDF or another document.
    Document,
}

impl MediaKind {
    /// All kinds of media.
    pub const ALL: [MediaKind; 4] = [
        MediaKind::Image,
        MediaKind::Audio,
        MediaKind::Video,
        MediaKind::Document,
    ];

    /// Returns the timeout of a fetch, including redirects. For images and documents, the timeout
    /// suffices for the maximum size at 1 MiB/s; audio and video have longer timeouts.
    pub const fn fetch_timeout(self) -> Duration {
        Duration::from_secs(match self {
            MediaKind::Image | MediaKind::Document => 20,
            MediaKind::Audio => 30,
            MediaKind::Video => 60,
        })
    }

    /// Returns the maximum size of a medium, in bytes.
    pub const fn max_bytes(self) -> u64 {
        match self {
            MediaKind::Image | MediaKind::Document => 20 << 20,
            MediaKind::Audio => 25 << 20,
            MediaKind::Video => 200 << 20,
        }
    }
}

impl From<StateMediaKind> for MediaKind {
    fn from(kind: StateMediaKind) -> Self {
        match kind {
            StateMediaKind::Image => Self::Image,
            StateMediaKind::Audio => Self::Audio,
            StateMediaKind::Video => Self::Video,
        }
    }
}

/// A fetch of one URL.
#[derive(Clone, Copy, Debug)]
pub struct FetchRequest<'a> {
    /// URL as the caller wrote it.
    pub url: &'a str,
    /// Account of the caller, whose concurrent fetches are limited. `None` for a URL from a
    /// provider.
    pub account: Option<AccountId>,
    /// Expected kind of media.
    pub kind: MediaKind,
    /// Maximum size in bytes. The limit of the kind applies if it is lower.
    pub max_bytes: u64,
    /// Accepted media types, in lower case and without parameters.
    pub media_types: &'a [&'static str],
}

/// A fetched medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Content of the URL, within the size limit.
    pub bytes: Bytes,
    /// One of the accepted media types, verified against the content.
    pub media_type: &'static str,
}

/// Reason why a fetch failed. The caller sees the text, which reveals nothing about networks: the
/// text for a forbidden address is the same as for an unreachable one. The log contains the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// The scheme, port, user name or syntax of the URL is not allowed, or the port of a redirect
    /// is not.
    NotAnAddress,
    /// The host is forbidden, could not be reached, or did not return the content.
    Unreachable,
    /// The content exceeds the size limit.
    TooLarge,
    /// The fetch timed out.
    TooSlow,
    /// The content is not of an accepted media type.
    WrongType,
    /// The fetch did not start: this account, or the gateway as a whole, has too many concurrent
    /// fetches.
    Busy,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FetchError::NotAnAddress => {
                "must be an http or https URL on port 80 or 443 without a user name, and redirect only to such URLs"
            }
            FetchError::Unreachable => "cannot be fetched",
            FetchError::TooLarge => "is too large",
            FetchError::TooSlow => "took too long to fetch",
            FetchError::WrongType => "has content of an unsupported media type",
            FetchError::Busy => "was not fetched: too many fetches are running",
        })
    }
}

impl std::error::Error for FetchError {}

/// Port for fetching untrusted URLs. Dropping the future cancels the fetch.
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Fetches the content of a URL.
    async fn fetch(&self, request: &FetchRequest<'_>) -> Result<Fetched, FetchError>;
}

/// Measured properties of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaProperties {
    /// Dimensions of an image, in pixels.
    Image {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// Duration of an audio recording.
    Audio(Duration),
    /// Properties of a video.
    Video {
        /// Duration of the video.
        duration: Duration,
        /// Whether the video has an audio track.
        has_audio: bool,
    },
    /// No installed program can measure the medium.
    Unknown,
}

/// Port for measuring media.
#[async_trait]
pub trait MediaInspector: Send + Sync {
    /// Measures a medium. Returns `WrongType` if the medium is not of this kind, and `TooLarge` if
    /// it exceeds the limits of the decoder.
    async fn measure(&self, kind: MediaKind, bytes: &Bytes) -> Result<MediaProperties, FetchError>;
}
