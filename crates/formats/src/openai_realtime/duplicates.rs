//! Refusal of objects with duplicate members.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::{BoxedError, DecodeError};
use crate::json::{Node, Path};

/// Refuses a text in which any object has two members of one name, as `invalid_json`. Parsers
/// differ in which of the two they use, so the gateway and an upstream could read two events.
pub(super) fn check(node: &Node<'_>) -> Result<(), BoxedError> {
    check_at(node, &Path::TOP)
}

/// Checks a value and the values in it. The reader limits the depth.
fn check_at(node: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    match node {
        Node::List(items) => {
            for (item, place) in items.iter().zip(0..) {
                check_at(item, &path.index(place))?;
            }
        }
        Node::Object(members) => {
            if let Some(key) = duplicate(members) {
                let path = path.key(key);
                return Err(Box::new(DecodeError::invalid_json(format!(
                    "The event has the member '{path}' more than once. Send it once."
                ))));
            }
            for (key, value) in members {
                check_at(value, &path.key(key))?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn duplicate<'m>(members: &'m [(Cow<'_, str>, Node<'_>)]) -> Option<&'m str> {
    /// Number of members up to which a comparison of all pairs is faster than a set.
    const FEW: usize = 16;
    let keys = members.iter().map(|(key, _)| &**key);
    if members.len() > FEW {
        let mut seen = HashSet::with_capacity(members.len());
        return keys.into_iter().find(|key| !seen.insert(*key));
    }
    let is_second = |place: usize, key: &str| members.iter().take(place).any(|(earlier, _)| *earlier == key);
    keys.enumerate()
        .find(|(place, key)| is_second(*place, key))
        .map(|(_, key)| key)
}
