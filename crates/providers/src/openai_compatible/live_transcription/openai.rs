//! Transcription sessions of OpenAI's Realtime protocol (`intent=transcription`). The server names
//! the item of a turn when it is committed, or earlier with its first text.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, timeout_at};
use tollgate_formats::openai_realtime::{Transcription, TranscriptionDelay, UpstreamCommand, UpstreamEvent};
use tollgate_upstream::{
    CallContext, LiveTranscriptionCall, LiveTranscriptionLink, REALTIME_RATE, TranscriptEvent,
    TranscriptionSettings, UpstreamError,
};

use super::super::realtime::command::CommandKind;
use super::super::realtime::wire::Wire;
use super::{MAX_APPEND_BYTES, check_hold, check_waiting, invalid_event};
use crate::http::{ErrorTexts, Socket};
use crate::refusal;

/// Minimum audio that the server accepts as a turn: 100 ms. Shorter turns end with silence.
const MIN_COMMIT_BYTES: usize = REALTIME_RATE as usize / 10 * 2;

/// Link to a transcription session.
#[derive(Debug)]
pub(super) struct OpenAiLink {
    wire: Wire,
    error_texts: Arc<ErrorTexts>,
    idle: Duration,
    model: Arc<str>,
    settings: TranscriptionSettings,
    start: Start,
    /// Number of the last command.
    number: u64,
    /// Number of the running turn.
    turn: u64,
    /// Audio of the running turn that was sent, in bytes.
    turn_bytes: usize,
    /// Turns whose commit the server has not confirmed, with the numbers of the commands.
    unconfirmed: VecDeque<(u64, u64)>,
    /// Items without a transcript, with their turns.
    items: Vec<(Arc<str>, u64)>,
    /// Item that the server has named before its commit, with its turn.
    early: Option<(Arc<str>, u64)>,
    /// Item whose audio was dropped.
    dropped: Option<Arc<str>>,
    waiting: VecDeque<TranscriptEvent>,
    /// Time of the last message or commit.
    active_at: Instant,
}

/// Progress of the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Connected,
    /// The server has created the session.
    Created,
    /// The server has accepted the settings.
    Ready,
}

impl OpenAiLink {
    pub(super) fn new(
        socket: Socket,
        error_texts: Arc<ErrorTexts>,
        ctx: &CallContext,
        call: &LiveTranscriptionCall,
    ) -> Self {
        Self {
            wire: Wire::new(socket, ctx.header_timeout),
            error_texts,
            idle: ctx.idle_timeout,
            model: call.upstream_model.clone(),
            settings: call.settings.clone(),
            start: Start::Connected,
            number: 0,
            turn: 0,
            turn_bytes: 0,
            unconfirmed: VecDeque::new(),
            items: Vec::new(),
            early: None,
            dropped: None,
            waiting: VecDeque::new(),
            active_at: Instant::now(),
        }
    }

    /// Waits for the session, and selects the model.
    pub(super) async fn start(&mut self) -> Result<(), UpstreamError> {
        let deadline = Instant::now() + self.wire.timeout();
        let started = timeout_at(deadline, async {
            while self.start == Start::Connected {
                self.read().await?;
            }
            self.send_settings().await?;
            while self.start != Start::Ready {
                self.read().await?;
            }
            Ok(())
        });
        started.await.unwrap_or_else(|_| {
            let problem = "timed out waiting for an event of the upstream";
            Err(UpstreamError::timeout(problem))
        })
    }

    async fn send_settings(&mut self) -> Result<(), UpstreamError> {
        let settings = Transcription {
            model: None,
            language: self.settings.language.clone(),
            prompt: self.settings.prompt.clone(),
            languages: self.settings.languages.clone(),
            keywords: self.settings.keywords.clone(),
            delay: self.settings.delay.and_then(TranscriptionDelay::parse),
        };
        let model = self.model.clone();
        self.queue(&UpstreamCommand::UpdateTranscription {
            model: &model,
            settings: &settings,
        });
        self.wire.flush().await
    }

    /// Queues a command and returns its number.
    fn queue(&mut self, command: &UpstreamCommand<'_>) -> u64 {
        self.number += 1;
        let event_id = format!("{}{}", CommandKind::of(command).prefix(), self.number);
        self.wire.queue(command.write(&event_id));
        self.number
    }

    async fn read(&mut self) -> Result<(), UpstreamError> {
        let is_waiting = !self.unconfirmed.is_empty() || !self.items.is_empty();
        let due = is_waiting.then(|| self.active_at + self.idle);
        let text = self.wire.receive(due).await?;
        self.active_at = Instant::now();
        let handled = self.handle(text);
        handled.map_err(|error| self.wire.end(error))
    }

