//! Live transcription: the events of OpenAI's transcription sessions, and those of vLLM.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::session::Session;
use super::{RealtimeFault, RealtimeWire};

/// Audio of a word, in milliseconds.
const WORD_MS: u64 = 500;

/// Audio and text of the running turn.
#[derive(Debug, Default)]
pub(super) struct Transcriber {
    /// Size of the audio, in bytes.
    bytes: u64,
    words: u64,
    item_id: Option<String>,
    /// Whether an utterance of vLLM is running.
    is_running: bool,
    /// Whether the transcript of an utterance is not sent yet. Audio is dropped meanwhile.
    is_ending: bool,
}

impl Transcriber {
    /// Returns the transcript up to the last word.
    fn text(&self) -> String {
        let words: Vec<String> = (1..=self.words).map(|word| format!("w{word}")).collect();
        words.join(" ")
    }
}

impl Session<'_> {
    pub(super) fn begin_transcription(&mut self) {
        self.transcriber = Some(Transcriber::default());
        self.push(match self.wire {
            RealtimeWire::Vllm => json!({"type": "session.created", "id": "sess-1", "created": 1}),
            _ => json!({"type": "session.created", "session": {"type": "transcription",
                "audio": {"input": {"turn_detection": {"type": "server_vad"}}}}}),
        });
    }

    /// Executes an event of the client.
    pub(super) fn transcribe(&mut self, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        let done = match (self.wire, kind) {
            (RealtimeWire::Vllm, "session.update") if event["model"].is_string() => Ok(()),
            (RealtimeWire::Vllm, "input_audio_buffer.commit") => {
                self.change_utterance(event["final"] == true);
                Ok(())
            }
            (RealtimeWire::Vllm, "input_audio_buffer.append") => self.hear(event),
            (RealtimeWire::Vllm, _) => Err("unknown_event"),
            (_, "session.update") => self.configure(&event["session"]),
            (_, "input_audio_buffer.append") => self.hear(event),
            (_, "input_audio_buffer.commit") => self.commit_turn(),
            (_, "input_audio_buffer.clear") => {
                self.transcriber = Some(Transcriber::default());
                self.push(json!({"type": "input_audio_buffer.cleared"}));
                Ok(())
            }
            _ => Err("invalid_value"),
        };
        if let Err(code) = done {
            self.push(
                json!({"type": "error", "error": {"type": "invalid_request_error", "code": code,
                "message": format!("Invalid event {kind}."), "param": null, "event_id": event["event_id"]}}),
            );
        }
    }

    fn configure(&mut self, change: &Value) -> Result<(), &'static str> {
        let input = &change["audio"]["input"];
        if change["type"] != "transcription" || !input["transcription"]["model"].is_string() {
            return Err("missing_required_parameter");
        }
        let mut session = change.clone();
        let keeps = self.take(|fault| matches!(fault, RealtimeFault::KeepTurnDetection));
        if keeps.is_some() {
            session["audio"]["input"]["turn_detection"] = json!({"type": "server_vad"});
        }
        self.push(json!({"type": "session.updated", "session": session}));
        Ok(())
    }

    /// Adds audio, and sends the words that it completes.
    fn hear(&mut self, event: &Value) -> Result<(), &'static str> {
        let audio = event["audio"]
            .as_str()
            .and_then(|audio| STANDARD.decode(audio).ok());
        let audio = audio.filter(|audio| !audio.is_empty() && audio.len().is_multiple_of(2));
        let audio = audio.ok_or("invalid_audio")?;
        let is_vllm = self.wire == RealtimeWire::Vllm;
        let mut transcriber = self.transcriber.take().unwrap_or_default();
        if !transcriber.is_ending {
            transcriber.bytes += audio.len() as u64;
        }
        let heard_ms = transcriber.bytes / bytes_per_ms(self.wire);
        while (transcriber.is_running || !is_vllm) && transcriber.words < heard_ms / WORD_MS {
            transcriber.words += 1;
            let space = if transcriber.words == 1 { "" } else { " " };
            let delta = format!("{space}w{}", transcriber.words);
            if is_vllm {
                self.push(json!({"type": "transcription.delta", "delta": delta}));
                continue;
            }
            let item_id = transcriber.item_id.get_or_insert_with(|| self.id("item")).clone();
            self.push(
                json!({"type": "conversation.item.input_audio_transcription.delta", "item_id": item_id,
                "content_index": 0, "delta": delta}),
            );
        }
        self.transcriber = Some(transcriber);
        Ok(())
    }

    /// Begins or ends an utterance.
    fn change_utterance(&mut self, is_final: bool) {
        let mut transcriber = self.transcriber.take().unwrap_or_default();
        if is_final && transcriber.is_running {
            let text = self.transcript(&transcriber);
            self.push(json!({"type": "transcription.done", "text": text,
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}));
            transcriber = Transcriber {
                is_ending: true,
                ..Transcriber::default()
            };
        } else if !is_final {
            transcriber.is_running = true;
        }
        self.transcriber = Some(transcriber);
    }

    /// Notes that the transcript of an utterance is sent.
    pub(super) fn end_utterance(&mut self) {
        if let Some(transcriber) = &mut self.transcriber {
            transcriber.is_ending = false;
        }
    }

    /// Ends a turn of OpenAI's protocol.
    fn commit_turn(&mut self) -> Result<(), &'static str> {
        let mut transcriber = self.transcriber.take().unwrap_or_default();
        self.transcriber = Some(Transcriber::default());
        if transcriber.bytes / bytes_per_ms(self.wire) < 100 {
            return Err("input_audio_buffer_commit_empty");
        }
        let item_id = transcriber.item_id.take().unwrap_or_else(|| self.id("item"));
        self.push(
            json!({"type": "input_audio_buffer.committed", "previous_item_id": null, "item_id": item_id}),
        );
        let failed = self.take(|fault| matches!(fault, RealtimeFault::Fail(_)));
        let ended = match failed {
            Some(RealtimeFault::Fail(code)) => json!({
                "type": "conversation.item.input_audio_transcription.failed", "item_id": item_id, "content_index": 0,
                "error": {"type": "server_error", "code": code, "message": "The script fails the turn."}}),
            _ => json!({
                "type": "conversation.item.input_audio_transcription.completed", "item_id": item_id,
                "content_index": 0, "transcript": self.transcript(&transcriber),
                "usage": {"type": "duration", "seconds": 1}}),
        };
        self.push(ended);
        Ok(())
    }

    /// Returns the words, and the duration of the audio.
    fn transcript(&self, transcriber: &Transcriber) -> String {
        let heard_ms = transcriber.bytes / bytes_per_ms(self.wire);
        format!("{} in {heard_ms} ms", transcriber.text())
            .trim()
            .to_owned()
    }
}

const fn bytes_per_ms(wire: RealtimeWire) -> u64 {
    match wire {
        RealtimeWire::Vllm => 32,
        _ => 48,
    }
}
