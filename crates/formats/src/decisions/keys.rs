//! Keys of the possible answers in maps.

use serde_json::Value;
use tollgate_types::decide::ChoiceOption;

/// A unique key for each option: its name, in quotes if an option of another type has the same
/// name.
pub(super) fn for_options(options: &[ChoiceOption]) -> Vec<String> {
    let values: Vec<&Value> = options.iter().map(|option| &option.value).collect();
    for_values(&values)
}

/// Like [`for_options`], for the values of an argument.
pub(super) fn for_values(values: &[&Value]) -> Vec<String> {
    let mut keys: Vec<String> = values.iter().map(|value| plain(value)).collect();
    // Texts yield: the boolean gets `true`, the text `"true"`.
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
