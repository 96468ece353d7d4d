//! Live transcription: sessions that return the text of their audio, first in parts while the
//! speaker talks, then as a whole at the end of each turn. A provider's live model transcribes
//! while the audio arrives; of any other model, the gateway requests transcriptions of the growing
//! audio.

mod agreement;
mod blocks;
mod live;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tollgate_accounts::Caller;
use tollgate_catalog::ModelKind;
use tollgate_edge::websocket::{
    Closing, GOING_AWAY, Inbox, NORMAL_CLOSURE, POLICY_VIOLATION, SERVICE_RESTART,
};
use tollgate_formats::openai_realtime::{
    ClientEvent, ContentPart, Item, ItemKind, ItemStatus, ParsedEvent, RealtimeCode, Role, ServerEvent,
    Session, SessionKind, SessionLimits, SessionUpdate, Transcription, TranscriptionDelay,
    TranscriptionUsage, WrittenItem, parse,
};
use tollgate_pipeline::{OpenedTranscription, Routed};
use tollgate_types::usage::Outcome;
use tollgate_types::{Error, ErrorCode, RequestId};
use tollgate_upstream::{CallContext, TranscriptionSettings};

use crate::RealtimeSettings;
use crate::cascade::{Recording, StageCall, Words, transcribe};
use crate::meters;
use crate::session::events::{Events, Refusal, event_error};
use crate::session::faults::Faults;
use crate::session::input::{InputBuffer, MIN_COMMIT_MS};
use crate::session::memory::SessionMemory;
use crate::session::received;
use crate::socket::secret_model;
use crate::state::Shared;
use crate::turns::VadEvent;
use agreement::Agreement;
use blocks::AudioBlocks;
use live::{Live, LiveOpening, LiveReport};

/// Maximum audio of a turn that the client does not commit, in milliseconds.
const MAX_TURN_MS: u64 = 60_000;
/// Part of a turn's audio after which the next interim transcription follows at the earliest, so
/// that all of them together transcribe at most five times the audio.
const INTERIM_SHARE: u64 = 4;
/// Time between attempts to pay for audio after a refusal.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Time without payment after which a session is closed.
const MAX_UNPAID: Duration = Duration::from_mins(1);
/// Time for the last transcripts of a session that ends.
const LAST_TRANSCRIPT_TIMEOUT: Duration = Duration::from_secs(30);

/// Parameters of a new session.
pub(crate) struct Opening {
    pub(crate) shared: Arc<Shared>,
    pub(crate) settings: RealtimeSettings,
    pub(crate) caller: Caller,
    /// Name of the model.
    pub(crate) model: Arc<str>,
    /// Request of the handshake.
    pub(crate) request: RequestId,
    /// Session before the first update.
    pub(crate) session: Session,
    /// Connection to the provider, if the model transcribes live.
    pub(crate) live: Option<OpenedTranscription>,
}

/// An open transcription session.
pub(crate) struct TranscriptionSession {
    opening: Opening,
    events: Events,
    session: Session,
    input: InputBuffer,
    blocks: AudioBlocks,
    last_item: Option<Arc<str>>,
    turn: Turn,
    /// Audio since the end of the item before, in microseconds.
    since_item_micros: u64,
    finals: Vec<AbortOnDropHandle<()>>,
    reports: mpsc::UnboundedSender<Report>,
    reported: mpsc::UnboundedReceiver<Report>,
    live: Option<Live>,
    live_reports: mpsc::UnboundedSender<LiveReport>,
    live_reported: mpsc::UnboundedReceiver<LiveReport>,
    /// Turns without a transcript that a provider transcribes, by number.
    pending: BTreeMap<u64, PendingTurn>,
    /// Context of the upstream work for the last audio that was paid.
    paid: Option<CallContext>,
    unpaid: Option<Unpaid>,
    faults: Faults,
    started: Instant,
    last_activity: Instant,
    closing: Option<Closing>,
}

/// Audio that is not transcribed as a whole yet.
#[derive(Default)]
struct Turn {
    number: u64,
    agreement: Agreement,
    /// Running interim transcription.
    interim: Option<AbortOnDropHandle<()>>,
    /// Duration of the audio of the last interim transcription, in milliseconds.
    transcribed_ms: u64,
    /// Whether the detector has found speech.
    is_speaking: bool,
    /// Number of samples that the provider has.
    sent: usize,
}

