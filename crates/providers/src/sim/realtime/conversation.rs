//! The items of a simulated conversation, and their tokens.

use serde_json::Map;
use tollgate_types::generate::{
    GenerateRequest, Message, Part, ResponseFormat, Role, Sampling, Tool, ToolCall, ToolChoice,
};
use tollgate_types::{Unit, Usage};
use tollgate_upstream::{
    ItemKey, RealtimeEvent, RealtimeItem, RealtimePlace, RealtimeRole, RealtimeSettings, RealtimeToolChoice,
    UpstreamError,
};

use super::super::{answer, speech, tokens};
use super::meter::{audio_bytes, heard_tokens, spoken_tokens};

/// Content of an item.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Text {
        role: Role,
        text: String,
    },
    /// A recording of the user with its transcript.
    Heard {
        words: String,
        bytes: u64,
    },
    /// A spoken answer with its transcript.
    Spoken {
        words: String,
        bytes: u64,
    },
    Call(ToolCall),
    Output {
        call_id: String,
        text: String,
    },
}

impl Content {
    /// Reads an item of the gateway. Recordings are transcribed.
    pub(super) async fn read(item: &RealtimeItem) -> Result<Self, UpstreamError> {
        Ok(match item {
            RealtimeItem::Message { role, text } => Self::Text {
                role: match role {
                    RealtimeRole::User => Role::User,
                    RealtimeRole::Assistant => Role::Assistant,
                    RealtimeRole::System => Role::System,
                },
                text: text.to_string(),
            },
            RealtimeItem::Recording(audio) => Self::Heard {
                words: speech::transcript(audio.clone()).await?,
                bytes: audio.len() as u64,
            },
            RealtimeItem::FunctionCall {
                call_id,
                name,
                arguments,
            } => Self::Call(ToolCall {
                id: call_id.to_string(),
                name: name.to_string(),
                arguments: arguments.to_string(),
                custom: false,
            }),
            RealtimeItem::FunctionOutput { call_id, output } => Self::Output {
                call_id: call_id.to_string(),
                text: output.to_string(),
            },
        })
    }

    fn message(&self) -> Message {
        let said = |role, text: &str| Message {
            role,
            parts: vec![Part::Text(text.to_owned())],
            ..Message::default()
        };
        match self {
            Self::Text { role, text } => said(*role, text),
            Self::Heard { words, .. } => said(Role::User, words),
            Self::Spoken { words, .. } => said(Role::Assistant, words),
            Self::Call(call) => Message {
                role: Role::Assistant,
                tool_calls: vec![call.clone()],
                ..Message::default()
            },
            Self::Output { call_id, text } => Message {
                tool_call_id: Some(call_id.clone()),
                ..said(Role::Tool, text)
            },
        }
    }

    /// Returns the text tokens and the audio tokens of the content. Audio has no text tokens.
    fn tokens(&self) -> (u64, u64) {
        match self {
            Self::Text { text, .. } | Self::Output { text, .. } => (tokens::count(text), 0),
            Self::Heard { bytes, .. } => (0, heard_tokens(*bytes)),
            Self::Spoken { bytes, .. } => (0, spoken_tokens(*bytes)),
            Self::Call(call) => (tokens::count(&call.name) + tokens::count(&call.arguments), 0),
        }
    }
}

/// An item that a response reads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// `None` for an item outside the conversation.
    key: Option<ItemKey>,
    content: Content,
    /// Whether an earlier response has read or written the item, so that its audio is cached.
    is_read: bool,
}

impl Entry {
    /// Creates an entry outside the conversation.
    pub(super) fn outside(content: Content) -> Self {
        Self {
            key: None,
            content,
            is_read: false,
        }
    }
}

/// The items in their order.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    entries: Vec<Entry>,
    last_key: u64,
}

impl Conversation {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn entry(&self, key: ItemKey) -> Option<&Entry> {
        self.entries.get(self.position(key)?)
    }

    fn position(&self, key: ItemKey) -> Option<usize> {
        self.entries.iter().position(|entry| entry.key == Some(key))
    }

    /// Returns a new key.
    pub(super) fn reserve(&mut self) -> ItemKey {
        self.last_key += 1;
        ItemKey(self.last_key)
    }

    /// Inserts an item; `None` if the place does not exist.
    pub(super) fn insert(&mut self, place: RealtimePlace, content: Content) -> Option<ItemKey> {
        let at = match place {
            RealtimePlace::First => 0,
            RealtimePlace::After(key) => self.position(key)? + 1,
            RealtimePlace::Last => self.entries.len(),
        };
        let key = self.reserve();
        let entry = Entry {
            key: Some(key),
            ..Entry::outside(content)
        };
        self.entries.insert(at, entry);
        Some(key)
    }

