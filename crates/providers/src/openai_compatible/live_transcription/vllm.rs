//! Live transcription of vLLM. The server transcribes one utterance at a time and drops audio that
//! arrives before the transcript of the previous one, so the next turn waits for that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use tollgate_formats::vllm_realtime::{Command, Event};
use tollgate_upstream::{
    CallContext, LiveTranscriptionLink, TranscriptEvent, TranscriptionSettings, UpstreamError,
};

use super::super::realtime::wire::Wire;
use super::{MAX_APPEND_BYTES, check_hold, check_waiting, invalid_event};
use crate::http::{ErrorTexts, Socket};
use crate::refusal;

/// Samples per second that the server reads.
const RATE: u32 = 16_000;
/// Maximum audio that waits for the previous transcript, in bytes: two minutes.
const MAX_QUEUED_BYTES: usize = RATE as usize * 2 * 120;

/// Link to a transcription model of vLLM.
#[derive(Debug)]
pub(super) struct VllmLink {
    wire: Wire,
    error_texts: Arc<ErrorTexts>,
    idle: Duration,
    is_created: bool,
    utterance: Utterance,
    /// Number of the turn of the utterance.
    turn: u64,
    /// Steps that wait for the end of the utterance.
    queued: VecDeque<Step>,
    queued_bytes: usize,
    waiting: VecDeque<TranscriptEvent>,
    /// Time of the last message, or of the end of the utterance.
    active_at: Instant,
}

/// State of the server's utterance.
#[derive(Debug, PartialEq, Eq)]
enum Utterance {
    /// There is none.
    Idle,
    Running,
    /// The audio is complete, and the transcript is missing.
    Ending {
        is_dropped: bool,
    },
    /// The server has ended the utterance before its audio, with this transcript.
    Ended(String),
}

/// Step of a turn.
#[derive(Debug)]
enum Step {
    Audio(Bytes),
    Commit,
    Drop,
}

impl VllmLink {
    pub(super) fn new(socket: Socket, error_texts: Arc<ErrorTexts>, ctx: &CallContext) -> Self {
        Self {
            wire: Wire::new(socket, ctx.header_timeout),
            error_texts,
            idle: ctx.idle_timeout,
            is_created: false,
            utterance: Utterance::Idle,
            turn: 0,
            queued: VecDeque::new(),
            queued_bytes: 0,
            waiting: VecDeque::new(),
            active_at: Instant::now(),
        }
    }

    /// Waits for the session, and selects the model.
    pub(super) async fn start(&mut self, model: &str) -> Result<(), UpstreamError> {
        let deadline = Instant::now() + self.wire.timeout();
        let created = timeout_at(deadline, async {
            while !self.is_created {
                self.read().await?;
            }
            Ok(())
        });
        created.await.unwrap_or_else(|_| {
            let problem = "timed out waiting for an event of the upstream";
            Err(UpstreamError::timeout(problem))
        })?;
        self.wire.queue(Command::UpdateSession { model }.write());
        self.wire.flush().await
    }

    /// Executes a step, or queues it until the previous transcript has arrived.
    async fn step(&mut self, step: Step) -> Result<(), UpstreamError> {
        self.wire.check_open()?;
        if matches!(self.utterance, Utterance::Ending { .. }) {
            if let Step::Audio(audio) = &step {
                self.queued_bytes += audio.len();
            }
            if self.queued_bytes > MAX_QUEUED_BYTES {
                let problem = "the upstream transcribes slower than the speech arrives";
                return Err(self.wire.end(UpstreamError::timeout(problem)));
            }
            self.queued.push_back(step);
            return Ok(());
        }
        self.execute(step);
        self.wire.flush().await
    }