/// A turn that has ended and that a provider transcribes.
struct PendingTurn {
    item_id: Arc<str>,
    /// Audio since the end of the item before, in microseconds.
    micros: u64,
}

/// Refusal to pay for audio.
struct Unpaid {
    since: Instant,
    retry_at: Instant,
}

/// End of a transcription.
enum Report {
    Interim {
        turn: u64,
        words: Result<Words, Error>,
    },
    Final {
        item_id: Arc<str>,
        micros: u64,
        interim: Box<Agreement>,
        words: Result<Words, Error>,
    },
}

impl TranscriptionSession {
    pub(crate) fn new(mut opening: Opening, events: Events) -> Self {
        let (reports, reported) = mpsc::unbounded_channel();
        let (live_reports, live_reported) = mpsc::unbounded_channel();
        let opened = opening.live.take();
        let session = opening.session.clone();
        let mut input = InputBuffer::new(SessionMemory::new(opening.shared.audio_memory.clone()));
        input.configure(session.input_format, session.turn_detection);
        let pipeline = opening.shared.pipeline.clone();
        let blocks = AudioBlocks::new(pipeline, events.turns.clone(), opening.request);
        let now = Instant::now();
        let mut created = Self {
            opening,
            events,
            session,
            input,
            blocks,
            last_item: None,
            turn: Turn::default(),
            since_item_micros: 0,
            finals: Vec::new(),
            reports,
            reported,
            live: None,
            live_reports,
            live_reported,
            pending: BTreeMap::new(),
            paid: None,
            unpaid: None,
            faults: Faults::default(),
            started: now,
            last_activity: now,
            closing: None,
        };
        created.live = opened.map(|opened| created.relay(opened));
        created
    }

    /// Starts the transcription by a provider.
    fn relay(&self, opened: OpenedTranscription) -> Live {
        let opening = LiveOpening {
            pipeline: self.opening.shared.pipeline.clone(),
            caller: self.opening.caller.clone(),
            model: self.opening.model.clone(),
            request: self.opening.request,
            settings: live_settings(self.session.transcription.as_ref()),
        };
        Live::start(opening, opened, self.live_reports.clone())
    }

    /// Runs the session until it ends, and settles its audio.
    pub(crate) async fn run(mut self, mut inbox: Inbox) {
        self.events.send(&ServerEvent::SessionCreated(&self.session));
        let turns = self.events.turns.clone();
        let end = self.started + self.opening.settings.max_duration;
        let mut is_gone = false;
        while self.closing.is_none() && !is_gone {
            let block_end = self.blocks.idle_at();
            tokio::select! {
                message = received(&mut inbox, &self.events.outbox) => match message {
                    Some(message) => self.receive(&message).await,
                    None => {
                        self.closing = turns.closing();
                        is_gone = self.closing.is_none();
                    }
                },
                Some(report) = self.reported.recv() => self.report(report),
                Some(report) = self.live_reported.recv() => self.report_live(report),
                () = sleep_until(block_end.unwrap_or(end)), if block_end.is_some() => {
                    self.blocks.settle(Outcome::Ok).await;
                }
                () = sleep_until(self.last_activity + self.opening.settings.idle) => {
                    self.closing = Some(closing(GOING_AWAY, "The session was idle for too long."));
                }
                () = turns.stopped() => {
                    self.closing = Some(closing(SERVICE_RESTART, "The gateway is shutting down: connect again."));
                }
                () = sleep_until(end) => {
                    let message = "The session has reached its maximum duration. Open another one.".to_owned();
                    let refusal = Refusal::Realtime(RealtimeCode::SessionExpired, message, None);
                    self.events.error(&refusal, None, Some(self.opening.request));
                    self.closing = Some(closing(NORMAL_CLOSURE, "The session has reached its maximum duration."));
                }
            }
        }
        if !is_gone {
            self.finish_transcripts().await;
        }
        self.blocks.settle(Outcome::Ok).await;
        if let Some(closing) = self.closing {
            self.events.close(closing);
            // The session no longer counts, while its client answers.
            self.opening.shared.pipeline.calls.spawn(inbox.drain());
        }
        let seconds = self.started.elapsed().as_secs();
        tracing::info!(
            session.request.id = %self.opening.request, seconds,
            close_code = self.closing.map(|closing| closing.code), "transcription session ended"
        );
    }

