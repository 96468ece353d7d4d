//! Stages 3 to 5: dispatch, meter, settle. They are carried out to their end, also when the caller leaves.

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
use tollgate_types::{AccountId, Credits, Error, HoldId, Usage};
use tollgate_upstream::{
    CallContext, EmbedCall, ModerationCall, Outline, Payload, SpeechCall, TextChunk, TextStream,
    TranscriptionCall,
};

use crate::Pipeline;
use crate::admit::Admission;
use crate::decide::{DecideCall, Decided};
use crate::dispatch::{Dispatched, Failure, total_timeout};
use crate::embed::Embedded;
use crate::meter::Meter;
use crate::moderate::Moderated;
use crate::operation::Operation;
use crate::owned::{Caller, Owned};
use crate::speech::{Transcribed, Voice};
use crate::structured::Structure;

/// What the caller gets.
pub struct Served<A = Delivered> {
    /// The answer.
    pub answer: A,
    /// How long the upstream took until the answer, or the first content of it, was there.
    pub upstream_wait: Duration,
    /// How the answer got its shape, when the gateway had to see to it.
    pub structure: Option<Structure>,
}

/// An answer.
pub enum Delivered {
    /// All of it, settled.
    Whole {
        /// The answer; raw bytes are still the upstream's own.
        payload: Payload<GenerateResponse>,
        /// What the format knows of raw bytes already.
        outline: Option<Outline>,
        /// What it cost.
        charge: Charge,
    },
    /// Piece by piece.
    Stream(DeliveredStream),
}

/// The pieces of a streamed answer. The stream is complete when `End` was received.
pub type DeliveredStream = mpsc::Receiver<Piece>;

/// A piece of a streamed answer. Every open stream has room for many, so what comes once is boxed.
#[derive(Debug)]
pub enum Piece {
    /// An event.
    Event(Payload<StreamEvent>),
    /// The usage report, with what the call costs.
    Usage(Payload<StreamEvent>, Credits),
    /// The proper end. The call is settled, and this is what it cost.
    End(Option<Payload<StreamEvent>>, Box<Charge>),
    /// Nothing new; the connection should show a sign of life.
    Ping,
    /// The upstream failed after its answer had begun. The call is settled; nothing follows.
    Failed(Box<Error>),
}

impl Pipeline {
    /// Generates text. The call goes on when this future is dropped.
    pub async fn run(self: &Arc<Self>, admission: Admission) -> Result<Served, Error> {
        self.operate(admission).await
    }

    /// Turns texts into vectors, in the same way.
    pub async fn embed(self: &Arc<Self>, admission: Admission<EmbedCall>) -> Result<Served<Embedded>, Error> {
        self.operate(admission).await
    }

    /// Answers questions about a state, in the same way.
    pub async fn decide(
        self: &Arc<Self>,
        admission: Admission<DecideCall>,
    ) -> Result<Served<Decided>, Error> {
        self.operate(admission).await
    }

    /// Looks at content, in the same way.
    pub async fn moderate(
        self: &Arc<Self>,
        admission: Admission<ModerationCall>,
    ) -> Result<Served<Moderated>, Error> {
        self.operate(admission).await
    }

    /// Speaks a text, in the same way.
    pub async fn speak(self: &Arc<Self>, admission: Admission<SpeechCall>) -> Result<Served<Voice>, Error> {
        self.operate(admission).await
    }

    /// Writes a recording down, in the same way.
    pub async fn transcribe(
        self: &Arc<Self>,
        admission: Admission<TranscriptionCall>,
    ) -> Result<Served<Transcribed>, Error> {
        self.operate(admission).await
    }

    fn operate<C: Operation>(
        self: &Arc<Self>,
        admission: Admission<C>,
    ) -> Owned<Result<Served<C::Answer>, Error>> {
        let pipeline = self.clone();
        let (hold, account) = (admission.hold.id(), admission.request.caller.account_id());
        Owned::new(&self.calls, |caller| async move {
            let owned = AssertUnwindSafe(pipeline.clone().own(admission, caller)).catch_unwind();
            match owned.await {
                Ok(served) => served,
                Err(_) => {
                    pipeline.release_after_panic(hold, account).await;
                    Err(Error::internal("the call panicked"))
                }
            }
        })
    }

