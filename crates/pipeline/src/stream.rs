//! Pump of a streamed response. It reads upstream events, meters and forwards them, and settles the
//! call before it sends the end. If the caller disconnects or stops reading, the pump drains the
//! upstream within limits, or closes the connection if the provider's streams stop on disconnect.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, sleep_until, timeout};
use tollgate_billing::{Charge, Ending, verdict};
use tollgate_storage::usage::split_target;
use tollgate_types::generate::{Choice, GenerateResponse, Part};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Error, Usage};
use tollgate_upstream::{ChunkKind, Payload, TextChunk, TextStream, UpstreamError};

use crate::Pipeline;
use crate::admit::Admission;
use crate::cost_limit::CostLimit;
use crate::dispatch::{ending_of, public_error};
use crate::meter::Meter;
use crate::run::{AnswerChunk, DeliveredStream};

/// Number of events buffered for a slow caller. While the buffer is full, the upstream is not read.
pub(crate) const BUFFERED_CHUNKS: usize = 16;

/// Factor in the token limit of a runaway response, which is `RUNAWAY_FACTOR` × output cap +
/// `RUNAWAY_TOKENS` per choice.
const RUNAWAY_FACTOR: u64 = 4;
/// Number of tokens that are added to the multiple of the output cap; see [`RUNAWAY_FACTOR`].
const RUNAWAY_TOKENS: u64 = 4_096;

/// Ending of a pumped stream.
enum End {
    Completed(Option<Payload<StreamEvent>>),
    UpstreamFailed(UpstreamError),
    /// The gateway ended the response at the cost limit.
    Stopped,
    Cut,
}

struct Pump<'a> {
    pipeline: &'a Pipeline,
    admission: Admission,
    meter: Meter,
    cost_limit: Option<CostLimit>,
    /// Limit at which a response that ignores its output cap is aborted.
    runaway_limit: Option<CostLimit>,
    is_runaway: bool,
    caller: Option<Sender<AnswerChunk>>,
    deadline: Instant,
    last_event_at: Instant,
    drained_bytes: u64,
    /// Whether the provider's streams are aborted when the caller disconnects.
    stops_on_disconnect: bool,
    drain: Option<tokio::sync::SemaphorePermit<'a>>,
}

impl Pipeline {
    /// Pumps a stream to its end and settles the call.
    pub(crate) async fn pump(
        &self,
        admission: Admission,
        target: Arc<str>,
        received: Vec<TextChunk>,
        rest: TextStream,
        uncapped: bool,
        caller: Option<Sender<AnswerChunk>>,
    ) {
        let now = Instant::now();
        let mut pump = Pump {
            pipeline: self,
            cost_limit: cost_limit(&admission, uncapped),
            runaway_limit: runaway_limit(&admission),
            is_runaway: false,
            meter: Meter::for_answers(admission.request.demand.n),
            admission,
            deadline: now + self.settings.timeouts.total,
            last_event_at: now,
            drained_bytes: 0,
            stops_on_disconnect: self.providers.stops_on_disconnect(split_target(&target).0),
            drain: None,
            caller,
        };
        if pump.caller.is_none() {
            // The caller disconnected before the response started. This is handled like a later
            // disconnect.
            pump.detach_caller();
        }
        let end = pump.run(received, rest).await;
        let Pump {
            admission,
            meter,
            caller,
            is_runaway,
            ..
        } = pump;
        let end = match end {
            End::UpstreamFailed(error) if meter.has_completed() => {
                tracing::info!(request.id = %admission.request.request, %error, "upstream failed after its complete response");
                End::Completed(None)
            }
            end => end,
        };
        let ending = match (&end, &caller) {
            (End::Cut, _) | (End::Stopped, None) => Ending::CallerGoneCut,
            (End::Stopped, Some(_)) => Ending::Stopped,
            (End::Completed(_), Some(_)) => Ending::Complete,
            (End::Completed(_), None) => Ending::CallerGoneDrained,
            (End::UpstreamFailed(error), _) => ending_of(error),
        };
        let request = admission.request.request;
        if let (true, End::UpstreamFailed(error)) = (is_runaway, &end) {
            let mut routes = admission.routes.iter();
            if let Some(route) = routes.find(|route| *route.candidate.target == *target) {
                self.health.failed(&route.candidate, error, admission.shape());
            }
        }
        let charge = self.settle(admission, ending, &meter, target).await;
        let Some(caller) = caller else { return };
        let last = match end {
            End::Completed(payload) => AnswerChunk::End(payload, Box::new(charge)),
            End::Stopped => AnswerChunk::End(None, Box::new(charge)),
            End::UpstreamFailed(error) => {
                tracing::warn!(request.id = %request, %error, "upstream failed in the middle of a stream");
                AnswerChunk::Failed(Box::new(mid_stream_error(&error)))
            }
            End::Cut => return,
        };
        let _ = timeout(self.settings.timeouts.write_stall, caller.send(last)).await;
    }
}

