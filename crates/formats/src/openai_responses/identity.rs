//! What the gateway itself says about a response, whoever made it.

use tollgate_types::ResponseId;

/// The name of a response, and what is said about keeping it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The 128 bits of the request's id (UUIDv7), from which the ids of the response and its items are made.
    pub number: u128,
    /// When the request came, in seconds since the epoch.
    pub created_at: i64,
    /// The model as the caller named it.
    pub model: String,
    /// Whether the response is kept.
    pub store: bool,
    /// Whether its caller asks for it later instead of waiting.
    pub background: bool,
    /// The response that this one goes on from.
    pub previous_response_id: Option<String>,
}

impl Identity {
    /// The id of the response.
    pub fn id(&self) -> String {
        ResponseId::from_u128(self.number).to_string()
    }

    /// The id of its item at this place.
    pub(super) fn item_id(&self, prefix: &str, index: usize) -> String {
        item_id(self.number, prefix, index)
    }
}

/// The id of an item of the response with this number. The random part of the number counts up, so that an id is no
/// other item's.
pub(super) fn item_id(response: u128, prefix: &str, index: usize) -> String {
    const RANDOM: u128 = (1 << 62) - 1;
    let counted = (response & RANDOM).wrapping_add(index as u128 + 1) & RANDOM;
    format!("{prefix}_{:032x}", (response & !RANDOM) | counted)
}
