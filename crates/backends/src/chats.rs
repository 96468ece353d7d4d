//! SQL of saved chats, and the rules of a save, that SQLite and PostgreSQL share.

use tollgate_storage::{
    Account, Chat, ChatSave, ChatSaveOutcome, ChatTurn, Result, StorageError, StorageErrorKind,
};
use tollgate_types::{AccountId, ChatId, MemberId, RequestId, Timestamp};

use crate::columns::columns;
use crate::rows::{corrupt, digest_from, id_from, quantity_from};

pub(crate) const COUNT: &str = "SELECT count(*) AS count FROM chat WHERE account_id = $1";
pub(crate) const GET: &str = "SELECT * FROM chat WHERE account_id = $1 AND id = $2";
pub(crate) const LIST: &str = "SELECT * FROM chat WHERE account_id = $1 AND (updated_at, id) < ($2, $3) \
    ORDER BY updated_at DESC, id DESC LIMIT $4";
pub(crate) const TURNS: &str = "SELECT body, bytes, request_ids FROM chat_turn WHERE account_id = $1 AND chat_id = $2 \
    ORDER BY ordinal";
/// Sums the sizes of the turns before a position.
pub(crate) const BYTES_BEFORE: &str = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) AS bytes FROM chat_turn \
    WHERE account_id = $1 AND chat_id = $2 AND ordinal < $3";
pub(crate) const SAVE: &str = "INSERT INTO chat (account_id, id, created_by, kind, title, models, settings, revision, \
    turns, bytes, saved, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) \
    ON CONFLICT (account_id, id) DO UPDATE SET title = excluded.title, models = excluded.models, \
    settings = excluded.settings, revision = excluded.revision, turns = excluded.turns, bytes = excluded.bytes, \
    saved = excluded.saved, updated_at = excluded.updated_at";
pub(crate) const DELETE_TURNS_FROM: &str =
    "DELETE FROM chat_turn WHERE account_id = $1 AND chat_id = $2 AND ordinal >= $3";
pub(crate) const RENAME: &str =
    "UPDATE chat SET title = $3, updated_at = $4 WHERE account_id = $1 AND id = $2 RETURNING *";
pub(crate) const DELETE: &str = "DELETE FROM chat WHERE account_id = $1 AND id = $2";
/// Deletes the turns of all chats of an account, or of the chats created by a member.
pub(crate) const DELETE_ALL_TURNS: &str = "DELETE FROM chat_turn WHERE account_id = $1 AND chat_id IN \
    (SELECT id FROM chat WHERE account_id = $1 AND ($2 IS NULL OR created_by = $2))";
pub(crate) const DELETE_ALL: &str =
    "DELETE FROM chat WHERE account_id = $1 AND ($2 IS NULL OR created_by = $2)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    COUNT,
    GET,
    LIST,
    TURNS,
    BYTES_BEFORE,
    SAVE,
    DELETE_TURNS_FROM,
    RENAME,
    DELETE,
    DELETE_ALL_TURNS,
    DELETE_ALL,
];

/// Binds an account and a chat id to a statement, for any engine.
macro_rules! of_chat {
    ($statement:expr, $account:expr, $id:expr) => {
        sqlx::query($statement)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($crate::rows::id_bytes($id.as_u128()))
    };
}

/// Binds an account and an optional creator to a statement, for any engine.
macro_rules! of_creator {
    ($statement:expr, $account:expr, $created_by:expr) => {
        sqlx::query($statement)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind($created_by.map(|id: tollgate_types::MemberId| $crate::rows::id_bytes(id.as_u128())))
    };
}

/// Binds a stored chat to [`SAVE`], for any engine.
macro_rules! bind_chat {
    ($stored:expr) => {{
        let stored: &$crate::chats::StoredChat = $stored;
        let chat = &stored.chat;
        $crate::chats::of_chat!($crate::chats::SAVE, chat.account, chat.id)
            .bind(chat.created_by.map(|id| $crate::rows::id_bytes(id.as_u128())))
            .bind(chat.kind.clone())
            .bind(chat.title.clone())
            .bind($crate::chats::models_column(&chat.models))
            .bind(chat.settings.clone())
            .bind(i64::from(chat.revision))
            .bind(i64::from(chat.turns))
            .bind($crate::rows::quantity_column(chat.bytes))
            .bind(stored.digest.to_vec())
            .bind(chat.created_at.as_micros())
            .bind(chat.updated_at.as_micros())
    }};
}

/// Binds an account, the last chat of the previous page and a limit to [`LIST`], for any engine.
macro_rules! bind_list {
    ($account:expr, $after:expr, $limit:expr) => {{
        let after: Option<tollgate_storage::Chat> = $after;
        let updated_at = after
            .as_ref()
            .map_or(i64::MAX, |chat| chat.updated_at.as_micros());
        let id = after.map(|chat| chat.id.as_u128());
        sqlx::query($crate::chats::LIST)
            .bind($crate::rows::id_bytes($account.as_u128()))
            .bind(updated_at)
            .bind($crate::rows::page_edge(id, u8::MAX))
            .bind(i64::from($limit))
    }};
}

pub(crate) use {bind_chat, bind_list, of_chat, of_creator};

