//! The pump of a streamed answer: reads the upstream event by event, meters, hands on, and settles before the end is
//! told. When the caller leaves or stops reading, it reads on alone, within bounds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, sleep_until, timeout};
use tollgate_billing::{Charge, Ending, verdict};
use tollgate_types::generate::{Choice, GenerateResponse, Part};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Error, Usage};
use tollgate_upstream::{ChunkKind, Payload, TextChunk, TextStream, UpstreamError};

use crate::Pipeline;
use crate::admit::Admission;
use crate::ceiling::Ceiling;
use crate::dispatch::{ending_of, public_error};
use crate::meter::Meter;
use crate::run::{DeliveredStream, Piece};

/// Events that wait for a caller that reads slowly; beyond them the upstream is not read.
pub(crate) const BUFFERED_PIECES: usize = 16;

/// How a pump ended.
enum End {
    Proper(Option<Payload<StreamEvent>>),
    Broken(UpstreamError),
    /// By the gateway, at what is paid for.
    Stopped,
    Cut,
}

struct Pump<'a> {
    pipeline: &'a Pipeline,
    admission: Admission,
    meter: Meter,
    ceiling: Option<Ceiling>,
    caller: Option<Sender<Piece>>,
    deadline: Instant,
    heard_at: Instant,
    drained_bytes: u64,
    drain: Option<tokio::sync::SemaphorePermit<'a>>,
}

impl Pipeline {
    /// Pumps a stream to its end and settles the call.
    pub(crate) async fn pump(
        &self,
        admission: Admission,
        provider: Arc<str>,
        begun: Vec<TextChunk>,
        rest: TextStream,
        caller: Option<Sender<Piece>>,
    ) {
        let now = Instant::now();
        let mut pump = Pump {
            pipeline: self,
            ceiling: ceiling(&admission),
            admission,
            meter: Meter::default(),
            deadline: now + self.settings.timeouts.total,
            heard_at: now,
            drained_bytes: 0,
            drain: None,
            caller,
        };
        if pump.caller.is_none() {
            // It left before the answer began: what is left to do is the same as when it leaves later.
            pump.give_up_caller();
        }
        let end = pump.run(begun, rest).await;
        let Pump {
            admission,
            meter,
            caller,
            ..
        } = pump;
        let ending = match (&end, &caller) {
            (End::Cut, _) | (End::Stopped, None) => Ending::CallerGoneCut,
            (End::Stopped, Some(_)) => Ending::Stopped,
            (End::Proper(_), Some(_)) => Ending::Complete,
            (End::Proper(_), None) => Ending::CallerGoneDrained,
            (End::Broken(error), _) => ending_of(error),
        };
        let request = admission.request.request;
        let charge = self.settle(admission, ending, &meter, provider).await;
        let Some(caller) = caller else { return };
        let last = match end {
            End::Proper(payload) => Piece::End(payload, Box::new(charge)),
            End::Stopped => Piece::End(None, Box::new(charge)),
            End::Broken(error) => {
                tracing::warn!(request.id = %request, %error, "upstream failed in the middle of a stream");
                Piece::Failed(Box::new(mid_stream_error(&error)))
            }
            End::Cut => return,
        };
        let _ = timeout(self.settings.timeouts.write_stall, caller.send(last)).await;
    }
}

