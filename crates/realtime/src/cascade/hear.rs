//! Transcription of recordings.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_formats::openai_realtime::{ContentPart, Item, ItemKind, Transcription};
use tollgate_types::{Error, ErrorCode, Unit, Usage};
use tollgate_upstream::{Source, Timestamps, TranscriptFormat, TranscriptionCall};

use super::{StageCall, broken_stage, demand_of};
use crate::audio::pcm;
use crate::session::memory::{MemoryShare, SessionMemory};

/// Maximum number of transcript tokens of a recording.
const MAX_TRANSCRIPT_TOKENS: u64 = 4_096;

/// Recorded speech that is not transcribed yet.
#[derive(Clone)]
pub(crate) struct Recording {
    /// Mono 16-bit samples.
    pub(crate) samples: Arc<[i16]>,
    /// Samples per second.
    pub(crate) rate: u32,
    /// Spoken language (ISO 639-1), if the client stated it.
    pub(crate) language: Option<Arc<str>>,
    /// Text that guides the spelling.
    pub(crate) prompt: Option<Arc<str>>,
    /// Memory that the samples use.
    _share: Arc<MemoryShare>,
}

impl Recording {
    /// Creates a recording with the transcription settings of a session.
    pub(crate) fn new(
        samples: Vec<i16>,
        rate: u32,
        memory: &Arc<SessionMemory>,
        settings: Option<&Transcription>,
    ) -> Self {
        Self {
            _share: Arc::new(memory.share(samples.len() * 2)),
            samples: samples.into(),
            rate,
            language: settings.and_then(|settings| settings.language.clone()),
            prompt: settings.and_then(|settings| settings.prompt.clone()),
        }
    }

    /// Returns the duration in microseconds.
    pub(crate) fn micros(&self) -> u64 {
        pcm::duration_us(self.samples.len(), self.rate)
    }
}

/// Words of a recording.
#[derive(Clone)]
pub(crate) struct Words {
    pub(crate) text: String,
    /// Candidate that transcribed the recording.
    pub(crate) target: Arc<str>,
}

/// Returns the words of a recording. The hold of the turn or block pays for the call.
pub(crate) async fn transcribe(stage: &StageCall, model: &str, recording: Recording) -> Result<Words, Error> {
    let mut routed = stage
        .pipeline
        .route(&stage.caller, model)
        .map_err(|error| broken_stage("hear", &error))?;
    let micros = recording.micros();
    let call = TranscriptionCall {
        upstream_model: routed.public_model.clone(),
        audio: Source {
            bytes: Bytes::from(pcm::wav(&recording.samples, recording.rate)),
            mime_type: "audio/wav".into(),
        },
        duration: Some(Duration::from_micros(micros)),
        filename: "audio.wav".into(),
        language: recording.language,
        prompt: recording.prompt,
        temperature: None,
        format: TranscriptFormat::Json,
        timestamps: Timestamps::default(),
        translate: false,
    };
    routed
        .retain_transcribers(&call)
        .map_err(|error| broken_stage("hear", &error))?;
    let (pipeline, settled) = stage.pipeline.executing_stage();
    let demand = demand_of(Usage::ZERO.with(Unit::Audio, micros), MAX_TRANSCRIPT_TOKENS, 0, 1);
    let admitted = pipeline
        .admit(routed, stage.request(demand, call), |_| Vec::new())
        .await?;
    let served = pipeline.transcribe(admitted.0).await?;
    let transcript = served.answer.transcript.ok_or_else(blocked)?;
    Ok(Words {
        text: transcript.text.trim().to_owned(),
        target: settled
            .get()
            .map_or_else(|| "".into(), |settlement| settlement.target),
    })
}

/// Sets the transcript of the audio of an item, and drops the audio.
pub(crate) fn set_transcript(item: &mut Item, words: &str) {
    let ItemKind::Message { content, .. } = &mut item.kind else {
        return;
    };
    for part in content {
        if let ContentPart::InputAudio { audio, transcript } = part
            && transcript.is_none()
        {
            *audio = Bytes::new();
            *transcript = Some(words.into());
            return;
        }
    }
}

/// Returns the error for words that the content policy forbids.
pub(crate) fn blocked() -> Error {
    let message = "The content policy blocks what was said.";
    Error::new(ErrorCode::ContentPolicyViolation, message)
}
