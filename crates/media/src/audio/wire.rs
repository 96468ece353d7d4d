//! Request and response schemas of the OpenAPI document, and the serialization of transcripts.
//! `read` parses and validates the requests.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tollgate_billing::Charge;
use tollgate_types::Unit;
use tollgate_upstream::{Segment, Timestamps, Transcript, TranscriptFormat, Word};
use utoipa::ToSchema;

use super::subtitles::{srt, vtt};

/// A request to convert text to speech.
#[derive(Serialize, ToSchema)]
pub struct CreateSpeech {
    /// Id or alias of a speech model. GET /v1/models lists the models. If omitted, the default
    /// speech model is used.
    model: Option<String>,
    /// The text to speak.
    #[schema(max_length = 4096)]
    input: String,
    /// The voice: one of the model's voices, or a custom voice.
    voice: VoiceName,
    /// Instructions on how to speak the text, for example its tone or accent. Only some models
    /// follow instructions.
    #[schema(max_length = 4096)]
    instructions: Option<String>,
    /// Audio format: `mp3`, `opus` (in an Ogg container), `aac`, `flac`, `wav` or `pcm`. `pcm` is
    /// raw 16-bit little-endian samples at 24 kHz.
    #[schema(default = "mp3")]
    response_format: Option<String>,
    /// Speed of the speech; `1.0` is normal speed.
    #[schema(minimum = 0.25, maximum = 4.0, default = 1.0)]
    speed: Option<f64>,
    /// Only `audio` is supported: the response body is the audio file.
    #[schema(default = "audio")]
    stream_format: Option<String>,
}

/// A voice, by name or as a custom voice.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum VoiceName {
    /// Name of one of the model's voices, such as `alloy`.
    Name(String),
    /// A custom voice that the operator created at the provider.
    Own {
        /// Id of the voice at the provider.
        id: String,
    },
}

/// A request to transcribe a recording, sent as a multipart form.
#[derive(Serialize, ToSchema)]
pub struct CreateTranscription {
    /// The audio file, with a file name, at most 25 MiB. Formats: flac, m4a, mp3, mp4, mpeg, mpga,
    /// oga, ogg, wav or webm.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// Id or alias of a transcription model. GET /v1/models lists the models. If omitted, the
    /// default transcription model is used.
    model: Option<String>,
    /// Code of the spoken language, such as `en`. If omitted, the model detects the language.
    language: Option<String>,
    /// Text that guides the transcription: the preceding transcript, or the spelling of names and
    /// terms.
    #[schema(max_length = 8192)]
    prompt: Option<String>,
    /// Response format: `json`, `text`, `verbose_json`, `srt` or `vtt`. The last three require a
    /// model that returns timestamps.
    #[schema(default = "json")]
    response_format: Option<String>,
    /// Sampling temperature from 0 to 1. Higher values make the transcript more random.
    #[schema(minimum = 0.0, maximum = 1.0)]
    temperature: Option<f64>,
    /// Timestamps in a `verbose_json` response: `segment` (the default), `word` or both.
    #[serde(rename = "timestamp_granularities[]")]
    timestamp_granularities: Option<Vec<String>>,
    /// Only `false` is supported.
    #[schema(default = false)]
    stream: Option<bool>,
}

/// A request to translate a recording into English, sent as a multipart form.
#[derive(Serialize, ToSchema)]
pub struct CreateTranslation {
    /// The audio file, with a file name, at most 25 MiB. Formats: flac, m4a, mp3, mp4, mpeg, mpga,
    /// oga, ogg, wav or webm.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// Id or alias of a transcription model that can translate. If omitted, the default
    /// transcription model is used.
    model: Option<String>,
    /// English text that guides the translation: the preceding transcript, or the spelling of names
    /// and terms.
    #[schema(max_length = 8192)]
    prompt: Option<String>,
    /// Response format: `json`, `text`, `verbose_json`, `srt` or `vtt`. The last three require a
    /// model that returns timestamps.
    #[schema(default = "json")]
    response_format: Option<String>,
    /// Sampling temperature from 0 to 1. Higher values make the translation more random.
    #[schema(minimum = 0.0, maximum = 1.0)]
    temperature: Option<f64>,
}

/// A transcript in the response formats `json` and `verbose_json`.
#[derive(Serialize, ToSchema)]
pub struct Transcription {
    /// Text of the transcript.
    text: String,
    /// `transcribe` or `translate`. Only in `verbose_json`.
    task: Option<String>,
    /// Spoken language, as the provider reports it; empty if it reports none. Only in
    /// `verbose_json`.
    language: Option<String>,
    /// Duration of the recording in seconds. Only in `verbose_json`.
    duration: Option<f64>,
    /// Timed segments of the transcript. Only in `verbose_json`, if segment timestamps are
    /// requested.
    segments: Option<Vec<TranscriptSegment>>,
    /// Timed words of the transcript. Only in `verbose_json`, if word timestamps are requested.
    words: Option<Vec<TranscriptWord>>,
    /// Usage and cost of the request.
    usage: TranscriptionUsage,
}

