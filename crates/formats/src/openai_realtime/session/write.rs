//! The session object of both dialects.

use super::super::writer::Object;
use super::super::{Dialect, SessionKind};
use super::{Session, write_max_output_tokens};

/// Capacity of a buffer for a session without instructions and tools.
const SESSION_BYTES: usize = 1_024;

const LOGPROBS: &str = "item.input_audio_transcription.logprobs";

impl Session {
    /// Returns the session as JSON text.
    pub fn to_json(&self, dialect: Dialect) -> String {
        Object::to_text(self.size_hint(), |object| self.write(dialect, object))
    }

    /// Returns the body of a response that creates a client secret: `{value, expires_at, session}`,
    /// or in the beta dialect the session with `client_secret`. `expires_at` is the expiry of the
    /// secret, in seconds since the Unix epoch.
    pub fn secret_json(&self, dialect: Dialect, secret: &str, expires_at: i64) -> String {
        Object::to_text(self.size_hint(), |body| match dialect {
            Dialect::Ga => {
                body.text("value", secret);
                body.number("expires_at", expires_at);
                body.object("session", |session| self.write(dialect, session));
            }
            Dialect::Beta => {
                self.write(dialect, body);
                body.object("client_secret", |object| {
                    object.text("value", secret);
                    object.number("expires_at", expires_at);
                });
            }
        })
    }

    /// Estimates the size of the JSON text in bytes.
    pub(in super::super) fn size_hint(&self) -> usize {
        SESSION_BYTES + self.instructions.len()
    }

    /// Writes the members of the session object.
    pub(in super::super) fn write(&self, dialect: Dialect, object: &mut Object<'_>) {
        object.text("id", &self.id);
        object.text(
            "object",
            match self.kind {
                SessionKind::Voice => "realtime.session",
                SessionKind::Transcription => "realtime.transcription_session",
            },
        );
        if let Some(expires_at) = self.expires_at {
            object.number("expires_at", expires_at);
        }
        match (dialect, self.kind) {
            (Dialect::Ga, SessionKind::Voice) => self.write_ga_voice(object),
            (Dialect::Ga, SessionKind::Transcription) => {
                object.text("type", self.kind.as_str());
                object.object("audio", |audio| {
                    audio.object("input", |input| self.write_ga_input(input));
                });
            }
            (Dialect::Beta, SessionKind::Voice) => self.write_beta_voice(object),
            (Dialect::Beta, SessionKind::Transcription) => self.write_beta_input(object),
        }
        if self.include_logprobs {
            object.texts("include", [LOGPROBS]);
        } else {
            object.raw("include", "null");
        }
    }

    fn write_ga_voice(&self, object: &mut Object<'_>) {
        object.text("type", self.kind.as_str());
        object.text("model", &self.model);
        self.modality.write(Dialect::Ga, object);
        object.text("instructions", &self.instructions);
        object.object("audio", |audio| {
            audio.object("input", |input| self.write_ga_input(input));
            audio.object("output", |output| {
                output.object("format", |format| self.output_format.write(format));
                output.nullable("voice", self.voice.as_deref());
                output.number("speed", self.speed);
            });
        });
        self.write_tools(object);
        write_max_output_tokens(object, "max_output_tokens", self.max_output_tokens);
        self.truncation.write(object);
        if let Some(is_parallel) = self.parallel_tool_calls {
            object.flag("parallel_tool_calls", is_parallel);
        }
        if let Some(effort) = self.reasoning {
            object.object("reasoning", |reasoning| reasoning.text("effort", effort.as_str()));
        }
        object.raw("tracing", "null");
        object.raw("prompt", "null");
    }

    fn write_ga_input(&self, input: &mut Object<'_>) {
        input.object("format", |format| self.input_format.write(format));
        self.write_transcription("transcription", input);
        input.raw("noise_reduction", "null");
        self.write_turn_detection(Dialect::Ga, input);
    }

    fn write_beta_voice(&self, object: &mut Object<'_>) {
        object.text("model", &self.model);
        self.modality.write(Dialect::Beta, object);
        object.text("instructions", &self.instructions);
        object.nullable("voice", self.voice.as_deref());
        self.write_beta_input(object);
        object.text("output_audio_format", self.output_format.beta_name());
        object.number("speed", self.speed);
        self.write_tools(object);
        if let Some(temperature) = self.temperature {
            object.number("temperature", temperature);
        }
        write_max_output_tokens(object, "max_response_output_tokens", self.max_output_tokens);
        object.raw("tracing", "null");
    }

    fn write_beta_input(&self, object: &mut Object<'_>) {
        object.text("input_audio_format", self.input_format.beta_name());
        self.write_transcription("input_audio_transcription", object);
        object.raw("input_audio_noise_reduction", "null");
        self.write_turn_detection(Dialect::Beta, object);
    }

    fn write_transcription(&self, key: &str, object: &mut Object<'_>) {
        match &self.transcription {
            Some(transcription) => object.object(key, |value| transcription.write(value)),
            None => object.raw(key, "null"),
        }
    }

    fn write_turn_detection(&self, dialect: Dialect, object: &mut Object<'_>) {
        match self.turn_detection {
            Some(rule) => object.object("turn_detection", |value| rule.write(dialect, value)),
            None => object.raw("turn_detection", "null"),
        }
    }

    fn write_tools(&self, object: &mut Object<'_>) {
        object.objects("tools", &*self.tools, |tool, value| value.write(tool));
        self.tool_choice.write(object);
    }
}
