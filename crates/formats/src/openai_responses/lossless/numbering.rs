//! Adds the event indices that a server omits. llama.cpp sends none, and OpenAI's clients use them
//! as list indices.

/// Members of one event that affect its indices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbered<'e> {
    /// Type of the event.
    pub(super) kind: &'e str,
    /// Id of the event's item; empty if the event has none.
    pub(super) item: &'e str,
    pub(super) has_sequence: bool,
    pub(super) has_output_index: bool,
    /// Whether the event has `content_index` or `summary_index`.
    pub(super) has_inner_index: bool,
}

/// Counts the events, items and parts of one stream.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    events: u64,
    /// The items so far, in order of addition.
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    id: String,
    /// Number of content parts so far.
    parts: u64,
    /// Number of summary parts so far.
    summaries: u64,
}

/// Type prefixes of events about a content part.
const CONTENT_EVENTS: &[&str] = &[
    "response.content_part.",
    "response.output_text.",
    "response.refusal.",
    "response.reasoning_text.",
];
/// Type prefixes of events about a summary part of a reasoning item.
const SUMMARY_EVENTS: &[&str] = &[
    "response.reasoning_summary_part.",
    "response.reasoning_summary_text.",
];
/// Type prefixes of other events about an item.
const ITEM_EVENTS: &[&str] = &[
    "response.output_item.",
    "response.function_call_arguments.",
    "response.custom_tool_call_input.",
];

impl Numbering {
    /// Counts an event and returns its missing members, each followed by a comma; empty if none is
    /// missing.
    pub(super) fn missing(&mut self, event: &Numbered<'_>) -> Vec<u8> {
        let is_of = |kinds: &[&str]| kinds.iter().any(|kind| event.kind.starts_with(kind));
        let (is_content, is_summary) = (is_of(CONTENT_EVENTS), is_of(SUMMARY_EVENTS));
        let mut members = Vec::new();
        if !event.has_sequence {
            members.extend_from_slice(format!("\"sequence_number\":{},", self.events).as_bytes());
        }
        self.events += 1;
        if !(is_content || is_summary || is_of(ITEM_EVENTS)) {
            return members;
        }
        if event.has_output_index && (event.has_inner_index || !(is_content || is_summary)) {
            // A server that sends one of these indices sends all of them.
            return members;
        }
        let index = self.item(event);
        if !event.has_output_index {
            members.extend_from_slice(format!("\"output_index\":{index},").as_bytes());
        }
        let Some(item) = self.items.get_mut(index) else {
            return members;
        };
        let (name, parts) = match is_summary {
            true => ("summary_index", &mut item.summaries),
            false => ("content_index", &mut item.parts),
        };
        if (is_content || is_summary) && !event.has_inner_index {
            *parts += u64::from(event.kind.ends_with("_part.added"));
            members.extend_from_slice(format!("\"{name}\":{},", parts.saturating_sub(1)).as_bytes());
        }
        members
    }

    /// Returns the index of the event's item, and adds the item to the list if it is new. An event
    /// without an id belongs to the last item, unless the event adds an item.
    fn item(&mut self, event: &Numbered<'_>) -> usize {
        let is_added = event.kind == "response.output_item.added";
        let known = match event.item {
            "" if is_added => None,
            "" => self.items.len().checked_sub(1),
            id => self.items.iter().rposition(|item| item.id == id),
        };
        known.unwrap_or_else(|| {
            self.items.push(Item {
                id: event.item.to_owned(),
                parts: 0,
                summaries: 0,
            });
            self.items.len() - 1
        })
    }
}
