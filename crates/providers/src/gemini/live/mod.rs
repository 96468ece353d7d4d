//! Realtime conversations by the Live API of the Gemini API.
//!
//! The settings of a connection are fixed, and its conversation only grows. The gateway therefore
//! sends new items with the response that reads them, and opens another connection between two
//! responses for other settings, for changes in the middle, or after a notice of the server. The
//! other connection continues the conversation by its handle, or receives it as text.

mod connection;
mod conversation;
mod response;

use std::collections::VecDeque;

use async_trait::async_trait;
use futures_util::FutureExt;
use tollgate_formats::gemini::live::{LiveCommand, LiveEvent, LiveOutput, LiveTurn};
use tollgate_upstream::{
    CallContext, ItemKey, Permit, RealtimeCall, RealtimeEvent, RealtimeFinish, RealtimeItem, RealtimeLink,
    RealtimePlace, RealtimeProvider, RealtimeRequest, RealtimeSettings, RealtimeToolChoice, UpstreamCause,
    UpstreamError, UpstreamErrorKind,
};

use super::adapter::Gemini;
use crate::http::Timeouts;
use connection::{Connection, Connector};
use conversation::{Content, Conversation};
use response::{Response, Step};

/// Minimum of the output limit of a connection. A response with a lower limit is interrupted at its
/// limit, so that the connection can also serve others.
const MIN_OUTPUT_TOKENS: u64 = 4_096;
/// Size of a message with audio, in bytes: one second.
const AUDIO_CHUNK_BYTES: usize = 48_000;

#[async_trait]
impl RealtimeProvider for Gemini {
    fn has_outside_responses(&self) -> bool {
        false
    }

    fn has_editable_items(&self) -> bool {
        false
    }

    async fn open(
        &self,
        ctx: &CallContext,
        call: &RealtimeCall,
    ) -> Result<Box<dyn RealtimeLink>, UpstreamError> {
        let connector = Connector::new(self, &call.upstream_model)?;
        let timeouts = Timeouts::of(ctx);
        Ok(Box::new(Link {
            connection: Some(connector.connect(timeouts).await?),
            connector,
            timeouts,
            settings: None,
            conversation: Conversation::default(),
            handle: None,
            running: None,
            ready: VecDeque::new(),
        }))
    }
}

/// A conversation, and the connection that has it at present.
struct Link {
    connector: Connector,
    timeouts: Timeouts,
    /// `None` after the end of a connection between two responses.
    connection: Option<Connection>,
    settings: Option<RealtimeSettings>,
    conversation: Conversation,
    /// Handle of the conversation after the last response.
    handle: Option<String>,
    running: Option<Response>,
    /// Events of the running response that were not returned yet.
    ready: VecDeque<RealtimeEvent>,
}

#[async_trait]
impl RealtimeLink for Link {
    async fn configure(&mut self, settings: &RealtimeSettings) -> Result<(), UpstreamError> {
        let forced = match &settings.tool_choice {
            RealtimeToolChoice::Auto | RealtimeToolChoice::None => None,
            RealtimeToolChoice::Required | RealtimeToolChoice::Function(_) => Some("tool_choice"),
        };
        let is_normal_speed = (settings.speed - 1.0).abs() < f64::EPSILON;
        let speed = (!is_normal_speed && settings.is_spoken).then_some("speed");
        let parallel = (settings.parallel_tool_calls == Some(false)).then_some("parallel_tool_calls");
        if let Some(param) = forced.or(speed).or(parallel) {
            return Err(unsupported(param));
        }
        self.settings = Some(settings.clone());
        Ok(())
    }

    async fn create(&mut self, place: RealtimePlace, item: &RealtimeItem) -> Result<ItemKey, UpstreamError> {
        if !self.conversation.is_end(place) {
            return Err(unsupported("previous_item_id"));
        }
        Ok(self.conversation.push(Content::from(item)))
    }

    async fn delete(&mut self, item: ItemKey) -> Result<(), UpstreamError> {
        match self.conversation.remove_unsent(item) {
            true => Ok(()),
            false => Err(unsupported("item_id")),
        }
    }

    async fn truncate(&mut self, item: ItemKey, heard_ms: u64) -> Result<(), UpstreamError> {
        self.conversation.truncate(item, heard_ms);
        Ok(())
    }

    async fn respond(&mut self, ctx: &CallContext, request: &RealtimeRequest) -> Result<(), UpstreamError> {
        if !matches!(ctx.permit, Permit::Hold(_)) {
            return Err(UpstreamError::connect("a response needs a hold"));
        }
        if request.outside.is_some() {
            return Err(unsupported("conversation"));
        }
        if self.running.is_some() {
            return Err(UpstreamError::connect("another response is running"));
        }
        self.timeouts = Timeouts::of(ctx);
        self.drain();
        self.prepare(request.max_output_tokens).await?;
        let Some(connection) = &mut self.connection else {
            return Err(UpstreamError::protocol("the connection has ended"));
        };
        connection.flush(self.timeouts).await?;
        self.conversation.set_sent();
        self.handle = None;
        self.running = Some(Response::new(request.max_output_tokens));
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), UpstreamError> {
        self.stop(RealtimeFinish::Cancelled);
        Ok(())
    }

