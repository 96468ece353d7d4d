//! Media of a state: fetched, measured and counted before the hold, so that the charge is known.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tollgate_types::decide::{State, StateMedia, StateMediaKind};
use tollgate_types::{AccountId, Error};
use tollgate_upstream::{FetchError, FetchRequest, MediaKind, MediaProperties};

use crate::Pipeline;
use crate::media::{fetch_error, media_error};

/// Maximum total bytes of all media of a state, inline and fetched.
const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// Maximum length of an image's longer side in pixels. The tokens of larger images are counted as
/// if the images were scaled down to it.
const MAX_IMAGE_SIDE: u32 = 1_568;
/// Side length of the square that counts as one token, in pixels.
const PATCH: u32 = 28;
/// Number of tokens per second of audio.
const AUDIO_TOKENS_PER_SECOND: u64 = 32;
/// Number of tokens per second of video, without its audio.
const VIDEO_TOKENS_PER_SECOND: u64 = 258;
/// Assumed bytes per second of media that cannot be measured: 64 kbit/s for audio, 1 Mbit/s for
/// video.
const BYTES_PER_SECOND: (u64, u64) = (8_000, 125_000);

const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/webp"];
const AUDIO_TYPES: &[&str] = &[
    "audio/mpeg",
    "audio/wav",
    "audio/flac",
    "audio/ogg",
    "audio/mp4",
    "audio/aac",
];
const VIDEO_TYPES: &[&str] = &["video/mp4", "video/webm"];

impl Pipeline {
    /// Returns the state with its media inlined as data URLs, and the number of tokens of the
    /// media.
    pub(super) async fn with_media(&self, account: AccountId, state: &State) -> Result<(State, u64), Error> {
        let mut found = Vec::with_capacity(state.media.len());
        let (mut tokens, mut left) = (0_u64, MAX_TOTAL_BYTES);
        for medium in &state.media {
            let (media_type, bytes) = self.bytes_of(account, medium, left).await?;
            left -= (bytes.len() as u64).min(left);
            let measured = self.media.inspector.measure(medium.kind.into(), &bytes).await;
            let measure = measured.map_err(|error| media_error(&medium.param, error))?;
            tokens = tokens.saturating_add(media_tokens(medium.kind, measure, bytes.len() as u64));
            found.push(StateMedia {
                url: format!("data:{media_type};base64,{}", STANDARD.encode(&bytes)),
                ..medium.clone()
            });
        }
        let state = State {
            text: state.text.clone(),
            media: found,
        };
        Ok((state, tokens))
    }

    async fn bytes_of(
        &self,
        account: AccountId,
        medium: &StateMedia,
        left: u64,
    ) -> Result<(String, Bytes), Error> {
        let kind = MediaKind::from(medium.kind);
        let refused = |error| fetch_error(&medium.param, error);
        if let Some(data) = medium.url.strip_prefix("data:") {
            let (media_type, text) = data.split_once(";base64,").ok_or_else(|| {
                let what = "must be a base64-encoded data URL, such as data:image/png;base64,…";
                media_error(&medium.param, what)
            })?;
            let bytes = STANDARD
                .decode(text.trim())
                .map_err(|_| media_error(&medium.param, "is a data URL with invalid base64"))?;
            if bytes.len() as u64 > kind.max_bytes().min(left) {
                return Err(refused(FetchError::TooLarge));
            }
            return Ok((media_type.to_owned(), bytes.into()));
        }
        let request = FetchRequest {
            url: &medium.url,
            account: Some(account),
            kind,
            max_bytes: left.max(1),
            media_types: types_of(medium.kind),
        };
        let fetched = self.media.fetcher.fetch(&request).await.map_err(refused)?;
        Ok((fetched.media_type.to_owned(), fetched.bytes))
    }
}

fn types_of(kind: StateMediaKind) -> &'static [&'static str] {
    match kind {
        StateMediaKind::Image => IMAGE_TYPES,
        StateMediaKind::Audio => AUDIO_TYPES,
        StateMediaKind::Video => VIDEO_TYPES,
    }
}

/// Returns the number of tokens to charge for a medium, independent of model and method.
fn media_tokens(kind: StateMediaKind, measure: MediaProperties, bytes: u64) -> u64 {
    match (measure, kind) {
        (MediaProperties::Image { width, height }, _) => image_tokens(width, height),
        (MediaProperties::Audio(duration), _) => seconds_rounded_up(duration) * AUDIO_TOKENS_PER_SECOND,
        (MediaProperties::Video { duration, has_audio }, _) => {
            let audio_tokens = if has_audio { AUDIO_TOKENS_PER_SECOND } else { 0 };
            seconds_rounded_up(duration) * (VIDEO_TOKENS_PER_SECOND + audio_tokens)
        }
        (MediaProperties::Unknown, StateMediaKind::Video) => {
            bytes.div_ceil(BYTES_PER_SECOND.1) * (VIDEO_TOKENS_PER_SECOND + AUDIO_TOKENS_PER_SECOND)
        }
        (MediaProperties::Unknown, _) => bytes.div_ceil(BYTES_PER_SECOND.0) * AUDIO_TOKENS_PER_SECOND,
    }
}

/// Rounds a duration up to whole seconds.
fn seconds_rounded_up(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000_000)).unwrap_or(u64::MAX >> 16)
}

fn image_tokens(width: u32, height: u32) -> u64 {
    let longest = width.max(height).max(1);
    let scaled = |side: u32| match longest > MAX_IMAGE_SIDE {
        true => u64::from(side) * u64::from(MAX_IMAGE_SIDE) / u64::from(longest),
        false => u64::from(side),
    };
    let patches = |side: u32| scaled(side).div_ceil(u64::from(PATCH)).max(1);
    patches(width) * patches(height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_media_follow_from_their_size() {
        for (width, height, tokens) in [
            (1, 1, 1),
            (28, 28, 1),
            (29, 28, 2),
            (1_568, 1_568, 56 * 56),
            (3_136, 3_136, 56 * 56),
            (100_000, 1, 56),
        ] {
            assert_eq!(image_tokens(width, height), tokens, "{width}x{height}");
        }
        let video = |has_audio| MediaProperties::Video {
            duration: Duration::from_millis(2_001),
            has_audio,
        };
        let second = MediaProperties::Audio(Duration::from_secs(1));
        assert_eq!(media_tokens(StateMediaKind::Video, video(false), 9), 3 * 258);
        assert_eq!(media_tokens(StateMediaKind::Video, video(true), 9), 3 * 290);
        assert_eq!(media_tokens(StateMediaKind::Audio, second, 9), 32);
        assert_eq!(
            media_tokens(StateMediaKind::Audio, MediaProperties::Unknown, 8_001),
            64
        );
        assert_eq!(
            media_tokens(StateMediaKind::Video, MediaProperties::Unknown, 1),
            290
        );
    }
}
