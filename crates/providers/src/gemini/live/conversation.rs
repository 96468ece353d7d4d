//! The items of a conversation, as text for another connection.

use bytes::Bytes;
use tollgate_formats::gemini::live::{LiveOutput, LiveTurn};
use tollgate_upstream::{ItemKey, REALTIME_RATE, RealtimeItem, RealtimePlace, RealtimeRole};

/// Bytes of a millisecond of audio.
const BYTES_PER_MS: u64 = 2 * REALTIME_RATE as u64 / 1_000;

/// Content of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Said {
        role: RealtimeRole,
        text: String,
    },
    Recording {
        /// The recording, until the model has answered.
        audio: Bytes,
        /// Its words, which the server transcribes.
        words: String,
    },
    /// A spoken answer.
    Answer {
        words: String,
        bytes: u64,
    },
    Call {
        call_id: String,
        name: String,
        arguments: String,
    },
    Output {
        call_id: String,
        output: String,
    },
}

impl From<&RealtimeItem> for Content {
    fn from(item: &RealtimeItem) -> Self {
        match item {
            RealtimeItem::Message { role, text } => Self::Said {
                role: *role,
                text: text.to_string(),
            },
            RealtimeItem::Recording(audio) => Self::Recording {
                audio: audio.clone(),
                words: String::new(),
            },
            RealtimeItem::FunctionCall {
                call_id,
                name,
                arguments,
            } => Self::Call {
                call_id: call_id.to_string(),
                name: name.to_string(),
                arguments: arguments.to_string(),
            },
            RealtimeItem::FunctionOutput { call_id, output } => Self::Output {
                call_id: call_id.to_string(),
                output: output.to_string(),
            },
        }
    }
}

impl Content {
    /// Whether the item can be sent as input of the user.
    pub(super) fn is_input(&self) -> bool {
        match self {
            Self::Said { role, .. } => *role != RealtimeRole::Assistant,
            Self::Recording { .. } => true,
            Self::Answer { .. } | Self::Call { .. } | Self::Output { .. } => false,
        }
    }

    /// Whether the item is a recording that can be sent.
    pub(super) fn is_recording(&self) -> bool {
        matches!(self, Self::Recording { audio, .. } if !audio.is_empty())
    }

    /// Returns the item as a turn of text; `None` if its words are unknown. `calls` are the ids and
    /// names of function calls.
    pub(super) fn turn<'a>(&'a self, calls: &[(&'a str, &'a str)]) -> Option<LiveTurn<'a>> {
        match self {
            Self::Said { role, text } => Some(match role {
                RealtimeRole::Assistant => LiveTurn::Model(text),
                // The format has no role for instructions within the conversation.
                RealtimeRole::User | RealtimeRole::System => LiveTurn::User(text),
            }),
            Self::Recording { words, .. } => (!words.is_empty()).then_some(LiveTurn::User(words)),
            Self::Answer { words, .. } => (!words.is_empty()).then_some(LiveTurn::Model(words)),
            Self::Call {
                call_id,
                name,
                arguments,
            } => Some(LiveTurn::Call {
                id: call_id,
                name,
                arguments,
            }),
            Self::Output { call_id, output } => {
                let name = calls.iter().rev().find(|(id, _)| id == call_id);
                Some(LiveTurn::Output(LiveOutput {
                    id: call_id,
                    name: name.map_or(call_id, |(_, name)| name),
                    output,
                }))
            }
        }
    }
}

#[derive(Debug)]
struct Entry {
    key: ItemKey,
    content: Content,
    /// Whether the connection has the item.
    is_sent: bool,
}

/// The items in their order. Those that the connection does not have are the last ones.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    entries: Vec<Entry>,
    last_key: u64,
}

impl Conversation {
    /// Whether a new item at this place is the last one.
    pub(super) fn is_end(&self, place: RealtimePlace) -> bool {
        let last = self.entries.last().map(|entry| entry.key);
        match place {
            RealtimePlace::First => last.is_none(),
            RealtimePlace::After(key) => last == Some(key),
            RealtimePlace::Last => true,
        }
    }

    pub(super) fn push(&mut self, content: Content) -> ItemKey {
        self.add(content, false)
    }

