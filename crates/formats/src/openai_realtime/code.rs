//! Error codes that exist only in realtime sessions.

/// Error code of an `error` event that no HTTP response has. Its `type` is
/// `invalid_request_error`. Clients compare these codes, so they are those of OpenAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RealtimeCode {
    /// A commit of less than 100 ms of audio.
    CommitEmpty,
    /// A response into the conversation while another one runs.
    ActiveResponse,
    /// A cancellation while no response runs.
    CancelNotActive,
    /// A new item with an unknown `previous_item_id`.
    CreateInvalidItemId,
    /// A new item with the id of another item.
    CreateDuplicateItemId,
    /// A retrieval of an unknown item.
    RetrieveInvalidItemId,
    /// A deletion of an unknown item.
    DeleteInvalidItemId,
    /// A truncation of an unknown item, or of an item without output audio.
    TruncateInvalidItemId,
    /// The session reached its maximum duration and ends.
    SessionExpired,
}

impl RealtimeCode {
    /// All codes, in the order of their definition.
    pub const ALL: &'static [RealtimeCode] = &[
        RealtimeCode::CommitEmpty,
        RealtimeCode::ActiveResponse,
        RealtimeCode::CancelNotActive,
        RealtimeCode::CreateInvalidItemId,
        RealtimeCode::CreateDuplicateItemId,
        RealtimeCode::RetrieveInvalidItemId,
        RealtimeCode::DeleteInvalidItemId,
        RealtimeCode::TruncateInvalidItemId,
        RealtimeCode::SessionExpired,
    ];

    /// `error.type` of all realtime codes.
    pub const TYPE: &'static str = "invalid_request_error";

    /// Returns the value of `error.code`.
    pub const fn as_str(self) -> &'static str {
        match self {
            RealtimeCode::CommitEmpty => "input_audio_buffer_commit_empty",
            RealtimeCode::ActiveResponse => "conversation_already_has_active_response",
            RealtimeCode::CancelNotActive => "response_cancel_not_active",
            RealtimeCode::CreateInvalidItemId => "item_create_invalid_item_id",
            RealtimeCode::CreateDuplicateItemId => "item_create_duplicate_item_id",
            RealtimeCode::RetrieveInvalidItemId => "item_retrieve_invalid_item_id",
            RealtimeCode::DeleteInvalidItemId => "item_delete_invalid_item_id",
            RealtimeCode::TruncateInvalidItemId => "item_truncate_invalid_item_id",
            RealtimeCode::SessionExpired => "session_expired",
        }
    }
}
