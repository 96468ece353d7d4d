//! Events of the client.

use std::sync::Arc;

use tokio::time::Instant;
use tollgate_edge::websocket::{Closing, POLICY_VIOLATION};
use tollgate_formats::openai_realtime::{
    AudioFormat, CancelReason, ClientEvent, ContentPart, Item, ItemKind, ItemStatus, ParsedEvent, Previous,
    RealtimeCode, ServerEvent, SessionKind, SessionLimits, SessionUpdate, WrittenItem, parse,
};
use tollgate_types::{Error, ErrorCode};

use super::VoiceSession;
use super::conversation::Entry;
use super::events::Refusal;
use super::faults::Faults;
use super::input::{MIN_COMMIT_MS, encoding_of};
use super::response::LastSpoken;
use crate::cascade::Recording;
use crate::heard::Heard;

impl VoiceSession {
    /// Handles a message of the client. An invalid one is answered with an error event.
    pub(super) async fn receive(&mut self, message: &str) {
        self.last_activity = Instant::now();
        let ParsedEvent { event_id, event } = match parse(message, SessionKind::Voice) {
            Ok(parsed) => parsed,
            Err(refused) => {
                let refusal = Refusal::Common(refused.error.into());
                return self.refuse(&refusal, refused.event_id.as_deref());
            }
        };
        if let Err(refusal) = self.handle(event, event_id.as_deref()).await {
            self.refuse(&refusal, event_id.as_deref());
        }
    }

    fn refuse(&mut self, refusal: &Refusal, event_id: Option<&str>) {
        self.events.error(refusal, event_id, None);
        // Clients send these commands although the response may have ended.
        let is_harmless = matches!(
            refusal,
            Refusal::Realtime(RealtimeCode::CancelNotActive | RealtimeCode::ActiveResponse, ..)
        );
        if !is_harmless && self.faults.add(Instant::now()) {
            self.closing = Some(Closing {
                code: POLICY_VIOLATION,
                reason: Faults::REASON,
            });
        }
    }

    async fn handle(&mut self, event: ClientEvent, event_id: Option<&str>) -> Result<(), Refusal> {
        match event {
            ClientEvent::UpdateSession(update) => self.update(*update).await,
            ClientEvent::AppendAudio { audio } => self.append(&audio).await,
            ClientEvent::CommitAudio => self.commit(),
            ClientEvent::ClearAudio => {
                self.early = None;
                self.input.clear();
                self.events.send(&ServerEvent::AudioCleared);
                Ok(())
            }
            ClientEvent::CreateItem { item, previous } => self.create_item(*item, previous.as_ref()),
            ClientEvent::RetrieveItem { item_id } => self.retrieve(&item_id),
            ClientEvent::DeleteItem { item_id } => self.delete(&item_id),
            ClientEvent::TruncateItem {
                item_id,
                content_index,
                audio_end_ms,
            } => self.truncate(&item_id, content_index, audio_end_ms),
            ClientEvent::CreateResponse(params) => {
                self.create_response(*params, event_id).await;
                Ok(())
            }
            ClientEvent::CancelResponse { response_id } => self.cancel(response_id.as_deref()).await,
        }
    }

    /// Applies an update as a whole, or refuses it.
    async fn update(&mut self, mut update: SessionUpdate) -> Result<(), Refusal> {
        if let Some(requested) = &mut update.transcription {
            self.select_transcription(requested)?;
        }
        let updated = self.session.apply(&update, &self.limits()).map_err(Error::from)?;
        let found = self.input.configure(updated.input_format, updated.turn_detection);
        if updated.turn_detection.is_none() {
            self.early = None;
        }
        self.session = updated;
        self.events.send(&ServerEvent::SessionUpdated(&self.session));
        for event in found {
            self.detected(event).await;
        }
        Ok(())
    }

    /// Returns the limits of settings in the present state of the session.
    pub(super) fn limits(&self) -> SessionLimits {
        SessionLimits {
            voices: None,
            is_voice_fixed: self.has_delivered_audio,
            max_output_tokens: self.opening.max_output_tokens,
        }
    }

    async fn append(&mut self, audio: &[u8]) -> Result<(), Refusal> {
        let is_playing = self.is_playing();
        if self.arms_idle && !is_playing && self.responses.is_empty() {
            self.arms_idle = false;
            self.input.arm_idle();
        }
        for event in self.input.append(audio, is_playing)? {
            self.detected(event).await;
        }
        Ok(())
    }

