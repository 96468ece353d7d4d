//! Speech by an upstream: texts that are spoken, and recordings that are written down.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_types::{Error, Usage};

use crate::context::CallContext;
use crate::error::UpstreamError;
use crate::make::{ContentStream, Source};

/// How speech is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SoundFormat {
    /// MP3.
    Mp3,
    /// Opus in Ogg.
    Opus,
    /// AAC with ADTS headers.
    Aac,
    /// FLAC.
    Flac,
    /// WAV, 16 bits.
    Wav,
    /// Samples of 16 bits at 24,000 a second, the lower byte first, without any header.
    Pcm,
}

impl SoundFormat {
    /// Every format.
    pub const ALL: [SoundFormat; 6] = [
        SoundFormat::Mp3,
        SoundFormat::Opus,
        SoundFormat::Aac,
        SoundFormat::Flac,
        SoundFormat::Wav,
        SoundFormat::Pcm,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            SoundFormat::Mp3 => "mp3",
            SoundFormat::Opus => "opus",
            SoundFormat::Aac => "aac",
            SoundFormat::Flac => "flac",
            SoundFormat::Wav => "wav",
            SoundFormat::Pcm => "pcm",
        }
    }

    /// The format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// Its media type.
    pub const fn mime_type(self) -> &'static str {
        match self {
            SoundFormat::Mp3 => "audio/mpeg",
            SoundFormat::Opus => "audio/ogg",
            SoundFormat::Aac => "audio/aac",
            SoundFormat::Flac => "audio/flac",
            SoundFormat::Wav => "audio/wav",
            SoundFormat::Pcm => "audio/pcm",
        }
    }
}

/// A text to be spoken.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeechCall {
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
    /// What is said.
    pub input: Arc<str>,
    /// Who says it, as the model names its voices.
    pub voice: Arc<str>,
    /// Whether `voice` is the id of a voice that the operator has made there.
    pub has_own_voice: bool,
    /// How it is said, in words, for models that understand them.
    pub instructions: Option<Arc<str>>,
    /// How it is encoded.
    pub format: SoundFormat,
    /// How fast: 1 is usual, from 0.25 to 4. `None` leaves it to the model.
    pub speed: Option<f64>,
}

/// What was spoken.
pub struct Spoken {
    /// The sound, in the format that was asked for.
    pub sound: Sound,
    /// What the upstream says it consumed; `None` when it says nothing. Characters are counted by the gateway.
    pub usage: Option<Usage>,
}

/// The bytes of speech.
pub enum Sound {
    /// All of them.
    Whole(Bytes),
    /// As they come.
    Stream(ContentStream),
}

/// Speaks.
#[async_trait]
pub trait SpeechProvider: Send + Sync {
    /// Asks for speech, once, and answers when it begins to come. The upstream must not be called twice. Errors say whether
    /// any byte was sent.
    async fn speak(&self, ctx: &CallContext, call: &SpeechCall) -> Result<Spoken, UpstreamError>;
}

/// How a transcript is written. The gateway writes all of them; an upstream needs to know what they are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TranscriptFormat {
    /// An object with the text.
    Json,
    /// The text alone.
    Text,
    /// An object with the text, its language, and when what was said.
    VerboseJson,
    /// Subtitles as SubRip writes them.
    Srt,
    /// Subtitles as browsers read them.
    Vtt,
}

impl TranscriptFormat {
    /// Every format.
    pub const ALL: [TranscriptFormat; 5] = [
        TranscriptFormat::Json,
        TranscriptFormat::Text,
        TranscriptFormat::VerboseJson,
        TranscriptFormat::Srt,
        TranscriptFormat::Vtt,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            TranscriptFormat::Json => "json",
            TranscriptFormat::Text => "text",
            TranscriptFormat::VerboseJson => "verbose_json",
            TranscriptFormat::Srt => "srt",
            TranscriptFormat::Vtt => "vtt",
        }
    }

    /// The format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// Whether it says when what was said.
    pub const fn is_timed(self) -> bool {
        !matches!(self, TranscriptFormat::Json | TranscriptFormat::Text)
    }
}

/// Of what it is told when it was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// Of segments.
    pub segments: bool,
    /// Of words.
    pub words: bool,
}

/// A recording to be written down.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptionCall {
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
    /// The recording.
    pub audio: Source,
    /// How long it is, where the gateway knows.
    pub duration: Option<Duration>,
    /// What the caller calls it. Its ending may say what it is.
    pub filename: Arc<str>,
    /// What is spoken, as ISO 639-1 names it.
    pub language: Option<Arc<str>>,
    /// What was said before, or how words are spelled.
    pub prompt: Option<Arc<str>>,
    /// From 0 to 1: how freely the model guesses.
    pub temperature: Option<f64>,
    /// How it is to be written.
    pub format: TranscriptFormat,
    /// Of what it is told when it was said.
    pub timestamps: Timestamps,
}

/// What was said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// All of it.
    pub text: String,
    /// What was spoken, as the upstream names it.
    pub language: Option<String>,
    /// How long the recording is, as the upstream says.
    pub duration: Option<Duration>,
    /// Its parts, if the upstream tells them; always there where a timed format was asked for and something was said.
    pub segments: Vec<Segment>,
    /// Its words, if they were asked for and the upstream tells them.
    pub words: Vec<Word>,
    /// Tokens that the upstream says it consumed; `None` when it says nothing. Seconds are told by `duration`.
    pub usage: Option<Usage>,
}

/// A part of a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    /// Where it begins, in seconds.
    pub start: f64,
    /// Where it ends.
    pub end: f64,
    /// What is said.
    pub text: String,
    /// The place in the recording that the model had sought, in hundredths of a second.
    pub seek: u64,
    /// The model's tokens of it.
    pub tokens: Vec<u32>,
    /// How freely it was guessed.
    pub temperature: f64,
    /// How sure the model is: the mean logarithm of the probability of its tokens.
    pub avg_logprob: f64,
    /// How much the text repeats itself.
    pub compression_ratio: f64,
    /// How likely it is that nothing is said.
    pub no_speech_prob: f64,
}

/// A word of a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Word {
    /// The word.
    pub word: String,
    /// Where it begins, in seconds.
    pub start: f64,
    /// Where it ends.
    pub end: f64,
}

/// Writes down what is said.
#[async_trait]
pub trait TranscribeProvider: Send + Sync {
    /// Refuses what it cannot carry of a call: `UnsupportedParameter` with the parameter of the gateway's own API.
    fn check(&self, call: &TranscriptionCall) -> Result<(), Error> {
        let _ = call;
        Ok(())
    }

    /// Sends a recording, once, and answers when all of it is written down. Errors say whether any byte was sent.
    async fn transcribe(
        &self,
        ctx: &CallContext,
        call: &TranscriptionCall,
    ) -> Result<Transcript, UpstreamError>;
}
