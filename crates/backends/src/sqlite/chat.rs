//! Implements [`ChatStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use tollgate_storage::{Chat, ChatSave, ChatSaveOutcome, ChatStore, ChatTurn, Result, StorageError};
use tollgate_types::{AccountId, ChatId, MemberId, Timestamp};

use super::query::{execute, rows};
use super::{Sqlite, account, writer};
use crate::chats::{
    BYTES_BEFORE, COUNT, ChatColumns, DELETE, DELETE_ALL, DELETE_ALL_TURNS, DELETE_TURNS_FROM, GET, RENAME,
    StoredChat, TURNS, TurnColumns, after_save, bind_chat, bind_list, number, of_chat, of_creator,
    outcome_without_write, requests_column,
};
use crate::rows::{id_bytes, quantity_from, storage_error};

const INSERT_TURN: &str = "INSERT INTO chat_turn (account_id, chat_id, ordinal, body, bytes, request_ids) \
    VALUES ($1, $2, $3, $4, $5, $6)";

#[async_trait]
impl ChatStore for Sqlite {
    async fn save(&self, save: ChatSave) -> Result<ChatSaveOutcome> {
        self.write(
            move |connection| Box::pin(self::save(connection, save)),
            |outcome| outcome,
        )
        .await
    }

    async fn list(&self, account: AccountId, after: Option<ChatId>, limit: u32) -> Result<Vec<Chat>> {
        self.read(move |connection| Box::pin(list(connection, account, after, limit)))
            .await
    }

    async fn count(&self, account: AccountId) -> Result<u32> {
        let count = self.read(move |connection| Box::pin(count(connection, account)));
        number(count.await?)
    }

    async fn get(&self, account: AccountId, id: ChatId) -> Result<Option<Chat>> {
        let stored = self.read(move |connection| Box::pin(stored(connection, account, id)));
        Ok(stored.await?.map(|stored| stored.chat))
    }

    async fn load(&self, account: AccountId, id: ChatId) -> Result<Option<(Chat, Vec<ChatTurn>)>> {
        let load = self.read(move |connection| {
            Box::pin(async move {
                writer::execute(connection, "BEGIN").await?;
                let loaded = load(connection, account, id).await;
                writer::execute(connection, "COMMIT").await?;
                loaded
            })
        });
        load.await
    }

    async fn rename(
        &self,
        account: AccountId,
        id: ChatId,
        title: Vec<u8>,
        at: Timestamp,
    ) -> Result<Option<Chat>> {
        let statement = of_chat!(RENAME, account, id).bind(title).bind(at.as_micros());
        let renamed = self.write(
            move |connection| Box::pin(rows(connection, statement)),
            |renamed| renamed,
        );
        renamed.await?.first().map(chat).transpose()
    }

    async fn delete(&self, account: AccountId, id: ChatId) -> Result<bool> {
        self.write(
            move |connection| Box::pin(delete(connection, account, id)),
            |deleted| deleted,
        )
        .await
    }

    async fn delete_all(&self, account: AccountId, created_by: Option<MemberId>) -> Result<u64> {
        self.write(
            move |connection| Box::pin(delete_all(connection, account, created_by)),
            |deleted| deleted,
        )
        .await
    }
}

/// Saves a chat. Only one connection writes, so concurrent saves cannot exceed the cap.
async fn save(connection: &mut SqliteConnection, save: ChatSave) -> Result<ChatSaveOutcome> {
    let (account, id) = (save.account, save.id);
    let owner = account::get(connection, account).await?;
    let owner = owner.ok_or_else(|| StorageError::not_found(account))?;
    owner.refuse_closed()?;
    let stored = stored(connection, account, id).await?;
    let count = count(connection, account).await?;
    if let Some(outcome) = outcome_without_write(&save, &owner, stored.as_ref(), count)? {
        return Ok(outcome);
    }
    let from = i64::from(save.from);
    let before = of_chat!(BYTES_BEFORE, account, id).bind(from);
    let before = before.fetch_one(&mut *connection).await.map_err(storage_error)?;
    let bytes = quantity_from(before.try_get("bytes").map_err(storage_error)?)?;
    let Some(saved) = after_save(&save, stored, bytes) else {
        return Ok(ChatSaveOutcome::TooLarge);
    };
    execute(connection, bind_chat!(&saved)).await?;
    execute(connection, of_chat!(DELETE_TURNS_FROM, account, id).bind(from)).await?;
    for (ordinal, turn) in (from..).zip(save.turns) {
        let insert = of_chat!(INSERT_TURN, account, id)
            .bind(ordinal)
            .bind(turn.body)
            .bind(i64::from(turn.bytes))
            .bind(requests_column(&turn.requests));
        execute(connection, insert).await?;
    }
    Ok(ChatSaveOutcome::Saved(saved.chat))
}

async fn list(
    connection: &mut SqliteConnection,
    account: AccountId,
    after: Option<ChatId>,
    limit: u32,
) -> Result<Vec<Chat>> {
    let mut last = None;
    if let Some(id) = after {
        let stored = stored(connection, account, id).await?;
        last = Some(stored.ok_or_else(|| StorageError::not_found(id))?.chat);
    }
    let found = rows(connection, bind_list!(account, last, limit)).await?;
    found.iter().map(chat).collect()
}

async fn count(connection: &mut SqliteConnection, account: AccountId) -> Result<i64> {
    sqlx::query_scalar(COUNT)
        .bind(id_bytes(account.as_u128()))
        .fetch_one(connection)
        .await
        .map_err(storage_error)
}

async fn stored(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: ChatId,
) -> Result<Option<StoredChat>> {
    let row = of_chat!(GET, account, id)
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    row.as_ref().map(whole).transpose()
}

async fn load(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: ChatId,
) -> Result<Option<(Chat, Vec<ChatTurn>)>> {
    let Some(stored) = stored(connection, account, id).await? else {
        return Ok(None);
    };
    let found = rows(connection, of_chat!(TURNS, account, id)).await?;
    let turns = found
        .iter()
        .map(|row| TurnColumns::from_row(row).map_err(storage_error)?.try_into());
    Ok(Some((stored.chat, turns.collect::<Result<_>>()?)))
}

async fn delete(connection: &mut SqliteConnection, account: AccountId, id: ChatId) -> Result<bool> {
    execute(connection, of_chat!(DELETE_TURNS_FROM, account, id).bind(0_i64)).await?;
    Ok(execute(connection, of_chat!(DELETE, account, id)).await? > 0)
}

async fn delete_all(
    connection: &mut SqliteConnection,
    account: AccountId,
    created_by: Option<MemberId>,
) -> Result<u64> {
    execute(connection, of_creator!(DELETE_ALL_TURNS, account, created_by)).await?;
    execute(connection, of_creator!(DELETE_ALL, account, created_by)).await
}

fn chat(row: &SqliteRow) -> Result<Chat> {
    whole(row).map(|stored| stored.chat)
}

fn whole(row: &SqliteRow) -> Result<StoredChat> {
    ChatColumns::from_row(row).map_err(storage_error)?.try_into()
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT_TURN];
