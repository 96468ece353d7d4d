//! Live transcription over WebSocket as vLLM serves it, from its client's side: [`Command`] writes
//! the events of the client, and [`Event::parse`] reads those of the server.
//!
//! The audio is PCM with 16 bits, little-endian, one channel, 16 kHz. A connection transcribes one
//! utterance at a time: the events have no ids.
//!
//! Source: `vllm/entrypoints/openai/realtime` of vLLM.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Event of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub enum Command<'a> {
    /// Selects the model, which must precede the first utterance.
    #[serde(rename = "session.update")]
    UpdateSession {
        /// The server's name of the model.
        model: &'a str,
    },
    /// Adds audio to the utterance.
    #[serde(rename = "input_audio_buffer.append")]
    AppendAudio {
        /// Samples as base64; see [`Command::append`].
        audio: String,
    },
    /// Begins an utterance, or ends it.
    #[serde(rename = "input_audio_buffer.commit")]
    CommitAudio {
        /// Whether the utterance ends.
        #[serde(rename = "final")]
        is_final: bool,
    },
}

impl Command<'_> {
    /// Returns the command that adds these samples.
    pub fn append(audio: &[u8]) -> Self {
        Command::AppendAudio {
            audio: STANDARD.encode(audio),
        }
    }

    /// Returns the event as JSON text.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Event of a server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// The connection is open.
    #[serde(rename = "session.created")]
    Created {},
    /// Next text of the utterance.
    #[serde(rename = "transcription.delta")]
    Delta {
        /// Text with its separating space.
        delta: String,
    },
    /// The utterance is transcribed.
    #[serde(rename = "transcription.done")]
    Done {
        /// Text of the whole utterance.
        text: String,
    },
    /// The server has refused an event, or the transcription failed.
    #[serde(rename = "error")]
    Error {
        /// Description of the error.
        error: String,
        /// Code of the error.
        code: Option<String>,
    },
    /// An event that the protocol does not have.
    #[serde(other)]
    Unknown,
}

impl Event {
    /// Parses the text of a message of the server; `None` if it is no event.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn commands_have_the_form_that_the_server_reads() {
        for (command, expected) in [
            (
                Command::UpdateSession { model: "a\"b" },
                json!({"type": "session.update", "model": "a\"b"}),
            ),
            (
                Command::append(&[0, 1, 254, 255]),
                json!({"type": "input_audio_buffer.append", "audio": "AAH+/w=="}),
            ),
            (
                Command::CommitAudio { is_final: true },
                json!({"type": "input_audio_buffer.commit", "final": true}),
            ),
        ] {
            let written: Value = serde_json::from_str(&command.write()).unwrap();
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn events_are_read_and_others_ignored() {
        for (text, expected) in [
            (
                r#"{"type":"session.created","id":"sess-1","created":1}"#,
                Some(Event::Created {}),
            ),
            (
                r#"{"type":"transcription.delta","delta":" hé"}"#,
                Some(Event::Delta {
                    delta: " hé".to_owned(),
                }),
            ),
            (
                r#"{"type":"transcription.done","text":"hi","usage":{"total_tokens":3}}"#,
                Some(Event::Done {
                    text: "hi".to_owned(),
                }),
            ),
            (
                r#"{"type":"error","error":"broken","code":"processing_error"}"#,
                Some(Event::Error {
                    error: "broken".to_owned(),
                    code: Some("processing_error".to_owned()),
                }),
            ),
            (r#"{"type":"session.updated"}"#, Some(Event::Unknown)),
            (r#"{"type":"transcription.delta"}"#, None),
            (r#"{"type":7}"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(Event::parse(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = Event::parse(&text);
        }
    }
}