    /// Adds an item of a response. The recordings before it are not needed any more.
    pub(super) fn push_output(&mut self, content: Content) -> ItemKey {
        for entry in &mut self.entries {
            if let Content::Recording { audio, .. } = &mut entry.content {
                *audio = Bytes::new();
            }
        }
        self.add(content, true)
    }

    fn add(&mut self, content: Content, is_sent: bool) -> ItemKey {
        self.last_key += 1;
        let key = ItemKey(self.last_key);
        self.entries.push(Entry {
            key,
            content,
            is_sent,
        });
        key
    }

    /// Returns the id of a call to which the model gave none.
    pub(super) fn new_call_id(&self) -> String {
        format!("call_{}", self.last_key + 1)
    }

    /// Returns the content of an item that a response writes.
    pub(super) fn content(&mut self, key: ItemKey) -> Option<&mut Content> {
        let mut entries = self.entries.iter_mut().rev();
        entries
            .find(|entry| entry.key == key)
            .map(|entry| &mut entry.content)
    }

    /// Removes an item that the connection does not have. Returns false for others.
    pub(super) fn remove_unsent(&mut self, key: ItemKey) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.key != key || entry.is_sent);
        self.entries.len() < before
    }

    /// Shortens the words of a spoken answer in proportion to its duration, for other connections.
    pub(super) fn truncate(&mut self, key: ItemKey, heard_ms: u64) {
        let Some(Content::Answer { words, bytes }) = self.content(key) else {
            return;
        };
        let heard_bytes = heard_ms.saturating_mul(BYTES_PER_MS);
        if heard_bytes >= *bytes {
            return;
        }
        let heard = u128::from(heard_bytes) * words.len() as u128 / u128::from(*bytes);
        let end = words.floor_char_boundary(usize::try_from(heard).unwrap_or(usize::MAX));
        let is_within_word = words
            .get(end..)
            .is_some_and(|rest| !rest.starts_with(char::is_whitespace));
        let end = match words
            .get(..end)
            .and_then(|heard| heard.rfind(char::is_whitespace))
        {
            Some(space) if is_within_word => space,
            None if is_within_word => 0,
            _ => end,
        };
        words.truncate(end);
        *bytes = heard_bytes;
    }

    /// Adds words to the transcript of the last recording that was sent.
    pub(super) fn heard(&mut self, heard: &str) {
        let mut sent = self.entries.iter_mut().rev().filter(|entry| entry.is_sent);
        let words = sent.find_map(|entry| match &mut entry.content {
            Content::Recording { words, .. } => Some(words),
            _ => None,
        });
        if let Some(words) = words {
            words.push_str(heard);
        }
    }

    /// Returns the items that the connection does not have.
    pub(super) fn unsent(&self) -> Vec<&Content> {
        let unsent = self.entries.iter().filter(|entry| !entry.is_sent);
        unsent.map(|entry| &entry.content).collect()
    }

    /// Whether the connection lacks only input of the user.
    pub(super) fn has_only_new_input(&self) -> bool {
        self.unsent().into_iter().all(Content::is_input)
    }

    pub(super) fn set_sent(&mut self) {
        for entry in &mut self.entries {
            entry.is_sent = true;
        }
    }

    pub(super) fn set_unsent(&mut self) {
        for entry in &mut self.entries {
            entry.is_sent = false;
        }
    }

    /// Splits all items into the history and the user's input at the end.
    pub(super) fn split(&self) -> (Vec<&Content>, Vec<&Content>) {
        let contents = self.entries.iter().map(|entry| &entry.content);
        let mut history: Vec<&Content> = contents.collect();
        let last = history.iter().rposition(|content| !content.is_input());
        let input = history.split_off(last.map_or(0, |last| last + 1));
        (history, input)
    }

    /// Returns the ids and names of all function calls.
    pub(super) fn calls(&self) -> Vec<(&str, &str)> {
        let entries = self.entries.iter();
        entries
            .filter_map(|entry| match &entry.content {
                Content::Call { call_id, name, .. } => Some((call_id.as_str(), name.as_str())),
                _ => None,
            })
            .collect()
    }
}