impl Pump<'_> {
    async fn run(&mut self, begun: Vec<TextChunk>, mut rest: TextStream) -> End {
        for chunk in begun {
            if let Some(end) = self.take(chunk).await {
                return end;
            }
        }
        let mut tick = std::pin::pin!(sleep_until(self.next_tick()));
        let mut had_caller = self.caller.is_some();
        // Whoever leaves while the upstream is silent is not waited for.
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
                // Without a caller there is less time.
                had_caller = false;
                let next = self.next_tick();
                tick.as_mut().reset(next);
            }
            tokio::select! {
                biased;
                chunk = rest.next() => {
                    self.heard_at = Instant::now();
                    let end = match chunk {
                        Some(Ok(chunk)) => self.take(chunk).await,
                        Some(Err(error)) => Some(End::Broken(error)),
                        None => Some(End::Broken(UpstreamError::protocol("the stream was cut"))),
                    };
                    if let Some(end) = end {
                        return end;
                    }
                }
                () = &mut left, if self.caller.is_some() => self.give_up_caller(),
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

    /// Meters an event and hands it on. Answers the end when this is it.
    async fn take(&mut self, chunk: TextChunk) -> Option<End> {
        self.meter.chunk(&chunk, || self.pipeline.clock.now());
        if self.passes_ceiling(&chunk) {
            return Some(self.stop().await);
        }
        let TextChunk {
            kind,
            payload,
            usage,
            output_bytes,
        } = chunk;
        if kind == ChunkKind::End {
            return Some(End::Proper(payload));
        }
        if self.caller.is_none() {
            self.drained_bytes = self.drained_bytes.saturating_add(output_bytes);
            return None;
        }
        if let Some(payload) = payload {
            let piece = if usage.is_some() {
                Piece::Usage(payload, self.cost_now())
            } else {
                Piece::Event(payload)
            };
            self.hand_on(piece).await;
        }
        None
    }

    fn passes_ceiling(&mut self, chunk: &TextChunk) -> bool {
        let prices = &self.admission.hold.terms().prices;
        let cost = |usage: &Usage| prices.cost(usage);
        let ceiling = self.ceiling.as_mut().filter(|_| chunk.kind != ChunkKind::End);
        ceiling.is_some_and(|ceiling| ceiling.is_passed_by(chunk, cost))
    }

    /// Ends every choice that is still open. The upstream is hung up on.
    async fn stop(&mut self) -> End {
        let request = self.admission.request.request;
        tracing::warn!(request.id = %request, "upstream went beyond its cap; its answer is ended");
        if let Some(ceiling) = self.ceiling.take() {
            for event in ceiling.ends() {
                self.hand_on(Piece::Event(Payload::Common(Box::new(event)))).await;
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

    /// Gives a piece to the caller. One that has left, or reads nothing for too long, is given up.
    async fn hand_on(&mut self, piece: Piece) {
        let Some(caller) = &self.caller else { return };
        let gone = match caller.try_send(piece) {
            Ok(()) => false,
            Err(TrySendError::Closed(_)) => true,
            Err(TrySendError::Full(piece)) => {
                let stall = self.pipeline.settings.timeouts.write_stall;
                !matches!(timeout(stall, caller.send(piece)).await, Ok(Ok(())))
            }
        };
        if gone {
            self.give_up_caller();
        }
        self.heard_at = Instant::now();
    }

    fn give_up_caller(&mut self) {
        self.caller = None;
        self.drain = self.pipeline.drains.try_acquire().ok();
        self.deadline = self
            .deadline
            .min(Instant::now() + self.pipeline.settings.drain.time);
    }

    fn may_drain(&self) -> bool {
        self.drain.is_some() && self.drained_bytes <= self.pipeline.settings.drain.bytes
    }

    /// Timers are looked at when they are due, and not moved at every event.
    fn next_tick(&self) -> Instant {
        let timeouts = &self.pipeline.settings.timeouts;
        self.deadline
            .min(self.heard_at + timeouts.idle)
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
                End::Broken(UpstreamError::timeout("the call took too long"))
            });
        }
        let quiet: Duration = now.saturating_duration_since(self.heard_at);
        if quiet >= timeouts.idle {
            return Some(End::Broken(UpstreamError::timeout(
                "silent in the middle of a stream",
            )));
        }
        if quiet >= timeouts.ping.min(timeouts.idle) {
            let heard_at = self.heard_at;
            self.hand_on(Piece::Ping).await;
            self.heard_at = heard_at;
        }
        None
    }
}

/// What ends the answer of a caller who allows it to cost so much and no more.
fn ceiling(admission: &Admission) -> Option<Ceiling> {
    let terms = admission.hold.terms();
    let quote = admission.request.max_cost.map(|_| terms.quote)?;
    Some(Ceiling::new(&quote, terms.demand.n))
}

/// A failure after the answer has begun: a second attempt is the caller's to decide, and would be another charge.
fn mid_stream_error(error: &UpstreamError) -> Error {
    let public = public_error(error, "");
    let message = "The model failed in the middle of the answer. What was delivered may be incomplete.";
    let code = match public.code {
        tollgate_types::ErrorCode::UpstreamTimeout => tollgate_types::ErrorCode::UpstreamTimeout,
        _ => tollgate_types::ErrorCode::UpstreamError,
    };
    Error::new(code, message)
}

/// A whole answer as the pieces of a stream, for a caller who asked for one.
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
    let (pieces, receiver) = mpsc::channel(events.len() + 2);
    let common = |event| Payload::Common(Box::new(event));
    let usage = Piece::Usage(common(StreamEvent::Usage(charge.usage)), charge.amount);
    let told = events.into_iter().map(|event| Piece::Event(common(event)));
    for piece in told.chain([usage, Piece::End(None, Box::new(charge))]) {
        // There is room for each.
        let _ = pieces.try_send(piece);
    }
    receiver
}

fn replay(said: Choice, events: &mut Vec<StreamEvent>) {
    let choice = said.index;
    let mut logprobs = said.logprobs;
    for part in said.parts {
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
    for (call, asked) in (0..).zip(said.tool_calls) {
        events.push(StreamEvent::ToolCallStart {
            choice,
            call,
            id: asked.id,
            name: asked.name,
        });
        events.push(StreamEvent::ToolCallArguments {
            choice,
            call,
            arguments: asked.arguments,
        });
    }
    events.push(StreamEvent::Finish {
        choice,
        reason: said.finish,
        stop_sequence: said.stop_sequence,
    });
}
