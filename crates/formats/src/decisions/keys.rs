//! Names of what can be answered, where answers are in a map.

use serde_json::Value;
use tollgate_types::decide::ChoiceOption;

/// The key of each option, no two alike: its name; in quotes if another option that is no text has that name.
pub(super) fn of_options(options: &[ChoiceOption]) -> Vec<String> {
    let values: Vec<&Value> = options.iter().map(|option| &option.value).collect();
    of_values(&values)
}

/// As [`of_options`], for the values of an argument.
pub(super) fn of_values(values: &[&Value]) -> Vec<String> {
    let mut keys: Vec<String> = values.iter().map(|value| plain(value)).collect();
    // Texts make way: a yes is `true`, the text beside it `"true"`.
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
