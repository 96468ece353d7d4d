//! The shapes of requests and answers, for the API document, and how a transcript is written. The rules are in `read`.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tollgate_billing::Charge;
use tollgate_types::Unit;
use tollgate_upstream::{Segment, Timestamps, Transcript, TranscriptFormat, Word};
use utoipa::ToSchema;

use super::subtitles::{srt, vtt};

/// A text to be spoken.
#[derive(Serialize, ToSchema)]
pub struct CreateSpeech {
    /// Id or alias of a speech model; GET /v1/models lists them. Without one the service's usual model serves.
    model: Option<String>,
    /// What is said.
    #[schema(max_length = 4096)]
    input: String,
    /// Who says it, as the model names its voices.
    voice: VoiceName,
    /// How it is said, in words, for models that understand them.
    #[schema(max_length = 4096)]
    instructions: Option<String>,
    /// `mp3`, `opus` (in Ogg), `aac`, `flac`, `wav`, or `pcm`: samples of 16 bits at 24 kHz, the lower byte first.
    #[schema(default = "mp3")]
    response_format: Option<String>,
    /// How fast.
    #[schema(minimum = 0.25, maximum = 4.0, default = 1.0)]
    speed: Option<f64>,
    /// Always `audio`: the bytes as they come.
    #[schema(default = "audio")]
    stream_format: Option<String>,
}

/// A voice.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum VoiceName {
    /// Its name.
    Name(String),
    /// One that the operator has made at the provider.
    Own {
        /// Its id there.
        id: String,
    },
}

/// A recording to be written down, as the fields of a form.
#[derive(Serialize, ToSchema)]
pub struct CreateTranscription {
    /// The recording, with its name: flac, m4a, mp3, mp4, mpeg, mpga, oga, ogg, wav or webm, at most 25 MiB.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// Id or alias of a transcription model; GET /v1/models lists them. Without one the service's usual model serves.
    model: Option<String>,
    /// What is spoken, such as `en`.
    language: Option<String>,
    /// What was said before, or how words are spelled.
    #[schema(max_length = 8192)]
    prompt: Option<String>,
    /// `json`, `text`, `verbose_json`, `srt` or `vtt`. The last three need a model that says when what was said.
    #[schema(default = "json")]
    response_format: Option<String>,
    /// How freely the model guesses.
    #[schema(minimum = 0.0, maximum = 1.0)]
    temperature: Option<f64>,
    /// Of what `verbose_json` tells times: `segment`, which is usual, `word`, or both.
    #[serde(rename = "timestamp_granularities[]")]
    timestamp_granularities: Option<Vec<String>>,
    /// Always false.
    #[schema(default = false)]
    stream: Option<bool>,
}

/// A transcript, with `json` and `verbose_json`.
#[derive(Serialize, ToSchema)]
pub struct Transcription {
    /// What is said.
    text: String,
    /// Always `transcribe`, with `verbose_json`.
    task: Option<String>,
    /// What is spoken, with `verbose_json`.
    language: Option<String>,
    /// How long the recording is in seconds, with `verbose_json`.
    duration: Option<f64>,
    /// Its parts, with `verbose_json`.
    segments: Option<Vec<TranscriptSegment>>,
    /// Its words, with `verbose_json` where they are asked for.
    words: Option<Vec<TranscriptWord>>,
    /// What it consumed and cost.
    usage: TranscriptionUsage,
}

/// A part of a transcript.
#[derive(Serialize, ToSchema)]
pub struct TranscriptSegment {
    /// Its place, from 0.
    id: usize,
    /// The place in the recording that the model had sought, in hundredths of a second.
    seek: u64,
    /// Where it begins, in seconds.
    start: f64,
    /// Where it ends.
    end: f64,
    /// What is said.
    text: String,
    /// The model's tokens of it.
    tokens: Vec<u32>,
    /// How freely it was guessed.
    temperature: f64,
    /// The mean logarithm of the probability of its tokens.
    avg_logprob: f64,
    /// How much the text repeats itself.
    compression_ratio: f64,
    /// How likely it is that nothing is said.
    no_speech_prob: f64,
}

/// A word of a transcript.
#[derive(Serialize, ToSchema)]
pub struct TranscriptWord {
    /// The word.
    word: String,
    /// Where it begins, in seconds.
    start: f64,
    /// Where it ends.
    end: f64,
}

/// What a transcript consumed and cost.
#[derive(Serialize, ToSchema)]
pub struct TranscriptionUsage {
    /// `duration`, or `tokens` for models that are priced by them.
    r#type: String,
    /// How much was heard, with `duration`.
    seconds: Option<f64>,
    /// Tokens of recording and prompt, with `tokens`.
    input_tokens: Option<u64>,
    /// Tokens of the transcript.
    output_tokens: Option<u64>,
    /// Both.
    total_tokens: Option<u64>,
    /// What the call cost, in credits as a decimal string.
    cost: String,
}

/// How a transcript is answered.
pub(super) struct Written {
    pub(super) format: TranscriptFormat,
    pub(super) timestamps: Timestamps,
    /// Whether the model is priced by tokens.
    pub(super) by_token: bool,
}

impl Written {
    /// The answer, and its media type.
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
        body.insert("task".to_owned(), "transcribe".into());
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

/// Seconds, to the millisecond.
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
