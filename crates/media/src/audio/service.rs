//! Speech and transcription. Each function parses the request, routes it, holds its cost, calls the
//! provider and builds the response.

use std::sync::Arc;
use std::time::Duration;

use tollgate_billing::{Demand, ItemizedQuote};
use tollgate_catalog::{Model, ModelKind};
use tollgate_edge::FormField;
use tollgate_pipeline::speech::{is_priced_by_token, micros};
use tollgate_pipeline::{Admission, CallRequest, DeliveredSpeech, ReferencesMedia, Routed};
use tollgate_types::{Error, ErrorCode, Unit, Usage};
use tollgate_upstream::{Source, SpeechCall, TranscriptionCall};

use super::length;
use super::read::{self, Recording, Speech};
use super::wire::TranscriptFormatter;
use crate::submission::Submission;

const SPEECH: &str = "/v1/audio/speech";
const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
const TRANSLATIONS: &str = "/v1/audio/translations";
/// Maximum number of audio output tokens for each input character, for models that are priced by
/// tokens.
const MAX_TOKENS_PER_CHARACTER: u64 = 8;
/// Minimum estimate of audio output tokens, which covers very short texts.
const MIN_SPEECH_TOKENS: u64 = 512;
/// Maximum number of transcript tokens if the model declares no output limit.
const MAX_TRANSCRIPT_TOKENS: u64 = 16_384;
/// Maximum number of audio input tokens for each second of a recording. Typical models use a
/// quarter of this.
const MAX_TOKENS_PER_SECOND: u64 = 40;

/// Converts text to speech. Returns the audio and its media type.
pub(super) async fn speak(submission: Submission<'_>) -> Result<(DeliveredSpeech, &'static str), Error> {
    let (routed, call) = prepare_speech(&submission).await?;
    let format = call.call.format;
    let admission = admit(&submission, routed, call).await?;
    let served = submission.state.media_jobs.pipeline.speak(admission).await?;
    submission.ctx.note_upstream_wait(served.upstream_wait);
    if let DeliveredSpeech::Whole(_, charge) = &served.answer {
        submission.ctx.note_cost(charge.amount);
    }
    Ok((served.answer, format.mime_type()))
}

/// Returns the hold that [`speak`] would take for the same request.
pub async fn quote_speech(submission: Submission<'_>) -> Result<ItemizedQuote, Error> {
    let (routed, call) = prepare_speech(&submission).await?;
    submission.quote(routed, call).await
}

async fn prepare_speech(submission: &Submission<'_>) -> Result<(Routed, CallRequest<SpeechCall>), Error> {
    let request = read::speech(&submission.body)?;
    let mut routed = submission.route(request.model.as_deref(), None, ModelKind::Speech)?;
    routed.retain_speakers()?;
    let (input, instructions) = (Some(request.input.clone()), &request.instructions);
    submission.check_texts([&input, instructions]).await?;
    let demand = speech_demand(&routed.model, &request);
    let call = SpeechCall {
        upstream_model: routed.public_model.clone(),
        input: request.input.into(),
        voice: request.voice.into(),
        has_own_voice: request.has_own_voice,
        instructions: request.instructions.map(Arc::from),
        format: request.format,
        speed: request.speed,
    };
    let request = submission.call(SPEECH, demand, call);
    Ok((routed, request))
}

