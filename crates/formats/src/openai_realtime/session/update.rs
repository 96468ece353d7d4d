//! Changes to a session: reading of `session` in both dialects.

use std::sync::Arc;

use super::super::fields::{name_at, number_at};
use super::super::{AudioFormat, Dialect, SessionKind, duplicates};
use super::{
    OutputModality, ReasoningEffort, Tool, ToolChoice, Transcription, Truncation, TurnDetection,
    read_instructions, read_max_output_tokens, read_modality, read_parallel_tool_calls, read_reasoning,
    read_temperature, read_tool_choice, read_tools, read_voice,
};
use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Node, Path};

/// Changes to a session, checked except for what depends on the session. Absent fields do not
/// change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionUpdate {
    /// Model of the session, which never changes.
    pub model: Option<Placed<Arc<str>>>,
    pub modality: Option<OutputModality>,
    pub instructions: Option<Arc<str>>,
    pub input_format: Option<AudioFormat>,
    /// Transcription settings; `Some(None)` is off.
    pub transcription: Option<Option<Transcription>>,
    /// Detection of turns; `Some(None)` is off.
    pub turn_detection: Option<Option<TurnDetection>>,
    pub output_format: Option<AudioFormat>,
    pub voice: Option<Placed<Arc<str>>>,
    pub speed: Option<f64>,
    pub tools: Option<Arc<[Tool]>>,
    pub tool_choice: Option<ToolChoice>,
    /// Maximum tokens of a response; `Some` of `None` is `"inf"`.
    pub max_output_tokens: Option<Placed<Option<u32>>>,
    pub truncation: Option<Truncation>,
    pub include_logprobs: Option<bool>,
    pub parallel_tool_calls: Option<bool>,
    pub reasoning: Option<ReasoningEffort>,
    pub temperature: Option<f64>,
}

/// Value with its path in the event, for errors found after reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed<T> {
    pub value: T,
    /// Path of the value, such as `session.audio.output.voice`.
    pub param: String,
}

impl<T> Placed<T> {
    pub(in super::super) fn new(value: T, path: &Path<'_>) -> Self {
        Self {
            value,
            param: path.to_string(),
        }
    }
}

/// Fields that both kinds of sessions have.
const SHARED_KEYS: &[&str] = &[
    "type",
    "model",
    "audio",
    "include",
    "modalities",
    "input_audio_format",
    "input_audio_transcription",
    "input_audio_noise_reduction",
    "turn_detection",
    "client_secret",
    "tracing",
];

/// Fields that only voice sessions have.
const VOICE_KEYS: &[&str] = &[
    "output_modalities",
    "instructions",
    "output_audio_format",
    "voice",
    "speed",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "max_response_output_tokens",
    "truncation",
    "parallel_tool_calls",
    "reasoning",
    "temperature",
    "prompt",
];

const VOICE_ONLY: &str = "is not a parameter of transcription sessions";

impl SessionUpdate {
    /// Parses a JSON object of either dialect, for a session that is created by an HTTP request.
    /// `parent` is the path of the object in the body, for errors; `None` is the body itself.
    pub fn parse(text: &str, kind: SessionKind, parent: Option<&str>) -> Result<Self, DecodeError> {
        let node = Node::of_body(text.as_bytes(), MAX_NODES)?;
        duplicates::check(&node)?;
        let path = parent.map(|parent| Path::TOP.key(parent));
        Ok(Self::read(&node, kind, path.as_ref().unwrap_or(&Path::TOP))?)
    }

    /// Returns the kind that the `type` of a JSON object names, before the kind of the model is
    /// known. `None` if it has no `type`, or an invalid one.
    pub fn kind_in(text: &str) -> Option<SessionKind> {
        let node = Node::of_body(text.as_bytes(), MAX_NODES).ok()?;
        let name = node.get("type")?.as_text()?;
        let kinds = [SessionKind::Voice, SessionKind::Transcription];
        kinds.into_iter().find(|kind| kind.as_str() == name)
    }

