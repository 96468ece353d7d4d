//! Handles of jobs that end later. A handle contains the complete input of the job, so that any
//! process can complete it. The clock determines the job's state.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_media_tools::memory::with_pixels;
use tollgate_media_tools::{Dimensions, Encoding, Image, Sketch};
use tollgate_types::{ErrorCode, Retry, Timestamp};
use tollgate_upstream::{GenerationState, Source, UpstreamCause, UpstreamError, UpstreamErrorKind};

use super::failure;
use super::grammar::{self, Cut, Script};

/// Maximum difference between the clocks of two nodes.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);
/// Poll interval, unless the script sets one or the job ends earlier.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of stored cancellations.
const MAX_CANCELLED: usize = 1_024;
/// Maximum number of characters of a stored prompt. The prompt is drawn on the image and selects
/// its motif.
const MAX_TITLE_CHARS: usize = 200;
/// JPEG quality of images in handles.
const JPEG_QUALITY: u8 = 70;

/// Outcome of a job, as selected by the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    #[serde(rename = "made")]
    Succeeded,
    Lost,
    Blocked,
}

/// An accepted submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ticket<W> {
    #[serde(rename = "begun")]
    started_at: Timestamp,
    delay_ms: u64,
    #[serde(rename = "fate")]
    outcome: Outcome,
    /// Code of the error with which the job ends, if any.
    error: Option<String>,
    /// Hash of the submission's idempotency key.
    key: u64,
    /// Parameters of the image or video.
    pub(super) work: W,
}

impl<W: Serialize + DeserializeOwned> Ticket<W> {
    pub(super) fn new(script: &Script, key: &str, started_at: Timestamp, work: W) -> Self {
        let fails = matches!(script.cut, Some(Cut::BeforeUsage | Cut::BeforeEnd));
        let code = script.error.unwrap_or(ErrorCode::UpstreamError);
        Self {
            started_at,
            delay_ms: u64::try_from(script.delay.as_millis()).unwrap_or(u64::MAX),
            outcome: match script.cut {
                Some(Cut::After(_)) => Outcome::Lost,
                _ if script.refuse => Outcome::Blocked,
                _ => Outcome::Succeeded,
            },
            error: fails.then(|| code.as_str().to_owned()),
            key: hash(&[key.as_bytes()]),
            work,
        }
    }

    /// Decodes a handle. Only the simulator creates these handles, so a malformed handle was stored
    /// incorrectly.
    pub(super) fn read(handle: &[u8]) -> Result<Self, UpstreamError> {
        serde_json::from_slice(handle).map_err(|error| {
            UpstreamError::protocol(format!("the job handle is not from the simulator: {error}"))
        })
    }

    pub(super) fn handle(&self) -> Result<Vec<u8>, UpstreamError> {
        serde_json::to_vec(self).map_err(|error| UpstreamError::protocol(error.to_string()))
    }

    /// Returns the delay before the next poll.
    pub(super) fn poll_after(&self, script: &Script) -> Duration {
        let pace = if script.pace.is_zero() {
            POLL_INTERVAL
        } else {
            script.pace
        };
        pace.min(Duration::from_millis(self.delay_ms))
    }

    /// Returns the state of the job; `None` if it has succeeded.
    pub(super) fn state(&self, now: Timestamp) -> Option<GenerationState> {
        if self.outcome == Outcome::Lost {
            return Some(GenerationState::Lost);
        }
        // The job starts in the future if the clock was set back. The elapsed time is then unknown,
        // and the job counts as ended.
        let elapsed = match self.started_at > now.plus(CLOCK_TOLERANCE) {
            true => u128::from(self.delay_ms),
            false => now.since(self.started_at).as_millis(),
        };
        if elapsed < u128::from(self.delay_ms) {
            let percent = elapsed * 100 / u128::from(self.delay_ms);
            return Some(GenerationState::Running {
                percent: u8::try_from(percent).ok(),
            });
        }
        if let Some(code) = self.error.as_deref().and_then(ErrorCode::parse) {
            return Some(GenerationState::Failed(failure::requested(code)));
        }
        (self.outcome == Outcome::Blocked).then_some(GenerationState::Blocked)
    }
}

