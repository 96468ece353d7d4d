//! A value that matches a JSON Schema. What is understood: types, enums, constants, bounds, patterns and usual formats,
//! `$ref` within the schema, `allOf`, `anyOf`, `oneOf`. What is not: `not`, `if`, `dependentSchemas`,
//! `unevaluatedProperties`, references elsewhere.

mod merge;
mod number;
mod text;

use serde_json::{Map, Value};

use merge::merged;

/// The most values that are tried for one schema.
const MOST_VALUES: u32 = 20_000;
/// Below this, what need not be there is left out.
const DEEP: u32 = 4;
/// Nothing is this deep, references and combinations counted.
const DEEPEST: u32 = 64;

/// A value that matches, or `None` where none was found. Longer texts in it are of the words that were said.
pub(super) fn sample(schema: &Value, said: &str) -> Option<Value> {
    let mut sampler = Sampler {
        root: schema,
        said,
        left: MOST_VALUES,
    };
    sampler.value(schema, Place::default())
}

struct Sampler<'s> {
    root: &'s Value,
    said: &'s str,
    left: u32,
}

/// Where a value will stand.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Objects and arrays around it.
    depth: u32,
    /// Schemas around its own.
    hops: u32,
    /// Neighbours that must differ have different variants.
    variant: usize,
}

impl Place {
    fn below(self) -> Place {
        Place {
            depth: self.depth + 1,
            variant: 0,
            ..self
        }
    }
}

