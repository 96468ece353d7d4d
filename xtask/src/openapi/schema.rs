//! Compares two JSON Schemas: request values may only widen, response values may only grow.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Writer of the values that a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The caller writes the value: previously accepted values must remain accepted.
    Request,
    /// The gateway writes the value: promised members must remain present.
    Response,
}

/// Iterates over the members of an object; over nothing for other values.
pub fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Bounds that narrow when they get smaller.
const UPPER: &[&str] = &[
    "maximum",
    "exclusiveMaximum",
    "maxLength",
    "maxItems",
    "maxProperties",
];
/// Bounds that narrow when they get larger.
const LOWER: &[&str] = &[
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "minItems",
    "minProperties",
];
/// Pairs of formats: each value of the first is one of the second.
const WIDER_FORMATS: &[(&str, &str)] = &[
    ("int32", "int64"),
    ("uint32", "uint64"),
    ("float", "double"),
    ("uri", "uri-reference"),
];

/// Comparison of two schemas within their documents.
pub struct Comparison<'a> {
    old_document: &'a Value,
    new_document: &'a Value,
    direction: Direction,
    /// Pairs of schemas under comparison. They are not compared again, which ends the recursion of
    /// recursive schemas.
    open: RefCell<BTreeSet<(String, String)>>,
}

impl<'a> Comparison<'a> {
    /// Creates a comparison in one direction.
    pub fn new(old_document: &'a Value, new_document: &'a Value, direction: Direction) -> Self {
        Self {
            old_document,
            new_document,
            direction,
            open: RefCell::default(),
        }
    }

    /// Lists the members that the new schema lost or narrowed, one sentence each, which begins with
    /// `place`.
    pub fn losses(&self, place: &str, old: &Value, new: &Value) -> Vec<String> {
        let pair = (old.to_string(), new.to_string());
        if !self.open.borrow_mut().insert(pair.clone()) {
            return Vec::new();
        }
        let old = flat(self.old_document, old);
        let new = flat(self.new_document, new);
        let losses = self.flat_losses(place, &old, &new);
        self.open.borrow_mut().remove(&pair);
        losses
    }

    fn flat_losses(&self, place: &str, old: &Value, new: &Value) -> Vec<String> {
        let (old_choices, new_choices) = (choices(old), choices(new));
        let mut losses = Vec::new();
        if self.direction == Direction::Response
            && !accepts_null(self.old_document, old)
            && accepts_null(self.new_document, new)
        {
            losses.push(format!("{place} may now be null"));
        }
        if old_choices.is_empty() && new_choices.is_empty() {
            losses.extend(self.plain_losses(place, old, new));
            return losses;
        }
        // Every alternative of the old schema must fit one of the new schema. A schema without
        // alternatives counts as its own only alternative.
        let own = |schema: &Value, choices: Vec<Value>| {
            if choices.is_empty() {
                vec![schema.clone()]
            } else {
                choices
            }
        };
        let new_choices = own(new, new_choices);
        for (index, choice) in own(old, old_choices).iter().enumerate() {
            let closest = new_choices
                .iter()
                .map(|other| self.losses(place, choice, other))
                .min_by_key(Vec::len);
            if let Some(closest) = closest.filter(|closest| !closest.is_empty()) {
                losses.push(format!(
                    "{place}: alternative {} is gone ({})",
                    title(choice, index),
                    closest.join("; ")
                ));
            }
        }
        losses
    }

    /// Compares schemas that have no alternatives.
    fn plain_losses(&self, place: &str, old: &Value, new: &Value) -> Vec<String> {
        let mut losses = Vec::new();
        self.types(place, old, new, &mut losses);
        self.values(place, old, new, &mut losses);
        self.properties(place, old, new, &mut losses);
        if self.direction == Direction::Request {
            bounds(place, old, new, &mut losses);
            formats(place, old, new, &mut losses);
        }
        for (key, part) in [("items", "[]"), ("additionalProperties", ".*")] {
            let (before, after) = (&old[key], &new[key]);
            if before.is_object() && after.is_object() {
                losses.extend(self.losses(&format!("{place}{part}"), before, after));
            } else if self.direction == Direction::Request
                && !before.is_object()
                && after.is_object()
                && before != false
            {
                losses.push(format!("{place}{part} has a schema now"));
            } else if self.direction == Direction::Response && before.is_object() {
                losses.push(format!("{place}{part} has no schema any more"));
            }
        }
        losses
    }

    fn types(&self, place: &str, old: &Value, new: &Value, losses: &mut Vec<String>) {
        let (old, new) = (types(old), types(new));
        let fine = match self.direction {
            Direction::Request => fits(&old, &new),
            // A new null was already reported: a response may also contain null through an
            // alternative.
            Direction::Response => fits(&new, &[old.as_slice(), &["null"]].concat()) || old.is_empty(),
        };
        if !fine {
            losses.push(format!(
                "{place}: the type changed from {} to {}",
                spell(&old),
                spell(&new)
            ));
        }
    }

    /// Compares enumerated values. No value may be removed, and a request must not restrict a free
    /// value to an enumeration.
    fn values(&self, place: &str, old: &Value, new: &Value, losses: &mut Vec<String>) {
        let Some(new_values) = values(new) else { return };
        match values(old) {
            Some(old_values) => {
                for value in old_values.iter().filter(|value| !new_values.contains(value)) {
                    losses.push(format!("{place}: the value {value} is gone"));
                }
            }
            None if self.direction == Direction::Request => {
                losses.push(format!("{place} is newly limited to certain values"))
            }
            None => {}
        }
    }

