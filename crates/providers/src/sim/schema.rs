//! Generates values that match a JSON Schema. Supported: types, enums, constants, bounds, patterns
//! and common formats, `$ref` within the schema, `allOf`, `anyOf`, `oneOf`. Not supported: `not`,
//! `if`, `dependentSchemas`, `unevaluatedProperties`, external references.

mod merge;
mod number;
mod text;

use serde_json::{Map, Value};

use merge::merged;

/// Maximum number of values that are tried for one schema.
const MAX_VALUES: u32 = 20_000;
/// Depth of nesting from which optional members are omitted.
const OPTIONAL_DEPTH: u32 = 4;
/// Maximum depth of nested schemas, including references and combinations.
const MAX_DEPTH: u32 = 64;

/// Returns a value that matches the schema, or `None` if none was found. Properties named `title`
/// and longer texts consist of words of `user_text`.
pub(super) fn sample(schema: &Value, user_text: &str) -> Option<Value> {
    let mut sampler = Sampler {
        root: schema,
        user_text,
        left: MAX_VALUES,
    };
    sampler.value(schema, Position::default())
}

const TYPES: &[&str] = &[
    "null", "boolean", "object", "array", "number", "integer", "string",
];
/// Pairs of bounds that exclude each other if the first is larger.
const BOUNDS: &[(&str, &str)] = &[
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
];
/// Keywords whose values are data, not schemas.
const DATA: &[&str] = &["const", "enum", "default", "examples", "required"];

/// Returns a message about an unknown type or contradictory bounds, anywhere in the schema.
pub(super) fn fault(schema: &Value) -> Option<String> {
    match schema {
        Value::Object(members) => {
            let types = match members.get("type") {
                Some(Value::Array(types)) => types.as_slice(),
                Some(one @ Value::String(_)) => std::slice::from_ref(one),
                _ => &[],
            };
            let is_unknown = |name: &&str| !TYPES.contains(name);
            if let Some(name) = types.iter().filter_map(Value::as_str).find(is_unknown) {
                let shown: String = name.chars().take(40).collect();
                return Some(format!(
                    "The type '{shown}' in the schema is not a JSON Schema type."
                ));
            }
            let number = |name: &str| members.get(name).and_then(Value::as_f64);
            let excludes = |(low, high): &&(&str, &str)| {
                number(low)
                    .zip(number(high))
                    .is_some_and(|(low, high)| low > high)
            };
            if let Some((low, high)) = BOUNDS.iter().find(excludes) {
                return Some(format!(
                    "The schema has a '{low}' above its '{high}', so no value can match it."
                ));
            }
            let schemas = members.iter().filter(|(name, _)| !DATA.contains(&name.as_str()));
            schemas.map(|(_, inner)| inner).find_map(fault)
        }
        Value::Array(schemas) => schemas.iter().find_map(fault),
        _ => None,
    }
}

struct Sampler<'s> {
    root: &'s Value,
    user_text: &'s str,
    left: u32,
}

/// Position of a value in the result.
#[derive(Clone, Copy, Default)]
struct Position {
    /// Number of enclosing objects and arrays.
    depth: u32,
    /// Number of enclosing schemas.
    hops: u32,
    /// Variant of the value. Adjacent values that must differ have different variants.
    variant: usize,
}

impl Position {
    fn below(self) -> Position {
        Position {
            depth: self.depth + 1,
            variant: 0,
            ..self
        }
    }
}

