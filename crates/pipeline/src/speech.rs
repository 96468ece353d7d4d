//! Speech: texts that are spoken, and recordings that are written down. Characters and seconds are counted by the gateway;
//! only models that are priced by tokens are charged by what their provider reports.

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
    ContentStream, Sound, SpeechCall, Spoken, Transcript, TranscriptionCall, UpstreamCause, UpstreamError,
    UpstreamErrorKind,
};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::{Dispatched, ending_of};
use crate::media::NamesMedia;
use crate::meter::Meter;
use crate::operation::Operation;
use crate::route::{Route, Routed};

/// Pieces that wait for a caller that reads slowly; beyond them the upstream is not read.
const BUFFERED_PIECES: usize = 16;
/// Bytes that stand for a character where the tokens of speech are estimated: four are a token, and a character is spoken in
/// one and a half.
const BYTES_PER_CHARACTER: u64 = 6;
/// Bytes in a second of a recording of which nobody knows how long it is: 64 kbit/s.
const BYTES_PER_SECOND: u64 = 8_000;

/// Speech, as its caller gets it.
pub enum Voice {
    /// All of it, settled.
    Whole(Bytes, Charge),
    /// As it comes. It is complete when the channel ends, and then it is settled; after a failure nothing follows.
    Stream(Receiver<Result<Bytes, Error>>),
}

/// What was written down, settled.
pub struct Transcribed {
    /// The transcript; nothing when the content policy forbids to show it.
    pub transcript: Option<Transcript>,
    /// What it cost.
    pub charge: Charge,
}

impl NamesMedia for SpeechCall {}

impl NamesMedia for TranscriptionCall {}

/// Whether a model has a price for tokens.
pub fn is_by_token(model: &Model) -> bool {
    let prices = &model.prices;
    !(prices.highest_input(0, false).is_zero() && prices.highest_output(0).is_zero())
}

