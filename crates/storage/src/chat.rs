//! Saved chats of the playground. The API crate encrypts titles, settings and turns, so that
//! storage cannot read them.

use async_trait::async_trait;
use tollgate_types::{AccountId, ChatId, MemberId, RequestId, Timestamp};

use crate::Result;

/// A saved chat without its turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    /// Id that the client generated; unique within the account.
    pub id: ChatId,
    /// Account that owns the chat.
    pub account: AccountId,
    /// Member who created the chat; the member may have been removed since.
    pub created_by: Option<MemberId>,
    /// Kind of the playground, such as `chat`.
    pub kind: String,
    /// Title, encrypted by the API crate.
    pub title: Vec<u8>,
    /// Models that the chat uses, as named by the client.
    pub models: Vec<String>,
    /// Settings of the chat, encrypted.
    pub settings: Vec<u8>,
    /// Number of saves, from 1. A new title does not count.
    pub revision: u32,
    /// Number of turns.
    pub turns: u32,
    /// Sum of [`ChatTurn::bytes`] over all turns.
    pub bytes: u64,
    /// Time of the first save.
    pub created_at: Timestamp,
    /// Time of the last save or new title.
    pub updated_at: Timestamp,
}

/// A turn of a chat: one message of the user with its answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatTurn {
    /// Message and answers, encrypted.
    pub body: Vec<u8>,
    /// Size of the body before its encryption.
    pub bytes: u32,
    /// Requests that made the answers.
    pub requests: Vec<RequestId>,
}

/// A save of a chat: replaces the turns from a position on.
#[derive(Clone, Debug)]
pub struct ChatSave {
    /// Account that owns the chat.
    pub account: AccountId,
    /// Id of the chat.
    pub id: ChatId,
    /// Creator of a new chat; ignored for an existing one.
    pub created_by: Option<MemberId>,
    /// Kind of a new chat; ignored for an existing one.
    pub kind: String,
    /// New title, encrypted. `None` leaves the title unchanged; a new chat must have one.
    pub title: Option<Vec<u8>>,
    /// Models that the chat uses; replace the stored ones.
    pub models: Vec<String>,
    /// Settings, encrypted; replace the stored ones.
    pub settings: Vec<u8>,
    /// Revision that the client has changed; 0 for a new chat.
    pub base_revision: u32,
    /// Position of the first replaced turn, from 0.
    pub from: u32,
    /// Turns in place of the turns from `from` on.
    pub turns: Vec<ChatTurn>,
    /// Digest of the client's request. A repeated save has the same digest.
    pub digest: [u8; 32],
    /// Maximum number of chats of the account, including this one. A limit of the account takes
    /// precedence.
    pub cap: u32,
    /// Maximum number of turns after the save.
    pub max_turns: u32,
    /// Maximum value of [`Chat::bytes`] after the save.
    pub max_bytes: u64,
    /// Time of the save.
    pub at: Timestamp,
}

/// Outcome of [`ChatStore::save`]. Only `Saved` can have written anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatSaveOutcome {
    /// The chat was saved, or this save repeats the last one. Contains the stored chat.
    Saved(Chat),
    /// The stored chat has another revision than the client.
    Conflict,
    /// A new chat would exceed the cap, or the account already exceeds the cap.
    Full,
    /// The chat would have too many turns or bytes.
    TooLarge,
    /// The position of the first replaced turn is beyond the stored turns.
    Gap,
}

impl ChatSave {
    /// Returns whether this save repeats the one that wrote the stored revision and digest.
    pub fn repeats(&self, revision: u32, digest: &[u8; 32]) -> bool {
        self.base_revision.checked_add(1) == Some(revision) && self.digest == *digest
    }
}

/// Stores chats with their turns. Chats of other accounts are never found.
#[async_trait]
pub trait ChatStore: Send + Sync {
    /// Saves a chat in one atomic step: counts the chats of the account, compares the revision, and
    /// replaces the turns. `NotFound` if the account does not exist. `Conflict` if it is closed, or
    /// a new chat has no title.
    ///
    /// A save with the revision before the stored one and the same digest repeats the last save; it
    /// writes nothing.
    async fn save(&self, save: ChatSave) -> Result<ChatSaveOutcome>;

    /// Lists up to `limit` chats of an account, the last updated first, that follow the chat
    /// `after`. `NotFound` if the account has no chat `after`.
    async fn list(&self, account: AccountId, after: Option<ChatId>, limit: u32) -> Result<Vec<Chat>>;

    /// Returns the number of chats of an account.
    async fn count(&self, account: AccountId) -> Result<u32>;

    /// Returns a chat without its turns; `None` if it does not exist.
    async fn get(&self, account: AccountId, id: ChatId) -> Result<Option<Chat>>;

    /// Returns a chat and its turns of the same revision; `None` if it does not exist.
    async fn load(&self, account: AccountId, id: ChatId) -> Result<Option<(Chat, Vec<ChatTurn>)>>;

    /// Replaces the encrypted title and returns the chat; `None` if it does not exist. The revision
    /// stays, so that saves of other clients do not conflict.
    async fn rename(
        &self,
        account: AccountId,
        id: ChatId,
        title: Vec<u8>,
        at: Timestamp,
    ) -> Result<Option<Chat>>;

    /// Deletes a chat with its turns; returns whether it existed.
    async fn delete(&self, account: AccountId, id: ChatId) -> Result<bool>;

    /// Deletes the chats of an account, or only those created by a member, and returns their
    /// number.
    async fn delete_all(&self, account: AccountId, created_by: Option<MemberId>) -> Result<u64>;
}
