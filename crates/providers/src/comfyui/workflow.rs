//! Workflows: graphs with slots. A slot is a text such as `{{prompt}}` in a graph. If a text
//! consists of a single slot, the value replaces the text and keeps its own JSON type; within a
//! longer text, the value is inserted as text.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// Names of the slots, besides those with the prefix [`FRAMES`].
const SLOTS: &[&str] = &[
    "prompt",
    "negative_prompt",
    "seed",
    "width",
    "height",
    "count",
    "seconds",
    "image",
    "mask",
];
/// Prefix of slots for a number of frames. `frames@16` is the number at 16 frames per second, plus
/// one.
const FRAMES: &str = "frames@";

/// A graph and the slots in it.
#[derive(Clone, Debug)]
pub(crate) struct Workflow {
    graph: Value,
    slots: BTreeSet<String>,
}

/// Values by slot. A slot without a value is replaced with an empty text, except a slot with the
/// prefix [`FRAMES`], whose value is computed from `seconds`.
pub(super) type Values = BTreeMap<&'static str, Value>;

impl Workflow {
    /// Parses a graph in the API format. Returns an error for unknown slots.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let graph: Value =
            serde_json::from_str(text).map_err(|error| format!("the file is not JSON: {error}"))?;
        let nodes = graph.as_object().filter(|nodes| !nodes.is_empty());
        let is_node = |node: &Value| node["class_type"].is_string() && node["inputs"].is_object();
        if !nodes.is_some_and(|nodes| nodes.values().all(is_node)) {
            return Err(
                "the file is not a graph in the API format: export it with \"Export (API)\"".to_owned(),
            );
        }
        let mut slots = BTreeSet::new();
        visit(&graph, &mut |text| {
            slots.extend(parts(text).filter_map(|part| part.slot().map(str::to_owned)));
        });
        let frames = |slot: &str| {
            slot.strip_prefix(FRAMES)
                .is_some_and(|rate| rate.parse::<u16>().is_ok())
        };
        match slots
            .iter()
            .find(|slot| !SLOTS.contains(&slot.as_str()) && !frames(slot))
        {
            Some(slot) => Err(format!(
                "unknown slot {OPEN}{slot}{CLOSE}; use one of {}, or {FRAMES}16 for the number of frames \
                 at 16 frames per second",
                SLOTS.join(", ")
            )),
            None => Ok(Self { graph, slots }),
        }
    }

    /// Whether the graph has the slot.
    pub(super) fn has(&self, slot: &str) -> bool {
        self.slots.contains(slot)
    }

    /// Returns the graph with values in its slots.
    pub(super) fn filled(&self, values: &Values) -> Value {
        let mut graph = self.graph.clone();
        fill(&mut graph, values);
        graph
    }
}

/// Reads every workflow (`*.json`) of a folder. The names are the file names without `.json`. An
/// invalid file or a folder without workflows is an error.
pub(crate) fn read_all(folder: &Path) -> Result<BTreeMap<String, Workflow>, String> {
    let read_error =
        |what: &Path, error: &dyn std::fmt::Display| format!("cannot read {}: {error}", what.display());
    let entries = std::fs::read_dir(folder).map_err(|error| read_error(folder, &error))?;
    let mut workflows = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|error| read_error(folder, &error))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| read_error(&path, &error))?;
        let workflow = Workflow::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        workflows.insert(name.into_owned(), workflow);
    }
    match workflows.is_empty() {
        true => Err(format!("{} contains no workflow", folder.display())),
        false => Ok(workflows),
    }
}

fn visit(value: &Value, on_text: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => on_text(text),
        Value::Array(values) => values.iter().for_each(|value| visit(value, on_text)),
        Value::Object(values) => values.values().for_each(|value| visit(value, on_text)),
        _ => {}
    }
}

fn fill(value: &mut Value, values: &Values) {
    match value {
        Value::String(text) => {
            if let Some(filled) = filled(text, values) {
                *value = filled;
            }
        }
        Value::Array(inner) => inner.iter_mut().for_each(|value| fill(value, values)),
        Value::Object(inner) => inner.values_mut().for_each(|value| fill(value, values)),
        _ => {}
    }
}

/// Returns the text with its slots filled; `None` if it has no slots.
fn filled(text: &str, values: &Values) -> Option<Value> {
    let of = |slot: &str| match slot.strip_prefix(FRAMES) {
        Some(rate) => {
            let seconds = values.get("seconds").and_then(Value::as_u64).unwrap_or(0);
            let rate = rate.parse::<u64>().unwrap_or(0);
            json!(seconds.saturating_mul(rate).saturating_add(1))
        }
        None => values.get(slot).cloned().unwrap_or_else(|| json!("")),
    };
    let parts: Vec<Part> = parts(text).collect();
    if let [Part::Slot(slot)] = parts[..] {
        return Some(of(slot));
    }
    parts.iter().any(|part| part.slot().is_some()).then(|| {
        let written = parts.iter().map(|part| match part {
            Part::Text(text) => (*text).to_owned(),
            Part::Slot(slot) => {
                let value = of(slot);
                value.as_str().map_or_else(|| value.to_string(), str::to_owned)
            }
        });
        Value::String(written.collect())
    })
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Text(&'a str),
    Slot(&'a str),
}

impl<'a> Part<'a> {
    fn slot(self) -> Option<&'a str> {
        match self {
            Part::Slot(slot) => Some(slot),
            Part::Text(_) => None,
        }
    }
}

/// Splits a text into slots and the text between them. Values are not searched for slots.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (before, after) = match rest.find(OPEN) {
            _ if rest.is_empty() => return None,
            None => (rest, ""),
            Some(0) => match rest.get(OPEN.len()..).and_then(|inner| inner.split_once(CLOSE)) {
                Some((slot, after)) => {
                    rest = after;
                    return Some(Part::Slot(slot.trim()));
                }
                // The slot is not closed.
                None => (rest, ""),
            },
            Some(at) => rest.split_at(at),
        };
        rest = after;
        Some(Part::Text(before))
    })
}