    async fn next(&mut self) -> Result<RealtimeEvent, UpstreamError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if matches!(event, RealtimeEvent::Ended { .. } | RealtimeEvent::Failed(_)) {
                    self.running = None;
                }
                return Ok(event);
            }
            let Some(connection) = &mut self.connection else {
                // The next response opens another connection.
                return std::future::pending().await;
            };
            let Some(running) = &mut self.running else {
                match connection.receive().await {
                    Ok(events) => self.take_idle(events),
                    Err(error) => {
                        tracing::debug!(%error, "a connection has ended between responses");
                        self.connection = None;
                    }
                }
                continue;
            };
            let received = tokio::select! {
                biased;
                received = connection.receive() => Some(received),
                () = running.deadline() => None,
            };
            match received {
                Some(Ok(events)) => self.take(events),
                Some(Err(error)) => {
                    (self.connection, self.running) = (None, None);
                    return Err(error);
                }
                None => self.end(),
            }
        }
    }
}

impl Link {
    /// Reads the messages that have arrived since the last response.
    fn drain(&mut self) {
        while let Some(connection) = &mut self.connection {
            match connection.receive().now_or_never() {
                None => return,
                Some(Ok(events)) => self.take_idle(events),
                Some(Err(_)) => self.connection = None,
            }
        }
    }

    /// Applies messages between two responses.
    fn take_idle(&mut self, events: Vec<LiveEvent>) {
        for event in events {
            match event {
                LiveEvent::Resumption(handle) => self.handle = handle,
                LiveEvent::Heard(words) => self.conversation.heard(&words),
                event => self.take_notice(&event),
            }
        }
    }