/// Splits a prompt into its script and the rest. A script with `error` but without `cut` fails the
/// submission.
pub(super) fn script(prompt: &str) -> Result<(Script, String), UpstreamError> {
    let (script, user_text) = grammar::read(prompt).map_err(|wrong| UpstreamError {
        param: Some("prompt".to_owned()),
        ..failure::simulated(ErrorCode::InvalidParameter, wrong)
    })?;
    match (script.error, script.cut) {
        (Some(code), None) => Err(failure::requested(code)),
        _ => Ok((script, user_text)),
    }
}

/// Returns the start of a prompt, up to [`MAX_TITLE_CHARS`] characters.
pub(super) fn title(user_text: &str) -> String {
    user_text.chars().take(MAX_TITLE_CHARS).collect()
}

/// Hashes these parts (FNV-1a).
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    let of_part = |hash: u64, part: &&[u8]| mix(part.iter().fold(hash, mix), &0xFF);
    parts.iter().fold(0xCBF2_9CE4_8422_2325, of_part)
}

/// Hashes of the handles of jobs that were cancelled while running: the newest [`MAX_CANCELLED`] of
/// this process.
#[derive(Debug, Default)]
pub(super) struct Cancelled {
    handles: Mutex<VecDeque<u64>>,
}

impl Cancelled {
    pub(super) fn add(&self, handle: &[u8]) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.truncate(MAX_CANCELLED - 1);
        handles.push_front(hash(&[handle]));
    }

    pub(super) fn has(&self, handle: &[u8]) -> bool {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.contains(&hash(&[handle]))
    }
}

/// File of an input image, encoded in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct StoredImage(String);

impl StoredImage {
    /// Shrinks an image so that its longer side has at most `longest` pixels and its file at most
    /// `max` bytes. The file may be larger if the longer side has at most 16 pixels.
    pub(super) fn shrunk(image: &Image, longest: u32, max: usize) -> Result<Self, UpstreamError> {
        let has_transparency = image
            .rgba()
            .chunks_exact(4)
            .any(|pixel| pixel.last() != Some(&u8::MAX));
        let encoding = if has_transparency {
            Encoding::Png
        } else {
            Encoding::Jpeg(JPEG_QUALITY)
        };
        let mut side = longest;
        loop {
            let file = image
                .resized(fitting(image.size(), side))
                .encode(encoding)
                .map_err(fault)?;
            if file.len() <= max || side <= 16 {
                return Ok(Self(STANDARD.encode(file)));
            }
            side = side * 2 / 3;
        }
    }

    pub(super) fn image(&self) -> Result<Image, UpstreamError> {
        let file = STANDARD.decode(&self.0);
        let file = file.map_err(|error| UpstreamError::protocol(error.to_string()))?;
        Image::decode(&file).map_err(fault)
    }
}

/// Returns the size with the same aspect ratio whose longer side has at most `longest` pixels.
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

/// Decodes an image of a call.
pub(super) fn decode(source: &Source, param: &str) -> Result<Image, UpstreamError> {
    Image::decode(&source.bytes).map_err(|error| rejected(error, param))
}

/// Decodes an image and removes the simulator's banner, so that a new banner does not cover the old
/// one.
pub(super) fn decode_without_banner(source: &Source, param: &str) -> Result<Image, UpstreamError> {
    let image = decode(source, param)?;
    Ok(Sketch::without_banner(&image).unwrap_or(image))
}

/// Converts an error of the media tools. An invalid or too large input is an error of the parameter
/// `param`.
pub(super) fn rejected(error: tollgate_media_tools::Error, param: &str) -> UpstreamError {
    use tollgate_media_tools::Error;
    match error {
        Error::Input(what) | Error::TooLarge(what) => UpstreamError {
            param: Some(param.to_owned()),
            retry: Retry::Never,
            ..UpstreamError::new(
                UpstreamErrorKind::Rejected,
                UpstreamCause::Status,
                format!("the input {what}"),
            )
        },
        error => fault(error),
    }
}

/// Converts an error of the media tools that the caller did not cause.
pub(super) fn fault(error: tollgate_media_tools::Error) -> UpstreamError {
    match error {
        tollgate_media_tools::Error::Missing(_) => UpstreamError::connect(error.to_string()),
        error => UpstreamError::protocol(error.to_string()),
    }
}

/// Runs CPU-bound drawing work of `pixels` pixels outside the async runtime.
pub(super) async fn draw_blocking<T: Send + 'static>(
    pixels: u64,
    work: impl FnOnce() -> Result<T, UpstreamError> + Send + 'static,
) -> Result<T, UpstreamError> {
    with_pixels(pixels, work).await.map_err(fault)?
}
