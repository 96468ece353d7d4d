//! Parameters of `response.create`.

use std::sync::Arc;

use super::super::fields::short_text_at;
use super::super::item::{read_item, read_reference};
use super::super::session::{
    read_instructions, read_max_output_tokens, read_modality, read_parallel_tool_calls, read_reasoning,
    read_temperature, read_tool_choice, read_tools, read_voice, set,
};
use super::super::{
    AudioFormat, Dialect, Item, OutputModality, Placed, ReasoningEffort, SessionLimits, Tool, ToolChoice,
};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Node, Path};

/// Parameters of a response. Absent ones have the value of the session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseParams {
    pub instructions: Option<Arc<str>>,
    pub modality: Option<OutputModality>,
    /// See [`voice`](Self::voice).
    pub(super) voice: Option<Placed<Arc<str>>>,
    pub output_format: Option<AudioFormat>,
    pub tools: Option<Arc<[Tool]>>,
    pub tool_choice: Option<ToolChoice>,
    /// See [`max_output_tokens`](Self::max_output_tokens).
    pub(super) max_output_tokens: Option<Placed<Option<u32>>>,
    pub conversation: Conversation,
    /// Context that replaces the conversation. An empty list is an empty context.
    pub input: Option<Vec<InputItem>>,
    /// Up to 16 pairs; names up to 64 characters, values up to 512.
    pub metadata: Vec<(String, String)>,
    pub parallel_tool_calls: Option<bool>,
    pub reasoning: Option<ReasoningEffort>,
    /// Sampling temperature, from 0.6 to 1.2. Only the beta dialect has it.
    pub temperature: Option<f64>,
}

/// Conversation that a response belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conversation {
    /// The session's conversation, which receives the output.
    #[default]
    Auto,
    /// None: the response leaves the conversation unchanged.
    None,
}

/// Element of a response's own context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputItem {
    Item(Item),
    /// Item of the conversation with this id.
    Reference(Arc<str>),
}

const KEYS: &[&str] = &[
    "instructions",
    "output_modalities",
    "modalities",
    "audio",
    "voice",
    "output_audio_format",
    "tools",
    "tool_choice",
    "max_output_tokens",
    "max_response_output_tokens",
    "conversation",
    "input",
    "metadata",
    "parallel_tool_calls",
    "reasoning",
    "temperature",
    "prompt",
];

const MAX_METADATA_PAIRS: usize = 16;
const MAX_METADATA_NAME_CHARS: usize = 64;
const MAX_METADATA_VALUE_CHARS: usize = 512;

/// Maximum number of elements of a response's own context.
const MAX_INPUT_ITEMS: usize = 1_000;

impl ResponseParams {
    /// Returns the name of the voice, if it is set.
    pub fn voice(&self) -> Option<&Arc<str>> {
        self.voice.as_ref().map(|voice| &voice.value)
    }

    /// Returns the maximum tokens, if they are set; `Some(None)` is `"inf"`.
    pub fn max_output_tokens(&self) -> Option<Option<u32>> {
        self.max_output_tokens.as_ref().map(|tokens| tokens.value)
    }

    /// Checks the parameters that depend on the model and on the session, whose voice is `voice`.
    pub fn check(&self, limits: &SessionLimits, voice: Option<&Arc<str>>) -> Result<(), DecodeError> {
        if let Some(requested) = &self.voice {
            limits.check_voice(requested, voice)?;
        }
        match &self.max_output_tokens {
            Some(tokens) => limits.check_tokens(tokens),
            None => Ok(()),
        }
    }

    pub(super) fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        node.check_keys(&[KEYS], path)?;
        let mut params = Self::default();
        for (key, value) in node.object_at(path)? {
            if *value != Node::Null {
                params.read_member(key, value, &path.key(key))?;
            }
        }
        Ok(params)
    }

    fn read_member(&mut self, key: &str, value: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
        match key {
            "instructions" => set(&mut self.instructions, read_instructions(value, path)?, path)?,
            "output_modalities" => set(&mut self.modality, read_modality(value, Dialect::Ga, path)?, path)?,
            "modalities" => set(
                &mut self.modality,
                read_modality(value, Dialect::Beta, path)?,
                path,
            )?,
            "audio" => self.read_audio(value, path)?,
            "voice" => set(&mut self.voice, Placed::new(read_voice(value, path)?, path), path)?,
            "output_audio_format" => set(&mut self.output_format, AudioFormat::read(value, path)?, path)?,
            "tools" => self.tools = Some(read_tools(value, path)?),
            "tool_choice" => self.tool_choice = Some(read_tool_choice(value, path)?),
            "max_output_tokens" | "max_response_output_tokens" => {
                let tokens = Placed::new(read_max_output_tokens(value, path)?, path);
                set(&mut self.max_output_tokens, tokens, path)?;
            }
            "conversation" => self.conversation = Conversation::read(value, path)?,
            "input" => self.input = Some(read_input(value, path)?),
            "metadata" => self.metadata = read_metadata(value, path)?,
            "parallel_tool_calls" => self.parallel_tool_calls = Some(read_parallel_tool_calls(value, path)?),
            "reasoning" => self.reasoning = read_reasoning(value, path)?,
            "temperature" => self.temperature = Some(read_temperature(value, path)?),
            _ => return Err(path.unsupported("is not supported. Send the instructions themselves")),
        }
        Ok(())
    }

    fn read_audio(&mut self, node: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
        node.check_keys(&[&["output"]], path)?;
        let Some(output) = node.get("output") else {
            return Ok(());
        };
        let path = path.key("output");
        output.check_keys(&[&["format", "voice"]], &path)?;
        if let Some(format) = output.get("format") {
            let path = path.key("format");
            set(&mut self.output_format, AudioFormat::read(format, &path)?, &path)?;
        }
        if let Some(voice) = output.get("voice") {
            let path = path.key("voice");
            set(
                &mut self.voice,
                Placed::new(read_voice(voice, &path)?, &path),
                &path,
            )?;
        }
        Ok(())
    }
}

impl Conversation {
    fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        Ok(match node.word_at(&["auto", "none"], path)? {
            "auto" => Conversation::Auto,
            _ => Conversation::None,
        })
    }
}

fn read_input(node: &Node<'_>, path: &Path<'_>) -> Result<Vec<InputItem>, BoxedError> {
    let items = node.list_at(path)?;
    if items.len() > MAX_INPUT_ITEMS {
        return Err(path.invalid(format_args!("must have at most {MAX_INPUT_ITEMS} items")));
    }
    let items = items.iter().zip(0..);
    items
        .map(|(item, place)| {
            let path = path.index(place);
            Ok(match read_reference(item, &path)? {
                Some(id) => InputItem::Reference(id),
                None => InputItem::Item(read_item(item, &path)?),
            })
        })
        .collect()
}

fn read_metadata(node: &Node<'_>, path: &Path<'_>) -> Result<Vec<(String, String)>, BoxedError> {
    let members = node.object_at(path)?;
    if members.len() > MAX_METADATA_PAIRS {
        return Err(path.invalid(format_args!("must have at most {MAX_METADATA_PAIRS} pairs")));
    }
    members
        .iter()
        .map(|(name, value)| {
            if name.chars().count() > MAX_METADATA_NAME_CHARS {
                return Err(path.invalid(format_args!(
                    "must have names of at most {MAX_METADATA_NAME_CHARS} characters"
                )));
            }
            let value = short_text_at(value, MAX_METADATA_VALUE_CHARS, &path.key(name))?;
            Ok((name.clone().into_owned(), value.to_string()))
        })
        .collect()
}
