//! Speech of an answer: chunks are synthesized ahead, and sent at the pace of their playback.

use bytes::Bytes;
use tokio::sync::mpsc;
use tollgate_pipeline::DeliveredSpeech;
use tollgate_types::{Error, Unit, Usage};
use tollgate_upstream::{AudioFormat, SpeechCall};

use super::{Order, broken_stage, demand_of};
use crate::audio::pcm;
use crate::execution::{Progress, Reporter, Stop};
use crate::pacer::Pace;

/// Samples per second of synthesized speech.
pub(crate) const SPEECH_RATE: u32 = 24_000;
/// Number of samples in a message to the client: 100 ms.
pub(crate) const SAMPLES_PER_DELTA: usize = 2_400;
/// Maximum number of output tokens of a chunk, for speech models that are priced by tokens.
const MAX_SPEECH_TOKENS: u64 = 4_096;

/// A chunk whose first audio has arrived.
pub(super) struct Spoken {
    text: String,
    audio: DeliveredSpeech,
}

/// Synthesizes chunks in their order.
pub(super) async fn synthesize(
    order: &Order,
    mut chunks: mpsc::Receiver<String>,
    spoken: mpsc::Sender<Spoken>,
) -> Result<(), Stop> {
    while let Some(text) = chunks.recv().await {
        let audio = speak(order, text.trim()).await?;
        if spoken.send(Spoken { text, audio }).await.is_err() {
            // The audio has reached its limit.
            return Ok(());
        }
    }
    Ok(())
}

async fn speak(order: &Order, text: &str) -> Result<DeliveredSpeech, Error> {
    let stage = order.stage_call();
    let mut routed = stage
        .pipeline
        .route(&stage.caller, &order.stages.speak)
        .map_err(|error| broken_stage("speak", &error))?;
    routed
        .retain_speakers()
        .map_err(|error| broken_stage("speak", &error))?;
    let settings = &order.settings;
    let call = SpeechCall {
        upstream_model: routed.public_model.clone(),
        input: text.into(),
        voice: settings
            .voice
            .clone()
            .unwrap_or_else(|| order.stages.voice.as_str().into()),
        has_own_voice: false,
        instructions: None,
        format: AudioFormat::Pcm,
        // Some models refuse the parameter, so the default is left out.
        speed: Some(settings.speed).filter(|speed| (speed - 1.0).abs() > f64::EPSILON),
    };
    let characters = Usage::ZERO.with(Unit::Character, text.chars().count() as u64);
    let demand = demand_of(characters, MAX_SPEECH_TOKENS, text.len() as u64, 1);
    let (pipeline, _) = stage.pipeline.executing_stage();
    let admitted = pipeline
        .admit(routed, stage.request(demand, call), |_| Vec::new())
        .await?;
    Ok(pipeline.speak(admitted.0).await?.answer)
}

/// Sends the audio of the chunks, at most `max_micros`. Returns whether all of it was sent.
pub(super) async fn send(
    order: &Order,
    mut spoken: mpsc::Receiver<Spoken>,
    reporter: &Reporter,
    max_micros: u64,
) -> Result<bool, Stop> {
    let mut pacing = Pacing {
        pace: Pace::new(order.outbox.clone(), order.lead_ms),
        left_micros: max_micros,
    };
    while let Some(Spoken { text, audio }) = spoken.recv().await {
        reporter.report(Progress::Chunk(text)).await?;
        let is_complete = match audio {
            DeliveredSpeech::Whole(bytes, _) => pacing.send(&mut Vec::new(), bytes, true, reporter).await?,
            DeliveredSpeech::Stream(chunks) => pacing.send_stream(chunks, reporter).await?,
        };
        if !is_complete {
            return Ok(false);
        }
    }
    Ok(true)
}

struct Pacing {
    pace: Pace,
    left_micros: u64,
}

impl Pacing {
    async fn send_stream(
        &mut self,
        mut chunks: mpsc::Receiver<Result<Bytes, Error>>,
        reporter: &Reporter,
    ) -> Result<bool, Stop> {
        let mut rest = Vec::new();
        while let Some(chunk) = chunks.recv().await {
            if !self.send(&mut rest, chunk?, false, reporter).await? {
                return Ok(false);
            }
        }
        self.send(&mut rest, Bytes::new(), true, reporter).await
    }

    /// Sends the bytes in messages of 100 ms. Keeps what is left in `rest`, unless this is the last
    /// part of a chunk. Returns `false` at the limit of the audio.
    async fn send(
        &mut self,
        rest: &mut Vec<u8>,
        bytes: Bytes,
        is_last: bool,
        reporter: &Reporter,
    ) -> Result<bool, Stop> {
        rest.extend_from_slice(&bytes);
        let step = SAMPLES_PER_DELTA * 2;
        let mut sent = 0;
        while rest.len() - sent >= step || (is_last && rest.len() - sent >= 2) {
            let end = (sent + step).min(rest.len());
            let end = end - (end - sent) % 2;
            let samples = rest
                .get(sent..end)
                .and_then(pcm::from_le_bytes)
                .unwrap_or_default();
            sent = end;
            let micros = pcm::duration_us(samples.len(), SPEECH_RATE);
            if micros > self.left_micros {
                return Ok(false);
            }
            self.left_micros -= micros;
            self.pace.ready().await;
            reporter.report(Progress::Audio(samples)).await?;
            self.pace.deliver(micros);
        }
        rest.drain(..sent);
        Ok(true)
    }
}