    fn properties(&self, place: &str, old: &Value, new: &Value, losses: &mut Vec<String>) {
        for (name, old_property) in members(&old["properties"]) {
            let place = format!("{place}.{name}");
            match new["properties"].get(name) {
                None => losses.push(format!("{place} is gone")),
                Some(property) => losses.extend(self.losses(&place, old_property, property)),
            }
        }
        let (was, is) = (required(old), required(new));
        match self.direction {
            Direction::Request => {
                losses.extend(
                    is.difference(&was)
                        .map(|name| format!("{place}.{name} is newly required")),
                );
                if new["additionalProperties"] == false && old["additionalProperties"] != false {
                    losses.push(format!("{place}: unknown properties are newly refused"));
                }
            }
            Direction::Response => {
                // A removed property was already reported.
                let present = was
                    .difference(&is)
                    .filter(|name| new["properties"].get(**name).is_some());
                losses.extend(present.map(|name| format!("{place}.{name} is no longer required")));
            }
        }
    }
}

fn bounds(place: &str, old: &Value, new: &Value, losses: &mut Vec<String>) {
    let mut compare_bounds = |keys: &[&str], narrower: fn(f64, f64) -> bool| {
        for key in keys {
            let Some(after) = new[*key].as_f64() else { continue };
            let before = old[*key].as_f64();
            if before.is_none_or(|before| narrower(after, before)) {
                let before = before.map_or_else(|| "none".to_owned(), |before| before.to_string());
                losses.push(format!("{place}: {key} narrowed from {before} to {after}"));
            }
        }
    };
    compare_bounds(UPPER, |after, before| after < before);
    compare_bounds(LOWER, |after, before| after > before);
}

fn formats(place: &str, old: &Value, new: &Value, losses: &mut Vec<String>) {
    for key in ["format", "pattern"] {
        let (Some(after), before) = (new[key].as_str(), old[key].as_str()) else {
            continue;
        };
        let wider = before.is_some_and(|before| before == after || WIDER_FORMATS.contains(&(before, after)));
        if !wider {
            losses.push(format!(
                "{place}: {key} changed from {} to {after}",
                before.unwrap_or("none")
            ));
        }
    }
}

/// Returns the schema with its reference resolved and its `allOf` parts merged.
fn flat(document: &Value, schema: &Value) -> Value {
    flat_within(document, schema, 0)
}

/// Maximum nesting of references and parts. It ends the recursion of recursive documents.
const DEEPEST: usize = 32;

fn flat_within(document: &Value, schema: &Value, depth: usize) -> Value {
    let Some(own) = schema.as_object().filter(|_| depth < DEEPEST) else {
        return schema.clone();
    };
    let mut merged = Map::new();
    let target = own
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| document.pointer(reference.strip_prefix('#')?));
    let parts = own.get("allOf").and_then(Value::as_array).into_iter().flatten();
    for part in target.into_iter().chain(parts) {
        merge(&mut merged, &flat_within(document, part, depth + 1));
    }
    let mut rest = own.clone();
    rest.remove("$ref");
    rest.remove("allOf");
    merge(&mut merged, &Value::Object(rest));
    Value::Object(merged)
}

/// Merges the members of a part. Properties and required names are added; other members are
/// replaced.
fn merge(into: &mut Map<String, Value>, part: &Value) {
    for (key, value) in members(part) {
        match (into.get_mut(key), value) {
            (Some(Value::Object(have)), Value::Object(more)) if key == "properties" => {
                have.extend(more.iter().map(|(name, schema)| (name.clone(), schema.clone())));
            }
            (Some(Value::Array(have)), Value::Array(more)) if key == "required" => {
                have.extend(more.iter().cloned())
            }
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Annotations, which do not affect validation.
const NOTES: &[&str] = &[
    "default",
    "deprecated",
    "description",
    "discriminator",
    "example",
    "examples",
    "title",
];

/// Returns the alternatives of a schema, each with the common members; empty without `oneOf` and
/// `anyOf`.
fn choices(schema: &Value) -> Vec<Value> {
    let choices = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|key| schema[*key].as_array())
        .flatten();
    let mut shared = schema.as_object().cloned().unwrap_or_default();
    shared.retain(|key, _| key != "oneOf" && key != "anyOf" && !NOTES.contains(&key.as_str()));
    choices
        .map(|choice| {
            if shared.is_empty() {
                choice.clone()
            } else {
                json!({ "allOf": [choice, shared] })
            }
        })
        .collect()
}

fn accepts_null(document: &Value, schema: &Value) -> bool {
    let schema = flat(document, schema);
    types(&schema).contains(&"null")
        || choices(&schema)
            .iter()
            .any(|choice| accepts_null(document, choice))
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether every value of the inner types is a value of the outer types. An empty list stands for
/// all types.
fn fits(inner: &[&str], outer: &[&str]) -> bool {
    let covers = |name: &&str| outer.contains(name) || (**name == *"integer" && outer.contains(&"number"));
    outer.is_empty() || (!inner.is_empty() && inner.iter().all(covers))
}

fn spell(types: &[&str]) -> String {
    if types.is_empty() {
        "any".to_owned()
    } else {
        types.join(" or ")
    }
}

fn values(schema: &Value) -> Option<Vec<&Value>> {
    match (schema["enum"].as_array(), schema.get("const")) {
        (Some(values), _) => Some(values.iter().collect()),
        (None, Some(value)) => Some(vec![value]),
        (None, None) => None,
    }
}

fn required(schema: &Value) -> BTreeSet<&str> {
    schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the name of an alternative in messages: its title, the name of its reference, or its
/// number.
fn title(schema: &Value, index: usize) -> String {
    let schema = schema["allOf"].get(0).unwrap_or(schema);
    let name = schema["$ref"]
        .as_str()
        .unwrap_or_default()
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let title = schema["title"].as_str().unwrap_or(name);
    if title.is_empty() {
        format!("{}", index + 1)
    } else {
        title.to_owned()
    }
}
