//! Live transcription by a provider: the audio of each turn is sent as it arrives, and the provider
//! returns its text.
//!
//! One task per session owns the connection. If it breaks, its turns fail, and the next turn opens
//! another one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tollgate_accounts::Caller;
use tollgate_pipeline::{OpenedTranscription, OutputInspection, Pipeline, realtime_error};
use tollgate_types::{Error, RequestId};
use tollgate_upstream::{CallContext, TranscriptEvent, TranscriptionSettings, UpstreamError};

use crate::audio::{Resampler, pcm};
use crate::cascade::{Words, blocked};

/// Maximum number of parts of audio that wait for the connection.
const MAX_WAITING: usize = 64;
/// Time for the transcripts of a session that ends.
const LAST_TRANSCRIPTS_TIMEOUT: Duration = Duration::from_secs(60);

/// Progress of a turn. The session numbers its turns.
pub(super) enum LiveReport {
    /// Next text of a turn, with its separating space.
    Delta { turn: u64, text: String },
    /// End of a turn.
    Ended { turn: u64, words: Result<Words, Error> },
}

/// Data of the connections of a session.
pub(super) struct LiveOpening {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) caller: Caller,
    /// Public name of the model.
    pub(super) model: Arc<str>,
    pub(super) request: RequestId,
    pub(super) settings: TranscriptionSettings,
}

impl LiveOpening {
    /// Opens a connection.
    async fn open(&self) -> Result<OpenedTranscription, Error> {
        let routed = self.pipeline.route(&self.caller, &self.model)?;
        let opened = self
            .pipeline
            .open_live_transcription(&routed, &self.settings, self.request);
        opened.await
    }

    /// Whether the content policy forbids a transcript. The reported text is not inspected again.
    async fn forbids(&self, turn: &mut Turn, text: &str) -> bool {
        if turn.reported.trim() == text.trim() {
            return match &mut turn.inspection {
                Some(inspection) => inspection.forbids_rest().await,
                None => false,
            };
        }
        let whole = self.pipeline.output_inspection(self.request);
        match whole {
            Some(mut whole) => whole.forbids(text).await || whole.forbids_rest().await,
            None => false,
        }
    }
}

/// Transcription of a session by a provider.
pub(super) struct Live {
    commands: mpsc::Sender<Command>,
    task: AbortOnDropHandle<()>,
}

enum Command {
    Audio {
        turn: u64,
        ctx: CallContext,
        samples: Vec<i16>,
        rate: u32,
    },
    Commit {
        turn: u64,
    },
    Clear,
    Configure(TranscriptionSettings),
}

impl Live {
    /// Starts the task of a connection.
    pub(super) fn start(
        opening: LiveOpening,
        opened: OpenedTranscription,
        reports: mpsc::UnboundedSender<LiveReport>,
    ) -> Self {
        let (commands, received) = mpsc::channel(MAX_WAITING);
        let calls = opening.pipeline.calls.clone();
        let worker = Worker {
            opening,
            opened: Some(opened),
            link_turn: 0,
            turns: VecDeque::new(),
            resampler: None,
            ctx: None,
            reports,
        };
        Self {
            commands,
            task: AbortOnDropHandle::new(calls.spawn(worker.run(received))),
        }
    }

    /// Sends audio of a turn, which `ctx` permits.
    pub(super) async fn append(&self, turn: u64, ctx: CallContext, samples: Vec<i16>, rate: u32) {
        let audio = Command::Audio {
            turn,
            ctx,
            samples,
            rate,
        };
        let _ = self.commands.send(audio).await;
    }

    /// Ends a turn.
    pub(super) async fn commit(&self, turn: u64) {
        let _ = self.commands.send(Command::Commit { turn }).await;
    }

    /// Drops the audio of the running turn.
    pub(super) async fn clear(&self) {
        let _ = self.commands.send(Command::Clear).await;
    }

    /// Changes the settings of the following turns.
    pub(super) async fn configure(&self, settings: TranscriptionSettings) {
        let _ = self.commands.send(Command::Configure(settings)).await;
    }

