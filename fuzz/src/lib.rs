//! Code shared by the targets: parses JSON with another library, to compare.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Parses JSON to a tree if its meaning is unambiguous: `None` for text that `serde_json` refuses,
/// and for objects with a duplicate key, which parsers treat differently.
pub fn tree(text: &[u8]) -> Option<Value> {
    serde_json::from_slice::<UniqueKeys>(text).ok()?;
    serde_json::from_slice(text).ok()
}

/// Deserializes only values without duplicate keys in an object.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without duplicate keys")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<UniqueKeys>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self, A::Error> {
        let mut seen = std::collections::HashSet::new();
        while let Some(key) = fields.next_key::<String>()? {
            if !seen.insert(key) {
                fields.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom("a duplicate key"));
            }
            fields.next_value::<UniqueKeys>()?;
        }
        Ok(self)
    }
}

/// Replaces every cost that the upstream named in the usage object with the caller's cost.
pub fn with_cost(usage: &mut Value, cost: Option<tollgate_types::Credits>) {
    let Some(fields) = usage.as_object_mut() else {
        return;
    };
    for name in ["cost", "cost_details", "cost_in_usd_ticks", "is_byok"] {
        fields.shift_remove(name);
    }
    if let Some(cost) = cost {
        fields.insert("cost".to_owned(), Value::from(cost.to_string()));
    }
}
