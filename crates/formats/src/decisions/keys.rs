//! Keys of the possible answers in JSON objects.

use serde_json::Value;
use tollgate_types::decide::ChoiceOption;

/// Returns a unique key for each option: its value as text. A string is quoted if another option
/// has the same key.
pub(super) fn for_options(options: &[ChoiceOption]) -> Vec<String> {
    let values: Vec<&Value> = options.iter().map(|option| &option.value).collect();
    for_values(&values)
}

/// Returns the keys of an argument's values, by the rules of [`for_options`].
pub(super) fn for_values(values: &[&Value]) -> Vec<String> {
    let mut keys: Vec<String> = values.iter().map(|value| plain(value)).collect();
    // On a collision, the string is quoted: the boolean has the key `true`, the string the key
    // `"true"`.
    for (place, value) in values.iter().enumerate() {
        while value.is_string() && is_taken(&keys, place) {
            keys[place] = Value::String(std::mem::take(&mut keys[place])).to_string();
        }
    }
    keys
}

fn is_taken(keys: &[String], place: usize) -> bool {
    let mut others = keys.iter().enumerate().filter(|(other, _)| *other != place);
    others.any(|(_, key)| *key == keys[place])
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