    fn is_playing(&self) -> bool {
        let now = self.now_us();
        let running = self.responses.iter().any(|response| response.is_playing(now));
        let last = self.last_spoken.as_ref();
        running || last.is_some_and(|last| last.playback.is_playing(now))
    }

    fn commit(&mut self) -> Result<(), Refusal> {
        let buffered_ms = self.input.buffered_ms();
        if buffered_ms < MIN_COMMIT_MS {
            let message = format!(
                "The buffer has {buffered_ms} ms of audio, but a commit needs at least {MIN_COMMIT_MS} ms."
            );
            return Err(Refusal::Realtime(RealtimeCode::CommitEmpty, message, None));
        }
        self.early = None;
        let item_id = self.input.item_id.take();
        let item_id = item_id.unwrap_or_else(|| self.events.new_id("item_").into());
        let (samples, rate) = self.input.take_all();
        let recording = self.recording(samples, rate);
        self.add_recording(item_id, Some(recording))?;
        Ok(())
    }

    /// Returns a recording with the transcription settings of the session.
    pub(super) fn recording(&self, samples: Vec<i16>, rate: u32) -> Recording {
        Recording::new(
            samples,
            rate,
            self.input.memory(),
            self.session.transcription.as_ref(),
        )
    }

    /// Adds the item of committed audio, and sends its events.
    pub(super) fn add_recording(
        &mut self,
        item_id: Arc<str>,
        recording: Option<Recording>,
    ) -> Result<(), Refusal> {
        let transcript = recording.is_none().then(|| "".into());
        let item = Item {
            id: Some(item_id.clone()),
            kind: ItemKind::Message {
                role: tollgate_formats::openai_realtime::Role::User,
                content: vec![ContentPart::InputAudio {
                    audio: bytes::Bytes::new(),
                    transcript,
                }],
            },
        };
        let entry = Entry::new(item, ItemStatus::Completed).with_recording(recording);
        self.conversation.check_size(&entry)?;
        let previous = self.conversation.last_id();
        self.events.send(&ServerEvent::AudioCommitted {
            item_id: &item_id,
            previous_item_id: previous.as_deref(),
        });
        self.announce(&entry, previous.as_deref());
        if let Some(recording) = &entry.recording {
            self.transcribe_input(&item_id, recording);
        }
        self.conversation.append(entry);
        Ok(())
    }

    fn announce(&self, entry: &Entry, previous: Option<&str>) {
        let item = WrittenItem {
            item: &entry.item,
            status: entry.status,
        };
        self.events.send(&ServerEvent::ItemAdded {
            previous_item_id: previous,
            item,
        });
        self.events.send(&ServerEvent::ItemDone {
            previous_item_id: previous,
            item,
        });
    }

    fn create_item(&mut self, item: Item, previous: Option<&Previous>) -> Result<(), Refusal> {
        let entry = self.entry_of(item, "item")?;
        let item_id = entry.id().to_owned();
        let before = self.conversation.insert(entry, previous)?;
        if let Some(entry) = self.conversation.get(&item_id) {
            self.announce(entry, before.as_deref());
        }
        Ok(())
    }

    /// Returns an item of the client with an id and its recording. Refuses content that the model
    /// does not accept; `param` is the path of the item.
    pub(super) fn entry_of(&self, mut item: Item, param: &str) -> Result<Entry, Error> {
        item.id.get_or_insert_with(|| self.events.new_id("item_").into());
        let mut recording = None;
        if let ItemKind::Message { content, .. } = &mut item.kind {
            for (place, part) in content.iter_mut().enumerate() {
                let param = format!("{param}.content[{place}]");
                if let Some(found) = self.recording_in(part, &param)?
                    && recording.replace(found).is_some()
                {
                    let message = "An item can have one recording. Create an item for each one.";
                    return Err(Error::new(ErrorCode::InvalidParameter, message).with_param(param));
                }
            }
        }
        Ok(Entry::new(item, ItemStatus::Completed).with_recording(recording))
    }

