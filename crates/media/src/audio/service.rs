//! The use cases: read, route, hold, have it spoken or written down, and answer.

use std::sync::Arc;
use std::time::Duration;

use tollgate_billing::Demand;
use tollgate_catalog::{Model, ModelKind};
use tollgate_edge::FormField;
use tollgate_pipeline::speech::{is_by_token, micros};
use tollgate_pipeline::{Admission, CallRequest, NamesMedia, Routed, Voice};
use tollgate_types::{Error, ErrorCode, Unit, Usage};
use tollgate_upstream::{Source, SpeechCall, TranscriptionCall};

use super::length;
use super::read::{self, Recording, Speech};
use super::wire::Written;
use crate::submission::Asked;

const SPEECH: &str = "/v1/audio/speech";
const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
/// The most tokens of sound that a character can be, and those of the shortest text, where a model is priced by tokens.
const TOKENS_PER_CHARACTER: u64 = 8;
const TOKENS_AT_LEAST: u64 = 512;
/// The most tokens of a transcript where a model is priced by them and does not say how many there can be.
const TRANSCRIPT_TOKENS: u64 = 16_384;
/// The same of a second of a recording that is heard; a fourth of them is likely.
const TOKENS_PER_SECOND: u64 = 40;

/// Speaks a text; the sound, and its media type.
pub(super) async fn speak(asked: Asked<'_>) -> Result<(Voice, &'static str), Error> {
    let request = read::speech(&asked.body)?;
    let mut routed = asked.route(request.model.as_deref(), None, ModelKind::Speech)?;
    routed.retain_speakers()?;
    let (input, instructions) = (Some(request.input.clone()), &request.instructions);
    asked.check_texts([&input, instructions]).await?;
    let demand = speech_demand(&routed.model, &request);
    let format = request.format;
    let call = SpeechCall {
        upstream_model: routed.public_model.clone(),
        input: request.input.into(),
        voice: request.voice.into(),
        has_own_voice: request.has_own_voice,
        instructions: request.instructions.map(Arc::from),
        format,
        speed: request.speed,
    };
    let admission = admit(&asked, routed, asked.call(SPEECH, demand, call)).await?;
    let served = asked.room.studio.pipeline.speak(admission).await?;
    asked.ctx.note_upstream_wait(served.upstream_wait);
    if let Voice::Whole(_, charge) = &served.answer {
        asked.ctx.note_cost(charge.amount);
    }
    Ok((served.answer, format.mime_type()))
}

/// Writes a recording down; the transcript, and its media type.
pub(super) async fn transcribe(
    asked: Asked<'_>,
    fields: Vec<FormField>,
) -> Result<(String, &'static str), Error> {
    let recording = read::recording(fields)?;
    asked.ctx.note_ignored(&recording.ignored);
    let mut routed = asked.route(recording.model.as_deref(), None, ModelKind::Transcription)?;
    let written = Written {
        format: recording.format,
        timestamps: recording.timestamps,
        by_token: is_by_token(&routed.model),
    };
    let mut call = transcription(&routed, &recording);
    routed.retain_transcribers(&call)?;
    asked.check_texts([&recording.prompt, &None]).await?;
    // Whoever has nothing makes no program run.
    let least = transcription_demand(&routed.model, &call, Duration::from_micros(1));
    asked.check_balance(&routed.model, &least).await?;
    let tools = &asked.room.studio.tools;
    call.duration = length::of(tools, asked.ctx.id, &call.audio.bytes).await?;
    let most = Duration::from_micros(length::most_micros(call.audio.bytes.len()));
    let demand = transcription_demand(&routed.model, &call, call.duration.unwrap_or(most));
    let admission = admit(&asked, routed, asked.call(TRANSCRIPTIONS, demand, call)).await?;
    let served = asked.room.studio.pipeline.transcribe(admission).await?;
    asked.ctx.note_upstream_wait(served.upstream_wait);
    let charge = served.answer.charge;
    asked.ctx.note_cost(charge.amount);
    let transcript = served.answer.transcript.ok_or_else(withheld)?;
    Ok(written.of(transcript, &charge))
}

/// Holds what the call can cost, and notes the window of tokens for the limit headers, whether it is admitted or refused.
async fn admit<C: NamesMedia>(
    asked: &Asked<'_>,
    routed: Routed,
    request: CallRequest<C>,
) -> Result<Admission<C>, Error> {
    let admitted = asked
        .room
        .studio
        .pipeline
        .admit(routed, request, |_| Vec::new())
        .await;
    match admitted {
        Ok((admission, tokens)) => {
            asked.ctx.note_tokens(tokens);
            Ok(admission)
        }
        Err(refused) => {
            if let Some(tokens) = refused.tokens {
                asked.ctx.note_tokens(tokens);
            }
            Err(refused.error)
        }
    }
}

fn transcription(routed: &Routed, recording: &Recording) -> TranscriptionCall {
    let media_type = recording.media_type.as_deref();
    TranscriptionCall {
        upstream_model: routed.public_model.clone(),
        audio: Source {
            bytes: recording.audio.clone(),
            mime_type: Arc::from(media_type.unwrap_or("application/octet-stream")),
        },
        duration: None,
        filename: recording.filename.as_str().into(),
        language: recording.language.as_deref().map(Arc::from),
        prompt: recording.prompt.as_deref().map(Arc::from),
        temperature: recording.temperature,
        format: recording.format,
        timestamps: recording.timestamps,
    }
}

fn speech_demand(model: &Model, request: &Speech) -> Demand {
    let text = request.input.len() + request.instructions.as_ref().map_or(0, String::len);
    narration_demand(model, request.input.chars().count() as u64, text)
}

/// Characters, and tokens where the model is priced by them. `text` is the bytes that the model reads.
pub(crate) fn narration_demand(model: &Model, characters: u64, text: usize) -> Demand {
    let spoken = characters
        .saturating_mul(TOKENS_PER_CHARACTER)
        .max(TOKENS_AT_LEAST);
    let tokens = Tokens {
        text: text as u64,
        media: 0,
        output: model.output_ceiling().map_or(spoken, |most| most.min(spoken)),
    };
    demand(model, tokens, Usage::ZERO.with(Unit::Character, characters))
}

/// Seconds, and tokens where the model is priced by them.
fn transcription_demand(model: &Model, call: &TranscriptionCall, length: Duration) -> Demand {
    let seconds = length.as_secs().saturating_add(1);
    let tokens = Tokens {
        text: call.prompt.as_ref().map_or(0, |prompt| prompt.len()) as u64,
        media: seconds.saturating_mul(TOKENS_PER_SECOND),
        output: model.output_ceiling().unwrap_or(TRANSCRIPT_TOKENS),
    };
    demand(model, tokens, Usage::ZERO.with(Unit::Audio, micros(length)))
}

/// The most tokens of a call.
#[derive(Default)]
struct Tokens {
    text: u64,
    media: u64,
    output: u64,
}

fn demand(model: &Model, tokens: Tokens, made: Usage) -> Demand {
    let by_token = is_by_token(model);
    let tokens = if by_token { tokens } else { Tokens::default() };
    Demand {
        text_bytes: tokens.text,
        tokens: 0,
        messages: u64::from(by_token),
        media_bytes: tokens.media,
        images: 0,
        max_tokens: Some(tokens.output),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made,
    }
}

fn withheld() -> Error {
    let message = "What was said is withheld: the content policy forbids to show it. It was charged.";
    Error::new(ErrorCode::OutputBlocked, message)
}