impl Sampler<'_> {
    fn value(&mut self, schema: &Value, mut place: Place) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        place.hops += 1;
        if place.hops > DEEPEST {
            return None;
        }
        let schema = match schema {
            Value::Bool(true) => return Some(text::any(place.variant)),
            Value::Object(schema) => schema,
            _ => return None,
        };
        if let Some(constant) = schema.get("const") {
            return Some(constant.clone());
        }
        if let Some(Value::Array(options)) = schema.get("enum") {
            let fits = |option: &&Value| types(schema).is_none_or(|types| types.contains(&type_of(option)));
            let fitting: Vec<&Value> = options.iter().filter(fits).collect();
            return fitting
                .get(place.variant % fitting.len().max(1))
                .map(|option| (*option).clone());
        }
        if let Some(reference) = schema.get("$ref") {
            let target = self.resolve(reference)?.clone();
            return self.value(&merged(&without(schema, "$ref"), &target)?, place);
        }
        if let Some(Value::Array(all)) = schema.get("allOf") {
            let start = Value::Object(without(schema, "allOf"));
            let whole = all.iter().try_fold(start, |whole, part| {
                let part = self.flat(part, place.hops)?;
                merged(whole.as_object()?, &part)
            })?;
            return self.value(&whole, place);
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(Value::Array(options)) = schema.get(choice) {
                return self.one_of(&without(schema, choice), options, place);
            }
        }
        self.typed(schema, place)
    }

    /// The schema that a reference leads to, so that it can be merged.
    fn flat(&mut self, schema: &Value, hops: u32) -> Option<Value> {
        if hops > DEEPEST {
            return None;
        }
        match schema
            .as_object()
            .and_then(|schema| Some((schema, schema.get("$ref")?)))
        {
            Some((schema, reference)) => {
                let target = self.resolve(reference)?.clone();
                let target = self.flat(&target, hops + 1)?;
                merged(&without(schema, "$ref"), &target)
            }
            None => Some(schema.clone()),
        }
    }

    /// The first option for which a value is found; deep down, those first that lead no deeper.
    fn one_of(&mut self, common: &Map<String, Value>, options: &[Value], place: Place) -> Option<Value> {
        let mut order: Vec<&Value> = options.iter().collect();
        if place.depth >= DEEP {
            order.sort_by_key(|option| leads_deeper(option));
        }
        order.into_iter().find_map(|option| {
            let option = self.flat(option, place.hops)?;
            self.value(&merged(common, &option)?, place)
        })
    }

    fn typed(&mut self, schema: &Map<String, Value>, place: Place) -> Option<Value> {
        let wanted = match types(schema) {
            Some(types) => types
                .iter()
                .find(|name| **name != "null")
                .or(types.first())
                .copied()?,
            None => implied_type(schema),
        };
        match wanted {
            "object" => self.object(schema, place),
            "array" => self.array(schema, place),
            "string" => text::string(schema, place.variant, self.said),
            "integer" => number::integer(schema, place.variant),
            "number" => number::number(schema, place.variant),
            "boolean" => Some(Value::Bool(place.variant.is_multiple_of(2))),
            "null" => Some(Value::Null),
            _ => None,
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, place: Place) -> Option<Value> {
        let nothing = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&nothing);
        let required: Vec<&str> = strings(schema.get("required")).collect();
        let least = number::count(schema, "minProperties", 0);
        let mut object = Map::new();
        for (name, property) in properties {
            let needed = required.contains(&name.as_str()) || object.len() < least;
            let wanted = !schema.contains_key("required") && place.depth < DEEP;
            if !needed && !wanted {
                continue;
            }
            let mut inside = place.below();
            inside.variant = place.variant;
            match self.value(property, inside) {
                Some(value) => {
                    object.insert(name.clone(), value);
                }
                None if needed => return None,
                None => {}
            }
        }
        let other = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
        let invented: Vec<String> = (1..=least).map(|number| format!("property{number}")).collect();
        let missing = required
            .iter()
            .copied()
            .chain(invented.iter().map(String::as_str));
        for (place_in_order, name) in missing.enumerate() {
            let needed = place_in_order < required.len() || object.len() < least;
            if needed && !object.contains_key(name) {
                let value = self.value(other, place.below())?;
                object.insert(name.to_owned(), value);
            }
        }
        Some(Value::Object(object))
    }

    fn array(&mut self, schema: &Map<String, Value>, place: Place) -> Option<Value> {
        let nothing = Vec::new();
        let prefix = schema
            .get("prefixItems")
            .and_then(Value::as_array)
            .unwrap_or(&nothing);
        let anything = Value::Bool(true);
        let items = schema.get("items").unwrap_or(&anything);
        let least = number::count(schema, "minItems", 0);
        let most = number::count(schema, "maxItems", usize::MAX);
        let usual = if place.depth < DEEP {
            prefix.len().max(1)
        } else {
            0
        };
        let contained = schema.get("contains");
        let wanted = least.max(usual).max(usize::from(contained.is_some())).min(most);
        let mut array = Vec::new();
        for index in 0..wanted {
            let mut inside = place.below();
            inside.variant = index + place.variant;
            let item = match (prefix.get(index), contained) {
                (Some(item), _) => item,
                (None, Some(contained)) if index == prefix.len() => contained,
                _ => items,
            };
            match self.value(item, inside) {
                Some(value) => array.push(value),
                None if index >= least => break,
                None => return None,
            }
        }
        Some(Value::Array(array))
    }

    /// The place that a reference within the schema names (RFC 6901 after the `#`).
    fn resolve(&self, reference: &Value) -> Option<&Value> {
        self.root.pointer(reference.as_str()?.strip_prefix('#')?)
    }
}

fn without(schema: &Map<String, Value>, key: &str) -> Map<String, Value> {
    let mut rest = schema.clone();
    rest.remove(key);
    rest
}

fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The types that a schema names.
fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => None,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type that the keywords of an untyped schema speak of.
fn implied_type(schema: &Map<String, Value>) -> &'static str {
    const SIGNS: &[(&str, &[&str])] = &[
        (
            "object",
            &["properties", "required", "additionalProperties", "minProperties"],
        ),
        (
            "array",
            &["items", "prefixItems", "minItems", "maxItems", "contains"],
        ),
        (
            "number",
            &[
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "multipleOf",
            ],
        ),
    ];
    let speaks = |keywords: &[&str]| keywords.iter().any(|keyword| schema.contains_key(*keyword));
    SIGNS
        .iter()
        .find(|(_, keywords)| speaks(keywords))
        .map_or("string", |(name, _)| name)
}

fn leads_deeper(schema: &Value) -> bool {
    let deep = ["$ref", "properties", "items", "allOf", "anyOf", "oneOf"];
    deep.iter().any(|keyword| schema.get(keyword).is_some())
}

#[cfg(test)]
mod tests;
