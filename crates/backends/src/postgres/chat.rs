//! Implements [`ChatStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection};
use tollgate_storage::{Chat, ChatSave, ChatSaveOutcome, ChatStore, ChatTurn, Result, StorageError};
use tollgate_types::{AccountId, ChatId, MemberId, Timestamp};

use super::account::locked;
use super::error::while_running;
use super::lot::transact;
use super::pool::{Pool, Statement};
use super::rows;
use super::subscription::execute;
use crate::chats::{
    BYTES_BEFORE, COUNT, ChatColumns, DELETE, DELETE_ALL, DELETE_ALL_TURNS, DELETE_TURNS_FROM, GET, RENAME,
    StoredChat, TURNS, TurnColumns, after_save, bind_chat, bind_list, number, of_chat, of_creator,
    outcome_without_write, requests_column,
};
use crate::rows::{id_bytes, quantity_from};

pub(super) struct Chats(pub(super) Arc<Pool>);

/// Inserts turns from arrays of their columns; `$3` is the position of the first one.
const INSERT_TURNS: &str = "INSERT INTO chat_turn (account_id, chat_id, ordinal, body, bytes, request_ids)
    SELECT $1, $2, $3 + turn.place - 1, turn.body, turn.bytes, turn.request_ids
    FROM unnest($4::bytea[], $5::bigint[], $6::bytea[]) WITH ORDINALITY AS turn (body, bytes, request_ids, place)";

#[async_trait]
impl ChatStore for Chats {
    async fn save(&self, save: ChatSave) -> Result<ChatSaveOutcome> {
        transact(&self.0, move |connection| Box::pin(self::save(connection, save))).await
    }

    async fn list(&self, account: AccountId, after: Option<ChatId>, limit: u32) -> Result<Vec<Chat>> {
        let mut last = None;
        if let Some(id) = after {
            let chat = self.get(account, id).await?;
            last = Some(chat.ok_or_else(|| StorageError::not_found(id))?);
        }
        let found = self.0.all(bind_list!(account, last, limit)).await?;
        found.iter().map(chat).collect()
    }

    async fn count(&self, account: AccountId) -> Result<u32> {
        let statement = sqlx::query(COUNT).bind(id_bytes(account.as_u128()));
        number(rows::get(&self.0.one(statement).await?, "count")?)
    }

    async fn get(&self, account: AccountId, id: ChatId) -> Result<Option<Chat>> {
        let row = self.0.optional(of_chat!(GET, account, id)).await?;
        row.as_ref().map(chat).transpose()
    }

    async fn load(&self, account: AccountId, id: ChatId) -> Result<Option<(Chat, Vec<ChatTurn>)>> {
        self.0
            .call(move |connection| Box::pin(in_snapshot(connection, account, id)))
            .await?
    }

    async fn rename(
        &self,
        account: AccountId,
        id: ChatId,
        title: Vec<u8>,
        at: Timestamp,
    ) -> Result<Option<Chat>> {
        let statement = of_chat!(RENAME, account, id).bind(title).bind(at.as_micros());
        let row = transact(&self.0, move |connection| {
            Box::pin(async move {
                lock(connection, account).await?;
                statement.fetch_optional(connection).await.map_err(while_running)
            })
        });
        row.await?.as_ref().map(chat).transpose()
    }

    async fn delete(&self, account: AccountId, id: ChatId) -> Result<bool> {
        let turns = of_chat!(DELETE_TURNS_FROM, account, id).bind(0_i64);
        let deleted = delete(&self.0, account, turns, of_chat!(DELETE, account, id));
        Ok(deleted.await? > 0)
    }

    async fn delete_all(&self, account: AccountId, created_by: Option<MemberId>) -> Result<u64> {
        let turns = of_creator!(DELETE_ALL_TURNS, account, created_by);
        let chats = of_creator!(DELETE_ALL, account, created_by);
        delete(&self.0, account, turns, chats).await
    }
}