impl Pump<'_> {
    async fn run(&mut self, received: Vec<TextChunk>, mut rest: TextStream) -> End {
        for chunk in received {
            if let Some(end) = self.take(chunk).await {
                return end;
            }
        }
        let mut tick = std::pin::pin!(sleep_until(self.next_tick()));
        let mut had_caller = self.caller.is_some();
        // Detects a caller that disconnects while the upstream sends no events.
        let caller = self.caller.clone();
        let mut left = std::pin::pin!(async move {
            match caller {
                Some(caller) => caller.closed().await,
                None => std::future::pending().await,
            }
        });
        loop {
            if self.caller.is_none() && !self.may_drain() {
                return End::Cut;
            }
            if had_caller && self.caller.is_none() {
                // The deadline is earlier without a caller.
                had_caller = false;
                let next = self.next_tick();
                tick.as_mut().reset(next);
            }
            tokio::select! {
                biased;
                chunk = rest.next() => {
                    self.last_event_at = Instant::now();
                    let end = match chunk {
                        Some(Ok(chunk)) => self.take(chunk).await,
                        Some(Err(error)) => Some(End::UpstreamFailed(error)),
                        None => Some(End::UpstreamFailed(UpstreamError::protocol("the stream ended early"))),
                    };
                    if let Some(end) = end {
                        return end;
                    }
                }
                () = &mut left, if self.caller.is_some() => self.detach_caller(),
                () = &mut tick => {
                    if let Some(end) = self.on_tick().await {
                        return end;
                    }
                    let next = self.next_tick();
                    tick.as_mut().reset(next);
                }
            }
        }
    }

    /// Meters and forwards a chunk. Returns the ending if the stream ends with this chunk.
    async fn take(&mut self, chunk: TextChunk) -> Option<End> {
        self.meter.chunk(&chunk, || self.pipeline.clock.now());
        if self.exceeds_cost_limit(&chunk) {
            return Some(self.stop().await);
        }
        let is_exceeded =
            |runaway_limit: &mut CostLimit| runaway_limit.is_exceeded_by(&chunk, |_| Credits::ZERO);
        if self.runaway_limit.as_mut().is_some_and(is_exceeded) {
            self.is_runaway = true;
            return Some(End::UpstreamFailed(UpstreamError::protocol(
                "the response is far longer than its output limit",
            )));
        }
        let TextChunk {
            kind,
            payload,
            usage,
            output_bytes,
        } = chunk;
        if kind == ChunkKind::End {
            return Some(End::Completed(payload));
        }
        if self.caller.is_none() {
            self.drained_bytes = self.drained_bytes.saturating_add(output_bytes);
            return None;
        }
        if let Some(payload) = payload {
            let outgoing = if usage.is_some() {
                AnswerChunk::Usage(payload, self.cost_now())
            } else {
                AnswerChunk::Event(payload)
            };
            self.forward(outgoing).await;
        }
        None
    }

    fn exceeds_cost_limit(&mut self, chunk: &TextChunk) -> bool {
        let prices = &self.admission.hold.terms().prices;
        let cost = |usage: &Usage| prices.cost(usage);
        let cost_limit = self.cost_limit.as_mut().filter(|_| chunk.kind != ChunkKind::End);
        cost_limit.is_some_and(|cost_limit| cost_limit.is_exceeded_by(chunk, cost))
    }

    /// Sends a finish event for every choice that has not ended. The upstream connection is closed
    /// when the stream is dropped.
    async fn stop(&mut self) -> End {
        let request = self.admission.request.request;
        tracing::warn!(request.id = %request, "upstream exceeded the cost or output limit; the response is ended");
        if let Some(cost_limit) = self.cost_limit.take() {
            for event in cost_limit.missing_finishes() {
                self.forward(AnswerChunk::Event(Payload::Common(Box::new(event))))
                    .await;
            }
        }
        End::Stopped
    }

    fn cost_now(&self) -> Credits {
        let verdict = verdict(
            Ending::Complete,
            &self.meter.evidence(),
            &self.admission.request.demand,
        );
        self.admission.hold.price(&verdict).amount
    }

    /// Sends a chunk to the caller. Detaches a caller that has disconnected or does not read within
    /// the `write_stall` timeout.
    async fn forward(&mut self, outgoing: AnswerChunk) {
        let Some(caller) = &self.caller else { return };
        let is_gone = match caller.try_send(outgoing) {
            Ok(()) => false,
            Err(TrySendError::Closed(_)) => true,
            Err(TrySendError::Full(outgoing)) => {
                let stall = self.pipeline.settings.timeouts.write_stall;
                !matches!(timeout(stall, caller.send(outgoing)).await, Ok(Ok(())))
            }
        };
        if is_gone {
            self.detach_caller();
        }
        self.last_event_at = Instant::now();
    }

    fn detach_caller(&mut self) {
        self.caller = None;
        // Without a permit, the upstream is not read further. Closing the connection ends the
        // upstream's work.
        self.drain = match self.stops_on_disconnect {
            true => None,
            false => self.pipeline.drains.try_acquire().ok(),
        };
        self.deadline = self
            .deadline
            .min(Instant::now() + self.pipeline.settings.drain.time);
    }

    fn may_drain(&self) -> bool {
        self.drain.is_some() && self.drained_bytes <= self.pipeline.settings.drain.bytes
    }

    /// Returns the time of the next check of the deadline, the idle timeout and the ping interval.
    /// The timer is not reset at every event.
    fn next_tick(&self) -> Instant {
        let timeouts = &self.pipeline.settings.timeouts;
        self.deadline
            .min(self.last_event_at + timeouts.idle)
            .min(Instant::now() + timeouts.ping)
    }

    async fn on_tick(&mut self) -> Option<End> {
        let timeouts = self.pipeline.settings.timeouts;
        let now = Instant::now();
        if now >= self.deadline {
            let drained_enough = self.caller.is_none();
            return Some(if drained_enough {
                End::Cut
            } else {
                End::UpstreamFailed(UpstreamError::timeout("the call took too long"))
            });
        }
        let idle_for: Duration = now.saturating_duration_since(self.last_event_at);
        if idle_for >= timeouts.idle {
            return Some(End::UpstreamFailed(UpstreamError::timeout(
                "no event within the idle timeout",
            )));
        }
        if idle_for >= timeouts.ping.min(timeouts.idle) {
            let last_event_at = self.last_event_at;
            self.forward(AnswerChunk::Ping).await;
            self.last_event_at = last_event_at;
        }
        None
    }
}

