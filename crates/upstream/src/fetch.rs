//! Fetching what a caller names by its address: pictures, sound and documents in a prompt. The address is a stranger's,
//! so whoever implements the port decides which hosts may be reached at all.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_types::decide::StateMediaKind;

/// A kind of media, which decides how large it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// A film.
    Video,
    /// A document.
    Document,
}

impl MediaKind {
    /// Every kind.
    pub const ALL: [MediaKind; 4] = [
        MediaKind::Image,
        MediaKind::Audio,
        MediaKind::Video,
        MediaKind::Document,
    ];

    /// The most bytes of one.
    pub const fn most_bytes(self) -> u64 {
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

/// What is wanted from an address.
#[derive(Clone, Copy, Debug)]
pub struct FetchRequest<'a> {
    /// The address, as the caller wrote it.
    pub url: &'a str,
    /// What it is to be.
    pub kind: MediaKind,
    /// Most bytes, if that is less than the kind allows.
    pub most_bytes: u64,
    /// Media types that are of use, in lower case and without parameters.
    pub media_types: &'a [&'static str],
}

/// What was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// All of it.
    pub bytes: Bytes,
    /// One of the media types that were asked for. The bytes begin as its do.
    pub media_type: &'static str,
}

/// Why there is nothing to hand out. The text is for the caller and says nothing about any network: an address that may
/// not be reached and one where nobody answers read the same. The cause is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// Not an address that could be fetched by anybody: scheme, port, user name, or spelling. Or it redirects to such a one.
    NotAnAddress,
    /// Nothing could be had from there.
    Unreachable,
    /// There is more of it than may be.
    TooLarge,
    /// It came too slowly.
    TooSlow,
    /// It is nothing of the kind that was asked for.
    WrongType,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FetchError::NotAnAddress => {
                "must be an http or https URL on port 80 or 443, without a user name, and redirect only to such"
            }
            FetchError::Unreachable => "cannot be fetched",
            FetchError::TooLarge => "is too large",
            FetchError::TooSlow => "took too long to fetch",
            FetchError::WrongType => "is not of a type that can be used here",
        })
    }
}

impl std::error::Error for FetchError {}

/// Fetches what strangers' addresses name. Dropping the future ends it.
#[async_trait]
pub trait Fetcher: Send + Sync {
    /// The bytes at an address.
    async fn fetch(&self, request: &FetchRequest<'_>) -> Result<Fetched, FetchError>;
}

/// What a medium is like inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A picture of so many pixels.
    Picture {
        /// From left to right.
        width: u32,
        /// From top to bottom.
        height: u32,
    },
    /// Sound of this length.
    Sound(Duration),
    /// A film of this length.
    Film {
        /// How long it is.
        duration: Duration,
        /// Whether there is sound to it.
        has_sound: bool,
    },
    /// There is no program here that could tell.
    Unknown,
}

/// Looks into media.
#[async_trait]
pub trait Gauge: Send + Sync {
    /// What these bytes are. `WrongType` when they are nothing of the kind, `TooLarge` when it is larger than any is read.
    async fn measure(&self, kind: MediaKind, bytes: &Bytes) -> Result<Measure, FetchError>;
}
