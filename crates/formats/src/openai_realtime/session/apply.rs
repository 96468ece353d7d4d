//! Applying of an update to a session.

use std::sync::Arc;

use super::{MAX_OUTPUT_TOKENS, Placed, Session, SessionLimits, SessionUpdate, Transcription};
use crate::error::DecodeError;

impl Session {
    /// Returns the session after the update, or the first error. The session itself does not
    /// change.
    pub fn apply(&self, update: &SessionUpdate, limits: &SessionLimits) -> Result<Session, DecodeError> {
        self.check_model(update.model.as_ref())?;
        let mut session = self.clone();
        if let Some(voice) = &update.voice {
            limits.check_voice(voice, self.voice.as_ref())?;
            session.voice = Some(voice.value.clone());
        }
        if let Some(tokens) = &update.max_output_tokens {
            limits.check_tokens(tokens)?;
            session.max_output_tokens = tokens.value;
        }
        if let Some(transcription) = &update.transcription {
            session.transcription = transcription.as_ref().map(|transcription| {
                let old = self.transcription.as_ref();
                old.map_or_else(
                    || transcription.clone(),
                    |old: &Transcription| old.updated(transcription),
                )
            });
        }
        assign(&mut session.modality, update.modality.as_ref());
        assign(&mut session.instructions, update.instructions.as_ref());
        assign(&mut session.input_format, update.input_format.as_ref());
        assign(&mut session.turn_detection, update.turn_detection.as_ref());
        assign(&mut session.output_format, update.output_format.as_ref());
        assign(&mut session.speed, update.speed.as_ref());
        assign(&mut session.tools, update.tools.as_ref());
        assign(&mut session.tool_choice, update.tool_choice.as_ref());
        assign(&mut session.truncation, update.truncation.as_ref());
        assign(&mut session.include_logprobs, update.include_logprobs.as_ref());
        session.parallel_tool_calls = update.parallel_tool_calls.or(self.parallel_tool_calls);
        session.reasoning = update.reasoning.or(self.reasoning);
        session.temperature = update.temperature.or(self.temperature);
        Ok(session)
    }

    fn check_model(&self, model: Option<&Placed<Arc<str>>>) -> Result<(), DecodeError> {
        match model {
            Some(model) if model.value != self.model => Err(DecodeError::invalid(
                &*model.param,
                format!(
                    "'{}' must be '{}', because the model of a session never changes.",
                    model.param, self.model
                ),
            )),
            _ => Ok(()),
        }
    }
}

impl SessionLimits {
    /// Checks a voice. `current` is the voice of the session.
    pub(in super::super) fn check_voice(
        &self,
        voice: &Placed<Arc<str>>,
        current: Option<&Arc<str>>,
    ) -> Result<(), DecodeError> {
        let Placed { value, param } = voice;
        let is_known = self.voices.as_ref().is_none_or(|voices| voices.contains(value));
        if !is_known {
            let voices = self.voices.as_deref().unwrap_or_default();
            return Err(DecodeError::invalid(
                param,
                format!("'{param}' must be a voice of the model: {}.", voices.join(", ")),
            ));
        }
        if self.is_voice_fixed && current != Some(value) {
            return Err(DecodeError::invalid(
                param,
                format!("'{param}' cannot change, because the session has already delivered audio."),
            ));
        }
        Ok(())
    }

    /// Checks a number of tokens against the maximum of the model.
    pub(in super::super) fn check_tokens(&self, tokens: &Placed<Option<u32>>) -> Result<(), DecodeError> {
        let Placed { value, param } = tokens;
        let max = self.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS);
        if value.is_none_or(|tokens| tokens <= max) {
            return Ok(());
        }
        Err(DecodeError::invalid(
            param,
            format!("'{param}' must be an integer from 1 to {max}, or 'inf'."),
        ))
    }
}

fn assign<T: Clone>(slot: &mut T, value: Option<&T>) {
    if let Some(value) = value {
        slot.clone_from(value);
    }
}
