//! An open conversation. Commands do not wait for their answers: the server executes them in order,
//! and refers to the event id of a command that failed.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_formats::openai_realtime::{
    OutputModality, Previous, ResponseInput, SessionSettings, Tool, ToolChoice, UpstreamCommand,
};
use tollgate_upstream::{
    CallContext, ItemKey, Permit, REALTIME_RATE, RealtimeEvent, RealtimeInput, RealtimeItem, RealtimeLink,
    RealtimePlace, RealtimeRequest, RealtimeSettings, RealtimeTool, RealtimeToolChoice, UpstreamError,
};

use super::super::presets::Realtime;
use super::command::CommandKind;
use super::items::{Items, kind_of};
use super::response::Running;
use super::wire::Wire;
use crate::http::{ErrorTexts, Socket};

/// Maximum audio of one message, in bytes. Its base64 form has less than 1 MiB.
const MAX_APPEND_BYTES: usize = 720 << 10;
/// Minimum audio that a server accepts as a turn: 100 ms.
const MIN_COMMIT_BYTES: usize = REALTIME_RATE as usize / 10 * 2;

/// Link to a model over a WebSocket.
#[derive(Debug)]
pub(super) struct Link {
    row: &'static Realtime,
    wire: Wire,
    pub(super) error_texts: Arc<ErrorTexts>,
    /// Settings that the server has; `None` before the first ones and after an error.
    pub(super) settings: Option<RealtimeSettings>,
    /// Number of the last command.
    number: u64,
    pub(super) items: Items,
    pub(super) response: Option<Running>,
    /// Ids of the last responses that have ended.
    pub(super) ended_ids: VecDeque<Arc<str>>,
    /// Events for the next calls of `next`.
    pub(super) waiting: VecDeque<RealtimeEvent>,
    /// Error of a command, with which the next response fails.
    pub(super) failed: Option<UpstreamError>,
    pub(super) start: Start,
    pub(super) unknown_events: u64,
}

/// Progress of the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Connected,
    /// The server has created the session.
    Created,
    /// The server has switched its turn detection off.
    Ready,
}

impl Link {
    pub(super) fn new(
        row: &'static Realtime,
        socket: Socket,
        error_texts: Arc<ErrorTexts>,
        ctx: &CallContext,
    ) -> Self {
        Self {
            row,
            wire: Wire::new(socket, ctx.header_timeout),
            error_texts,
            settings: None,
            number: 0,
            items: Items::default(),
            response: None,
            ended_ids: VecDeque::new(),
            waiting: VecDeque::new(),
            failed: None,
            start: Start::Connected,
            unknown_events: 0,
        }
    }

    /// Waits for the session, and switches its turn detection off.
    pub(super) async fn start(&mut self) -> Result<(), UpstreamError> {
        let deadline = Instant::now() + self.wire.timeout();
        self.wait_until(deadline, |link| link.start != Start::Connected)
            .await?;
        let update = UpstreamCommand::UpdateSession {
            shape: self.row.session,
            settings: None,
        };
        self.send(&update).await?;
        self.wait_until(deadline, |link| link.start == Start::Ready).await
    }