    async fn own<C: Operation>(
        self: Arc<Self>,
        mut admission: Admission<C>,
        caller: Caller,
    ) -> Result<Served<C::Answer>, Error> {
        let started = self.clock.monotonic_micros();
        let completed = match self.dispatch_for(&admission, &caller).await {
            Ok(dispatched) => C::complete(&self, &mut admission, &caller, dispatched).await,
            Err(failure) => Err(failure),
        };
        let upstream_wait = Duration::from_micros(self.clock.monotonic_micros().saturating_sub(started));
        let left = caller.has_left();
        match completed {
            Err(failure) => {
                let ending = if left {
                    Ending::CallerGoneCut
                } else {
                    failure.ending
                };
                self.settle(admission, ending, &Meter::default(), "".into()).await;
                Err(failure.error)
            }
            Ok((dispatched, structure)) => Ok(Served {
                answer: C::deliver(self, admission, dispatched, left).await,
                upstream_wait,
                structure,
            }),
        }
    }

    /// The frame in which an upstream may be called for this admission.
    pub(crate) fn context<C>(&self, admission: &Admission<C>) -> CallContext {
        let timeouts = &self.settings.timeouts;
        admission.context(timeouts.headers, timeouts.idle)
    }

    /// A stream is pumped by a task of its own: its caller reads when it likes.
    pub(crate) fn start_pump(
        self: Arc<Self>,
        mut admission: Admission,
        provider: Arc<str>,
        begun: Vec<TextChunk>,
        rest: TextStream,
        pieces: Option<mpsc::Sender<Piece>>,
    ) {
        // It was sent, and is not sent again: a stream may be open for long, and a prompt may be large.
        admission.request.call.release();
        let tracker = self.calls.clone();
        let (hold, account) = (admission.hold.id(), admission.request.caller.account_id());
        // Boxed, because a task is moved several times before it runs, and this one is large.
        tracker.spawn(Box::pin(async move {
            let pumped = AssertUnwindSafe(self.pump(admission, provider, begun, rest, pieces)).catch_unwind();
            if pumped.await.is_err() {
                self.release_after_panic(hold, account).await;
            }
        }));
    }

    /// Dispatches; when the caller leaves meanwhile, waits on within the bounds of a drain.
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
            return Err(total_timeout());
        };
        let drained = tokio::time::timeout(self.settings.drain.time, dispatch).await;
        drained.ok().flatten().unwrap_or_else(|| Err(total_timeout()))
    }

    /// Stages 4 and 5 of an answer that came all at once.
    pub(crate) async fn settle_whole<C>(
        &self,
        admission: Admission<C>,
        reported: Option<Usage>,
        output_bytes: u64,
        provider: Arc<str>,
        caller_left: bool,
    ) -> Charge {
        let mut meter = Meter::default();
        meter.whole(reported, output_bytes, self.clock.now());
        let ending = if caller_left {
            Ending::CallerGoneDrained
        } else {
            Ending::Complete
        };
        self.settle(admission, ending, &meter, provider).await
    }

    /// Stage 5. Never fails the caller's answer: a hold that cannot be settled is released by the sweep.
    pub(crate) async fn settle<C>(
        &self,
        admission: Admission<C>,
        ending: Ending,
        meter: &Meter,
        provider: Arc<str>,
    ) -> Charge {
        let Admission {
            hold,
            reservation,
            request,
            ..
        } = admission;
        let charge = hold.price(&verdict(ending, &meter.evidence(), &request.demand));
        self.limiter.correct(reservation, charge.usage.total()).await;
        let settled = hold
            .settle(
                &*self.ledger,
                &charge,
                provider,
                meter.first_at(),
                self.clock.now(),
            )
            .await;
        if let Err(error) = settled {
            tracing::error!(request.id = %request.request, %error, "cannot settle a call now; storage tries again, or its hold is released");
        }
        self.meters.record(&charge);
        charge
    }

    pub(crate) async fn release_after_panic(&self, hold: HoldId, account: AccountId) {
        tracing::error!(hold.id = %hold, "the task that owned a call panicked; its hold is released");
        let settlement = Settlement::free(account, hold, Outcome::Crashed, self.clock.now());
        if let Err(error) = self.ledger.settle(settlement).await {
            tracing::error!(hold.id = %hold, %error, "cannot release a hold; the sweep will");
        }
    }
}