impl Sampler<'_> {
    fn value(&mut self, schema: &Value, mut position: Position) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        position.hops += 1;
        if position.hops > MAX_DEPTH {
            return None;
        }
        let schema = match schema {
            Value::Bool(true) => return Some(text::any(position.variant)),
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
                .get(position.variant % fitting.len().max(1))
                .map(|option| (*option).clone());
        }
        if let Some(reference) = schema.get("$ref") {
            let target = self.resolve(reference)?.clone();
            return self.value(&merged(&without(schema, "$ref"), &target)?, position);
        }
        if let Some(Value::Array(all)) = schema.get("allOf") {
            let start = Value::Object(without(schema, "allOf"));
            let whole = all.iter().try_fold(start, |whole, part| {
                let part = self.flat(part, position.hops)?;
                merged(whole.as_object()?, &part)
            })?;
            return self.value(&whole, position);
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(Value::Array(options)) = schema.get(choice) {
                return self.one_of(&without(schema, choice), options, position);
            }
        }
        self.typed(schema, position)
    }

    /// Resolves the references at the top level of a schema, so that it can be merged.
    fn flat(&mut self, schema: &Value, hops: u32) -> Option<Value> {
        if hops > MAX_DEPTH {
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

    /// Returns a value of the first option that has one. From [`OPTIONAL_DEPTH`] on, options
    /// without nested schemas are tried first.
    fn one_of(
        &mut self,
        common: &Map<String, Value>,
        options: &[Value],
        position: Position,
    ) -> Option<Value> {
        let mut order: Vec<&Value> = options.iter().collect();
        if position.depth >= OPTIONAL_DEPTH {
            order.sort_by_key(|option| leads_deeper(option));
        }
        order.into_iter().find_map(|option| {
            let option = self.flat(option, position.hops)?;
            self.value(&merged(common, &option)?, position)
        })
    }

    fn typed(&mut self, schema: &Map<String, Value>, position: Position) -> Option<Value> {
        let wanted = match types(schema) {
            Some(types) => types
                .iter()
                .find(|name| **name != "null")
                .or(types.first())
                .copied()?,
            None => implied_type(schema),
        };
        match wanted {
            "object" => self.object(schema, position),
            "array" => self.array(schema, position),
            "string" => text::string(schema, position.variant, self.user_text),
            "integer" => number::integer(schema, position.variant),
            "number" => number::number(schema, position.variant),
            "boolean" => Some(Value::Bool(position.variant.is_multiple_of(2))),
            "null" => Some(Value::Null),
            _ => None,
        }
    }

    fn object(&mut self, schema: &Map<String, Value>, position: Position) -> Option<Value> {
        let nothing = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&nothing);
        let required: Vec<&str> = strings(schema.get("required")).collect();
        let min = number::count(schema, "minProperties", 0);
        let mut object = Map::new();
        for (name, property) in properties {
            let needed = required.contains(&name.as_str()) || object.len() < min;
            let wanted = !schema.contains_key("required") && position.depth < OPTIONAL_DEPTH;
            if !needed && !wanted {
                continue;
            }
            let mut inside = position.below();
            inside.variant = position.variant;
            // A property named `title` consists of words of the user message.
            let title = property.as_object().filter(|_| name == "title");
            let title = title.and_then(|property| text::title(property, self.user_text));
            match title.or_else(|| self.value(property, inside)) {
                Some(value) => {
                    object.insert(name.clone(), value);
                }
                None if needed => return None,
                None => {}
            }
        }
        let other = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
        let invented: Vec<String> = (1..=min).map(|number| format!("property{number}")).collect();
        let missing = required
            .iter()
            .copied()
            .chain(invented.iter().map(String::as_str));
        for (place_in_order, name) in missing.enumerate() {
            let needed = place_in_order < required.len() || object.len() < min;
            if needed && !object.contains_key(name) {
                let value = self.value(other, position.below())?;
                object.insert(name.to_owned(), value);
            }
        }
        Some(Value::Object(object))
    }

    fn array(&mut self, schema: &Map<String, Value>, position: Position) -> Option<Value> {
        let nothing = Vec::new();
        let prefix = schema
            .get("prefixItems")
            .and_then(Value::as_array)
            .unwrap_or(&nothing);
        let anything = Value::Bool(true);
        let items = schema.get("items").unwrap_or(&anything);
        let min = number::count(schema, "minItems", 0);
        let max = number::count(schema, "maxItems", usize::MAX);
        let usual = if position.depth < OPTIONAL_DEPTH {
            prefix.len().max(1)
        } else {
            0
        };
        let contained = schema.get("contains");
        let wanted = min.max(usual).max(usize::from(contained.is_some())).min(max);
        let mut array = Vec::new();
        for index in 0..wanted {
            let mut inside = position.below();
            inside.variant = index + position.variant;
            let item = match (prefix.get(index), contained) {
                (Some(item), _) => item,
                (None, Some(contained)) if index == prefix.len() => contained,
                _ => items,
            };
            match self.value(item, inside) {
                Some(value) => array.push(value),
                None if index >= min => break,
                None => return None,
            }
        }
        Some(Value::Array(array))
    }

    /// Resolves a reference within the schema (a JSON Pointer of RFC 6901 after the `#`).
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

/// Returns the declared types of a schema, if any.
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

/// Returns the type that the keywords of an untyped schema imply; `string` by default.
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
