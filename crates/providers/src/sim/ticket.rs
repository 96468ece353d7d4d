//! What is made later, in a handle: it has all that is needed to make it, so another process can, and what becomes of it
//! follows from the clock.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_studio::{Dimensions, Encoding, Picture};
use tollgate_types::{ErrorCode, Retry, Timestamp};
use tollgate_upstream::{Source, State, UpstreamCause, UpstreamError, UpstreamErrorKind};

use super::failure;
use super::grammar::{self, Cut, Script};

/// When to ask again, unless it is made earlier.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How many that were cancelled are remembered.
const REMEMBERED: usize = 1_024;
/// How much of a prompt is kept: what stands on the picture, and what chooses its motif.
const TITLE: usize = 200;
/// The quality of pictures in handles.
const QUALITY: u8 = 70;

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    Made,
    Lost,
    Blocked,
}

/// A submission that was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ticket<W> {
    begun: Timestamp,
    delay_ms: u64,
    fate: Fate,
    /// The error that it ends with instead.
    error: Option<String>,
    /// Stands for the key of the submission.
    key: u64,
    /// What is to be made.
    pub(super) work: W,
}

impl<W: Serialize + DeserializeOwned> Ticket<W> {
    pub(super) fn new(script: &Script, key: &str, begun: Timestamp, work: W) -> Self {
        let fails = matches!(script.cut, Some(Cut::BeforeUsage | Cut::BeforeEnd));
        let code = script.error.unwrap_or(ErrorCode::UpstreamError);
        Self {
            begun,
            delay_ms: u64::try_from(script.delay.as_millis()).unwrap_or(u64::MAX),
            fate: match script.cut {
                Some(Cut::After(_)) => Fate::Lost,
                _ if script.refuse => Fate::Blocked,
                _ => Fate::Made,
            },
            error: fails.then(|| code.as_str().to_owned()),
            key: hash(&[key.as_bytes()]),
            work,
        }
    }

    /// The ticket of a handle. Handles are ours: another one is a fault of whoever keeps them.
    pub(super) fn read(handle: &[u8]) -> Result<Self, UpstreamError> {
        serde_json::from_slice(handle).map_err(|error| {
            UpstreamError::protocol(format!("the handle is not one of the simulator: {error}"))
        })
    }

    pub(super) fn handle(&self) -> Result<Vec<u8>, UpstreamError> {
        serde_json::to_vec(self).map_err(|error| UpstreamError::protocol(error.to_string()))
    }

    /// When to ask first, or again.
    pub(super) fn poll_after(&self, script: &Script) -> Duration {
        let pace = if script.pace.is_zero() {
            ASK_AGAIN
        } else {
            script.pace
        };
        pace.min(Duration::from_millis(self.delay_ms))
    }

    /// How it goes; nothing when it is made.
    pub(super) fn state(&self, now: Timestamp) -> Option<State> {
        if self.fate == Fate::Lost {
            return Some(State::Lost);
        }
        let elapsed = now.since(self.begun).as_millis();
        if elapsed < u128::from(self.delay_ms) {
            let percent = elapsed * 100 / u128::from(self.delay_ms);
            return Some(State::Running {
                percent: u8::try_from(percent).ok(),
            });
        }
        if let Some(code) = self.error.as_deref().and_then(ErrorCode::parse) {
            return Some(State::Failed(failure::asked_for(code)));
        }
        (self.fate == Fate::Blocked).then_some(State::Blocked)
    }
}

/// The script of a prompt and what it says beside; the error that was asked for.
pub(super) fn script(prompt: &str) -> Result<(Script, String), UpstreamError> {
    let (script, said) = grammar::read(prompt).map_err(|wrong| UpstreamError {
        param: Some("prompt".to_owned()),
        ..failure::simulated(ErrorCode::InvalidParameter, wrong)
    })?;
    match (script.error, script.cut) {
        (Some(code), None) => Err(failure::asked_for(code)),
        _ => Ok((script, said)),
    }
}

/// The beginning of a prompt.
pub(super) fn title(said: &str) -> String {
    said.chars().take(TITLE).collect()
}

/// A number that stands for these (FNV-1a).
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    let of_part = |hash: u64, part: &&[u8]| mix(part.iter().fold(hash, mix), &0xFF);
    parts.iter().fold(0xCBF2_9CE4_8422_2325, of_part)
}

/// Which were cancelled while they were made. Another process does not know of them.
#[derive(Debug, Default)]
pub(super) struct Cancelled {
    handles: Mutex<VecDeque<u64>>,
}

impl Cancelled {
    pub(super) fn add(&self, handle: &[u8]) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.truncate(REMEMBERED - 1);
        handles.push_front(hash(&[handle]));
    }

    pub(super) fn has(&self, handle: &[u8]) -> bool {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.contains(&hash(&[handle]))
    }
}

/// A picture that goes into what is made, as a file in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Kept(String);

impl Kept {
    /// A smaller copy of a picture: its longer side and the bytes of its file are at most these.
    pub(super) fn small(picture: &Picture, longest: u32, most: usize) -> Result<Self, UpstreamError> {
        let is_clear = picture
            .rgba()
            .chunks_exact(4)
            .any(|pixel| pixel.last() != Some(&u8::MAX));
        let encoding = if is_clear {
            Encoding::Png
        } else {
            Encoding::Jpeg(QUALITY)
        };
        let mut side = longest;
        loop {
            let file = picture
                .resized(fitting(picture.size(), side))
                .encode(encoding)
                .map_err(fault)?;
            if file.len() <= most || side <= 16 {
                return Ok(Self(STANDARD.encode(file)));
            }
            side = side * 2 / 3;
        }
    }

    pub(super) fn picture(&self) -> Result<Picture, UpstreamError> {
        let file = STANDARD.decode(&self.0);
        let file = file.map_err(|error| UpstreamError::protocol(error.to_string()))?;
        Picture::decode(&file).map_err(fault)
    }
}

/// The size with this longer side at most, in the same proportions.
fn fitting(size: Dimensions, longest: u32) -> Dimensions {
    let side = size.width.max(size.height).max(1);
    let scaled = |length: u32| {
        let scaled = u64::from(length) * u64::from(longest) / u64::from(side);
        u32::try_from(scaled).unwrap_or(longest).max(1)
    };
    match side <= longest {
        true => size,
        false => Dimensions::new(scaled(size.width), scaled(size.height)),
    }
}

/// A picture of a call.
pub(super) fn decode(source: &Source, param: &str) -> Result<Picture, UpstreamError> {
    Picture::decode(&source.bytes).map_err(|error| rejected(error, param))
}

/// What the studio refuses of a call.
pub(super) fn rejected(error: tollgate_studio::Error, param: &str) -> UpstreamError {
    use tollgate_studio::Error;
    match error {
        Error::Input(what) | Error::TooLarge(what) => UpstreamError {
            param: Some(param.to_owned()),
            retry: Retry::Never,
            ..UpstreamError::new(
                UpstreamErrorKind::Rejected,
                UpstreamCause::Status,
                format!("it {what}"),
            )
        },
        error => fault(error),
    }
}

/// What goes wrong in the studio besides.
pub(super) fn fault(error: tollgate_studio::Error) -> UpstreamError {
    match error {
        tollgate_studio::Error::Missing(_) => UpstreamError::connect(error.to_string()),
        error => UpstreamError::protocol(error.to_string()),
    }
}

/// Does what takes a processor for long away from those who wait.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, UpstreamError> + Send + 'static,
) -> Result<T, UpstreamError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| UpstreamError::protocol(error.to_string()))?
}