    /// Waits for the transcripts of the turns that have ended.
    async fn finish_transcripts(&mut self) {
        self.finals.extend(self.live.take().map(Live::end));
        let mut tasks = std::mem::take(&mut self.finals);
        let mut ended = std::pin::pin!(async move {
            for task in &mut tasks {
                let _ = task.await;
            }
        });
        let deadline = Instant::now() + LAST_TRANSCRIPT_TIMEOUT;
        loop {
            tokio::select! {
                Some(report) = self.reported.recv() => self.report(report),
                Some(report) = self.live_reported.recv() => self.report_live(report),
                () = &mut ended => break,
                () = sleep_until(deadline) => break,
            }
        }
        while let Ok(report) = self.reported.try_recv() {
            self.report(report);
        }
        while let Ok(report) = self.live_reported.try_recv() {
            self.report_live(report);
        }
    }

    async fn receive(&mut self, message: &str) {
        self.last_activity = Instant::now();
        let ParsedEvent { event_id, event } = match parse(message, SessionKind::Transcription) {
            Ok(parsed) => parsed,
            Err(refused) => {
                let refusal = Refusal::Common(refused.error.into());
                return self.refuse(&refusal, refused.event_id.as_deref());
            }
        };
        if let Err(refusal) = self.handle(event).await {
            self.refuse(&refusal, event_id.as_deref());
        }
    }

    fn refuse(&mut self, refusal: &Refusal, event_id: Option<&str>) {
        self.events.error(refusal, event_id, None);
        if self.faults.add(Instant::now()) {
            self.closing = Some(closing(POLICY_VIOLATION, Faults::REASON));
        }
    }

    async fn handle(&mut self, event: ClientEvent) -> Result<(), Refusal> {
        match event {
            ClientEvent::UpdateSession(update) => self.update(&update).await,
            ClientEvent::AppendAudio { audio } => self.append(&audio).await,
            ClientEvent::CommitAudio => self.commit().await,
            ClientEvent::ClearAudio => {
                self.input.clear();
                self.recall().await;
                self.next_turn();
                self.events.send(&ServerEvent::AudioCleared);
                Ok(())
            }
            _ => {
                let message = "Transcription sessions do not have this event.";
                Err(Error::new(ErrorCode::InvalidParameter, message)
                    .with_param("type")
                    .into())
            }
        }
    }

    async fn update(&mut self, update: &SessionUpdate) -> Result<(), Refusal> {
        let updated = self
            .session
            .apply(update, &SessionLimits::default())
            .map_err(Error::from)?;
        let settings = updated.transcription.clone().unwrap_or_default();
        let model = settings
            .model
            .clone()
            .unwrap_or_else(|| self.opening.model.clone());
        let settings = Transcription {
            model: Some(model.clone()),
            ..settings
        };
        let live_settings = live_settings(Some(&settings));
        let is_other_model = model != self.opening.model;
        let mut opened = None;
        if is_other_model {
            let routed = self.check_model(&model)?;
            let pipeline = &self.opening.shared.pipeline;
            if routed.model.live {
                let request = self.opening.request;
                let opening = pipeline.open_live_transcription(&routed, &live_settings, request);
                opened = Some(opening.await?);
            }
            self.blocks.settle(Outcome::Ok).await;
            self.opening.model = model;
        }
        if updated.input_format != self.session.input_format {
            self.recall().await;
        }
        self.session = Session {
            transcription: Some(settings),
            ..updated
        };
        if is_other_model {
            self.finals.extend(self.live.take().map(Live::end));
            self.turn.sent = 0;
            self.live = opened.map(|opened| self.relay(opened));
        } else if let Some(live) = &self.live {
            live.configure(live_settings).await;
        }
        let found = self
            .input
            .configure(self.session.input_format, self.session.turn_detection);
        self.events.send(&ServerEvent::SessionUpdated(&self.session));
        for event in found {
            self.detected(event).await;
        }
        Ok(())
    }

