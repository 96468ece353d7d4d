//! Events of the server.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use tollgate_formats::openai_realtime::{
    EndedResponse, EndedStatus, OutputPlace, UpstreamCommand, UpstreamEvent,
};
use tollgate_upstream::{RealtimeEvent, RealtimeFinish, UpstreamError};

use super::command::CommandKind;
use super::link::{Link, Start};
use crate::refusal;

/// Maximum number of events that wait for `next`.
const MAX_WAITING_EVENTS: usize = 10_000;
/// Number of ended responses whose late events are recognized.
const MAX_ENDED_IDS: usize = 16;

impl Link {
    /// Handles a message of the server. An error ends the connection.
    pub(super) fn handle(&mut self, text: String) -> Result<(), UpstreamError> {
        if let Some(running) = &mut self.response {
            running.last_message_at = Instant::now();
        }
        let event = UpstreamEvent::parse(&text).map_err(|_| {
            UpstreamError::protocol(format!(
                "the upstream sent an invalid event ({} bytes)",
                text.len()
            ))
        })?;
        if self.waiting.len() >= MAX_WAITING_EVENTS {
            return Err(UpstreamError::protocol("the upstream sent too many events"));
        }
        match event {
            UpstreamEvent::Created => self.start = self.start.max_created(),
            UpstreamEvent::Updated { has_turn_detection } => {
                if has_turn_detection {
                    let problem = "the upstream does not switch its turn detection off";
                    return Err(UpstreamError::protocol(problem));
                }
                self.start = Start::Ready;
            }
            UpstreamEvent::AudioCommitted { item_id } => self.items.committed(item_id),
            UpstreamEvent::ItemAdded { item_id, kind } => {
                let is_responding = self.response.as_ref().is_some_and(|running| running.id.is_some());
                self.items.confirm(item_id, kind, is_responding);
            }
            UpstreamEvent::Error { event_id, code } => {
                return self.handle_error(event_id.as_deref(), code.as_deref(), text);
            }
            UpstreamEvent::ResponseCreated { response_id } => self.handle_created(response_id),
            UpstreamEvent::ResponseDone(ended) => self.handle_ended(*ended),
            UpstreamEvent::Ignored
            | UpstreamEvent::InputTranscriptDelta { .. }
            | UpstreamEvent::InputTranscriptCompleted { .. }
            | UpstreamEvent::InputTranscriptFailed { .. } => {}
            UpstreamEvent::Unknown => {
                self.unknown_events += 1;
                tracing::debug!(count = self.unknown_events, "the upstream sent an unknown event");
            }
            output => return self.handle_output(output),
        }
        Ok(())
    }

    fn handle_created(&mut self, response_id: Arc<str>) {
        if self.ended_ids.contains(&response_id) {
            return;
        }
        match &mut self.response {
            Some(running) if running.id.is_none() => {
                running.id = Some(response_id);
                if running.spoiled.is_none() {
                    self.waiting.push_back(RealtimeEvent::Started);
                }
            }
            Some(running) if running.id.as_ref() == Some(&response_id) => {}
            _ => {
                tracing::warn!("the upstream started a response that the gateway did not request");
                self.queue(&UpstreamCommand::CancelResponse {
                    response_id: Some(&response_id),
                });
                self.remember_ended(response_id);
            }
        }
    }

    fn remember_ended(&mut self, response_id: Arc<str>) {
        if self.ended_ids.len() >= MAX_ENDED_IDS {
            self.ended_ids.pop_front();
        }
        self.ended_ids.push_back(response_id);
    }

    fn handle_ended(&mut self, ended: EndedResponse) {
        // A duplicate, or the end of a response that the gateway did not request.
        if !self.belongs(ended.response_id.as_ref()) {
            return;
        }
        let Some(running) = self.response.take() else {
            return;
        };
        if let Some(response_id) = running.id.clone().or(ended.response_id) {
            self.remember_ended(response_id);
        }
        let usage = ended.usage;
        let finish = match ended.status {
            _ if running.spoiled.is_some() => {
                let error = running.spoiled.map(|error| error.reporting(usage));
                self.waiting.extend(error.map(RealtimeEvent::Failed));
                return;
            }
            EndedStatus::Failed { error } => {
                let error = refusal::from_event(&self.error_texts, &Bytes::from(error));
                self.waiting
                    .push_back(RealtimeEvent::Failed(error.reporting(usage)));
                return;
            }
            EndedStatus::Completed => RealtimeFinish::Completed,
            EndedStatus::Cancelled => RealtimeFinish::Cancelled,
            EndedStatus::MaxOutputTokens => RealtimeFinish::MaxTokens,
            EndedStatus::ContentFilter => RealtimeFinish::ContentFilter,
        };
        if running.id.is_none() {
            self.waiting.push_back(RealtimeEvent::Started);
        }
        self.waiting.push_back(RealtimeEvent::Ended { finish, usage });
    }

