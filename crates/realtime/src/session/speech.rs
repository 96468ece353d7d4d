//! Turns that the gateway detects in the audio of the client.

use std::sync::Arc;

use tollgate_formats::openai_realtime::{CancelReason, ServerEvent};

use super::VoiceSession;
use crate::meters;
use crate::turns::VadEvent;

impl VoiceSession {
    /// Handles a finding of the voice activity detector.
    pub(super) async fn detected(&mut self, event: VadEvent) {
        match event {
            VadEvent::Started { at_ms } => self.speech_started(at_ms).await,
            VadEvent::Quiet { .. } => self.hear_early().await,
            VadEvent::Resumed { .. } => self.resume_speech(),
            VadEvent::Stopped { at_ms, .. } => self.speech_stopped(at_ms).await,
            VadEvent::TimedOut { armed_ms, at_ms } => self.timed_out(armed_ms, at_ms).await,
        }
    }

    async fn speech_started(&mut self, at_ms: u64) {
        self.input.begin_turn(at_ms);
        let item_id: Arc<str> = self.events.new_id("item_").into();
        self.input.item_id = Some(item_id.clone());
        let interrupts = self
            .session
            .turn_detection
            .is_some_and(|detection| detection.interrupt_response());
        self.events.send(&ServerEvent::SpeechStarted {
            audio_start_ms: at_ms,
            item_id: &item_id,
        });
        if interrupts {
            self.interrupt().await;
        }
    }

    /// Ends the running response and the playback of the last answer.
    async fn interrupt(&mut self) {
        let running = self
            .responses
            .iter()
            .find(|response| response.is_in_conversation());
        if let Some(number) = running.map(|response| response.number) {
            meters::interrupted();
            self.cancel_response(number, CancelReason::TurnDetected, false)
                .await;
        }
        self.has_waiting_turn = false;
        self.cut_last_spoken();
    }

    async fn speech_stopped(&mut self, at_ms: u64) {
        let item_id = self.input.item_id.take();
        let item_id = item_id.unwrap_or_else(|| self.events.new_id("item_").into());
        let (samples, rate) = self.input.take_turn(at_ms);
        self.events.send(&ServerEvent::SpeechStopped {
            audio_end_ms: at_ms,
            item_id: &item_id,
        });
        let recording = self.recording(samples, rate);
        if let Err(refusal) = self.add_recording(item_id, Some(recording)) {
            return self.events.error(&refusal, None, None);
        }
        self.end_turn().await;
    }

    /// Starts a response for the end of a turn, if the session wants it.
    async fn end_turn(&mut self) {
        let responds = self
            .session
            .turn_detection
            .is_some_and(|detection| detection.create_response());
        if !responds {
            return;
        }
        if self
            .responses
            .iter()
            .any(|response| response.is_in_conversation())
        {
            self.has_waiting_turn = true;
            return;
        }
        self.respond_to_turn().await;
    }

    async fn timed_out(&mut self, armed_ms: u64, at_ms: u64) {
        let item_id: Arc<str> = self.events.new_id("item_").into();
        self.events.send(&ServerEvent::TimeoutTriggered {
            audio_start_ms: armed_ms,
            audio_end_ms: at_ms,
            item_id: &item_id,
        });
        match self.add_recording(item_id, None) {
            Ok(()) => self.end_turn().await,
            Err(refusal) => self.events.error(&refusal, None, None),
        }
    }
}