    /// Returns the routes of a transcription model that the session may use.
    fn check_model(&self, model: &str) -> Result<Routed, Error> {
        let param = "session.audio.input.transcription.model";
        let secret = self.events.turns.secret();
        if let Some(named) = secret.and_then(|(secret, _)| secret.model.as_deref())
            && named != model
        {
            return Err(secret_model(named).with_param(param));
        }
        let pipeline = &self.opening.shared.pipeline;
        let routed = pipeline
            .route(&self.opening.caller, model)
            .map_err(|error| error.with_param(param))?;
        if routed.model.kind == ModelKind::Transcription {
            return Ok(routed);
        }
        let message = format!("The model '{model}' is not a transcription model.");
        Err(Error::new(ErrorCode::InvalidParameter, message).with_param(param))
    }

    async fn append(&mut self, audio: &[u8]) -> Result<(), Refusal> {
        self.session
            .input_format
            .check_samples(audio, "audio")
            .map_err(Error::from)?;
        // Refused audio is not paid.
        self.input.check_size(audio.len())?;
        let micros = self.input.micros_of(audio.len());
        if !self.pay(micros).await? {
            return Ok(());
        }
        self.since_item_micros += micros;
        for event in self.input.append(audio, false)? {
            self.detected(event).await;
        }
        self.send_audio().await;
        if self.session.turn_detection.is_none() && self.input.buffered_ms() >= MAX_TURN_MS {
            self.commit().await?;
        }
        self.transcribe_interim();
        Ok(())
    }

    /// Pays for audio. Returns `false` for audio that is dropped after a refusal, until the next
    /// attempt.
    async fn pay(&mut self, micros: u64) -> Result<bool, Refusal> {
        let now = Instant::now();
        if self.unpaid.as_ref().is_some_and(|unpaid| now < unpaid.retry_at) {
            meters::dropped();
            return Ok(false);
        }
        let model = self.opening.model.clone();
        match self.blocks.pay(&model, micros).await {
            Ok(paid) => {
                self.unpaid = None;
                self.paid = paid.or(self.paid.take());
                Ok(true)
            }
            Err(error) => {
                let since = self.unpaid.as_ref().map_or(now, |unpaid| unpaid.since);
                self.unpaid = Some(Unpaid {
                    since,
                    retry_at: now + RETRY_INTERVAL,
                });
                if error.code == ErrorCode::InvalidApiKey {
                    self.closing = Some(closing(POLICY_VIOLATION, "The API key is no longer valid."));
                } else if now.duration_since(since) >= MAX_UNPAID {
                    self.closing = Some(closing(POLICY_VIOLATION, "The audio was not paid for a minute."));
                }
                self.events
                    .error(&Refusal::Common(error), None, Some(self.opening.request));
                Ok(false)
            }
        }
    }

    async fn detected(&mut self, event: VadEvent) {
        match event {
            VadEvent::Started { at_ms } => {
                self.recall().await;
                self.input.begin_turn(at_ms);
                let item_id: Arc<str> = self.events.new_id("item_").into();
                self.input.item_id = Some(item_id.clone());
                self.turn.is_speaking = true;
                self.events.send(&ServerEvent::SpeechStarted {
                    audio_start_ms: at_ms,
                    item_id: &item_id,
                });
            }
            VadEvent::Stopped { at_ms, .. } => {
                let item_id = self.item_id();
                self.events.send(&ServerEvent::SpeechStopped {
                    audio_end_ms: at_ms,
                    item_id: &item_id,
                });
                let (samples, rate) = self.input.take_turn(at_ms);
                self.transcribe_final(item_id, samples, rate).await;
            }
            VadEvent::Quiet { .. } | VadEvent::Resumed { .. } | VadEvent::TimedOut { .. } => {}
        }
    }

    async fn commit(&mut self) -> Result<(), Refusal> {
        let buffered_ms = self.input.buffered_ms();
        if buffered_ms < MIN_COMMIT_MS {
            let message = format!(
                "The buffer has {buffered_ms} ms of audio, but a commit needs at least {MIN_COMMIT_MS} ms."
            );
            return Err(Refusal::Realtime(RealtimeCode::CommitEmpty, message, None));
        }
        let item_id = self.item_id();
        let (samples, rate) = self.input.take_all();
        self.transcribe_final(item_id, samples, rate).await;
        Ok(())
    }