/// Returns the limit on the response to a request with a cost limit, or on the response of an
/// upstream that received no output cap; `None` for other calls.
fn cost_limit(admission: &Admission, uncapped: bool) -> Option<CostLimit> {
    let terms = admission.hold.terms();
    let is_bounded = uncapped || admission.request.max_cost.is_some();
    is_bounded.then(|| CostLimit::new(&terms.quote, terms.demand.n))
}

/// Returns the limit at which a response that ignores its output cap is aborted; `None` if the call
/// has no cap. The limit exceeds the cap by more than any counting error.
fn runaway_limit(admission: &Admission) -> Option<CostLimit> {
    let terms = admission.hold.terms();
    let is_capped = terms.demand.max_tokens.is_some()
        || terms.quote.must_clamp
        || admission.model.output_ceiling().is_some();
    let tokens = RUNAWAY_FACTOR
        .saturating_mul(terms.quote.output_cap)
        .saturating_add(RUNAWAY_TOKENS)
        .saturating_mul(terms.demand.n.max(1));
    is_capped.then(|| CostLimit::from_tokens(tokens))
}

/// Returns the public error of an upstream that failed after its response had started. The call is
/// not retried: a second attempt is the caller's decision and would be charged again.
fn mid_stream_error(error: &UpstreamError) -> Error {
    let public = public_error(error, "");
    let message = "The model failed in the middle of the response. The delivered text may be incomplete.";
    let code = match public.code {
        tollgate_types::ErrorCode::UpstreamTimeout => tollgate_types::ErrorCode::UpstreamTimeout,
        _ => tollgate_types::ErrorCode::UpstreamError,
    };
    Error::new(code, message)
}

