//! Speech synthesis and transcription. The gateway counts characters and seconds. Only models with
//! token prices are charged by their provider's usage report.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;
use tollgate_billing::{Charge, Ending};
use tollgate_catalog::Model;
use tollgate_types::{Error, ErrorCode, Unit, Usage};
use tollgate_upstream::{
    AudioContent, ContentStream, SpeechAnswer, SpeechCall, Transcript, TranscriptionCall, UpstreamCause,
    UpstreamError, UpstreamErrorKind,
};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::{Dispatched, ending_of};
use crate::media::ReferencesMedia;
use crate::meter::Meter;
use crate::operation::Operation;
use crate::route::{Route, Routed};

/// Number of chunks buffered for a slow caller. While the buffer is full, the upstream is not read.
const BUFFERED_CHUNKS: usize = 16;
/// Assumed number of bytes per character in the token estimate of speech: 1.5 tokens of four bytes.
const BYTES_PER_CHARACTER: u64 = 6;
/// Assumed number of bytes per second of a recording of unknown duration: 64 kbit/s.
const BYTES_PER_SECOND: u64 = 8_000;

/// Synthesized speech for the caller.
pub enum DeliveredSpeech {
    /// Complete speech, with the settled cost.
    Whole(Bytes, Charge),
    /// Streamed speech. The channel closes after the settlement. An error is the last item; without
    /// an error, the speech is complete.
    Stream(Receiver<Result<Bytes, Error>>),
}

/// Result of a settled transcription.
pub struct Transcribed {
    /// The transcript; `None` if the content policy blocks it.
    pub transcript: Option<Transcript>,
    /// Cost at which the hold was settled.
    pub charge: Charge,
}

impl ReferencesMedia for SpeechCall {}

impl ReferencesMedia for TranscriptionCall {}

/// Whether a model has a price per input or output token.
pub fn is_priced_by_token(model: &Model) -> bool {
    let prices = &model.prices;
    !(prices.highest_input(0, false).is_zero() && prices.highest_output(0).is_zero())
}