/// A timed segment of a transcript.
#[derive(Serialize, ToSchema)]
pub struct TranscriptSegment {
    /// Index of the segment; the first is 0.
    id: usize,
    /// Offset at which the model decoded the segment, in hundredths of a second.
    seek: u64,
    /// Start of the segment, in seconds from the beginning of the recording.
    start: f64,
    /// End of the segment, in seconds from the beginning of the recording.
    end: f64,
    /// Text of the segment.
    text: String,
    /// Token ids of the text.
    tokens: Vec<u32>,
    /// Temperature at which the model decoded the segment.
    temperature: f64,
    /// Mean log probability of the tokens.
    avg_logprob: f64,
    /// Compression ratio of the text. A high value means that the text repeats itself.
    compression_ratio: f64,
    /// Probability from 0 to 1 that the segment contains no speech.
    no_speech_prob: f64,
}

/// A timed word of a transcript.
#[derive(Serialize, ToSchema)]
pub struct TranscriptWord {
    /// Text of the word.
    word: String,
    /// Start of the word, in seconds from the beginning of the recording.
    start: f64,
    /// End of the word, in seconds from the beginning of the recording.
    end: f64,
}

/// Usage and cost of a transcription.
#[derive(Serialize, ToSchema)]
pub struct TranscriptionUsage {
    /// `tokens` for models that are priced by tokens, otherwise `duration`.
    r#type: String,
    /// Billed duration of the recording in seconds. Only with type `duration`.
    seconds: Option<f64>,
    /// Tokens of the recording and the prompt. Only with type `tokens`.
    input_tokens: Option<u64>,
    /// Tokens of the transcript. Only with type `tokens`.
    output_tokens: Option<u64>,
    /// Sum of input and output tokens. Only with type `tokens`.
    total_tokens: Option<u64>,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}

/// Formats a transcript as the response body of a request.
pub(super) struct TranscriptFormatter {
    pub(super) format: TranscriptFormat,
    pub(super) timestamps: Timestamps,
    pub(super) translates: bool,
    /// Whether the model is priced by tokens.
    pub(super) by_token: bool,
}

impl TranscriptFormatter {
    /// Returns the response body and its media type.
    pub(super) fn of(&self, transcript: Transcript, charge: &Charge) -> (String, &'static str) {
        let segments = &transcript.segments;
        match self.format {
            TranscriptFormat::Text => (transcript.text + "\n", "text/plain; charset=utf-8"),
            TranscriptFormat::Srt => (srt(segments), "text/plain; charset=utf-8"),
            TranscriptFormat::Vtt => (vtt(segments), "text/vtt; charset=utf-8"),
            TranscriptFormat::Json => (self.json(transcript, charge).to_string(), "application/json"),
            TranscriptFormat::VerboseJson => {
                (self.verbose(transcript, charge).to_string(), "application/json")
            }
        }
    }

    fn json(&self, transcript: Transcript, charge: &Charge) -> Value {
        json!({"text": transcript.text, "usage": self.usage(charge)})
    }

    fn verbose(&self, transcript: Transcript, charge: &Charge) -> Value {
        let heard = seconds(charge);
        let declared = transcript.duration.map(|duration| duration.as_secs_f64());
        let mut body = Map::new();
        let task = if self.translates {
            "translate"
        } else {
            "transcribe"
        };
        body.insert("task".to_owned(), task.into());
        body.insert(
            "language".to_owned(),
            transcript.language.unwrap_or_default().into(),
        );
        body.insert("duration".to_owned(), to_millis(declared.unwrap_or(heard)).into());
        body.insert("text".to_owned(), transcript.text.into());
        if self.timestamps.segments {
            let segments = transcript.segments.iter().enumerate();
            let segments = segments.map(|(id, segment)| segment_to_wire(id, segment));
            body.insert("segments".to_owned(), segments.collect());
        }
        if self.timestamps.words {
            let words = transcript.words.iter().map(word_to_wire);
            body.insert("words".to_owned(), words.collect());
        }
        body.insert("usage".to_owned(), self.usage(charge));
        Value::Object(body)
    }

    fn usage(&self, charge: &Charge) -> Value {
        let (usage, cost) = (&charge.usage, charge.amount.to_string());
        match self.by_token {
            true => json!({"type": "tokens", "input_tokens": usage.total_input(),
                "output_tokens": usage.total_output(), "total_tokens": usage.total(), "cost": cost}),
            false => json!({"type": "duration", "seconds": seconds(charge), "cost": cost}),
        }
    }
}

fn seconds(charge: &Charge) -> f64 {
    charge.usage.get(Unit::Audio) as f64 / 1e6
}

/// Rounds a number of seconds to milliseconds.
fn to_millis(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

fn segment_to_wire(id: usize, segment: &Segment) -> Value {
    json!(TranscriptSegment {
        id,
        seek: segment.seek,
        start: segment.start,
        end: segment.end,
        text: segment.text.clone(),
        tokens: segment.tokens.clone(),
        temperature: segment.temperature,
        avg_logprob: segment.avg_logprob,
        compression_ratio: segment.compression_ratio,
        no_speech_prob: segment.no_speech_prob,
    })
}

fn word_to_wire(word: &Word) -> Value {
    json!(TranscriptWord {
        word: word.word.clone(),
        start: word.start,
        end: word.end,
    })
}
