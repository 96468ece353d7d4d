//! Items of the upstream's conversation, and the ids of calls.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate_formats::openai_realtime::{AddedKind, ContentPart, ItemKind, Role};
use tollgate_upstream::{ItemKey, REALTIME_RATE, RealtimeItem, RealtimeRole, UpstreamError};

/// Maximum length of an id that a client chooses, in bytes. OpenAI refuses longer ones.
const MAX_ID_BYTES: usize = 32;

/// Items by their keys.
#[derive(Debug, Default)]
pub(super) struct Items {
    last_key: u64,
    entries: HashMap<ItemKey, Entry>,
    keys: HashMap<Arc<str>, ItemKey>,
    /// Created items that the server has not confirmed, the oldest first.
    unconfirmed: VecDeque<(ItemKey, AddedKind)>,
    /// Recordings whose ids the server has not sent, with the number of their command.
    uncommitted: VecDeque<(u64, ItemKey)>,
    /// Ids of calls that the server has chosen, if they are longer than a client's.
    long_call_ids: HashSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Entry {
    id: Option<Arc<str>>,
    audio_bytes: u64,
}

impl Items {
    fn add(&mut self, id: Option<Arc<str>>) -> ItemKey {
        self.last_key += 1;
        let key = ItemKey(self.last_key);
        if let Some(id) = &id {
            self.keys.insert(id.clone(), key);
        }
        self.entries.insert(key, Entry { id, audio_bytes: 0 });
        key
    }

    /// Adds an item with an id of the gateway; returns both.
    pub(super) fn create(&mut self, kind: AddedKind) -> (ItemKey, Arc<str>) {
        let id: Arc<str> = Arc::from(format!("tollgate_{}", self.last_key + 1));
        let key = self.add(Some(id.clone()));
        self.unconfirmed.push_back((key, kind));
        (key, id)
    }

    /// Adds a recording whose id follows. `number` is that of its command.
    pub(super) fn commit(&mut self, number: u64) -> ItemKey {
        let key = self.add(None);
        self.uncommitted.push_back((number, key));
        key
    }

    /// Assigns the id to the oldest recording without one.
    pub(super) fn committed(&mut self, id: Arc<str>) {
        if self.keys.contains_key(&id) {
            return;
        }
        if let Some((_, key)) = self.uncommitted.pop_front() {
            self.rename(key, id);
        }
    }

    /// Forgets the recording whose command failed.
    pub(super) fn not_committed(&mut self, number: u64) {
        self.uncommitted.retain(|(other, _)| *other != number);
    }

    /// Confirms an item. A server that does not use the gateway's ids sends its own one, in the
    /// order of the commands.
    pub(super) fn confirm(&mut self, id: Arc<str>, kind: AddedKind, is_responding: bool) {
        if let Some(known) = self.keys.get(&id) {
            self.unconfirmed.retain(|(key, _)| key != known);
            return;
        }
        // Such an item is output of the model.
        if is_responding && matches!(kind, AddedKind::Assistant | AddedKind::FunctionCall) {
            return;
        }
        // The event `input_audio_buffer.committed` may follow.
        if kind == AddedKind::User && !self.uncommitted.is_empty() {
            self.committed(id);
            return;
        }
        let place = self.unconfirmed.iter().position(|(_, other)| *other == kind);
        if let Some((key, _)) = place.and_then(|place| self.unconfirmed.remove(place)) {
            self.rename(key, id);
        }
    }

    fn rename(&mut self, key: ItemKey, id: Arc<str>) {
        if let Some(entry) = self.entries.get_mut(&key) {
            if let Some(old) = entry.id.replace(id.clone()) {
                self.keys.remove(&old);
            }
            self.keys.insert(id, key);
        }
    }

    /// Returns the key of an output item. The second value is whether the item is new.
    pub(super) fn output(&mut self, id: Arc<str>) -> (ItemKey, bool) {
        match self.keys.get(&id) {
            Some(key) => (*key, false),
            None => (self.add(Some(id)), true),
        }
    }

    /// Adds an output item without an id.
    pub(super) fn nameless(&mut self) -> ItemKey {
        self.add(None)
    }