    fn execute(&mut self, step: Step) {
        match (step, &mut self.utterance) {
            (_, Utterance::Ending { .. }) | (Step::Drop, Utterance::Idle) => {}
            (Step::Audio(audio), state @ (Utterance::Idle | Utterance::Running)) => {
                if *state == Utterance::Idle {
                    *state = Utterance::Running;
                    self.wire.queue(Command::CommitAudio { is_final: false }.write());
                }
                for audio in audio.chunks(MAX_APPEND_BYTES) {
                    self.wire.queue(Command::append(audio).write());
                }
            }
            (Step::Audio(_), Utterance::Ended(_)) => {}
            (step @ (Step::Commit | Step::Drop), Utterance::Running) => {
                self.active_at = Instant::now();
                self.utterance = Utterance::Ending {
                    is_dropped: matches!(step, Step::Drop),
                };
                self.wire.queue(Command::CommitAudio { is_final: true }.write());
            }
            (Step::Commit, Utterance::Idle) => self.complete(String::new()),
            (Step::Commit, Utterance::Ended(text)) => {
                let text = std::mem::take(text);
                self.complete(text);
            }
            (Step::Drop, Utterance::Ended(_)) => self.utterance = Utterance::Idle,
        }
    }

    /// Ends the turn.
    fn complete(&mut self, text: String) {
        self.utterance = Utterance::Idle;
        let turn = self.turn;
        self.turn += 1;
        self.waiting.push_back(TranscriptEvent::Completed { turn, text });
    }

    /// Executes the queued steps up to the end of the next turn.
    fn resume(&mut self) {
        while !matches!(self.utterance, Utterance::Ending { .. })
            && let Some(step) = self.queued.pop_front()
        {
            if let Step::Audio(audio) = &step {
                self.queued_bytes -= audio.len();
            }
            self.execute(step);
        }
    }

    async fn read(&mut self) -> Result<(), UpstreamError> {
        let is_waiting = matches!(self.utterance, Utterance::Ending { .. });
        let due = is_waiting.then(|| self.active_at + self.idle);
        let text = self.wire.receive(due).await?;
        self.active_at = Instant::now();
        let handled = self.handle(text);
        handled.map_err(|error| self.wire.end(error))
    }

    fn handle(&mut self, text: String) -> Result<(), UpstreamError> {
        check_waiting(self.waiting.len())?;
        match Event::parse(&text).ok_or_else(|| invalid_event(&text))? {
            Event::Created {} => self.is_created = true,
            Event::Delta { delta } => {
                let is_heard = matches!(
                    self.utterance,
                    Utterance::Running | Utterance::Ending { is_dropped: false }
                );
                if is_heard && !delta.is_empty() {
                    self.waiting.push_back(TranscriptEvent::Delta {
                        turn: self.turn,
                        text: delta,
                    });
                }
            }
            Event::Done { text } => match self.utterance {
                Utterance::Ending { is_dropped: false } => {
                    self.complete(text);
                    self.resume();
                }
                Utterance::Ending { is_dropped: true } => {
                    self.utterance = Utterance::Idle;
                    self.resume();
                }
                Utterance::Running => self.utterance = Utterance::Ended(text),
                Utterance::Idle | Utterance::Ended(_) => {}
            },
            // After a failure, the server may transcribe the rest of the audio with the next
            // utterance.
            Event::Error { .. } => {
                return Err(refusal::from_event(&self.error_texts, &Bytes::from(text)));
            }
            Event::Unknown => {}
        }
        Ok(())
    }
}

#[async_trait]
impl LiveTranscriptionLink for VllmLink {
    fn rate(&self) -> u32 {
        RATE
    }

    /// Changes nothing: the protocol has neither a language nor a prompt.
    async fn configure(&mut self, _settings: &TranscriptionSettings) -> Result<(), UpstreamError> {
        self.wire.check_open()
    }

    async fn append(&mut self, ctx: &CallContext, audio: &[u8]) -> Result<(), UpstreamError> {
        check_hold(ctx)?;
        self.idle = ctx.idle_timeout;
        match audio.is_empty() {
            true => Ok(()),
            false => self.step(Step::Audio(Bytes::copy_from_slice(audio))).await,
        }
    }

    async fn commit(&mut self) -> Result<(), UpstreamError> {
        self.step(Step::Commit).await
    }

    async fn clear(&mut self) -> Result<(), UpstreamError> {
        self.step(Step::Drop).await
    }

    async fn next(&mut self) -> Result<TranscriptEvent, UpstreamError> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(event);
            }
            self.read().await?;
        }
    }
}