    /// Takes the id of the item that the audio becomes.
    fn item_id(&mut self) -> Arc<str> {
        let item_id = self.input.item_id.take();
        item_id.unwrap_or_else(|| self.events.new_id("item_").into())
    }

    /// Whether the audio belongs to a turn.
    fn is_speaking(&self) -> bool {
        self.turn.is_speaking || self.session.turn_detection.is_none()
    }

    /// Sends the audio of the running turn that the provider does not have.
    async fn send_audio(&mut self) {
        let (Some(live), Some(ctx), true) = (&self.live, &self.paid, self.is_speaking()) else {
            return;
        };
        let (samples, rate) = self.input.after(self.turn.sent);
        if !samples.is_empty() {
            self.turn.sent += samples.len();
            live.append(self.turn.number, ctx.clone(), samples, rate).await;
        }
    }

    /// Drops the audio of the running turn at the provider.
    async fn recall(&mut self) {
        if std::mem::take(&mut self.turn.sent) > 0
            && let Some(live) = &self.live
        {
            live.clear().await;
        }
    }

    /// Starts an interim transcription, if the audio has grown enough and none is running.
    fn transcribe_interim(&mut self) {
        if self.live.is_some() {
            return;
        }
        let is_speaking = self.is_speaking();
        let interim_ms = u64::try_from(self.opening.settings.interim.as_millis()).unwrap_or(u64::MAX);
        let buffered_ms = self.input.buffered_ms();
        let step = interim_ms.max(buffered_ms / INTERIM_SHARE);
        let is_due = interim_ms > 0 && buffered_ms >= self.turn.transcribed_ms.saturating_add(step);
        if !is_speaking || !is_due || self.turn.interim.is_some() {
            return;
        }
        self.turn.transcribed_ms = buffered_ms;
        let (samples, rate) = self.input.peek();
        let (turn, reports) = (self.turn.number, self.reports.clone());
        self.turn.interim = Some(self.spawn(samples, rate, move |words| {
            let _ = reports.send(Report::Interim { turn, words });
        }));
    }

    /// Adds the item of a turn, and starts its transcription.
    async fn transcribe_final(&mut self, item_id: Arc<str>, samples: Vec<i16>, rate: u32) {
        self.announce(&item_id);
        let micros = std::mem::take(&mut self.since_item_micros);
        let (number, sent) = (self.turn.number, self.turn.sent);
        let interim = Box::new(self.next_turn());
        if let (Some(live), Some(ctx)) = (&self.live, &self.paid) {
            self.pending.insert(number, PendingTurn { item_id, micros });
            if let Some(rest) = samples.get(sent..).filter(|rest| !rest.is_empty()) {
                live.append(number, ctx.clone(), rest.to_vec(), rate).await;
            }
            live.commit(number).await;
            return;
        }
        let reports = self.reports.clone();
        let task = self.spawn(samples, rate, move |words| {
            let _ = reports.send(Report::Final {
                item_id,
                micros,
                interim,
                words,
            });
        });
        self.finals.retain(|task| !task.is_finished());
        self.finals.push(task);
    }

    /// Begins the next turn. Returns the interim transcript of the one before.
    fn next_turn(&mut self) -> Agreement {
        let number = self.turn.number + 1;
        let turn = std::mem::replace(
            &mut self.turn,
            Turn {
                number,
                ..Turn::default()
            },
        );
        turn.agreement
    }

    fn announce(&mut self, item_id: &Arc<str>) {
        let previous = self.last_item.replace(item_id.clone());
        let item = Item {
            id: Some(item_id.clone()),
            kind: ItemKind::Message {
                role: Role::User,
                content: vec![ContentPart::InputAudio {
                    audio: bytes::Bytes::new(),
                    transcript: None,
                }],
            },
        };
        let written = WrittenItem {
            item: &item,
            status: ItemStatus::Completed,
        };
        self.events.send(&ServerEvent::AudioCommitted {
            item_id,
            previous_item_id: previous.as_deref(),
        });
        self.events.send(&ServerEvent::ItemAdded {
            previous_item_id: previous.as_deref(),
            item: written,
        });
        self.events.send(&ServerEvent::ItemDone {
            previous_item_id: previous.as_deref(),
            item: written,
        });
    }