    /// Counts audio of an output item.
    pub(super) fn add_audio(&mut self, key: ItemKey, bytes: usize) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.audio_bytes = entry.audio_bytes.saturating_add(bytes as u64);
        }
    }

    /// Returns the duration of the audio that the server has sent of an item, in milliseconds.
    pub(super) fn audio_ms(&self, key: ItemKey) -> u64 {
        const BYTES_PER_SECOND: u64 = REALTIME_RATE as u64 * 2;
        let bytes = self.entries.get(&key).map_or(0, |entry| entry.audio_bytes);
        bytes.saturating_mul(1_000) / BYTES_PER_SECOND
    }

    /// Returns the id of an item; `None` while the server has not sent it.
    pub(super) fn id(&self, key: ItemKey) -> Result<Option<Arc<str>>, UpstreamError> {
        let Some(entry) = self.entries.get(&key) else {
            return Err(UpstreamError::protocol("the conversation does not have the item"));
        };
        let is_awaited = self.uncommitted.iter().any(|(_, other)| *other == key);
        match &entry.id {
            None if !is_awaited => Err(UpstreamError::protocol("the upstream gave the item no id")),
            id => Ok(id.clone()),
        }
    }

    /// Forgets an item.
    pub(super) fn remove(&mut self, key: ItemKey) {
        if let Some(Entry { id: Some(id), .. }) = self.entries.remove(&key) {
            self.keys.remove(&id);
        }
        self.unconfirmed.retain(|(other, _)| *other != key);
    }

    /// Notes the id of a call that the server has chosen.
    pub(super) fn add_call_id(&mut self, id: &Arc<str>) {
        if id.len() > MAX_ID_BYTES {
            self.long_call_ids.insert(id.clone());
        }
    }

    /// Returns the id of a call for the server: verbatim if the server has chosen it or accepts its
    /// length, else a shorter one, which depends on the id alone.
    fn sent_call_id(&self, id: &Arc<str>) -> Arc<str> {
        if id.len() <= MAX_ID_BYTES || self.long_call_ids.contains(id) {
            return id.clone();
        }
        let digest = Sha256::digest(id.as_bytes());
        let digits: String = digest.iter().take(13).map(|byte| format!("{byte:02x}")).collect();
        Arc::from(format!("call_{digits}"))
    }

    /// Converts an item to the format.
    pub(super) fn encode(&self, item: &RealtimeItem) -> ItemKind {
        match item {
            RealtimeItem::Message { role, text } => {
                let text = text.clone();
                let (role, part) = match role {
                    RealtimeRole::User => (Role::User, ContentPart::InputText { text }),
                    RealtimeRole::Assistant => (Role::Assistant, ContentPart::OutputText { text }),
                    RealtimeRole::System => (Role::System, ContentPart::InputText { text }),
                };
                ItemKind::Message {
                    role,
                    content: vec![part],
                }
            }
            RealtimeItem::Recording(audio) => ItemKind::Message {
                role: Role::User,
                content: vec![ContentPart::InputAudio {
                    audio: audio.clone(),
                    transcript: None,
                }],
            },
            RealtimeItem::FunctionCall {
                call_id,
                name,
                arguments,
            } => ItemKind::FunctionCall {
                call_id: Some(self.sent_call_id(call_id)),
                name: name.clone(),
                arguments: arguments.clone(),
            },
            RealtimeItem::FunctionOutput { call_id, output } => ItemKind::FunctionCallOutput {
                call_id: self.sent_call_id(call_id),
                output: output.clone(),
            },
        }
    }
}

/// Returns the kind of an item in the server's events.
pub(super) fn kind_of(item: &RealtimeItem) -> AddedKind {
    match item {
        RealtimeItem::Message { role, .. } => match role {
            RealtimeRole::User => AddedKind::User,
            RealtimeRole::Assistant => AddedKind::Assistant,
            RealtimeRole::System => AddedKind::System,
        },
        RealtimeItem::Recording(_) => AddedKind::User,
        RealtimeItem::FunctionCall { .. } => AddedKind::FunctionCall,
        RealtimeItem::FunctionOutput { .. } => AddedKind::FunctionOutput,
    }
}