    /// Accepts no more audio. The task ends with the transcripts of the turns that have ended.
    pub(super) fn end(self) -> AbortOnDropHandle<()> {
        self.task
    }
}

/// A turn without a transcript. The last one may still be running.
struct Turn {
    /// Number in the session.
    number: u64,
    /// Number in the connection.
    link_turn: u64,
    is_committed: bool,
    /// Error that its transcript has.
    failed: Option<Error>,
    inspection: Option<OutputInspection>,
    /// Text that was reported.
    reported: String,
}

struct Worker {
    opening: LiveOpening,
    opened: Option<OpenedTranscription>,
    /// Number of turns that the connection has received completely.
    link_turn: u64,
    turns: VecDeque<Turn>,
    resampler: Option<Resampler>,
    /// Context of the last audio.
    ctx: Option<CallContext>,
    reports: mpsc::UnboundedSender<LiveReport>,
}

impl Worker {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { break };
                    if let Err(error) = self.execute(command).await {
                        self.lost(&error);
                    }
                }
                event = next(&mut self.opened) => self.take(event).await,
            }
        }
        self.turns.retain(|turn| turn.is_committed);
        let rest = timeout(LAST_TRANSCRIPTS_TIMEOUT, async {
            while !self.turns.is_empty() && self.opened.is_some() {
                let event = next(&mut self.opened).await;
                self.take(event).await;
            }
        });
        let _ = rest.await;
    }

    async fn execute(&mut self, command: Command) -> Result<(), UpstreamError> {
        match command {
            Command::Audio {
                turn,
                ctx,
                samples,
                rate,
            } => {
                self.begin(turn, rate).await;
                self.send(&ctx, &samples).await
            }
            Command::Commit { turn } => self.commit(turn).await,
            Command::Clear => {
                let running = self.turns.pop_back_if(|turn| !turn.is_committed);
                match (running, &mut self.opened) {
                    (Some(_), Some(opened)) => opened.link.clear().await,
                    _ => Ok(()),
                }
            }
            Command::Configure(settings) => {
                self.opening.settings = settings;
                match &mut self.opened {
                    Some(opened) => opened.link.configure(&self.opening.settings).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Begins a turn if it is a new one. Connects if there is no connection.
    async fn begin(&mut self, number: u64, rate: u32) {
        if self.turns.back().is_some_and(|turn| turn.number == number) {
            return;
        }
        let mut failed = None;
        if self.opened.is_none() {
            match self.opening.open().await {
                Ok(opened) => {
                    self.opened = Some(opened);
                    self.link_turn = 0;
                }
                Err(error) => failed = Some(error),
            }
        }
        let link_rate = self.opened.as_ref().map(|opened| opened.link.rate());
        self.resampler = link_rate.and_then(|link_rate| Resampler::new(rate, link_rate));
        self.turns.push_back(Turn {
            number,
            link_turn: self.link_turn,
            is_committed: false,
            failed,
            inspection: self.opening.pipeline.output_inspection(self.opening.request),
            reported: String::new(),
        });
    }

    /// Sends audio of the running turn, unless the turn has failed.
    async fn send(&mut self, ctx: &CallContext, samples: &[i16]) -> Result<(), UpstreamError> {
        let Some(resampler) = &mut self.resampler else {
            return Ok(());
        };
        let samples = resampler.push(samples);
        self.ctx = Some(ctx.clone());
        self.append(&samples).await
    }

    async fn append(&mut self, samples: &[i16]) -> Result<(), UpstreamError> {
        let has_failed = self.turns.back().is_none_or(|turn| turn.failed.is_some());
        match (&mut self.opened, &self.ctx) {
            (Some(opened), Some(ctx)) if !has_failed && !samples.is_empty() => {
                opened.link.append(ctx, &pcm::to_le_bytes(samples)).await
            }
            _ => Ok(()),
        }
    }

    async fn commit(&mut self, number: u64) -> Result<(), UpstreamError> {
        if let Some(resampler) = &mut self.resampler {
            let rest = resampler.finish();
            self.append(&rest).await?;
        }
        let running = self.turns.back_mut();
        let Some(turn) = running.filter(|turn| turn.number == number && !turn.is_committed) else {
            self.report(LiveReport::Ended {
                turn: number,
                words: Ok(self.words(String::new())),
            });
            return Ok(());
        };
        turn.is_committed = true;
        if let Some(error) = turn.failed.take() {
            self.turns.pop_back();
            self.report(LiveReport::Ended {
                turn: number,
                words: Err(error),
            });
            // Its audio does not belong to the next turn.
            return match &mut self.opened {
                Some(opened) => opened.link.clear().await,
                None => Ok(()),
            };
        }
        let Some(opened) = &mut self.opened else {
            return Ok(());
        };
        self.link_turn += 1;
        opened.link.commit().await
    }

    /// Handles an event of the connection, or its end.
    async fn take(&mut self, event: Result<TranscriptEvent, UpstreamError>) {
        match event {
            Ok(TranscriptEvent::Delta { turn, text }) => self.take_delta(turn, text).await,
            Ok(TranscriptEvent::Completed { turn, text }) => {
                self.note(Ok(()));
                if let Some(turn) = self.remove(turn) {
                    self.complete(turn, &text).await;
                }
            }
            Ok(TranscriptEvent::Failed { turn, error }) => {
                self.note(Err(&error));
                if let Some(turn) = self.remove(turn) {
                    self.report(LiveReport::Ended {
                        turn: turn.number,
                        words: Err(realtime_error(&error)),
                    });
                }
            }
            Err(error) => self.lost(&error),
        }
    }

    async fn take_delta(&mut self, link_turn: u64, text: String) {
        let mut turns = self.turns.iter_mut();
        let Some(turn) = turns.find(|turn| turn.link_turn == link_turn && turn.failed.is_none()) else {
            return;
        };
        if let Some(inspection) = &mut turn.inspection
            && inspection.forbids(&text).await
        {
            turn.failed = Some(blocked());
            return;
        }
        turn.reported.push_str(&text);
        let turn = turn.number;
        self.report(LiveReport::Delta { turn, text });
    }

    /// Reports the transcript of a turn, unless the content policy forbids it.
    async fn complete(&mut self, mut turn: Turn, text: &str) {
        let is_forbidden = match turn.failed.take() {
            Some(_) => true,
            None => self.opening.forbids(&mut turn, text).await,
        };
        let words = match is_forbidden {
            true => Err(blocked()),
            false => Ok(self.words(text.trim().to_owned())),
        };
        self.report(LiveReport::Ended {
            turn: turn.number,
            words,
        });
    }

    fn words(&self, text: String) -> Words {
        let target = self.opened.as_ref().map(OpenedTranscription::target);
        Words {
            text,
            target: target.unwrap_or_else(|| "".into()),
        }
    }

    fn remove(&mut self, link_turn: u64) -> Option<Turn> {
        let mut turns = self.turns.iter();
        let place = turns.position(|turn| turn.link_turn == link_turn && turn.is_committed)?;
        self.turns.remove(place)
    }

    fn note(&self, result: Result<(), &UpstreamError>) {
        if let Some(opened) = &self.opened {
            let pipeline = &self.opening.pipeline;
            pipeline.note_transcription(self.opening.request, opened, result);
        }
    }

    /// Ends the connection: its turns fail.
    fn lost(&mut self, error: &UpstreamError) {
        // A provider may close an idle connection.
        if !self.turns.is_empty() {
            self.note(Err(error));
        }
        self.opened = None;
        for mut turn in std::mem::take(&mut self.turns) {
            if turn.is_committed {
                self.report(LiveReport::Ended {
                    turn: turn.number,
                    words: Err(realtime_error(error)),
                });
            } else {
                turn.failed.get_or_insert_with(|| realtime_error(error));
                self.turns.push_back(turn);
            }
        }
    }

    fn report(&self, report: LiveReport) {
        let _ = self.reports.send(report);
    }
}

/// Returns the next event; waits forever without a connection.
async fn next(opened: &mut Option<OpenedTranscription>) -> Result<TranscriptEvent, UpstreamError> {
    match opened {
        Some(opened) => opened.link.next().await,
        None => std::future::pending().await,
    }
}