impl Routed {
    /// Keeps the candidates that can write a recording down as it is asked for. When there is none, the first refusal is
    /// told.
    pub fn retain_transcribers(&mut self, call: &TranscriptionCall) -> Result<(), Error> {
        let mut refusal = None;
        let mut kept = Vec::with_capacity(self.routes.len());
        for route in &self.routes {
            let Some(provider) = route.provider.transcriptions() else {
                continue;
            };
            let call = TranscriptionCall {
                upstream_model: route.candidate.upstream_model.clone(),
                ..call.clone()
            };
            match provider.check(&call) {
                Ok(()) => kept.push(route.clone()),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        if kept.is_empty() {
            return Err(refusal.unwrap_or_else(unsupported));
        }
        self.routes = kept;
        Ok(())
    }

    /// Keeps the candidates that speak.
    pub fn retain_speakers(&mut self) -> Result<(), Error> {
        match self.retain(|provider| provider.speech().is_some()) {
            true => Ok(()),
            false => Err(unsupported()),
        }
    }
}

fn unsupported() -> Error {
    let message =
        "This model cannot be asked for that. Its record in GET /v1/models names the endpoints it serves.";
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}

/// Speech that has begun to come.
pub(crate) struct Begun {
    first: Bytes,
    rest: Option<ContentStream>,
    usage: Option<Usage>,
}

impl Operation for SpeechCall {
    type Reply = Begun;
    type Answer = Voice;

    fn input(&self) -> &'static str {
        "input"
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> Result<Begun, UpstreamError> {
        let Some(speech) = route.provider.speech() else {
            return Err(UpstreamError::connect("the provider does not speak"));
        };
        let call = SpeechCall {
            upstream_model: route.candidate.upstream_model.clone(),
            ..admission.request.call.clone()
        };
        let spoken = speech.speak(&pipeline.context(admission), &call).await?;
        let patience = pipeline.settings.timeouts.first_content;
        let begun = timeout(patience, begin(spoken)).await;
        begun.unwrap_or_else(|_| Err(UpstreamError::timeout("no sound in time")))
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission<Self>,
        dispatched: Dispatched<Begun>,
        left: bool,
    ) -> Voice {
        let Dispatched { reply, provider } = dispatched;
        let mut meter = Meter::default();
        let characters = admission.request.demand.made.get(Unit::Character);
        let estimate = characters.saturating_mul(BYTES_PER_CHARACTER);
        meter.whole(admission.spent(reply.usage), estimate, pipeline.clock.now());
        let Some(rest) = reply.rest else {
            let ending = match left {
                true => Ending::CallerGoneDrained,
                false => Ending::Complete,
            };
            let charge = pipeline.settle(admission, ending, &meter, provider).await;
            return Voice::Whole(reply.first, charge);
        };
        let (pieces, receiver) = mpsc::channel(BUFFERED_PIECES);
        let pump = Pump {
            admission,
            provider,
            meter,
            caller: pieces,
        };
        pump.start(pipeline, reply.first, rest);
        Voice::Stream(receiver)
    }
}

impl<C> Admission<C> {
    /// What is known to be consumed: what the gateway counts, with the tokens of a report where a model is priced by them.
    fn spent(&self, reported: Option<Usage>) -> Option<Usage> {
        let tokens = match (is_by_token(&self.model), reported) {
            (true, reported) => reported?,
            (false, reported) => reported.unwrap_or_default(),
        };
        let made = self.request.demand.made.iter();
        Some(made.fold(tokens, |usage, (unit, quantity)| usage.with(unit, quantity)))
    }
}

/// Waits for the first sound: until then the call can go elsewhere.
async fn begin(spoken: Spoken) -> Result<Begun, UpstreamError> {
    let usage = spoken.usage;
    let (first, rest) = match spoken.sound {
        Sound::Whole(bytes) => (bytes, None),
        Sound::Stream(mut rest) => {
            let mut first = Bytes::new();
            while first.is_empty() {
                let Some(piece) = rest.next().await else { break };
                first = piece?;
            }
            (first, Some(rest))
        }
    };
    match first.is_empty() {
        true => Err(UpstreamError::protocol("the answer has no sound")),
        false => Ok(Begun { first, rest, usage }),
    }
}

/// How a stream of sound ended.
enum End {
    Proper,
    Broken(UpstreamError),
    CallerGone,
}

/// Hands sound on as it comes, and settles before its end is told.
struct Pump {
    admission: Admission<SpeechCall>,
    provider: Arc<str>,
    meter: Meter,
    caller: Sender<Result<Bytes, Error>>,
}

impl Pump {
    /// In a task of its own: its caller reads when it likes.
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
            .within_total(hand_on(&self.caller, first, rest, stall))
            .await;
        let end = pumped.unwrap_or_else(|| End::Broken(UpstreamError::timeout("the call took too long")));
        let Pump {
            admission,
            provider,
            meter,
            caller,
        } = self;
        let request = admission.request.request;
        match end {
            End::Proper => {
                pipeline
                    .settle(admission, Ending::Complete, &meter, provider)
                    .await;
            }
            // What it asked for is known, so that nothing has to be read to its end.
            End::CallerGone => {
                pipeline
                    .settle(admission, Ending::CallerGoneCut, &meter, provider)
                    .await;
            }
            End::Broken(error) => {
                tracing::warn!(request.id = %request, %error, "upstream failed in the middle of speech");
                // Nobody pays for a part, whatever was reported.
                let nothing = Meter::default();
                pipeline
                    .settle(admission, ending_of(&error), &nothing, provider)
                    .await;
                let message =
                    "The model failed in the middle of the answer. What was delivered is incomplete.";
                let failure = Error::new(ErrorCode::UpstreamError, message);
                let _ = timeout(stall, caller.send(Err(failure))).await;
            }
        }
    }
}

async fn hand_on(
    caller: &Sender<Result<Bytes, Error>>,
    first: Bytes,
    mut rest: ContentStream,
    stall: Duration,
) -> End {
    let mut piece = first;
    loop {
        match timeout(stall, caller.send(Ok(piece))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return End::CallerGone,
        }
        let next = tokio::select! {
            next = rest.next() => next,
            () = caller.closed() => return End::CallerGone,
        };
        piece = match next {
            Some(Ok(next)) => next,
            Some(Err(error)) => return End::Broken(error),
            None => return End::Proper,
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
            return Err(UpstreamError::connect("the provider transcribes nothing"));
        };
        let call = TranscriptionCall {
            upstream_model: route.candidate.upstream_model.clone(),
            ..admission.request.call.clone()
        };
        let transcript = transcriptions
            .transcribe(&pipeline.context(admission), &call)
            .await?;
        let says_something = !transcript.text.trim().is_empty();
        if call.format.is_timed() && says_something && transcript.segments.is_empty() {
            return Err(untimed());
        }
        Ok(transcript)
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        mut admission: Admission<Self>,
        dispatched: Dispatched<Transcript>,
        left: bool,
    ) -> Transcribed {
        let Dispatched { reply, provider } = dispatched;
        let is_forbidden = match &admission.policy {
            Some(policy) => {
                let texts = [reply.text.clone()];
                policy.forbids(admission.request.request, &texts).await
            }
            None => false,
        };
        let usage = admission.heard(&reply);
        let bytes = reply.text.len() as u64;
        let charge = pipeline
            .settle_whole(admission, usage, bytes, provider, left)
            .await;
        Transcribed {
            transcript: (!is_forbidden).then_some(reply),
            charge,
        }
    }
}

impl Admission<TranscriptionCall> {
    /// What was consumed. How long the recording is says the gateway where it knows, else the upstream; where neither does it
    /// is estimated, and nothing is reported.
    fn heard(&mut self, transcript: &Transcript) -> Option<Usage> {
        let call = &self.request.call;
        let known = call.duration.or(transcript.duration);
        let asked = self.request.demand.made.get(Unit::Audio);
        let micros = known.map_or_else(|| likely_micros(call.audio.bytes.len()).min(asked), micros);
        self.request.demand.made = Usage::ZERO.with(Unit::Audio, micros);
        known.and(self.spent(transcript.usage))
    }
}

/// A length in microseconds.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn likely_micros(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(1_000_000) / BYTES_PER_SECOND
}

fn untimed() -> UpstreamError {
    let detail = "it does not say when what was said";
    UpstreamError {
        param: Some("response_format".to_owned()),
        ..UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Protocol, detail)
    }
}
