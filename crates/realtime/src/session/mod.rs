//! Voice sessions: one task per session receives the client's events, follows the running
//! responses, and sends the events of the server.

pub(crate) mod conversation;
mod early;
pub(crate) mod events;
pub(crate) mod faults;
pub(crate) mod input;
mod input_words;
pub(crate) mod memory;
mod receive;
mod respond;
mod response;
mod speech;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tollgate_accounts::Caller;
use tollgate_catalog::VoiceStages;
use tollgate_edge::websocket::{
    Closing, GOING_AWAY, INTERNAL_ERROR, Inbox, NORMAL_CLOSURE, Outbox, SERVICE_RESTART, Turns, Utf8Bytes,
};
use tollgate_formats::openai_realtime::{CancelReason, RealtimeCode, ServerEvent, Session};
use tollgate_pipeline::realtime_error;
use tollgate_types::RequestId;
use tollgate_upstream::UpstreamError;

use crate::RealtimeSettings;
use crate::execution::Progress;
use crate::relay::Relay;
use crate::state::Shared;
use conversation::Conversation;
use early::{EarlyTurn, Hearing};
use events::{Events, Refusal};
use faults::Faults;
use input::InputBuffer;
pub(crate) use input_words::Transcribed;
use memory::SessionMemory;
use response::{LastSpoken, RunningResponse};

/// Number of progress reports that the tasks of responses send ahead.
const PROGRESS_AHEAD: usize = 16;
/// Time for the running responses of a session that has reached its maximum duration.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Execution of the responses of a session.
pub(crate) enum Way {
    /// By a model for each stage.
    Cascade(Arc<VoiceStages>),
    /// By the provider of this connection.
    Relay(Relay),
}

/// Parameters of a new session.
pub(crate) struct Opening {
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: RealtimeSettings,
    pub(crate) caller: Caller,
    /// Model name as in the request.
    pub(crate) model: Arc<str>,
    /// Execution of the responses.
    pub(crate) way: Way,
    /// Maximum output of the model, in tokens.
    pub(crate) max_output_tokens: Option<u32>,
    /// Request of the handshake.
    pub(crate) request: RequestId,
    /// Session before the first update.
    pub(crate) session: Session,
}

/// An open voice session.
pub(crate) struct VoiceSession {
    opening: Opening,
    events: Events,
    session: Session,
    conversation_id: Arc<str>,
    conversation: Conversation,
    input: InputBuffer,
    /// The running turn, if it was paid before its end.
    early: Option<EarlyTurn>,
    /// Transcription of the last turn, until its response has the words.
    hearing: Option<Hearing>,
    responses: Vec<RunningResponse>,
    next_number: u64,
    reports: mpsc::Sender<(u64, Progress)>,
    progress: mpsc::Receiver<(u64, Progress)>,
    last_spoken: Option<LastSpoken>,
    /// Whether a turn has ended while a response was running.
    has_waiting_turn: bool,
    /// Whether the detector waits for the end of a reply before silence can time out.
    arms_idle: bool,
    has_delivered_audio: bool,
    started: Instant,
    last_activity: Instant,
    faults: Faults,
    closing: Option<Closing>,
}

impl VoiceSession {
    pub(crate) fn new(opening: Opening, events: Events) -> Self {
        let (reports, progress) = mpsc::channel(PROGRESS_AHEAD);
        let session = opening.session.clone();
        let mut input = InputBuffer::new(SessionMemory::new(opening.shared.audio_memory.clone()));
        input.configure(session.input_format, session.turn_detection);
        let now = Instant::now();
        let mut voice = Self {
            conversation_id: events.new_id("conv_").into(),
            opening,
            events,
            session,
            conversation: Conversation::default(),
            input,
            early: None,
            hearing: None,
            responses: Vec::new(),
            next_number: 0,
            reports,
            progress,
            last_spoken: None,
            has_waiting_turn: false,
            arms_idle: false,
            has_delivered_audio: false,
            started: now,
            last_activity: now,
            faults: Faults::default(),
            closing: None,
        };
        voice.select_first_transcription();
        voice
    }

