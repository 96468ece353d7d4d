//! Audio formats, and base64 of audio in events.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tollgate_types::ErrorCode;

use super::writer::Object;
use crate::error::{BoxedError, DecodeError};
use crate::json::{Node, Path};

/// Maximum decoded size of the audio in one event: 15 MiB of base64.
pub const MAX_AUDIO_BYTES: usize = (15 << 20) / 4 * 3;

/// Encoding of mono audio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AudioFormat {
    /// 16-bit little-endian samples at 24 kHz.
    #[default]
    Pcm,
    /// G.711 µ-law at 8 kHz.
    Pcmu,
    /// G.711 A-law at 8 kHz.
    Pcma,
}

impl AudioFormat {
    const ALL: [AudioFormat; 3] = [AudioFormat::Pcm, AudioFormat::Pcmu, AudioFormat::Pcma];

    /// Returns the samples per second.
    pub const fn sample_rate(self) -> u32 {
        match self {
            AudioFormat::Pcm => 24_000,
            AudioFormat::Pcmu | AudioFormat::Pcma => 8_000,
        }
    }

    /// Returns the size of a sample: 2 for PCM, 1 for G.711.
    pub const fn bytes_per_sample(self) -> usize {
        match self {
            AudioFormat::Pcm => 2,
            AudioFormat::Pcmu | AudioFormat::Pcma => 1,
        }
    }

    /// Refuses audio that ends within a sample. [`parse`](super::parse) does not know the format of
    /// the session, so the session calls this for the audio of an event. `param` is the path of the
    /// audio in the event: `audio` for `input_audio_buffer.append`.
    pub fn check_samples(self, audio: &[u8], param: &str) -> Result<(), DecodeError> {
        if audio.len().is_multiple_of(self.bytes_per_sample()) {
            return Ok(());
        }
        Err(DecodeError::invalid(
            param,
            format!(
                "'{param}' must contain whole 16-bit samples, but has {} bytes.",
                audio.len()
            ),
        ))
    }

    /// Returns the media type of the GA dialect.
    pub const fn media_type(self) -> &'static str {
        match self {
            AudioFormat::Pcm => "audio/pcm",
            AudioFormat::Pcmu => "audio/pcmu",
            AudioFormat::Pcma => "audio/pcma",
        }
    }

    /// Returns the name of the beta dialect.
    pub const fn beta_name(self) -> &'static str {
        match self {
            AudioFormat::Pcm => "pcm16",
            AudioFormat::Pcmu => "g711_ulaw",
            AudioFormat::Pcma => "g711_alaw",
        }
    }

    /// Reads an object of the GA dialect or a name of the beta dialect.
    pub(super) fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        if let Node::Object(_) = node {
            return Self::read_object(node, path);
        }
        let name = node.word_at(&["pcm16", "g711_ulaw", "g711_alaw"], path)?;
        let named = Self::ALL.into_iter().find(|format| format.beta_name() == name);
        Ok(named.unwrap_or_default())
    }

    fn read_object(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        node.check_keys(&[&["type", "rate"]], path)?;
        let media_type = match node.get("type") {
            None => AudioFormat::Pcm.media_type(),
            Some(value) => value.word_at(&["audio/pcm", "audio/pcmu", "audio/pcma"], &path.key("type"))?,
        };
        let named = Self::ALL
            .into_iter()
            .find(|format| format.media_type() == media_type);
        let format = named.unwrap_or_default();
        if let Some(rate) = node.get("rate") {
            let only = u64::from(format.sample_rate());
            rate.integer_at(only..=only, &path.key("rate"))
                .map_err(|_| path.key("rate").invalid(format_args!("must be {only}")))?;
        }
        Ok(format)
    }

    /// Writes the members of the GA object.
    pub(super) fn write(self, object: &mut Object<'_>) {
        object.text("type", self.media_type());
        if self == AudioFormat::Pcm {
            object.number("rate", self.sample_rate());
        }
    }
}

/// Decodes the base64 text of audio; refuses more than [`MAX_AUDIO_BYTES`].
pub(super) fn decode_audio(text: &str, path: &Path<'_>) -> Result<Bytes, BoxedError> {
    // The maximum is a multiple of 3, so padding makes no difference.
    const { assert!(MAX_AUDIO_BYTES.is_multiple_of(3)) };
    if text.len() / 4 * 3 > MAX_AUDIO_BYTES {
        return Err(too_large(path));
    }
    let audio = STANDARD.decode(text);
    let refused = |_| path.invalid("must be base64 with the standard alphabet and padding");
    audio.map(Bytes::from).map_err(refused)
}

#[cold]
fn too_large(path: &Path<'_>) -> BoxedError {
    Box::new(DecodeError {
        code: ErrorCode::RequestTooLarge,
        message: format!("'{path}' must have at most 15 MiB of base64. Send smaller chunks."),
        param: Some(path.to_string()),
    })
}