    /// Applies an event that concerns the connection.
    fn take_notice(&mut self, event: &LiveEvent) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        match event {
            LiveEvent::GoAway => connection.is_ending = true,
            LiveEvent::TurnComplete(_) => connection.awaits_turn_end = false,
            LiveEvent::CallsCancelled(ids) => connection.open_calls.retain(|call| !ids.contains(&call.id)),
            _ => {}
        }
    }

    /// Queues the messages that request a response, on a connection with the current settings.
    async fn prepare(&mut self, max_output_tokens: u64) -> Result<(), UpstreamError> {
        let settings = self.settings.as_ref();
        let is_suitable = self
            .connection
            .as_ref()
            .is_some_and(|connection| !connection.is_ending && connection.suits(settings, max_output_tokens));
        if is_suitable && self.queue_new_items() {
            return Ok(());
        }
        let max_output_tokens = max_output_tokens.max(MIN_OUTPUT_TOKENS);
        let unused = self.connection.take().filter(Connection::is_unused);
        if let Some(handle) = self.handle.take()
            && self.conversation.has_only_new_input()
        {
            let resumed = self.resume(&handle, max_output_tokens).await;
            match resumed {
                Ok(()) if self.queue_new_items() => return Ok(()),
                Ok(()) => {}
                Err(error) => tracing::debug!(%error, "a conversation cannot be continued by its handle"),
            }
        }
        self.replay(unused, max_output_tokens).await
    }

    async fn resume(&mut self, handle: &str, max_output_tokens: u64) -> Result<(), UpstreamError> {
        let mut connection = self.connector.connect(self.timeouts).await?;
        let setup = self
            .connector
            .setup(self.settings.as_ref(), max_output_tokens, Some(handle), false);
        connection.set_up(setup, self.timeouts).await?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Starts the conversation anew on a connection, and queues all its items. `unused` is a
    /// connection without settings, which the server may have closed by now.
    async fn replay(
        &mut self,
        unused: Option<Connection>,
        max_output_tokens: u64,
    ) -> Result<(), UpstreamError> {
        self.conversation.set_unsent();
        let (history, input) = self.conversation.split();
        let has_recording = input.iter().any(|content| content.is_recording());
        let has_history = has_recording && !history.is_empty();
        let setup = || {
            let settings = self.settings.as_ref();
            self.connector
                .setup(settings, max_output_tokens, None, has_history)
        };
        let mut connection = match unused {
            Some(mut connection) => match connection.set_up(setup(), self.timeouts).await {
                Ok(()) => connection,
                Err(error) if error.kind != UpstreamErrorKind::Unavailable => return Err(error),
                Err(_) => self.connector.open(setup(), self.timeouts).await?,
            },
            None => self.connector.open(setup(), self.timeouts).await?,
        };
        let calls = self.conversation.calls();
        let mut turns: Vec<LiveTurn<'_>> = history
            .iter()
            .filter_map(|content| content.turn(&calls))
            .collect();
        if has_recording {
            if has_history {
                connection.queue(LiveCommand::Content {
                    turns: &turns,
                    is_complete: true,
                });
            }
            queue_activity(&mut connection, &input);
        } else {
            turns.extend(input.iter().filter_map(|content| content.turn(&calls)));
            connection.queue(LiveCommand::Content {
                turns: &turns,
                is_complete: true,
            });
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// Queues the new items on the open connection. Returns false if only a new connection can
    /// receive them.
    fn queue_new_items(&mut self) -> bool {
        let Some(connection) = &mut self.connection else {
            return false;
        };
        let new = self.conversation.unsent();
        let outputs: Vec<LiveOutput<'_>> = new
            .iter()
            .filter_map(|content| match content {
                Content::Output { call_id, output } => Some(LiveOutput {
                    id: call_id,
                    name: &connection
                        .open_calls
                        .iter()
                        .find(|call| call.id == **call_id)?
                        .name,
                    output,
                }),
                _ => None,
            })
            .collect();
        let has_all_outputs = !outputs.is_empty()
            && outputs.len() == new.len()
            && outputs.len() == connection.open_calls.len()
            && !connection.is_in_activity;
        if has_all_outputs {
            let message = LiveCommand::Outputs(&outputs).write();
            connection.queue_message(message);
            connection.open_calls.clear();
            return true;
        }
        if !new.iter().all(|content| content.is_input()) || (new.is_empty() && connection.is_in_activity) {
            return false;
        }
        if connection.is_in_activity || new.iter().any(|content| content.is_recording()) {
            queue_activity(connection, &new);
            return true;
        }
        let turns: Vec<LiveTurn<'_>> = new.iter().filter_map(|content| content.turn(&[])).collect();
        connection.queue(LiveCommand::Content {
            turns: &turns,
            is_complete: true,
        });
        true
    }

    /// Applies messages of the running response.
    fn take(&mut self, events: Vec<LiveEvent>) {
        for event in events {
            let (Some(running), Some(connection)) = (&mut self.running, &mut self.connection) else {
                return;
            };
            match event {
                LiveEvent::Resumption(handle) => {
                    if running.is_generated() {
                        self.handle = handle;
                    }
                }
                LiveEvent::Heard(words) => self.conversation.heard(&words),
                LiveEvent::TurnComplete(_) if connection.awaits_turn_end && !running.has_output() => {
                    connection.awaits_turn_end = false;
                    running.expect_output();
                }
                event => {
                    self.take_notice(&event);
                    let Some(running) = &mut self.running else { return };
                    match running.take(event, &mut self.conversation, &mut self.ready) {
                        Step::Continue => {}
                        Step::Stop => self.stop(RealtimeFinish::MaxTokens),
                    }
                }
            }
        }
        if let (Some(running), Some(connection)) = (&mut self.running, &mut self.connection) {
            connection.open_calls.append(&mut running.called);
        }
        if self.running.as_ref().is_some_and(Response::is_over) {
            self.end();
        }
    }

    /// Interrupts the running response. The rest of its output is dropped.
    fn stop(&mut self, finish: RealtimeFinish) {
        let (Some(running), Some(connection)) = (&mut self.running, &mut self.connection) else {
            return;
        };
        if !running.stop(finish) {
            return;
        }
        if !connection.is_in_activity {
            connection.is_in_activity = true;
            connection.queue(LiveCommand::ActivityStart);
        }
    }

    /// Ends the running response.
    fn end(&mut self) {
        let (Some(running), Some(connection)) = (&mut self.running, &mut self.connection) else {
            return;
        };
        let (event, is_confirmed) = running.end(connection.max_output_tokens);
        connection.awaits_turn_end = !running.has_turn_ended();
        if !is_confirmed {
            // Output of this response could still arrive.
            self.connection = None;
        }
        self.ready.push_back(event);
    }
}

/// Queues the user's input as one activity, whose end requests the response.
fn queue_activity(connection: &mut Connection, input: &[&Content]) {
    if !connection.is_in_activity {
        connection.queue(LiveCommand::ActivityStart);
    }
    for content in input {
        match content {
            Content::Said { text, .. } => connection.queue(LiveCommand::Text(text)),
            Content::Recording { audio, .. } => {
                for chunk in audio.chunks(AUDIO_CHUNK_BYTES) {
                    connection.queue(LiveCommand::Audio(chunk));
                }
            }
            Content::Answer { .. } | Content::Call { .. } | Content::Output { .. } => {}
        }
    }
    connection.queue(LiveCommand::ActivityEnd);
    connection.is_in_activity = false;
}

/// Returns the error of a parameter that the Live API cannot represent.
fn unsupported(param: &str) -> UpstreamError {
    UpstreamError {
        param: Some(param.to_owned()),
        ..UpstreamError::new(
            UpstreamErrorKind::Unsupported,
            UpstreamCause::Connect,
            format!("the Live API has no equivalent of `{param}`"),
        )
    }
}
