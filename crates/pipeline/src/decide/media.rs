//! Media of a state: fetched, looked at and counted before anything is held, so that what is charged is known.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tollgate_types::Error;
use tollgate_types::decide::{State, StateMedia, StateMediaKind};
use tollgate_upstream::{FetchError, FetchRequest, Measure, MediaKind};

use crate::Pipeline;
use crate::media::refusal;

/// The most bytes of all media of a state: as many as may stand in a request, and a few films besides.
const MOST_BYTES: u64 = 256 << 20;
/// A picture is at most so long on its longer side for its tokens.
const LONGEST_SIDE: u32 = 1_568;
/// A picture has a token for each square of so many pixels on a side.
const PATCH: u32 = 28;
/// Tokens of a second of sound.
const SOUND: u64 = 32;
/// Tokens of a second of film, without its sound.
const FILM: u64 = 258;
/// Bytes in a second of what nobody can measure: 64 kbit/s of sound, 1 Mbit/s of film.
const BYTES_PER_SECOND: (u64, u64) = (8_000, 125_000);

const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/webp"];
const SOUNDS: &[&str] = &[
    "audio/mpeg",
    "audio/wav",
    "audio/flac",
    "audio/ogg",
    "audio/mp4",
    "audio/aac",
];
const FILMS: &[&str] = &["video/mp4", "video/webm"];

impl Pipeline {
    /// The state with the bytes of its media in the place of their addresses, and their tokens.
    pub(super) async fn with_media(&self, state: &State) -> Result<(State, u64), Error> {
        let mut found = Vec::with_capacity(state.media.len());
        let (mut tokens, mut left) = (0_u64, MOST_BYTES);
        for medium in &state.media {
            let (media_type, bytes) = self.bytes_of(medium, left).await?;
            left -= (bytes.len() as u64).min(left);
            let measured = self.media.gauge.measure(medium.kind.into(), &bytes).await;
            let measure = measured.map_err(|error| refusal(&medium.param, error))?;
            tokens = tokens.saturating_add(tokens_of(medium.kind, measure, bytes.len() as u64));
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

    async fn bytes_of(&self, medium: &StateMedia, left: u64) -> Result<(String, Bytes), Error> {
        let kind = MediaKind::from(medium.kind);
        let refused = |error| refusal(&medium.param, error);
        if let Some(data) = medium.url.strip_prefix("data:") {
            let (media_type, text) = data
                .split_once(";base64,")
                .ok_or_else(|| refused(FetchError::WrongType))?;
            let bytes = STANDARD
                .decode(text.trim())
                .map_err(|_| refused(FetchError::WrongType))?;
            if bytes.len() as u64 > kind.most_bytes().min(left) {
                return Err(refused(FetchError::TooLarge));
            }
            return Ok((media_type.to_owned(), bytes.into()));
        }
        let request = FetchRequest {
            url: &medium.url,
            kind,
            most_bytes: left.max(1),
            media_types: types_of(medium.kind),
        };
        let fetched = self.media.fetcher.fetch(&request).await.map_err(refused)?;
        Ok((fetched.media_type.to_owned(), fetched.bytes))
    }
}

fn types_of(kind: StateMediaKind) -> &'static [&'static str] {
    match kind {
        StateMediaKind::Image => PICTURES,
        StateMediaKind::Audio => SOUNDS,
        StateMediaKind::Video => FILMS,
    }
}

/// What a medium counts as, whatever the model and the way.
fn tokens_of(kind: StateMediaKind, measure: Measure, bytes: u64) -> u64 {
    match (measure, kind) {
        (Measure::Picture { width, height }, _) => tokens_of_picture(width, height),
        (Measure::Sound(duration), _) => started_seconds(duration) * SOUND,
        (Measure::Film { duration, has_sound }, _) => {
            let sound = if has_sound { SOUND } else { 0 };
            started_seconds(duration) * (FILM + sound)
        }
        (Measure::Unknown, StateMediaKind::Video) => bytes.div_ceil(BYTES_PER_SECOND.1) * (FILM + SOUND),
        (Measure::Unknown, _) => bytes.div_ceil(BYTES_PER_SECOND.0) * SOUND,
    }
}

/// A second that has begun counts.
fn started_seconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000_000)).unwrap_or(u64::MAX >> 16)
}

fn tokens_of_picture(width: u32, height: u32) -> u64 {
    let longest = width.max(height).max(1);
    let scaled = |side: u32| match longest > LONGEST_SIDE {
        true => u64::from(side) * u64::from(LONGEST_SIDE) / u64::from(longest),
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
            assert_eq!(tokens_of_picture(width, height), tokens, "{width}x{height}");
        }
        let film = |has_sound| Measure::Film {
            duration: Duration::from_millis(2_001),
            has_sound,
        };
        let second = Measure::Sound(Duration::from_secs(1));
        assert_eq!(tokens_of(StateMediaKind::Video, film(false), 9), 3 * 258);
        assert_eq!(tokens_of(StateMediaKind::Video, film(true), 9), 3 * 290);
        assert_eq!(tokens_of(StateMediaKind::Audio, second, 9), 32);
        assert_eq!(tokens_of(StateMediaKind::Audio, Measure::Unknown, 8_001), 64);
        assert_eq!(tokens_of(StateMediaKind::Video, Measure::Unknown, 1), 290);
    }
}