    fn handle(&mut self, text: String) -> Result<(), UpstreamError> {
        let event = UpstreamEvent::parse(&text).map_err(|_| invalid_event(&text))?;
        check_waiting(self.waiting.len())?;
        match event {
            UpstreamEvent::Created if self.start == Start::Connected => self.start = Start::Created,
            UpstreamEvent::Updated { has_turn_detection } => {
                if has_turn_detection {
                    let problem = "the upstream does not switch its turn detection off";
                    return Err(UpstreamError::protocol(problem));
                }
                self.start = Start::Ready;
            }
            UpstreamEvent::AudioCommitted { item_id } => self.confirm(item_id),
            UpstreamEvent::InputTranscriptDelta { item_id, delta } => {
                if let Some(turn) = self.turn_of(&item_id).filter(|_| !delta.is_empty()) {
                    self.waiting
                        .push_back(TranscriptEvent::Delta { turn, text: delta });
                }
            }
            UpstreamEvent::InputTranscriptCompleted { item_id, transcript } => {
                if let Some(turn) = self.remove(&item_id) {
                    let completed = TranscriptEvent::Completed {
                        turn,
                        text: transcript,
                    };
                    self.waiting.push_back(completed);
                }
            }
            UpstreamEvent::InputTranscriptFailed { item_id, error } => {
                if let Some(turn) = self.remove(&item_id) {
                    let error = refusal::from_event(&self.error_texts, &Bytes::from(error));
                    self.waiting.push_back(TranscriptEvent::Failed { turn, error });
                }
            }
            UpstreamEvent::Error { event_id, .. } => return self.handle_error(event_id.as_deref(), text),
            _ => {}
        }
        Ok(())
    }

    /// Handles the commit of a turn. Commits are confirmed in their order.
    fn confirm(&mut self, item_id: Arc<str>) {
        if let Some((_, turn)) = self.unconfirmed.pop_front() {
            if self.early.as_ref().is_some_and(|(_, early)| *early == turn) {
                self.early = None;
            }
            self.items.push((item_id, turn));
        }
    }

    /// Returns the turn of an item: of an unknown one that whose commit is confirmed next, or the
    /// running one. `None` for an item whose audio was dropped.
    fn turn_of(&mut self, item_id: &Arc<str>) -> Option<u64> {
        let mut known = self.items.iter().chain(&self.early);
        if let Some((_, turn)) = known.find(|(known, _)| known == item_id) {
            return Some(*turn);
        }
        if self.dropped.as_ref() == Some(item_id) || self.early.is_some() {
            return None;
        }
        let next = self.unconfirmed.front();
        let turn = next.map_or(self.turn, |(_, turn)| *turn);
        self.early = Some((item_id.clone(), turn));
        Some(turn)
    }

    fn remove(&mut self, item_id: &Arc<str>) -> Option<u64> {
        let place = self.items.iter().position(|(known, _)| known == item_id)?;
        Some(self.items.remove(place).1)
    }

    /// Handles an error event: about a commit, its turn has failed. Every other one ends the
    /// connection, because the server lacks audio or settings.
    fn handle_error(&mut self, event_id: Option<&str>, text: String) -> Result<(), UpstreamError> {
        let error = refusal::from_event(&self.error_texts, &Bytes::from(text));
        if let Some((CommandKind::Commit, number)) = event_id.and_then(CommandKind::parse)
            && let Some(place) = self.unconfirmed.iter().position(|(known, _)| *known == number)
            && let Some((_, turn)) = self.unconfirmed.remove(place)
        {
            self.waiting.push_back(TranscriptEvent::Failed { turn, error });
            return Ok(());
        }
        Err(error)
    }
}

#[async_trait]
impl LiveTranscriptionLink for OpenAiLink {
    fn rate(&self) -> u32 {
        REALTIME_RATE
    }

    async fn configure(&mut self, settings: &TranscriptionSettings) -> Result<(), UpstreamError> {
        if self.settings == *settings {
            return self.wire.check_open();
        }
        self.settings = settings.clone();
        self.send_settings().await
    }

    async fn append(&mut self, ctx: &CallContext, audio: &[u8]) -> Result<(), UpstreamError> {
        check_hold(ctx)?;
        self.idle = ctx.idle_timeout;
        self.turn_bytes += audio.len();
        for audio in audio.chunks(MAX_APPEND_BYTES) {
            self.queue(&UpstreamCommand::AppendAudio { audio });
            self.wire.flush().await?;
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), UpstreamError> {
        let turn = self.turn;
        self.turn += 1;
        let sent = std::mem::take(&mut self.turn_bytes);
        if sent == 0 {
            self.waiting.push_back(TranscriptEvent::Completed {
                turn,
                text: String::new(),
            });
            return self.wire.check_open();
        }
        if sent < MIN_COMMIT_BYTES {
            let audio = &vec![0; MIN_COMMIT_BYTES - sent];
            self.queue(&UpstreamCommand::AppendAudio { audio });
        }
        let number = self.queue(&UpstreamCommand::CommitAudio);
        self.unconfirmed.push_back((number, turn));
        self.active_at = Instant::now();
        self.wire.flush().await
    }

    async fn clear(&mut self) -> Result<(), UpstreamError> {
        if std::mem::take(&mut self.turn_bytes) == 0 {
            return self.wire.check_open();
        }
        if let Some((item_id, turn)) = self.early.take() {
            match turn == self.turn {
                true => self.dropped = Some(item_id),
                false => self.early = Some((item_id, turn)),
            }
        }
        self.queue(&UpstreamCommand::ClearAudio);
        self.wire.flush().await
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