impl Routed {
    /// Retains the candidates that support this transcription. If there are none, returns the first
    /// candidate's error, or `unsupported_endpoint`.
    pub fn retain_transcribers(&mut self, call: &TranscriptionCall) -> Result<(), Error> {
        let mut refusal = None;
        let mut retained = Vec::with_capacity(self.routes.len());
        for route in &self.routes {
            let Some(provider) = route.provider.transcriptions() else {
                continue;
            };
            let call = TranscriptionCall {
                upstream_model: route.candidate.upstream_model.clone(),
                ..call.clone()
            };
            match provider.check(&call) {
                Ok(()) => retained.push(route.clone()),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        if retained.is_empty() {
            return Err(refusal.unwrap_or_else(unsupported));
        }
        self.routes = retained;
        Ok(())
    }

    /// Retains the candidates that synthesize speech. If there are none, returns
    /// `unsupported_endpoint`.
    pub fn retain_speakers(&mut self) -> Result<(), Error> {
        match self.retain(|provider| provider.speech().is_some()) {
            true => Ok(()),
            false => Err(unsupported()),
        }
    }
}

fn unsupported() -> Error {
    let message =
        "This model does not support this endpoint. GET /v1/models lists the endpoints of each model.";
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}

/// Speech whose first bytes have arrived.
pub(crate) struct StartedSpeech {
    first: Bytes,
    rest: Option<ContentStream>,
    usage: Option<Usage>,
}

impl Operation for SpeechCall {
    type Reply = StartedSpeech;
    type Answer = DeliveredSpeech;

    fn input(&self) -> &'static str {
        "input"
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> Result<StartedSpeech, UpstreamError> {
        let Some(speech) = route.provider.speech() else {
            return Err(UpstreamError::connect("the provider does not support speech"));
        };
        let call = SpeechCall {
            upstream_model: route.candidate.upstream_model.clone(),
            ..admission.request.call.clone()
        };
        let spoken = speech.speak(&pipeline.context(admission), &call).await?;
        let max_wait = pipeline.settings.timeouts.first_content;
        let received = timeout(max_wait, receive_first(spoken)).await;
        received.unwrap_or_else(|_| Err(UpstreamError::timeout("no audio before the timeout")))
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission<Self>,
        dispatched: Dispatched<StartedSpeech>,
        left: bool,
    ) -> DeliveredSpeech {
        let Dispatched { reply, target } = dispatched;
        let mut meter = Meter::default();
        let characters = admission.request.demand.made.get(Unit::Character);
        let estimate = characters.saturating_mul(BYTES_PER_CHARACTER);
        meter.whole(
            admission.consumed_usage(reply.usage),
            0,
            estimate,
            pipeline.clock.now(),
        );
        let Some(rest) = reply.rest else {
            let ending = match left {
                true => Ending::CallerGoneDrained,
                false => Ending::Complete,
            };
            let charge = pipeline.settle(admission, ending, &meter, target).await;
            return DeliveredSpeech::Whole(reply.first, charge);
        };
        let (sender, receiver) = mpsc::channel(BUFFERED_CHUNKS);
        let pump = Pump {
            admission,
            target,
            meter,
            caller: sender,
        };
        pump.start(pipeline, reply.first, rest);
        DeliveredSpeech::Stream(receiver)
    }
}

impl<C> Admission<C> {
    /// Returns the usage of the call: the units that the gateway counts, and the reported tokens.
    /// `None` if the model has token prices and no tokens were reported.
    fn consumed_usage(&self, reported: Option<Usage>) -> Option<Usage> {
        let tokens = match (is_priced_by_token(&self.model), reported) {
            (true, reported) => reported?,
            (false, reported) => reported.unwrap_or_default(),
        };
        let made = self.request.demand.made.iter();
        Some(made.fold(tokens, |usage, (unit, quantity)| usage.with(unit, quantity)))
    }
}

/// Waits for the first audio bytes. Before they arrive, another candidate can be tried. Returns an
/// error if the response contains no audio.
async fn receive_first(spoken: SpeechAnswer) -> Result<StartedSpeech, UpstreamError> {
    let usage = spoken.usage;
    let (first, rest) = match spoken.audio {
        AudioContent::Whole(bytes) => (bytes, None),
        AudioContent::Stream(mut rest) => {
            let mut first = Bytes::new();
            while first.is_empty() {
                let Some(chunk) = rest.next().await else { break };
                first = chunk?;
            }
            (first, Some(rest))
        }
    };
    match first.is_empty() {
        true => Err(UpstreamError::protocol("the response has no audio")),
        false => Ok(StartedSpeech { first, rest, usage }),
    }
}

/// Ending of an audio stream.
enum End {
    Completed,
    UpstreamFailed(UpstreamError),
    CallerGone,
}

/// Task that forwards audio to the caller, and settles the call before the channel closes.
struct Pump {
    admission: Admission<SpeechCall>,
    target: Arc<str>,
    meter: Meter,
    caller: Sender<Result<Bytes, Error>>,
}

impl Pump {
    /// Spawns the pump as a task, so that the call is settled even if the caller stops reading.
    fn start(self, pipeline: Arc<Pipeline>, first: Bytes, rest: ContentStream) {
        let tracker = pipeline.calls.clone();
        let (hold, account) = (
            self.admission.hold.id(),
            self.admission.request.caller.account_id(),
        );
        tracker.spawn(async move {
            let pumped = AssertUnwindSafe(self.run(&pipeline, first, rest)).catch_unwind();
            if pumped.await.is_err() {
                pipeline.release_after_panic(hold, account).await;
            }
        });
    }

    async fn run(self, pipeline: &Pipeline, first: Bytes, rest: ContentStream) {
        let stall = pipeline.settings.timeouts.write_stall;
        let pumped = pipeline
            .within_total(forward(&self.caller, first, rest, stall))
            .await;
        let end =
            pumped.unwrap_or_else(|| End::UpstreamFailed(UpstreamError::timeout("the call took too long")));
        let Pump {
            admission,
            target,
            meter,
            caller,
        } = self;
        let request = admission.request.request;
        match end {
            End::Completed => {
                pipeline.settle(admission, Ending::Complete, &meter, target).await;
            }
            // The usage is known from the request, so the rest of the stream need not be read.
            End::CallerGone => {
                pipeline
                    .settle(admission, Ending::CallerGoneCut, &meter, target)
                    .await;
            }
            End::UpstreamFailed(error) => {
                tracing::warn!(request.id = %request, %error, "upstream failed in the middle of speech");
                pipeline
                    .settle(admission, ending_of(&error), &meter, target)
                    .await;
                let message =
                    "The model failed in the middle of the response. The delivered audio is incomplete.";
                let failure = Error::new(ErrorCode::UpstreamError, message);
                let _ = timeout(stall, caller.send(Err(failure))).await;
            }
        }
    }
}

async fn forward(
    caller: &Sender<Result<Bytes, Error>>,
    first: Bytes,
    mut rest: ContentStream,
    stall: Duration,
) -> End {
    let mut chunk = first;
    loop {
        match timeout(stall, caller.send(Ok(chunk))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return End::CallerGone,
        }
        let next = tokio::select! {
            next = rest.next() => next,
            () = caller.closed() => return End::CallerGone,
        };
        chunk = match next {
            Some(Ok(next)) => next,
            Some(Err(error)) => return End::UpstreamFailed(error),
            None => return End::Completed,
        };
    }
}

impl Operation for TranscriptionCall {
    type Reply = Transcript;
    type Answer = Transcribed;

    fn input(&self) -> &'static str {
        "file"
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> Result<Transcript, UpstreamError> {
        let Some(transcriptions) = route.provider.transcriptions() else {
            return Err(UpstreamError::connect(
                "the provider does not support transcription",
            ));
        };
        let call = TranscriptionCall {
            upstream_model: route.candidate.upstream_model.clone(),
            ..admission.request.call.clone()
        };
        let transcript = transcriptions
            .transcribe(&pipeline.context(admission), &call)
            .await?;
        let has_text = !transcript.text.trim().is_empty();
        if call.format.is_timed() && has_text && transcript.segments.is_empty() {
            return Err(missing_timestamps());
        }
        Ok(transcript)
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        mut admission: Admission<Self>,
        dispatched: Dispatched<Transcript>,
        left: bool,
    ) -> Transcribed {
        let Dispatched { reply, target } = dispatched;
        let is_forbidden = match &admission.policy {
            Some(policy) => {
                let texts = [reply.text.clone()];
                policy.forbids(admission.request.request, &texts).await
            }
            None => false,
        };
        let usage = admission.transcription_usage(&reply);
        let bytes = reply.text.len() as u64;
        let charge = pipeline
            .settle_whole(admission, usage, 0, bytes, target, left)
            .await;
        Transcribed {
            transcript: (!is_forbidden).then_some(reply),
            charge,
        }
    }
}

impl Admission<TranscriptionCall> {
    /// Returns the usage of a transcription, and sets its duration in the demand. The gateway's
    /// measurement of the duration takes precedence over the upstream's. If both are missing, the
    /// duration is estimated, and the usage is `None`.
    fn transcription_usage(&mut self, transcript: &Transcript) -> Option<Usage> {
        let call = &self.request.call;
        let known = call.duration.or(transcript.duration);
        let requested = self.request.demand.made.get(Unit::Audio);
        let micros = known.map_or_else(|| estimated_micros(call.audio.bytes.len()).min(requested), micros);
        self.request.demand.made = Usage::ZERO.with(Unit::Audio, micros);
        known.and(self.consumed_usage(transcript.usage))
    }
}

/// Returns a duration in whole microseconds, saturating.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn estimated_micros(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(1_000_000) / BYTES_PER_SECOND
}

fn missing_timestamps() -> UpstreamError {
    let detail = "the transcript has no timestamps";
    UpstreamError {
        param: Some("response_format".to_owned()),
        ..UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Protocol, detail)
    }
}