/// Converts a complete response to a stream, for a caller that requested one.
pub(crate) fn replayed(answer: GenerateResponse, charge: Charge) -> DeliveredStream {
    let mut events = vec![StreamEvent::Start {
        id: answer.id,
        created: answer.created,
        model: answer.model,
    }];
    answer
        .choices
        .into_iter()
        .for_each(|choice| replay(choice, &mut events));
    let (sender, receiver) = mpsc::channel(events.len() + 2);
    let common = |event| Payload::Common(Box::new(event));
    let usage = AnswerChunk::Usage(common(StreamEvent::Usage(charge.usage)), charge.amount);
    let outgoing_events = events.into_iter().map(|event| AnswerChunk::Event(common(event)));
    for outgoing in outgoing_events.chain([usage, AnswerChunk::End(None, Box::new(charge))]) {
        // The channel has capacity for all chunks.
        let _ = sender.try_send(outgoing);
    }
    receiver
}

fn replay(answer_choice: Choice, events: &mut Vec<StreamEvent>) {
    let choice = answer_choice.index;
    let mut logprobs = answer_choice.logprobs;
    for part in answer_choice.parts {
        match part {
            Part::Text(text) => events.push(StreamEvent::Text {
                choice,
                text,
                logprobs: logprobs.take(),
            }),
            Part::Refusal(text) => events.push(StreamEvent::Refusal { choice, text }),
            Part::Reasoning(reasoning) => {
                let hidden = reasoning.text.is_none();
                let text = reasoning.text.map(|text| StreamEvent::Reasoning { choice, text });
                let seal = reasoning
                    .seal
                    .map(|seal| StreamEvent::ReasoningSeal { choice, seal, hidden });
                events.extend(text.into_iter().chain(seal));
            }
            _ => {}
        }
    }
    for (call, tool_call) in (0..).zip(answer_choice.tool_calls) {
        events.push(StreamEvent::ToolCallStart {
            choice,
            call,
            id: tool_call.id,
            name: tool_call.name,
        });
        events.push(StreamEvent::ToolCallArguments {
            choice,
            call,
            arguments: tool_call.arguments,
        });
    }
    events.push(StreamEvent::Finish {
        choice,
        reason: answer_choice.finish,
        stop_sequence: answer_choice.stop_sequence,
    });
}
