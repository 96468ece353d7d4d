//! Workflows: graphs with slots. A slot is a text such as `{{prompt}}` in an input of a node. An input that is a slot
//! and nothing else becomes the value itself, a number where it is one; within a longer text the value is written
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// What a slot may be called. `frames@16` is the number of frames at that rate, and one more.
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
const FRAMES: &str = "frames@";

/// A graph, and the slots that are in it.
#[derive(Clone, Debug)]
pub(crate) struct Workflow {
    graph: Value,
    slots: BTreeSet<String>,
}

/// What is put into the slots, by name. One that has no value becomes an empty text.
pub(super) type Values = BTreeMap<&'static str, Value>;

impl Workflow {
    /// Reads a graph in the API format.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let graph: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let nodes = graph.as_object().filter(|nodes| !nodes.is_empty());
        let is_node = |node: &Value| node["class_type"].is_string() && node["inputs"].is_object();
        if !nodes.is_some_and(|nodes| nodes.values().all(is_node)) {
            return Err("it is no graph in the API format: export it with \"Export (API)\"".to_owned());
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
                "there is no slot {OPEN}{slot}{CLOSE}; there are {}, and {FRAMES}16 for another rate",
                SLOTS.join(", ")
            )),
            None => Ok(Self { graph, slots }),
        }
    }

    /// Whether the slot is in it.
    pub(super) fn has(&self, slot: &str) -> bool {
        self.slots.contains(slot)
    }

    /// The graph with values in its slots.
    pub(super) fn filled(&self, values: &Values) -> Value {
        let mut graph = self.graph.clone();
        fill(&mut graph, values);
        graph
    }
}

/// Every workflow of a folder, by the names of its files without `.json`.
pub(crate) fn read_all(folder: &Path) -> Result<BTreeMap<String, Workflow>, String> {
    let cannot =
        |what: &Path, error: &dyn std::fmt::Display| format!("cannot read {}: {error}", what.display());
    let entries = std::fs::read_dir(folder).map_err(|error| cannot(folder, &error))?;
    let mut workflows = BTreeMap::new();
    for entry in entries {
        let path = entry.map_err(|error| cannot(folder, &error))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| cannot(&path, &error))?;
        let workflow = Workflow::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        workflows.insert(name.into_owned(), workflow);
    }
    match workflows.is_empty() {
        true => Err(format!("{} has no workflow in it", folder.display())),
        false => Ok(workflows),
    }
}

fn visit(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(values) => values.iter().for_each(|value| visit(value, see)),
        Value::Object(values) => values.values().for_each(|value| visit(value, see)),
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

/// What becomes of a text; `None` when it has no slots.
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

/// A text in its parts. What is put into a slot is not looked at again.
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
                // It is never closed.
                None => (rest, ""),
            },
            Some(at) => rest.split_at(at),
        };
        rest = after;
        Some(Part::Text(before))
    })
}