    async fn wait_until(
        &mut self,
        deadline: Instant,
        condition: impl Fn(&Self) -> bool + Send,
    ) -> Result<(), UpstreamError> {
        let waited = timeout_at(deadline, async {
            while !condition(self) {
                self.read().await?;
            }
            Ok(())
        });
        match waited.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.wire.end(UpstreamError::timeout(
                "timed out waiting for an event of the upstream",
            ))),
        }
    }

    /// Returns the id of an item. Waits for it if the server has not sent it.
    async fn id_of(&mut self, key: ItemKey) -> Result<Arc<str>, UpstreamError> {
        let waited = timeout(self.wire.timeout(), async {
            loop {
                match self.items.id(key)? {
                    Some(id) => return Ok(id),
                    None => self.read().await?,
                }
            }
        });
        match waited.await {
            Ok(found) => found,
            Err(_) => Err(self
                .wire
                .end(UpstreamError::timeout("timed out waiting for the id of an item"))),
        }
    }

    /// Writes a command.
    async fn send(&mut self, command: &UpstreamCommand<'_>) -> Result<(), UpstreamError> {
        self.wire.check_open()?;
        self.queue(command);
        self.wire.flush().await
    }

    /// Queues a command, which the next write or read sends; returns its number.
    pub(super) fn queue(&mut self, command: &UpstreamCommand<'_>) -> u64 {
        self.number += 1;
        let event_id = format!("{}{}", CommandKind::of(command).prefix(), self.number);
        self.wire.queue(command.write(&event_id));
        self.number
    }

    /// Reads and handles one message. Cancel-safe.
    async fn read(&mut self) -> Result<(), UpstreamError> {
        let running = self.response.as_ref();
        let due = running.map(|running| running.last_message_at + running.idle);
        let text = self.wire.receive(due).await?;
        let handled = self.handle(text);
        handled.map_err(|error| self.wire.end(error))
    }

    /// Appends the recording to the input buffer and makes it an item at the end.
    async fn commit(&mut self, audio: &Bytes) -> Result<ItemKey, UpstreamError> {
        for audio in audio.chunks(MAX_APPEND_BYTES) {
            self.send(&UpstreamCommand::AppendAudio { audio }).await?;
        }
        let number = self.queue(&UpstreamCommand::CommitAudio);
        let key = self.items.commit(number);
        self.wire.flush().await?;
        Ok(key)
    }

    /// Converts the input of a response outside the conversation.
    async fn encode_input(&mut self, input: &[RealtimeInput]) -> Result<Vec<ResponseInput>, UpstreamError> {
        let mut encoded = Vec::with_capacity(input.len());
        for element in input {
            encoded.push(match element {
                RealtimeInput::Reference(key) => ResponseInput::Reference(self.id_of(*key).await?),
                RealtimeInput::Item(item) => ResponseInput::Item(self.items.encode(item)),
            });
        }
        Ok(encoded)
    }
}

impl Start {
    pub(super) fn max_created(self) -> Self {
        match self {
            Start::Connected => Start::Created,
            later => later,
        }
    }
}

#[async_trait]
impl RealtimeLink for Link {
    async fn configure(&mut self, settings: &RealtimeSettings) -> Result<(), UpstreamError> {
        let previous = self.settings.as_ref();
        if previous == Some(settings) {
            return self.wire.check_open();
        }
        // A server refuses a voice after the first audio, even if it is the same one.
        let voice = settings.voice.as_deref();
        let voice = voice.filter(|voice| previous.is_none_or(|old| old.voice.as_deref() != Some(*voice)));
        let has_speed = settings.speed != 1.0 || previous.is_some_and(|old| old.speed != 1.0);
        let tools: Vec<Tool> = settings.tools.iter().map(encode_tool).collect();
        let tool_choice = encode_choice(&settings.tool_choice);
        let takes = |field: &str| self.row.takes.contains(&field);
        let update = UpstreamCommand::UpdateSession {
            shape: self.row.session,
            settings: Some(SessionSettings {
                modality: match settings.is_spoken {
                    true => OutputModality::Audio,
                    false => OutputModality::Text,
                },
                instructions: &settings.instructions,
                voice,
                speed: has_speed.then_some(settings.speed),
                tools: &tools,
                tool_choice: &tool_choice,
                parallel_tool_calls: settings
                    .parallel_tool_calls
                    .filter(|_| takes("parallel_tool_calls")),
                temperature: settings.temperature.filter(|_| takes("temperature")),
            }),
        };
        self.send(&update).await?;
        self.settings = Some(settings.clone());
        Ok(())
    }

