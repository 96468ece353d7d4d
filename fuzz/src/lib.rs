//! What the targets share: reading JSON with another library, to compare.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The text as a tree, when it means the same to everyone: `None` for text that is not JSON to `serde_json`, and for
/// objects that have a key twice, which readers understand differently.
pub fn tree(text: &[u8]) -> Option<Value> {
    serde_json::from_slice::<UniqueKeys>(text).ok()?;
    serde_json::from_slice(text).ok()
}

/// Succeeds for values without a key that stands twice in one object.
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
                return Err(A::Error::custom("a key twice"));
            }
            fields.next_value::<UniqueKeys>()?;
        }
        Ok(self)
    }
}

/// The usage object as the caller gets it: the cost to the caller in place of every cost that the upstream named.
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