    /// Whether an event with this response id belongs to the running response. Servers may omit
    /// the id.
    fn belongs(&self, response_id: Option<&Arc<str>>) -> bool {
        let Some(running) = &self.response else {
            return false;
        };
        match (&running.id, response_id) {
            (Some(own), Some(other)) => own == other,
            (None, Some(other)) => !self.ended_ids.contains(other),
            (_, None) => true,
        }
    }

    fn handle_output(&mut self, event: UpstreamEvent) -> Result<(), UpstreamError> {
        let place = match &event {
            UpstreamEvent::OutputItemAdded { place, .. }
            | UpstreamEvent::TextDelta { place, .. }
            | UpstreamEvent::TranscriptDelta { place, .. }
            | UpstreamEvent::AudioDelta { place, .. }
            | UpstreamEvent::ArgumentsDelta { place, .. }
            | UpstreamEvent::CallDone { place, .. } => place.clone(),
            _ => OutputPlace::default(),
        };
        if !self.belongs(place.response_id.as_ref()) {
            return Ok(());
        }
        if let (None, Some(response_id)) = (self.running_id(), &place.response_id) {
            // The server has not announced the response.
            self.handle_created(response_id.clone());
        }
        let Some(running) = &mut self.response else {
            return Ok(());
        };
        if running.spoiled.is_some() {
            return Ok(());
        }
        // The end of a call without a name follows once more with the name.
        if let UpstreamEvent::CallDone { call, .. } = &event
            && call
                .as_ref()
                .is_some_and(|call| call.name.is_empty() && !running.has_call(call))
        {
            return Ok(());
        }
        let (item, announced) = running.select(&place, &mut self.items)?;
        self.waiting.extend(announced);
        match event {
            UpstreamEvent::OutputItemAdded { call: Some(call), .. } => {
                self.items.add_call_id(&call.call_id);
                self.waiting.extend(running.add_call(item, &call)?);
            }
            UpstreamEvent::TextDelta { delta, .. } => {
                running.add_text(&delta)?;
                self.waiting.push_back(RealtimeEvent::Text(delta));
            }
            UpstreamEvent::TranscriptDelta { delta, .. } => {
                running.add_text(&delta)?;
                self.waiting.push_back(RealtimeEvent::Transcript(delta));
            }
            UpstreamEvent::AudioDelta { audio, .. } => {
                self.items.add_audio(item, audio.len());
                let audio = running.add_audio(audio)?;
                self.waiting.extend(audio.map(RealtimeEvent::Audio));
            }
            UpstreamEvent::ArgumentsDelta { delta, .. } => {
                self.waiting.extend(running.add_arguments(item, delta)?);
            }
            UpstreamEvent::CallDone { call, arguments, .. } => {
                if let Some(call) = &call {
                    self.items.add_call_id(&call.call_id);
                    self.waiting.extend(running.add_call(item, call)?);
                }
                let rest = running.end_arguments(item, call.as_ref(), arguments)?;
                self.waiting.extend(rest);
            }
            _ => {}
        }
        Ok(())
    }

    fn running_id(&self) -> Option<&Arc<str>> {
        self.response.as_ref()?.id.as_ref()
    }

    /// Handles an error event. An error that ends the connection is returned.
    fn handle_error(
        &mut self,
        event_id: Option<&str>,
        code: Option<&str>,
        text: String,
    ) -> Result<(), UpstreamError> {
        let error = refusal::from_event(&self.error_texts, &Bytes::from(text));
        if self.start != Start::Ready || code == Some("session_expired") {
            return Err(error);
        }
        match (event_id.and_then(CommandKind::parse), &self.response) {
            (Some((CommandKind::Response, number)), Some(running)) if running.number == number => {
                self.response = None;
                self.waiting.push_back(RealtimeEvent::Failed(error));
            }
            // The response has ended in the meantime, or the item does not exist.
            (Some((CommandKind::Response | CommandKind::Cancel, _)), _) => {}
            (Some((CommandKind::Delete, _)), _) if code == Some("item_delete_invalid_item_id") => {}
            (Some((kind, number)), _) => self.command_failed(kind, number, error),
            (None, Some(running)) if running.id.is_none() => {
                self.response = None;
                self.waiting.push_back(RealtimeEvent::Failed(error));
            }
            // The end of the response follows.
            (None, Some(_)) => tracing::debug!(%error, "the upstream reported an error"),
            (None, None) => self.failed = Some(error),
        }
        Ok(())
    }

    /// Handles the error of a command about the session or an item: the response after it fails.
    fn command_failed(&mut self, kind: CommandKind, number: u64, error: UpstreamError) {
        tracing::warn!(%error, ?kind, "the upstream refused a change of the conversation");
        match kind {
            CommandKind::Session => self.settings = None,
            CommandKind::Commit => self.items.not_committed(number),
            _ => {}
        }
        let Some(running) = self.response.as_mut().filter(|running| number < running.number) else {
            self.failed = Some(error);
            return;
        };
        if running.spoiled.is_some() {
            return;
        }
        running.spoiled = Some(error);
        if !std::mem::replace(&mut running.is_cancelled, true) {
            let response_id = running.id.clone();
            self.queue(&UpstreamCommand::CancelResponse {
                response_id: response_id.as_deref(),
            });
        }
    }
}