    /// Adds an item that a response writes.
    pub(super) fn push_output(&mut self, content: Content) -> ItemKey {
        let key = self.reserve();
        self.entries.push(Entry {
            key: Some(key),
            content,
            is_read: true,
        });
        key
    }

    /// Adds an event to the item that a response writes.
    pub(super) fn grow(&mut self, key: ItemKey, event: &RealtimeEvent) {
        let at = self.position(key);
        let Some(entry) = at.and_then(|at| self.entries.get_mut(at)) else {
            return;
        };
        match (&mut entry.content, event) {
            (Content::Text { text, .. }, RealtimeEvent::Text(delta)) => text.push_str(delta),
            (Content::Spoken { words, .. }, RealtimeEvent::Transcript(delta)) => words.push_str(delta),
            (Content::Spoken { bytes, .. }, RealtimeEvent::Audio(audio)) => *bytes += audio.len() as u64,
            (Content::Call(call), RealtimeEvent::CallStarted { call_id, name, .. }) => {
                call.id.clone_from(call_id);
                call.name.clone_from(name);
            }
            (Content::Call(call), RealtimeEvent::CallArguments { delta, .. }) => {
                call.arguments.push_str(delta);
            }
            _ => {}
        }
    }

    /// Removes an item; `None` if it does not exist.
    pub(super) fn remove(&mut self, key: ItemKey) -> Option<()> {
        self.entries.remove(self.position(key)?);
        Some(())
    }

    /// Shortens a spoken answer, and its words in proportion. Returns `None` for other items.
    pub(super) fn truncate(&mut self, key: ItemKey, heard_ms: u64) -> Option<()> {
        let at = self.position(key)?;
        let Content::Spoken { words, bytes } = &mut self.entries.get_mut(at)?.content else {
            return None;
        };
        let heard_bytes = audio_bytes(heard_ms);
        if heard_bytes < *bytes {
            let heard_words = u128::from(tokens::count(words)) * u128::from(heard_bytes) / u128::from(*bytes);
            let (heard, _) = tokens::first(words, u64::try_from(heard_words).unwrap_or(u64::MAX));
            *words = heard.to_owned();
            *bytes = heard_bytes;
        }
        Some(())
    }

    /// Notes that a response reads these items.
    pub(super) fn set_read(&mut self, read: &[Entry]) {
        for entry in &mut self.entries {
            entry.is_read |= read.iter().any(|other| other.key == entry.key);
        }
    }
}

/// Returns the usage of the input of a response. Audio that an earlier response has read or written
/// is cached.
pub(super) fn input_usage(settings: &RealtimeSettings, entries: &[Entry]) -> Usage {
    let (mut text, mut audio, mut cached) = (answer::input_tokens(&request(settings, &[], 0)), 0, 0);
    for entry in entries {
        let (text_tokens, audio_tokens) = entry.content.tokens();
        text += text_tokens;
        match entry.is_read {
            true => cached += audio_tokens,
            false => audio += audio_tokens,
        }
    }
    Usage::ZERO
        .with(Unit::Input, text)
        .with(Unit::InputAudio, audio)
        .with(Unit::CacheReadAudio, cached)
}

/// Returns the request of the chat model for the answer to these items.
pub(super) fn request(
    settings: &RealtimeSettings,
    entries: &[Entry],
    max_output_tokens: u64,
) -> GenerateRequest {
    let instructions = (!settings.instructions.is_empty()).then(|| Content::Text {
        role: Role::System,
        text: settings.instructions.to_string(),
    });
    let messages = instructions
        .iter()
        .chain(entries.iter().map(|entry| &entry.content));
    let tools = settings.tools.iter().map(|tool| Tool::Function {
        name: tool.name.to_string(),
        description: tool.description.as_deref().map(str::to_owned),
        parameters: tool
            .parameters
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok()),
        strict: None,
        cache: None,
    });
    GenerateRequest {
        model: String::new(),
        messages: messages.map(Content::message).collect(),
        max_tokens: Some(max_output_tokens),
        n: 1,
        stream: true,
        include_usage: true,
        stop: Vec::new(),
        sampling: Sampling::default(),
        tools: tools.collect(),
        tool_choice: match &settings.tool_choice {
            RealtimeToolChoice::Auto => ToolChoice::Auto,
            RealtimeToolChoice::None => ToolChoice::None,
            RealtimeToolChoice::Required => ToolChoice::Required,
            RealtimeToolChoice::Function(name) => ToolChoice::Named(name.to_string()),
        },
        parallel_tool_calls: settings.parallel_tool_calls,
        response_format: ResponseFormat::Text,
        reasoning_effort: None,
        thinking: None,
        hide_reasoning: false,
        user: None,
        top_logprobs: None,
        extra: Map::new(),
    }
}