    /// Returns the recording in a part without a transcript, and drops its bytes.
    fn recording_in(&self, part: &mut ContentPart, param: &str) -> Result<Option<Recording>, Error> {
        match part {
            ContentPart::InputImage { .. } => {
                let message = "The model does not accept images in voice sessions.";
                Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(param))
            }
            ContentPart::InputAudio { audio, transcript } => {
                let audio = std::mem::take(audio);
                if transcript.is_some() || audio.is_empty() {
                    return Ok(None);
                }
                let format: AudioFormat = self.session.input_format;
                let encoding = encoding_of(format);
                let samples = encoding.decode(&audio).ok_or_else(|| {
                    let message = "The audio must contain whole 16-bit samples.";
                    Error::new(ErrorCode::InvalidParameter, message).with_param(format!("{param}.audio"))
                })?;
                let size = samples.len() * 2;
                self.input.memory().check(size, &format!("{param}.audio"))?;
                Ok(Some(self.recording(samples, encoding.sample_rate())))
            }
            _ => Ok(None),
        }
    }

    fn retrieve(&self, item_id: &str) -> Result<(), Refusal> {
        let Some(entry) = self.conversation.get(item_id) else {
            return Err(unknown_item(RealtimeCode::RetrieveInvalidItemId));
        };
        self.events.send(&ServerEvent::ItemRetrieved {
            item: WrittenItem {
                item: &entry.item,
                status: entry.status,
            },
        });
        Ok(())
    }

    fn delete(&mut self, item_id: &str) -> Result<(), Refusal> {
        if !self.conversation.remove(item_id) {
            return Err(unknown_item(RealtimeCode::DeleteInvalidItemId));
        }
        self.events.send(&ServerEvent::ItemDeleted { item_id });
        Ok(())
    }

    /// Cuts an answer where the client stopped its playback.
    fn truncate(&mut self, item_id: &str, content_index: u32, audio_end_ms: u64) -> Result<(), Refusal> {
        let heard_us = audio_end_ms.saturating_mul(1_000);
        let mut responses = self.responses.iter_mut();
        let truncated = responses.find_map(|response| response.truncate(item_id, heard_us));
        let heard_us = match truncated {
            Some(heard_us) => heard_us,
            None => self.truncate_ended(item_id, heard_us)?,
        };
        self.events.send(&ServerEvent::ItemTruncated {
            item_id,
            content_index,
            audio_end_ms: heard_us / 1_000,
        });
        Ok(())
    }

    /// Cuts an answer whose response has ended. Returns the duration that was heard, at most that
    /// of the answer.
    fn truncate_ended(&mut self, item_id: &str, heard_us: u64) -> Result<u64, Refusal> {
        let Some(entry) = self.conversation.get_mut(item_id) else {
            return Err(unknown_item(RealtimeCode::TruncateInvalidItemId));
        };
        if !entry.is_answer() {
            let message = "Only answers of the assistant can be truncated.".to_owned();
            return Err(Refusal::Realtime(
                RealtimeCode::TruncateInvalidItemId,
                message,
                Some("item_id"),
            ));
        }
        let heard_us = heard_us.min(entry.heard.as_ref().map_or(0, Heard::total_us));
        entry.truncate(heard_us);
        let is_last = |last: &LastSpoken| last.item_id == item_id;
        if self.last_spoken.as_ref().is_some_and(is_last) {
            // The client knows better than the estimate.
            self.last_spoken = None;
        }
        Ok(heard_us)
    }

    async fn cancel(&mut self, response_id: Option<&str>) -> Result<(), Refusal> {
        let is_meant = |id: &str, is_in_conversation: bool| match response_id {
            Some(wanted) => id == wanted,
            None => is_in_conversation,
        };
        let running = self
            .responses
            .iter()
            .find(|response| is_meant(&response.options.id, response.is_in_conversation()));
        let Some(number) = running.map(|response| response.number) else {
            // Clients recognize this message by its beginning.
            let message = "Cancellation failed: no response is running.".to_owned();
            return Err(Refusal::Realtime(RealtimeCode::CancelNotActive, message, None));
        };
        self.cancel_response(number, CancelReason::ClientCancelled, false)
            .await;
        self.continue_waiting().await;
        Ok(())
    }
}

fn unknown_item(code: RealtimeCode) -> Refusal {
    let message = "The conversation has no item with this id.".to_owned();
    Refusal::Realtime(code, message, Some("item_id"))
}
