//! Items of a conversation, with the recordings that are not transcribed yet.

use std::sync::Arc;

use tollgate_formats::openai_realtime::{
    ContentPart, Item, ItemKind, ItemStatus, Previous, RealtimeCode, Role,
};
use tollgate_pipeline::{MICROS_PER_INPUT_TOKEN, MICROS_PER_OUTPUT_TOKEN};
use tollgate_types::{Error, ErrorCode};

use super::events::Refusal;
use crate::cascade::Recording;
use crate::execution::ContextItem;
use crate::heard::Heard;

/// Maximum number of items.
const MAX_ITEMS: usize = 1_000;
/// Maximum size of all texts, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Item with the state that its events do not show.
pub(crate) struct Entry {
    /// Item, which always has an id.
    pub(crate) item: Item,
    pub(crate) status: ItemStatus,
    /// Recording of the item, if no model has read it.
    pub(crate) recording: Option<Recording>,
    /// Duration of the recording, in microseconds, also after a model has read it.
    pub(crate) recorded_us: u64,
    /// Words of a spoken answer with their times.
    pub(crate) heard: Option<Heard>,
    /// Duration of a spoken answer that the listener has heard, in microseconds, if it was cut.
    pub(crate) cut_us: Option<u64>,
}

impl Entry {
    pub(crate) fn new(item: Item, status: ItemStatus) -> Self {
        Self {
            item,
            status,
            recording: None,
            recorded_us: 0,
            heard: None,
            cut_us: None,
        }
    }

    /// Returns the entry with a recording.
    pub(crate) fn with_recording(self, recording: Option<Recording>) -> Self {
        Self {
            recorded_us: recording.as_ref().map_or(0, Recording::micros),
            recording,
            ..self
        }
    }

    /// Returns the number of audio tokens that a realtime model reads for the item.
    fn audio_tokens(&self) -> u64 {
        let answered_us = self.heard.as_ref().map_or(0, Heard::total_us);
        let answered_us = self.cut_us.map_or(answered_us, |cut_us| cut_us.min(answered_us));
        self.recorded_us.div_ceil(MICROS_PER_INPUT_TOKEN) + answered_us.div_ceil(MICROS_PER_OUTPUT_TOKEN)
    }

    pub(crate) fn id(&self) -> &str {
        self.item.id.as_deref().unwrap_or_default()
    }

    /// Returns the size of the texts in bytes.
    fn text_bytes(&self) -> usize {
        match &self.item.kind {
            ItemKind::Message { content, .. } => content.iter().map(part_bytes).sum(),
            ItemKind::FunctionCall { name, arguments, .. } => name.len() + arguments.len(),
            ItemKind::FunctionCallOutput { output, .. } => output.len(),
        }
    }

    /// Cuts a spoken answer after the words that were heard. Returns whether the item is one.
    pub(crate) fn truncate(&mut self, heard_micros: u64) -> bool {
        let Some(heard) = &self.heard else {
            return false;
        };
        let words: Arc<str> = heard.heard_text(heard_micros).into();
        self.cut_us = Some(heard_micros);
        if let ItemKind::Message { content, .. } = &mut self.item.kind {
            for part in content {
                if let ContentPart::OutputAudio { transcript, .. } = part {
                    *transcript = Some(words.clone());
                }
            }
        }
        true
    }

    /// Whether the item is a message of the assistant.
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(
            self.item.kind,
            ItemKind::Message {
                role: Role::Assistant,
                ..
            }
        )
    }
}

fn part_bytes(part: &ContentPart) -> usize {
    match part {
        ContentPart::InputText { text } | ContentPart::OutputText { text } => text.len(),
        ContentPart::InputAudio { transcript, .. } | ContentPart::OutputAudio { transcript, .. } => {
            transcript.as_ref().map_or(0, |words| words.len())
        }
        ContentPart::InputImage { image_url, .. } => image_url.len(),
    }
}

/// Items in their order.
#[derive(Default)]
pub(crate) struct Conversation {
    entries: Vec<Entry>,
}

impl Conversation {
    /// Returns the item with this id.
    pub(crate) fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id() == id)
    }

    /// Returns the item with this id, to change it.
    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id() == id)
    }

    /// Returns the id of the last item.
    pub(crate) fn last_id(&self) -> Option<String> {
        self.entries.last().map(|entry| entry.id().to_owned())
    }

    /// Appends an item of the gateway. Returns the id of the item before it.
    pub(crate) fn append(&mut self, entry: Entry) -> Option<String> {
        let previous = self.last_id();
        self.entries.push(entry);
        previous
    }

    /// Inserts an item of the client. Returns the id of the item before it; refuses an unknown
    /// place, a used id, and a conversation that is too large.
    pub(crate) fn insert(
        &mut self,
        entry: Entry,
        previous: Option<&Previous>,
    ) -> Result<Option<String>, Refusal> {
        if self.get(entry.id()).is_some() {
            let message = "An item with this id exists. Choose another id, or send none.".to_owned();
            return Err(Refusal::Realtime(
                RealtimeCode::CreateDuplicateItemId,
                message,
                Some("item.id"),
            ));
        }
        self.check_size(&entry)?;
        let place = match previous {
            None => self.entries.len(),
            Some(Previous::Root) => 0,
            Some(Previous::After(id)) => match self.entries.iter().position(|entry| entry.id() == &**id) {
                Some(place) => place + 1,
                None => {
                    let message = "The conversation has no item with this id.".to_owned();
                    return Err(Refusal::Realtime(
                        RealtimeCode::CreateInvalidItemId,
                        message,
                        Some("previous_item_id"),
                    ));
                }
            },
        };
        let before = place.checked_sub(1).and_then(|place| self.entries.get(place));
        let before = before.map(|entry| entry.id().to_owned());
        self.entries.insert(place, entry);
        Ok(before)
    }

    /// Removes an item. Returns whether it existed.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        let place = self.entries.iter().position(|entry| entry.id() == id);
        place.map(|place| self.entries.remove(place)).is_some()
    }

    /// Refuses an item with which the conversation would be too large.
    pub(crate) fn check_size(&self, entry: &Entry) -> Result<(), Error> {
        let full = |message: &str| {
            let error = Error::new(ErrorCode::RequestTooLarge, message);
            Err(error.with_param("item"))
        };
        if self.entries.len() >= MAX_ITEMS {
            return full("The conversation has 1,000 items. Delete items, or open another session.");
        }
        if self.text_bytes() + entry.text_bytes() > MAX_TEXT_BYTES {
            return full(
                "The texts of the conversation exceed 4 MiB. Delete items, or open another session.",
            );
        }
        Ok(())
    }

    /// Returns the size of all texts in bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        self.entries.iter().map(Entry::text_bytes).sum()
    }

    /// Returns the items as the context of a response.
    pub(crate) fn context(&self) -> Vec<ContextItem> {
        self.entries.iter().map(context_item).collect()
    }
}

/// Returns an item as a part of the context of a response.
pub(crate) fn context_item(entry: &Entry) -> ContextItem {
    ContextItem {
        item: entry.item.clone(),
        recording: entry.recording.clone(),
        audio_tokens: entry.audio_tokens(),
        cut_us: entry.cut_us,
    }
}
