//! Reading of values that several parts of an event have.

use std::sync::Arc;

use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Maximum length of an id, in bytes.
const MAX_ID_BYTES: usize = 64;

/// Reads a number within bounds.
pub(super) fn number_at(node: &Node<'_>, min: f64, max: f64, path: &Path<'_>) -> Result<f64, BoxedError> {
    let is_inside = |value: &f64| (min..=max).contains(value);
    let refused = || path.invalid(format_args!("must be a number from {min} to {max}"));
    // Negative zero is written as `-0`, which some readers refuse.
    node.as_f64()
        .filter(is_inside)
        .map(|value| value + 0.0)
        .ok_or_else(refused)
}

/// Reads a text.
pub(super) fn text_at(node: &Node<'_>, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    node.text_at(path).map(Arc::from)
}

/// Reads a text of at most `max` characters.
pub(super) fn short_text_at(node: &Node<'_>, max: usize, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    let text = node.text_at(path)?;
    if text.len() > max && text.chars().count() > max {
        return Err(path.invalid(format_args!("must have at most {max} characters")));
    }
    Ok(Arc::from(text))
}

/// Reads a text of 1 to `max` characters.
pub(super) fn name_at(node: &Node<'_>, max: usize, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    node.non_empty_at(path)?;
    short_text_at(node, max, path)
}

/// Reads an id: 1 to 64 letters, digits, `_` and `-`.
pub(super) fn id_at(node: &Node<'_>, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    let text = node.text_at(path)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if text.is_empty() || text.len() > MAX_ID_BYTES || !text.bytes().all(is_plain) {
        return Err(path.invalid(format_args!(
            "must have 1 to {MAX_ID_BYTES} letters, digits, '_' and '-'"
        )));
    }
    Ok(Arc::from(text))
}

/// Reads the id that another event or object had, of any form.
pub(super) fn reference_at(node: &Node<'_>, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    const MAX_REFERENCE_CHARS: usize = 512;
    name_at(node, MAX_REFERENCE_CHARS, path)
}

/// Reads a list of texts: at most `max_texts`, with 1 to `max_chars` characters.
pub(super) fn texts_at(
    node: &Node<'_>,
    max_texts: usize,
    max_chars: usize,
    path: &Path<'_>,
) -> Result<Vec<Arc<str>>, BoxedError> {
    let items = node.list_at(path)?;
    if items.len() > max_texts {
        return Err(path.invalid(format_args!("must have at most {max_texts} elements")));
    }
    let texts = items.iter().zip(0..);
    texts
        .map(|(item, place)| name_at(item, max_chars, &path.index(place)))
        .collect()
}