    async fn create(&mut self, place: RealtimePlace, item: &RealtimeItem) -> Result<ItemKey, UpstreamError> {
        let previous = match place {
            RealtimePlace::First => Some(Previous::Root),
            RealtimePlace::After(key) => Some(Previous::After(self.id_of(key).await?)),
            RealtimePlace::Last => None,
        };
        if let (None, RealtimeItem::Recording(audio)) = (&previous, item)
            && audio.len() >= MIN_COMMIT_BYTES
        {
            return self.commit(audio).await;
        }
        let encoded = self.items.encode(item);
        let (key, item_id) = self.items.create(kind_of(item));
        let command = UpstreamCommand::CreateItem {
            item_id: &item_id,
            item: &encoded,
            previous: previous.as_ref(),
        };
        self.send(&command).await?;
        Ok(key)
    }

    async fn delete(&mut self, item: ItemKey) -> Result<(), UpstreamError> {
        let item_id = self.id_of(item).await?;
        self.send(&UpstreamCommand::DeleteItem { item_id: &item_id })
            .await?;
        self.items.remove(item);
        Ok(())
    }

    async fn truncate(&mut self, item: ItemKey, heard_ms: u64) -> Result<(), UpstreamError> {
        let audio_ms = self.items.audio_ms(item);
        if audio_ms == 0 {
            return self.wire.check_open();
        }
        let item_id = self.id_of(item).await?;
        let command = UpstreamCommand::TruncateItem {
            item_id: &item_id,
            // A server refuses more than the length of the audio.
            audio_end_ms: heard_ms.min(audio_ms),
        };
        self.send(&command).await
    }

    async fn respond(&mut self, ctx: &CallContext, request: &RealtimeRequest) -> Result<(), UpstreamError> {
        self.wire.check_open()?;
        if !matches!(ctx.permit, Permit::Hold(_)) {
            return Err(UpstreamError::connect("a response needs a hold"));
        }
        if self.response.is_some() {
            return Err(UpstreamError::connect("a response is already running"));
        }
        if request.outside.is_some() && !self.row.has_outside_responses {
            return Err(UpstreamError::connect(
                "the provider has no responses outside the conversation",
            ));
        }
        let outside = match &request.outside {
            Some(input) => Some(self.encode_input(input).await?),
            None => None,
        };
        if let Some(error) = self.failed.take() {
            self.waiting.push_back(RealtimeEvent::Failed(error));
            return Ok(());
        }
        let max_output_tokens = request.max_output_tokens;
        let max = self.row.max_output_tokens.unwrap_or(max_output_tokens);
        let command = UpstreamCommand::CreateResponse {
            max_output_tokens: max_output_tokens.min(max),
            outside: outside.as_deref(),
        };
        // The response is running from the first byte of its request.
        self.response = Some(Running::new(self.number + 1, ctx.idle_timeout));
        self.send(&command).await
    }

    async fn cancel(&mut self) -> Result<(), UpstreamError> {
        let Some(running) = &mut self.response else {
            return self.wire.check_open();
        };
        if std::mem::replace(&mut running.is_cancelled, true) {
            return self.wire.check_open();
        }
        let response_id = running.id.clone();
        let command = UpstreamCommand::CancelResponse {
            response_id: response_id.as_deref(),
        };
        self.send(&command).await
    }

    async fn next(&mut self) -> Result<RealtimeEvent, UpstreamError> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(event);
            }
            self.read().await?;
        }
    }
}

fn encode_tool(tool: &RealtimeTool) -> Tool {
    Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
    }
}

fn encode_choice(choice: &RealtimeToolChoice) -> ToolChoice {
    match choice {
        RealtimeToolChoice::Auto => ToolChoice::Auto,
        RealtimeToolChoice::None => ToolChoice::None,
        RealtimeToolChoice::Required => ToolChoice::Required,
        RealtimeToolChoice::Function(name) => ToolChoice::Function(name.clone()),
    }
}
