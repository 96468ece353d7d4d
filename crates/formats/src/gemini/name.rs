//! Names of fields: `maxOutputTokens` and `max_output_tokens` are the same field.

use std::borrow::Cow;

/// Returns the documented name of a field, in camel case. A name in neither spelling stays
/// unchanged.
pub(super) fn canonical(name: &str) -> Cow<'_, str> {
    let is_snake = !name.starts_with('_')
        && !name.ends_with('_')
        && !name.contains("__")
        && !name.bytes().any(|byte| byte.is_ascii_uppercase());
    if memchr::memchr(b'_', name.as_bytes()).is_none() || !is_snake {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut raise = false;
    for character in name.chars() {
        match character {
            '_' => raise = true,
            _ if std::mem::take(&mut raise) => out.push(character.to_ascii_uppercase()),
            _ => out.push(character),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one_name() {
        for (written, name) in [
            ("topP", "topP"),
            ("top_p", "topP"),
            ("max_output_tokens", "maxOutputTokens"),
            ("response_json_schema", "responseJsonSchema"),
            ("", ""),
            ("_top_p", "_top_p"),
            ("top__p", "top__p"),
            ("max_outputTokens", "max_outputTokens"),
        ] {
            assert_eq!(canonical(written), name, "{written}");
        }
    }
}