    pub(in super::super) fn read(
        node: &Node<'_>,
        kind: SessionKind,
        path: &Path<'_>,
    ) -> Result<Self, BoxedError> {
        node.check_keys(&[SHARED_KEYS, VOICE_KEYS], path)?;
        check_type(node, kind, path)?;
        let mut update = Self::default();
        for (key, value) in node.object_at(path)? {
            let here = path.key(key);
            let is_off = matches!(&**key, "turn_detection" | "input_audio_transcription");
            if *value == Node::Null && !is_off {
                continue;
            }
            if kind == SessionKind::Transcription && VOICE_KEYS.contains(&&**key) {
                return Err(here.unsupported(VOICE_ONLY));
            }
            if !update.read_input(key, value, kind, &here)? {
                update.read_output(key, value, &here)?;
            }
        }
        Ok(update)
    }

    /// Reads a field of both kinds of sessions; false if the field is another one.
    fn read_input(
        &mut self,
        key: &str,
        value: &Node<'_>,
        kind: SessionKind,
        path: &Path<'_>,
    ) -> Result<bool, BoxedError> {
        match key {
            "model" => {
                const MAX_MODEL_CHARS: usize = 256;
                self.model = Some(Placed::new(name_at(value, MAX_MODEL_CHARS, path)?, path));
            }
            "audio" => self.read_audio(value, kind, path)?,
            "include" => self.include_logprobs = Some(read_include(value, path)?),
            "modalities" => {
                let modality = read_modality(value, Dialect::Beta, path)?;
                if kind == SessionKind::Voice {
                    set(&mut self.modality, modality, path)?;
                }
            }
            "input_audio_format" => set(&mut self.input_format, AudioFormat::read(value, path)?, path)?,
            "input_audio_transcription" => self.read_transcription(value, kind, path)?,
            "input_audio_noise_reduction" => check_noise_reduction(value, path)?,
            "turn_detection" => set(&mut self.turn_detection, TurnDetection::read(value, path)?, path)?,
            // The kind is checked before, the secret belongs to the request that created the
            // session, and there are no traces.
            "type" | "client_secret" | "tracing" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a field of voice sessions.
    fn read_output(&mut self, key: &str, value: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
        match key {
            "output_modalities" => set(&mut self.modality, read_modality(value, Dialect::Ga, path)?, path),
            "instructions" => set(&mut self.instructions, read_instructions(value, path)?, path),
            "output_audio_format" => set(&mut self.output_format, AudioFormat::read(value, path)?, path),
            "voice" => set(&mut self.voice, Placed::new(read_voice(value, path)?, path), path),
            "speed" => set(&mut self.speed, read_speed(value, path)?, path),
            "tools" => set(&mut self.tools, read_tools(value, path)?, path),
            "tool_choice" => set(&mut self.tool_choice, read_tool_choice(value, path)?, path),
            "max_output_tokens" | "max_response_output_tokens" => {
                let tokens = Placed::new(read_max_output_tokens(value, path)?, path);
                set(&mut self.max_output_tokens, tokens, path)
            }
            "truncation" => set(&mut self.truncation, Truncation::read(value, path)?, path),
            "parallel_tool_calls" => {
                let is_parallel = read_parallel_tool_calls(value, path)?;
                set(&mut self.parallel_tool_calls, is_parallel, path)
            }
            "reasoning" => {
                self.reasoning = read_reasoning(value, path)?;
                Ok(())
            }
            "temperature" => set(&mut self.temperature, read_temperature(value, path)?, path),
            _ => Err(path.unsupported("is not supported. Send the instructions themselves")),
        }
    }

    fn read_audio(&mut self, node: &Node<'_>, kind: SessionKind, path: &Path<'_>) -> Result<(), BoxedError> {
        node.check_keys(&[&["input", "output"]], path)?;
        if let Some(input) = node.get("input") {
            self.read_audio_input(input, kind, &path.key("input"))?;
        }
        match (node.get("output"), kind) {
            (None, _) => Ok(()),
            (Some(_), SessionKind::Transcription) => Err(path.key("output").unsupported(VOICE_ONLY)),
            (Some(output), SessionKind::Voice) => self.read_audio_output(output, &path.key("output")),
        }
    }

    fn read_audio_input(
        &mut self,
        node: &Node<'_>,
        kind: SessionKind,
        path: &Path<'_>,
    ) -> Result<(), BoxedError> {
        node.check_keys(
            &[&["format", "noise_reduction", "transcription", "turn_detection"]],
            path,
        )?;
        for (key, value) in node.object_at(path)? {
            let here = path.key(key);
            match &**key {
                "transcription" => self.read_transcription(value, kind, &here)?,
                "turn_detection" => {
                    set(
                        &mut self.turn_detection,
                        TurnDetection::read(value, &here)?,
                        &here,
                    )?;
                }
                _ if *value == Node::Null => {}
                "format" => set(&mut self.input_format, AudioFormat::read(value, &here)?, &here)?,
                _ => check_noise_reduction(value, &here)?,
            }
        }
        Ok(())
    }

    fn read_audio_output(&mut self, node: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
        node.check_keys(&[&["format", "voice", "speed"]], path)?;
        if let Some(format) = node.get("format") {
            let path = path.key("format");
            set(&mut self.output_format, AudioFormat::read(format, &path)?, &path)?;
        }
        if let Some(voice) = node.get("voice") {
            let path = path.key("voice");
            set(
                &mut self.voice,
                Placed::new(read_voice(voice, &path)?, &path),
                &path,
            )?;
        }
        if let Some(speed) = node.get("speed") {
            let path = path.key("speed");
            set(&mut self.speed, read_speed(speed, &path)?, &path)?;
        }
        Ok(())
    }

    fn read_transcription(
        &mut self,
        node: &Node<'_>,
        kind: SessionKind,
        path: &Path<'_>,
    ) -> Result<(), BoxedError> {
        let transcription = match node {
            Node::Null if kind == SessionKind::Transcription => {
                return Err(path.invalid("must not be null in a transcription session"));
            }
            Node::Null => None,
            _ => Some(Transcription::read(node, path)?),
        };
        set(&mut self.transcription, transcription, path)
    }
}

/// Sets a value that an event can contain in two places; refuses the second one.
pub(in super::super) fn set<T>(slot: &mut Option<T>, value: T, path: &Path<'_>) -> Result<(), BoxedError> {
    if slot.is_some() {
        return Err(path.invalid("has the meaning of another parameter of the event; send one of them"));
    }
    *slot = Some(value);
    Ok(())
}

fn check_type(node: &Node<'_>, kind: SessionKind, path: &Path<'_>) -> Result<(), BoxedError> {
    let Some(value) = node.get("type") else {
        return Ok(());
    };
    let path = path.key("type");
    let name = value.word_at(&["realtime", "transcription"], &path)?;
    if name == kind.as_str() {
        return Ok(());
    }
    let expected = kind.as_str();
    Err(path.invalid(format_args!(
        "must be '{expected}', because the model determines the type of the session"
    )))
}

fn check_noise_reduction(node: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    node.check_keys(&[&["type", "strength"]], path)?;
    if let Some(kind) = node.get("type") {
        kind.word_at(&["near_field", "far_field"], &path.key("type"))?;
    }
    if let Some(strength) = node.get("strength") {
        number_at(strength, 0.0, f64::MAX, &path.key("strength"))?;
    }
    Ok(())
}

fn read_include(node: &Node<'_>, path: &Path<'_>) -> Result<bool, BoxedError> {
    let items = node.list_at(path)?;
    for (item, place) in items.iter().zip(0..) {
        item.word_at(&["item.input_audio_transcription.logprobs"], &path.index(place))?;
    }
    Ok(!items.is_empty())
}

fn read_speed(node: &Node<'_>, path: &Path<'_>) -> Result<f64, BoxedError> {
    number_at(node, 0.25, 1.5, path)
}