/// Transcribes a recording, into English if `translate` is set. Returns the formatted transcript
/// and its media type.
pub(super) async fn transcribe(
    submission: Submission<'_>,
    fields: Vec<FormField>,
    translate: bool,
) -> Result<(String, &'static str), Error> {
    let recording = read::recording(fields, translate)?;
    submission.ctx.note_ignored(&recording.ignored);
    let mut routed = submission.route(recording.model.as_deref(), None, ModelKind::Transcription)?;
    let written = TranscriptFormatter {
        format: recording.format,
        timestamps: recording.timestamps,
        translates: recording.translate,
        by_token: is_priced_by_token(&routed.model),
    };
    let mut call = transcription(&routed, &recording);
    routed.retain_transcribers(&call)?;
    submission.check_texts([&recording.prompt, &None]).await?;
    // An account without balance must not start an ffprobe process, so the balance is checked
    // first.
    let min = transcription_demand(&routed.model, &call, Duration::from_micros(1));
    submission.check_balance(&routed.model, &min).await?;
    let tools = &submission.state.media_jobs.tools;
    call.duration = length::of(tools, submission.ctx.id, &call.audio.bytes).await?;
    let max = Duration::from_micros(length::max_micros(call.audio.bytes.len()));
    let demand = transcription_demand(&routed.model, &call, call.duration.unwrap_or(max));
    let endpoint = match recording.translate {
        true => TRANSLATIONS,
        false => TRANSCRIPTIONS,
    };
    let admission = admit(&submission, routed, submission.call(endpoint, demand, call)).await?;
    let served = submission.state.media_jobs.pipeline.transcribe(admission).await?;
    submission.ctx.note_upstream_wait(served.upstream_wait);
    let charge = served.answer.charge;
    submission.ctx.note_cost(charge.amount);
    let transcript = served.answer.transcript.ok_or_else(withheld)?;
    Ok(written.of(transcript, &charge))
}

/// Holds the maximum cost of the call. Records the token window for the rate limit headers, even if
/// the call is refused.
async fn admit<C: ReferencesMedia>(
    submission: &Submission<'_>,
    routed: Routed,
    request: CallRequest<C>,
) -> Result<Admission<C>, Error> {
    let admitted = submission
        .state
        .media_jobs
        .pipeline
        .admit(routed, request, |_| Vec::new())
        .await;
    match admitted {
        Ok((admission, tokens)) => {
            submission.ctx.note_tokens(tokens);
            Ok(admission)
        }
        Err(refused) => {
            if let Some(tokens) = refused.tokens {
                submission.ctx.note_tokens(tokens);
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
        translate: recording.translate,
    }
}

fn speech_demand(model: &Model, request: &Speech) -> Demand {
    let text = request.input.len() + request.instructions.as_ref().map_or(0, String::len);
    narration_demand(model, request.input.chars().count() as u64, text)
}

/// Returns the maximum demand of a narration: the number of characters, and token bounds if the
/// model is priced by tokens. `text` is the size of the model's input in bytes.
pub(crate) fn narration_demand(model: &Model, characters: u64, text: usize) -> Demand {
    let spoken = characters
        .saturating_mul(MAX_TOKENS_PER_CHARACTER)
        .max(MIN_SPEECH_TOKENS);
    let tokens = TokenBounds {
        text: text as u64,
        media: 0,
        output: model.output_ceiling().map_or(spoken, |max| max.min(spoken)),
    };
    demand(model, tokens, Usage::ZERO.with(Unit::Character, characters))
}

/// Returns the maximum demand of a transcription: the duration, and token bounds if the model is
/// priced by tokens.
fn transcription_demand(model: &Model, call: &TranscriptionCall, length: Duration) -> Demand {
    let seconds = length.as_secs().saturating_add(1);
    let tokens = TokenBounds {
        text: call.prompt.as_ref().map_or(0, |prompt| prompt.len()) as u64,
        media: seconds.saturating_mul(MAX_TOKENS_PER_SECOND),
        output: model.output_ceiling().unwrap_or(MAX_TRANSCRIPT_TOKENS),
    };
    demand(model, tokens, Usage::ZERO.with(Unit::Audio, micros(length)))
}

/// Upper bounds of the tokens of one call, by origin.
#[derive(Default)]
struct TokenBounds {
    text: u64,
    media: u64,
    output: u64,
}

fn demand(model: &Model, tokens: TokenBounds, made: Usage) -> Demand {
    let by_token = is_priced_by_token(model);
    let tokens = if by_token { tokens } else { TokenBounds::default() };
    Demand {
        text_bytes: tokens.text,
        tokens: 0,
        messages: u64::from(by_token),
        inputs: 0,
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
    let message = "The content policy blocked this transcript. The request was charged.";
    Error::new(ErrorCode::OutputBlocked, message)
}