/// Saves a chat. The account's lock, which covers the count and the writes, prevents concurrent
/// saves from exceeding the cap.
async fn save(connection: &mut PgConnection, save: ChatSave) -> Result<ChatSaveOutcome> {
    let (account, id) = (save.account, save.id);
    let owner = locked(connection, account).await?;
    owner.refuse_closed()?;
    let stored = stored(connection, account, id).await?;
    let count = sqlx::query(COUNT).bind(id_bytes(account.as_u128()));
    let count = count.fetch_one(&mut *connection).await.map_err(while_running)?;
    let count = rows::get(&count, "count")?;
    if let Some(outcome) = outcome_without_write(&save, &owner, stored.as_ref(), count)? {
        return Ok(outcome);
    }
    let from = i64::from(save.from);
    let before = of_chat!(BYTES_BEFORE, account, id).bind(from);
    let before = before.fetch_one(&mut *connection).await.map_err(while_running)?;
    let bytes = quantity_from(rows::get(&before, "bytes")?)?;
    let Some(saved) = after_save(&save, stored, bytes) else {
        return Ok(ChatSaveOutcome::TooLarge);
    };
    execute(connection, bind_chat!(&saved)).await?;
    execute(connection, of_chat!(DELETE_TURNS_FROM, account, id).bind(from)).await?;
    let (mut bodies, mut sizes, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for turn in save.turns {
        bodies.push(turn.body);
        sizes.push(i64::from(turn.bytes));
        requests.push(requests_column(&turn.requests));
    }
    let insert = of_chat!(INSERT_TURNS, account, id)
        .bind(from)
        .bind(bodies)
        .bind(sizes)
        .bind(requests);
    execute(connection, insert).await?;
    Ok(ChatSaveOutcome::Saved(saved.chat))
}

async fn stored(connection: &mut PgConnection, account: AccountId, id: ChatId) -> Result<Option<StoredChat>> {
    let row = of_chat!(GET, account, id).fetch_optional(connection).await;
    let row = row.map_err(while_running)?;
    row.as_ref().map(rows::whole::<ChatColumns, _>).transpose()
}

async fn in_snapshot(
    connection: &mut PgConnection,
    account: AccountId,
    id: ChatId,
) -> sqlx::Result<Result<Option<(Chat, Vec<ChatTurn>)>>> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = connection.begin_with(begin).await?;
    let loaded = load(&mut transaction, account, id).await;
    transaction.rollback().await?;
    Ok(loaded)
}

async fn load(
    connection: &mut PgConnection,
    account: AccountId,
    id: ChatId,
) -> Result<Option<(Chat, Vec<ChatTurn>)>> {
    let Some(stored) = stored(connection, account, id).await? else {
        return Ok(None);
    };
    let found = of_chat!(TURNS, account, id).fetch_all(connection).await;
    let found = found.map_err(while_running)?;
    let turns = found.iter().map(rows::whole::<TurnColumns, _>);
    Ok(Some((stored.chat, turns.collect::<Result<_>>()?)))
}

/// Locks an account, so that no save runs until the transaction ends. The account may be missing.
async fn lock(connection: &mut PgConnection, account: AccountId) -> Result<()> {
    let lock = sqlx::query("SELECT 1 FROM account WHERE id = $1 FOR NO KEY UPDATE");
    execute(connection, lock.bind(id_bytes(account.as_u128()))).await
}

/// Executes two statements that delete turns and their chats; returns the number of deleted chats.
/// The account's lock prevents a concurrent save from adding turns in between.
async fn delete(pool: &Pool, account: AccountId, turns: Statement, chats: Statement) -> Result<u64> {
    transact(pool, move |connection| {
        Box::pin(async move {
            lock(connection, account).await?;
            execute(connection, turns).await?;
            let done = chats.execute(connection).await.map_err(while_running)?;
            Ok(done.rows_affected())
        })
    })
    .await
}

fn chat(row: &PgRow) -> Result<Chat> {
    rows::whole::<ChatColumns, StoredChat>(row).map(|stored| stored.chat)
}
