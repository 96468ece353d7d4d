//! Speech by an upstream: synthesis and transcription.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_types::{Error, Usage};

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::generation::{ContentStream, Source};

/// Encoding of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AudioFormat {
    /// MPEG audio layer III, media type `audio/mpeg`.
    Mp3,
    /// Opus in Ogg.
    Opus,
    /// AAC with ADTS headers.
    Aac,
    /// FLAC: lossless, media type `audio/flac`.
    Flac,
    /// WAV with 16-bit samples.
    Wav,
    /// Raw 16-bit samples at 24 kHz, little-endian, without a header.
    Pcm,
}

impl AudioFormat {
    /// All audio formats.
    pub const ALL: [AudioFormat; 6] = [
        AudioFormat::Mp3,
        AudioFormat::Opus,
        AudioFormat::Aac,
        AudioFormat::Flac,
        AudioFormat::Wav,
        AudioFormat::Pcm,
    ];

    /// Returns the name in the API, such as `mp3`.
    pub const fn as_str(self) -> &'static str {
        match self {
            AudioFormat::Mp3 => "mp3",
            AudioFormat::Opus => "opus",
            AudioFormat::Aac => "aac",
            AudioFormat::Flac => "flac",
            AudioFormat::Wav => "wav",
            AudioFormat::Pcm => "pcm",
        }
    }

    /// Returns the format with this API name; `None` if unknown.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// Returns the media type, such as `audio/mpeg`.
    pub const fn mime_type(self) -> &'static str {
        match self {
            AudioFormat::Mp3 => "audio/mpeg",
            AudioFormat::Opus => "audio/ogg",
            AudioFormat::Aac => "audio/aac",
            AudioFormat::Flac => "audio/flac",
            AudioFormat::Wav => "audio/wav",
            AudioFormat::Pcm => "audio/pcm",
        }
    }
}

/// A request for speech synthesis.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeechCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Text to speak.
    pub input: Arc<str>,
    /// The model's name of the voice.
    pub voice: Arc<str>,
    /// Whether `voice` is the id of a custom voice that the operator created at the provider.
    pub has_own_voice: bool,
    /// Style instructions, for models that support them.
    pub instructions: Option<Arc<str>>,
    /// Encoding that the caller requested.
    pub format: AudioFormat,
    /// Speed from 0.25 to 4, where 1 is normal. `None` selects the model's default.
    pub speed: Option<f64>,
}

/// Response to a speech request.
pub struct SpeechAnswer {
    /// Audio in the requested format.
    pub audio: AudioContent,
    /// Usage reported by the upstream; `None` if it reported none. The gateway counts characters
    /// itself.
    pub usage: Option<Usage>,
}

/// Audio bytes, complete or streamed.
pub enum AudioContent {
    /// The whole recording.
    Whole(Bytes),
    /// Chunks, while the upstream generates them.
    Stream(ContentStream),
}

/// Port for speech synthesis.
#[async_trait]
pub trait SpeechProvider: Send + Sync {
    /// Sends the request once and returns when the audio starts. Errors state whether any byte was
    /// sent.
    async fn speak(&self, ctx: &CallContext, call: &SpeechCall) -> Result<SpeechAnswer, UpstreamError>;
}

/// Output format of a transcript. The gateway writes every format itself; the format determines
/// which data the upstream must return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TranscriptFormat {
    /// A JSON object with the text.
    Json,
    /// The text without markup.
    Text,
    /// A JSON object with text, language and timestamps.
    VerboseJson,
    /// Subtitles in SubRip format (`.srt`).
    Srt,
    /// Subtitles in WebVTT format (`.vtt`).
    Vtt,
}

impl TranscriptFormat {
    /// All transcript formats.
    pub const ALL: [TranscriptFormat; 5] = [
        TranscriptFormat::Json,
        TranscriptFormat::Text,
        TranscriptFormat::VerboseJson,
        TranscriptFormat::Srt,
        TranscriptFormat::Vtt,
    ];

    /// Returns the name in the API, such as `verbose_json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            TranscriptFormat::Json => "json",
            TranscriptFormat::Text => "text",
            TranscriptFormat::VerboseJson => "verbose_json",
            TranscriptFormat::Srt => "srt",
            TranscriptFormat::Vtt => "vtt",
        }
    }

    /// Returns the format with this API name; `None` if unknown.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// Whether the format contains timestamps.
    pub const fn is_timed(self) -> bool {
        !matches!(self, TranscriptFormat::Json | TranscriptFormat::Text)
    }
}

/// Requested granularity of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// Timestamps of segments.
    pub segments: bool,
    /// Timestamps of words.
    pub words: bool,
}

/// A request for a transcription.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptionCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Recording to transcribe.
    pub audio: Source,
    /// Duration of the recording, if the gateway could measure it.
    pub duration: Option<Duration>,
    /// The caller's file name. Its extension may indicate the format.
    pub filename: Arc<str>,
    /// Spoken language, as an ISO 639-1 code.
    pub language: Option<Arc<str>>,
    /// Preceding text or spelling hints for the model.
    pub prompt: Option<Arc<str>>,
    /// Sampling temperature, from 0 to 1.
    pub temperature: Option<f64>,
    /// Output format that the caller requested.
    pub format: TranscriptFormat,
    /// Requested granularity of timestamps.
    pub timestamps: Timestamps,
    /// Whether to translate the speech to English.
    pub translate: bool,
}

/// A transcript of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// Text of the whole recording.
    pub text: String,
    /// Detected language, as the upstream names it.
    pub language: Option<String>,
    /// Duration of the recording, as reported by the upstream.
    pub duration: Option<Duration>,
    /// Segments, if returned by the upstream. Subtitles are written from these segments.
    pub segments: Vec<Segment>,
    /// Words, if requested and returned by the upstream.
    pub words: Vec<Word>,
    /// Tokens reported by the upstream; `None` if it reported none. The seconds follow from
    /// `duration`.
    pub usage: Option<Usage>,
}

/// A segment of a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    /// Start time in the recording, in seconds.
    pub start: f64,
    /// End time in the recording, in seconds.
    pub end: f64,
    /// Text of the segment.
    pub text: String,
    /// Seek position in the recording, in hundredths of a second.
    pub seek: u64,
    /// Token ids of the text.
    pub tokens: Vec<u32>,
    /// Sampling temperature of the segment.
    pub temperature: f64,
    /// Mean log probability of the tokens.
    pub avg_logprob: f64,
    /// Compression ratio of the text; high values indicate repetition.
    pub compression_ratio: f64,
    /// Probability that the segment contains no speech.
    pub no_speech_prob: f64,
}

/// A word of a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Word {
    /// Text of the word.
    pub word: String,
    /// Start time in the recording, in seconds.
    pub start: f64,
    /// End time in the recording, in seconds.
    pub end: f64,
}

/// Port for transcription.
#[async_trait]
pub trait TranscribeProvider: Send + Sync {
    /// Returns `UnsupportedParameter`, naming the parameter of the gateway's API, if the upstream
    /// cannot represent the call.
    fn check(&self, call: &TranscriptionCall) -> Result<(), Error> {
        let _ = call;
        Ok(())
    }

    /// Sends a recording once and returns the complete transcript. Errors state whether any byte
    /// was sent.
    async fn transcribe(
        &self,
        ctx: &CallContext,
        call: &TranscriptionCall,
    ) -> Result<Transcript, UpstreamError>;
}