/// A chat with the digest of its last save.
pub(crate) struct StoredChat {
    pub(crate) chat: Chat,
    pub(crate) digest: [u8; 32],
}

/// Returns the outcome of a save that writes nothing, except one that is too large: a refusal or a
/// repetition. `count` is the number of the account's chats.
pub(crate) fn outcome_without_write(
    save: &ChatSave,
    owner: &Account,
    stored: Option<&StoredChat>,
    count: i64,
) -> Result<Option<ChatSaveOutcome>> {
    let cap = i64::from(owner.limits.chats.unwrap_or(save.cap));
    let (revision, turns, is_full) = match stored {
        Some(stored) if save.repeats(stored.chat.revision, &stored.digest) => {
            return Ok(Some(ChatSaveOutcome::Saved(stored.chat.clone())));
        }
        Some(stored) => (stored.chat.revision, stored.chat.turns, count > cap),
        None => (0, 0, count >= cap),
    };
    if save.base_revision != revision {
        return Ok(Some(ChatSaveOutcome::Conflict));
    }
    if is_full {
        return Ok(Some(ChatSaveOutcome::Full));
    }
    if save.from > turns {
        return Ok(Some(ChatSaveOutcome::Gap));
    }
    if stored.is_none() && save.title.is_none() {
        let message = "a new chat must have a title";
        return Err(StorageError::new(StorageErrorKind::Conflict, message));
    }
    Ok(None)
}

/// Returns the row after a save; `None` if the chat would be too large. `bytes_before` is the size
/// of the turns that remain.
pub(crate) fn after_save(
    save: &ChatSave,
    stored: Option<StoredChat>,
    bytes_before: u64,
) -> Option<StoredChat> {
    let turns = u64::from(save.from) + save.turns.len() as u64;
    let turns = u32::try_from(turns)
        .ok()
        .filter(|turns| *turns <= save.max_turns)?;
    let bytes = save.turns.iter().map(|turn| u64::from(turn.bytes)).sum::<u64>() + bytes_before;
    if bytes > save.max_bytes {
        return None;
    }
    let stored = stored.map(|stored| stored.chat);
    let (created_by, kind, title, created_at) = match stored {
        Some(chat) => (chat.created_by, chat.kind, chat.title, chat.created_at),
        None => (save.created_by, save.kind.clone(), Vec::new(), save.at),
    };
    let chat = Chat {
        id: save.id,
        account: save.account,
        created_by,
        kind,
        title: save.title.clone().unwrap_or(title),
        models: save.models.clone(),
        settings: save.settings.clone(),
        revision: save.base_revision.saturating_add(1),
        turns,
        bytes,
        created_at,
        updated_at: save.at,
    };
    Some(StoredChat {
        chat,
        digest: save.digest,
    })
}

/// Converts model names to their column: a JSON array.
pub(crate) fn models_column(models: &[String]) -> String {
    serde_json::Value::from(models).to_string()
}

/// Converts request ids to their column: 16 bytes each.
pub(crate) fn requests_column(requests: &[RequestId]) -> Vec<u8> {
    requests
        .iter()
        .flat_map(|id| id.as_u128().to_be_bytes())
        .collect()
}

columns! {
    /// A row of `chat`.
    pub(crate) struct ChatColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        created_by: Option<Vec<u8>>,
        kind: String,
        title: Vec<u8>,
        models: String,
        settings: Vec<u8>,
        revision: i64,
        turns: i64,
        bytes: i64,
        saved: Vec<u8>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ChatColumns> for StoredChat {
    type Error = StorageError;

    fn try_from(columns: ChatColumns) -> Result<StoredChat> {
        let models = serde_json::from_str(&columns.models);
        let created_by = columns.created_by.as_deref().map(id_from).transpose()?;
        let chat = Chat {
            id: ChatId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            created_by: created_by.map(MemberId::from_u128),
            kind: columns.kind,
            title: columns.title,
            models: models.map_err(|_| corrupt("invalid models of a chat"))?,
            settings: columns.settings,
            revision: number(columns.revision)?,
            turns: number(columns.turns)?,
            bytes: quantity_from(columns.bytes)?,
            created_at: Timestamp::from_micros(columns.created_at),
            updated_at: Timestamp::from_micros(columns.updated_at),
        };
        Ok(StoredChat {
            chat,
            digest: digest_from(columns.saved)?,
        })
    }
}

columns! {
    /// A row of [`TURNS`].
    pub(crate) struct TurnColumns {
        body: Vec<u8>,
        bytes: i64,
        request_ids: Vec<u8>,
    }
}

impl TryFrom<TurnColumns> for ChatTurn {
    type Error = StorageError;

    fn try_from(columns: TurnColumns) -> Result<ChatTurn> {
        let ids = columns.request_ids.chunks(16).map(id_from);
        Ok(ChatTurn {
            body: columns.body,
            bytes: number(columns.bytes)?,
            requests: ids
                .map(|id| id.map(RequestId::from_u128))
                .collect::<Result<_>>()?,
        })
    }
}

/// Reads a number of a chat from a column.
pub(crate) fn number(column: i64) -> Result<u32> {
    u32::try_from(column).map_err(|_| corrupt(format!("invalid number of a chat: {column}")))
}
