//! Stages 3 to 5: dispatch, meter, settle. They complete even if the caller disconnects.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tollgate_billing::{Charge, Ending, verdict};
use tollgate_storage::Settlement;
use tollgate_types::generate::GenerateResponse;
use tollgate_types::stream::StreamEvent;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, Error, HoldId, RequestId, Usage};
use tollgate_upstream::{
    CallContext, EmbedCall, ModerationCall, Outline, Payload, SpeechCall, TextChunk, TextStream,
    TranscriptionCall,
};

use crate::Pipeline;
use crate::admit::Admission;
use crate::decide::{DecideCall, Decided};
use crate::dispatch::{Dispatched, Failure, cut_off, total_timeout};
use crate::embed::Embedded;
use crate::meter::Meter;
use crate::moderate::Moderated;
use crate::operation::Operation;
use crate::run_to_completion::{Caller, DetachOnDrop};
use crate::speech::{DeliveredSpeech, Transcribed};
use crate::structured::Structure;

/// Result of a call, for the caller.
pub struct Served<A = Delivered> {
    /// Response of the operation.
    pub answer: A,
    /// Time until the response, or the first content of a stream, arrived.
    pub upstream_wait: Duration,
    /// Attempt whose response matches the schema, if the gateway enforced a schema.
    pub structure: Option<Structure>,
    /// Fields that were changed or dropped for the candidate that responded, in the caller's
    /// format.
    pub changed: Vec<String>,
}

/// Response of text generation.
pub enum Delivered {
    /// A complete, settled response.
    Whole {
        /// Body of the response. Raw bytes are the upstream's, unmodified.
        payload: Payload<GenerateResponse>,
        /// Properties that the format's scan found in raw bytes.
        outline: Option<Outline>,
        /// Cost at which the hold was settled.
        charge: Charge,
    },
    /// A streamed response.
    Stream(DeliveredStream),
}

/// Chunks of a streamed response. The stream is complete once `End` is received.
pub type DeliveredStream = mpsc::Receiver<AnswerChunk>;

/// A chunk of a streamed response. Open streams buffer many chunks, so rare variants are boxed.
#[derive(Debug)]
pub enum AnswerChunk {
    /// An event of the response.
    Event(Payload<StreamEvent>),
    /// The usage report, with the cost of the call so far.
    Usage(Payload<StreamEvent>, Credits),
    /// The regular end, with the settled charge.
    End(Option<Payload<StreamEvent>>, Box<Charge>),
    /// No event arrived within the ping interval; a keep-alive is to be sent.
    Ping,
    /// The upstream failed after its response had started. The call is settled, and this chunk is
    /// the last one.
    Failed(Box<Error>),
}

impl Pipeline {
    /// Generates text. The call continues if this future is dropped.
    pub async fn run(self: &Arc<Self>, admission: Admission) -> Result<Served, Error> {
        self.operate(admission).await
    }

    /// Computes embeddings. The call continues if this future is dropped.
    pub async fn embed(self: &Arc<Self>, admission: Admission<EmbedCall>) -> Result<Served<Embedded>, Error> {
        self.operate(admission).await
    }

    /// Answers the questions of a typed decision. The call continues if this future is dropped.
    pub async fn decide(
        self: &Arc<Self>,
        admission: Admission<DecideCall>,
    ) -> Result<Served<Decided>, Error> {
        self.operate(admission).await
    }

    /// Moderates content. The call continues if this future is dropped.
    pub async fn moderate(
        self: &Arc<Self>,
        admission: Admission<ModerationCall>,
    ) -> Result<Served<Moderated>, Error> {
        self.operate(admission).await
    }

    /// Synthesizes speech. The call continues if this future is dropped.
    pub async fn speak(
        self: &Arc<Self>,
        admission: Admission<SpeechCall>,
    ) -> Result<Served<DeliveredSpeech>, Error> {
        self.operate(admission).await
    }

    /// Transcribes a recording. The call continues if this future is dropped.
    pub async fn transcribe(
        self: &Arc<Self>,
        admission: Admission<TranscriptionCall>,
    ) -> Result<Served<Transcribed>, Error> {
        self.operate(admission).await
    }

    fn operate<C: Operation>(
        self: &Arc<Self>,
        mut admission: Admission<C>,
    ) -> DetachOnDrop<Result<Served<C::Answer>, Error>> {
        let pipeline = self.clone();
        let (hold, account) = (admission.hold.id(), admission.request.caller.account_id());
        admission.hold_guard.run();
        DetachOnDrop::new(&self.calls, |caller| async move {
            let stages = AssertUnwindSafe(pipeline.clone().run_stages(admission, caller)).catch_unwind();
            match stages.await {
                Ok(served) => served,
                Err(_) => {
                    pipeline.release_after_panic(hold, account).await;
                    Err(Error::internal("the call panicked"))
                }
            }
        })
    }

    async fn run_stages<C: Operation>(
        self: Arc<Self>,
        mut admission: Admission<C>,
        caller: Caller,
    ) -> Result<Served<C::Answer>, Error> {
        admission.caller = caller.clone();
        let started = self.clock.monotonic_micros();
        let completed = match self.dispatch_for(&admission, &caller).await {
            Ok(dispatched) => C::complete(&self, &mut admission, &caller, dispatched).await,
            Err(failure) => Err(failure),
        };
        let upstream_wait = Duration::from_micros(self.clock.monotonic_micros().saturating_sub(started));
        let left = caller.has_left();
        match completed {
            Err(failure) => {
                let meter = Meter::failed(failure.reported.map(|reported| *reported));
                self.settle(admission, failure.ending, &meter, "".into()).await;
                Err(failure.error)
            }
            Ok((dispatched, structure)) => Ok(Served {
                changed: admission.changed_for(&dispatched.target),
                answer: C::deliver(self, admission, dispatched, left).await,
                upstream_wait,
                structure,
            }),
        }
    }