    /// Runs the session until it ends, and settles its responses.
    pub(crate) async fn run(mut self, mut inbox: Inbox) {
        self.events.send(&ServerEvent::SessionCreated(&self.session));
        self.events.send(&ServerEvent::ConversationCreated {
            conversation_id: &self.conversation_id,
        });
        let turns = self.events.turns.clone();
        let mut end = self.started + self.opening.settings.max_duration;
        let mut stop_at: Option<Instant> = None;
        let mut has_expired = false;
        while self.closing.is_none() {
            let is_busy = !self.responses.is_empty();
            tokio::select! {
                message = received(&mut inbox, &self.events.outbox) => match message {
                    Some(message) => self.receive(&message).await,
                    None => {
                        self.closing = turns.closing();
                        break;
                    }
                },
                Some((number, progress)) = self.progress.recv() => self.advance(number, progress).await,
                error = lost(&mut self.opening.way) => self.lose(error).await,
                () = sleep_until(self.last_activity + self.opening.settings.idle), if !is_busy => {
                    self.closing = Some(idle());
                }
                () = stopped(&turns, stop_at) => match stop_at {
                    None => stop_at = Some(Instant::now() + self.drain_time(is_busy)),
                    Some(_) => self.closing = Some(restart()),
                },
                () = sleep_until(end) => {
                    if has_expired || !is_busy {
                        self.closing = Some(expired());
                    }
                    if !has_expired {
                        has_expired = true;
                        end = Instant::now() + LAST_RESPONSE_TIMEOUT;
                        self.report_expiry();
                    }
                }
            }
            let is_ending = has_expired || stop_at.is_some();
            if is_ending && self.responses.is_empty() && self.closing.is_none() {
                self.closing = Some(match has_expired {
                    true => expired(),
                    false => restart(),
                });
            }
        }
        self.cancel_all(CancelReason::ClientCancelled, self.closing.is_none())
            .await;
        if let Some(closing) = self.closing {
            self.events.close(closing);
            // The session no longer counts, while its client answers.
            self.opening.shared.pipeline.calls.spawn(inbox.drain());
        }
        let seconds = self.started.elapsed().as_secs();
        tracing::info!(
            session.request.id = %self.opening.request, seconds, responses = self.next_number,
            close_code = self.closing.map(|closing| closing.code), "voice session ended"
        );
    }

    /// Ends the responses and the session, because the connection to the provider is lost.
    async fn lose(&mut self, error: UpstreamError) {
        while let Ok((number, progress)) = self.progress.try_recv() {
            self.advance(number, progress).await;
        }
        self.fail_all(&error).await;
        let refusal = Refusal::Common(realtime_error(&error));
        self.events.error(&refusal, None, Some(self.opening.request));
        self.closing = Some(Closing {
            code: INTERNAL_ERROR,
            reason: "The connection to the model is lost: connect again.",
        });
    }

    /// Returns the microseconds since the session was opened.
    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn drain_time(&self, is_busy: bool) -> Duration {
        match is_busy {
            true => self.opening.shared.pipeline.settings.drain.time,
            false => Duration::ZERO,
        }
    }

    fn report_expiry(&self) {
        let message = "The session has reached its maximum duration. Open another one.".to_owned();
        let refusal = Refusal::Realtime(RealtimeCode::SessionExpired, message, None);
        self.events.error(&refusal, None, Some(self.opening.request));
    }
}

/// Returns the next message of a client that reads its events; `None` when the session is over.
pub(crate) async fn received(inbox: &mut Inbox, outbox: &Outbox) -> Option<Utf8Bytes> {
    outbox.ready().await;
    inbox.recv().await
}

/// Waits until the connection to the provider is lost, if the session has one.
async fn lost(way: &mut Way) -> UpstreamError {
    match way {
        Way::Cascade(_) => pending().await,
        Way::Relay(relay) => relay.lost().await,
    }
}

/// Waits for the shutdown of the gateway, and then for the end of the drain time.
async fn stopped(turns: &Turns, stop_at: Option<Instant>) {
    match stop_at {
        None => turns.stopped().await,
        Some(at) => sleep_until(at).await,
    }
}

const fn idle() -> Closing {
    Closing {
        code: GOING_AWAY,
        reason: "The session was idle for too long.",
    }
}

const fn restart() -> Closing {
    Closing {
        code: SERVICE_RESTART,
        reason: "The gateway is shutting down: connect again.",
    }
}

const fn expired() -> Closing {
    Closing {
        code: NORMAL_CLOSURE,
        reason: "The session has reached its maximum duration.",
    }
}