    /// Transcribes audio in a task and passes the words to `done`.
    fn spawn(
        &self,
        samples: Vec<i16>,
        rate: u32,
        done: impl FnOnce(Result<Words, Error>) + Send + 'static,
    ) -> AbortOnDropHandle<()> {
        let recording = Recording::new(
            samples,
            rate,
            self.input.memory(),
            self.session.transcription.as_ref(),
        );
        let pipeline = self.opening.shared.pipeline.clone();
        let stage = StageCall::new(
            &pipeline,
            &self.opening.caller,
            self.opening.request,
            pipeline.clock.now(),
        );
        let model = self.opening.model.clone();
        let task = async move { done(transcribe(&stage, &model, recording).await) };
        AbortOnDropHandle::new(pipeline.calls.spawn(task))
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Interim { turn, words } if turn == self.turn.number => {
                self.turn.interim = None;
                // The final transcription reports a failure.
                let delta = words.ok().and_then(|words| self.turn.agreement.add(&words.text));
                if let Some(delta) = delta {
                    let item_id = self
                        .input
                        .item_id
                        .get_or_insert_with(|| self.events.new_id("item_").into());
                    send_delta(&self.events, item_id, &delta);
                }
            }
            Report::Interim { .. } => {}
            Report::Final {
                item_id,
                micros,
                mut interim,
                words,
            } => {
                let delta = words.as_ref().ok().and_then(|words| interim.finish(&words.text));
                if let Some(delta) = delta {
                    send_delta(&self.events, &item_id, &delta);
                }
                self.finish_turn(&item_id, micros, words);
            }
        }
    }

    fn report_live(&mut self, report: LiveReport) {
        match report {
            LiveReport::Delta { turn, text } if turn == self.turn.number => {
                let item_id = self
                    .input
                    .item_id
                    .get_or_insert_with(|| self.events.new_id("item_").into());
                send_delta(&self.events, item_id, &text);
            }
            LiveReport::Delta { turn, text } => {
                // The audio of an unknown turn was dropped.
                if let Some(pending) = self.pending.get(&turn) {
                    send_delta(&self.events, &pending.item_id, &text);
                }
            }
            LiveReport::Ended { turn, words } => {
                if let Some(PendingTurn { item_id, micros }) = self.pending.remove(&turn) {
                    self.finish_turn(&item_id, micros, words);
                }
            }
        }
    }

    /// Sends the transcript of a turn, or credits its audio after a failure.
    fn finish_turn(&mut self, item_id: &Arc<str>, micros: u64, words: Result<Words, Error>) {
        match words {
            Ok(Words { text: words, target }) => {
                self.blocks.set_target(target);
                let cost = self.blocks.price(micros).map(|cost| cost.to_string());
                self.events.send(&ServerEvent::TranscriptionCompleted {
                    item_id,
                    content_index: 0,
                    transcript: &words,
                    usage: TranscriptionUsage::Duration {
                        micros,
                        cost: cost.as_deref(),
                    },
                    logprobs: None,
                });
            }
            Err(error) => {
                self.blocks.credit(micros);
                self.events.send(&ServerEvent::TranscriptionFailed {
                    item_id,
                    content_index: 0,
                    error: &event_error(&error),
                });
            }
        }
    }
}

/// Returns the settings of a session that a provider receives.
pub(crate) fn live_settings(transcription: Option<&Transcription>) -> TranscriptionSettings {
    let settings = transcription.cloned().unwrap_or_default();
    TranscriptionSettings {
        language: settings.language,
        prompt: settings.prompt,
        languages: settings.languages,
        keywords: settings.keywords,
        delay: settings.delay.map(TranscriptionDelay::as_str),
    }
}

fn send_delta(events: &Events, item_id: &str, delta: &str) {
    events.send(&ServerEvent::TranscriptionDelta {
        item_id,
        content_index: 0,
        delta,
        logprobs: None,
    });
}

const fn closing(code: u16, reason: &'static str) -> Closing {
    Closing { code, reason }
}
