//! Identity of a response: the members that the gateway sets itself.

use tollgate_types::ResponseId;

/// Identity and storage settings of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The 128 bits of the request id (UUIDv7). The ids of the response and of its items are
    /// derived from this number.
    pub number: u128,
    /// Time of the request, in seconds since the Unix epoch.
    pub created_at: i64,
    /// Model name, as sent in the request.
    pub model: String,
    /// Whether the response is stored.
    pub store: bool,
    /// Whether the response runs in the background and the caller fetches it later.
    pub background: bool,
    /// Id of the response that this one continues.
    pub previous_response_id: Option<String>,
}

impl Identity {
    /// Returns the id of the response on the wire.
    pub fn id(&self) -> String {
        ResponseId::from_u128(self.number).to_string()
    }

    /// Returns the id of the output item at this index. `prefix` is that of the item's type.
    pub fn item_id(&self, prefix: &str, index: usize) -> String {
        item_id(self.number, prefix, index)
    }
}

/// Returns the id of an item of a response. The index is added to the random part of the number, so
/// that ids are unique.
pub(super) fn item_id(response: u128, prefix: &str, index: usize) -> String {
    const RANDOM: u128 = (1 << 62) - 1;
    let counted = (response & RANDOM).wrapping_add(index as u128 + 1) & RANDOM;
    format!("{prefix}_{:032x}", (response & !RANDOM) | counted)
}