    /// Returns the upstream call context of an admission, with the configured timeouts.
    pub(crate) fn context<C>(&self, admission: &Admission<C>) -> CallContext {
        let timeouts = &self.settings.timeouts;
        admission.context(timeouts.headers, timeouts.idle)
    }

    /// Spawns the task that pumps a stream to its caller, so that the call is settled even if the
    /// caller stops reading.
    pub(crate) fn start_pump(
        self: Arc<Self>,
        mut admission: Admission,
        target: Arc<str>,
        received: Vec<TextChunk>,
        rest: TextStream,
        uncapped: bool,
        sender: Option<mpsc::Sender<AnswerChunk>>,
    ) {
        // The request was sent and is not needed again. A stream may remain open for minutes, and a
        // prompt may be large.
        admission.request.call.release();
        let tracker = self.calls.clone();
        let (hold, account) = (admission.hold.id(), admission.request.caller.account_id());
        // The future is boxed, because a task is moved several times before it runs, and this one
        // is large.
        tracker.spawn(Box::pin(async move {
            let pumped = AssertUnwindSafe(self.pump(admission, target, received, rest, uncapped, sender));
            let pumped = pumped.catch_unwind();
            if pumped.await.is_err() {
                self.release_after_panic(hold, account).await;
            }
        }));
    }

    /// Dispatches the call. If the caller disconnects in the meantime, waits for the reply within
    /// the drain limits.
    pub(crate) async fn dispatch_for<C: Operation>(
        &self,
        admission: &Admission<C>,
        caller: &Caller,
    ) -> Result<Dispatched<C::Reply>, Failure> {
        let mut dispatch = pin!(self.within_total(self.dispatch(admission)));
        let finished = tokio::select! {
            biased;
            finished = &mut dispatch => Some(finished),
            () = caller.left() => None,
        };
        if let Some(finished) = finished {
            return finished.unwrap_or_else(|| Err(total_timeout()));
        }
        let Ok(_permit) = self.drains.try_acquire() else {
            return Err(cut_off());
        };
        match tokio::time::timeout(self.settings.drain.time, dispatch).await {
            Ok(finished) => finished.unwrap_or_else(|| Err(total_timeout())),
            Err(_) => Err(cut_off()),
        }
    }

    /// Meters and settles a complete response (stages 4 and 5).
    pub(crate) async fn settle_whole<C>(
        &self,
        admission: Admission<C>,
        reported: Option<Usage>,
        min_output: u64,
        output_bytes: u64,
        target: Arc<str>,
        caller_left: bool,
    ) -> Charge {
        let mut meter = Meter::default();
        meter.whole(reported, min_output, output_bytes, self.clock.now());
        let ending = if caller_left {
            Ending::CallerGoneDrained
        } else {
            Ending::Complete
        };
        self.settle(admission, ending, &meter, target).await
    }

    /// Settles a call (stage 5) and returns its charge. A storage error does not fail the response:
    /// the sweep releases a hold that cannot be settled.
    pub(crate) async fn settle<C>(
        &self,
        admission: Admission<C>,
        ending: Ending,
        meter: &Meter,
        target: Arc<str>,
    ) -> Charge {
        let Admission {
            hold,
            reservation,
            request,
            ..
        } = admission;
        let evidence = meter.evidence();
        let mut found = verdict(ending, &evidence, &request.demand);
        found.estimated |= meter.is_underreported() && !found.usage.is_zero();
        let charge = hold.price(&found);
        if ending.is_upstream_failure()
            && let Some(reported) = evidence.reported
        {
            self.count_uncharged(request.request, &reported);
        }
        self.limiter.correct(reservation, charge.usage.total()).await;
        let settled = hold
            .settle(&*self.ledger, &charge, target, meter.first_at(), self.clock.now())
            .await;
        if let Err(error) = settled {
            tracing::error!(request.id = %request.request, %error, "cannot settle a call; the storage retries the settlement, or the sweep releases the hold");
        }
        self.meters.record(&charge);
        charge
    }

    /// Counts the tokens that an upstream reported for a failed call. The caller is not charged for
    /// them, but the provider may bill the operator.
    pub(crate) fn count_uncharged(&self, request: RequestId, reported: &Usage) {
        if reported.total() == 0 {
            return;
        }
        let (input, output) = (reported.total_input(), reported.total_output());
        tracing::warn!(request.id = %request, input, output, "tokens of a failed call are not charged");
        self.meters.record_uncharged(reported);
    }

    pub(crate) async fn release_after_panic(&self, hold: HoldId, account: AccountId) {
        tracing::error!(hold.id = %hold, "the task that owned a call panicked; its hold is released");
        let settlement = Settlement::free(account, hold, Outcome::Crashed, self.clock.now());
        if let Err(error) = self.ledger.settle(settlement).await {
            tracing::error!(hold.id = %hold, %error, "cannot release a hold; the sweep will release it");
        }
    }
}
