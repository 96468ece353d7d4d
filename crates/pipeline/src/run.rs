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
use tollgate_upstream::{Outline, Payload, TextChunk, TextStream};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::{Dispatched, Failure, Started, total_timeout};
use crate::meter::Meter;
use crate::owned::{Caller, Owned};

/// What the caller gets.
pub struct Served {
    /// The answer.
    pub answer: Delivered,
    /// How long the upstream took until the answer, or the first content of it, was there.
    pub upstream_wait: Duration,
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

/// A piece of a streamed answer.
#[derive(Debug)]
pub enum Piece {
    /// An event.
    Event(Payload<StreamEvent>),
    /// The usage report, with what the call costs.
    Usage(Payload<StreamEvent>, Credits),
    /// The proper end. The call is settled, and this is what it cost.
    End(Option<Payload<StreamEvent>>, Charge),
    /// Nothing new; the connection should show a sign of life.
    Ping,
    /// The upstream failed after its answer had begun. The call is settled; nothing follows.
    Failed(Error),
}

impl Pipeline {
    /// Makes the call. It goes on when this future is dropped.
    pub async fn run(self: &Arc<Self>, admission: Admission) -> Result<Served, Error> {
        let pipeline = self.clone();
        let (hold, account) = (admission.hold.id(), admission.request.caller.account_id());
        let call = Owned::new(&self.calls, |caller| async move {
            let owned = AssertUnwindSafe(pipeline.clone().own(admission, caller)).catch_unwind();
            match owned.await {
                Ok(served) => served,
                Err(_) => {
                    pipeline.release_after_panic(hold, account).await;
                    Err(Error::internal("the call panicked"))
                }
            }
        });
        call.await
    }

    async fn own(self: Arc<Self>, admission: Admission, caller: Caller) -> Result<Served, Error> {
        let started = self.clock.monotonic_micros();
        let dispatched = self.dispatch_for(&admission, &caller).await;
        let upstream_wait = Duration::from_micros(self.clock.monotonic_micros().saturating_sub(started));
        let left = caller.has_left();
        let answer = match dispatched {
            Err(failure) => {
                let ending = if left {
                    Ending::CallerGoneCut
                } else {
                    failure.ending
                };
                self.settle(admission, ending, &Meter::default(), "".into()).await;
                return Err(failure.error);
            }
            Ok(Dispatched {
                reply: Started::Whole(whole),
                provider,
            }) => {
                let mut meter = Meter::default();
                meter.whole(whole.usage, whole.output_bytes, self.clock.now());
                let ending = if left {
                    Ending::CallerGoneDrained
                } else {
                    Ending::Complete
                };
                Delivered::Whole {
                    charge: self.settle(admission, ending, &meter, provider).await,
                    payload: whole.payload,
                    outline: whole.outline,
                }
            }
            Ok(Dispatched {
                reply: Started::Stream { begun, rest },
                provider,
            }) => {
                let (pieces, receiver) = mpsc::channel(crate::stream::BUFFERED_PIECES);
                let pieces = (!left).then_some(pieces);
                self.start_pump(admission, provider, begun, rest, pieces);
                Delivered::Stream(receiver)
            }
        };
        Ok(Served {
            answer,
            upstream_wait,
        })
    }

    /// A stream is pumped by a task of its own: its caller reads when it likes.
    fn start_pump(
        self: Arc<Self>,
        admission: Admission,
        provider: Arc<str>,
        begun: Vec<TextChunk>,
        rest: TextStream,
        pieces: Option<mpsc::Sender<Piece>>,
    ) {
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
    async fn dispatch_for(&self, admission: &Admission, caller: &Caller) -> Result<Dispatched, Failure> {
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

    /// Stage 5. Never fails the caller's answer: a hold that cannot be settled is released by the sweep.
    pub(crate) async fn settle(
        &self,
        admission: Admission,
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
            tracing::error!(request.id = %request.request, %error, "cannot settle a call; its hold will be released");
        }
        self.meters.record(&charge);
        charge
    }

    async fn release_after_panic(&self, hold: HoldId, account: AccountId) {
        tracing::error!(hold.id = %hold, "the task that owned a call panicked; its hold is released");
        let settlement = Settlement {
            hold,
            account,
            charge: Credits::ZERO,
            overrun: Credits::ZERO,
            usage: Usage::ZERO,
            outcome: Outcome::Crashed,
            estimated: false,
            provider: "".into(),
            first_at: None,
            ended_at: self.clock.now(),
        };
        if let Err(error) = self.ledger.settle(settlement).await {
            tracing::error!(hold.id = %hold, %error, "cannot release a hold; the sweep will");
        }
    }
}
