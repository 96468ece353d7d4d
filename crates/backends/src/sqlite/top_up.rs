//! Implements [`TopUpStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{FromRow, Row};
use tollgate_storage::{AutoTopUp, Result, StorageError, StorageErrorKind, TopUp, TopUpChange, TopUpStore};
use tollgate_types::{AccountId, Credits, Timestamp, TopUpId};

use super::query::{Query, execute, rows};
use super::{Sqlite, account};
use crate::rows::{id_bytes, page_edge, storage_error};
use crate::top_ups::{
    AUTO, AUTO_SINCE, AUTOS, AutoColumns, BY_REFERENCE, DELETE_AUTO, GET, INSERT, LIST, LIST_OF_ACCOUNT,
    PAYER, PENDING_AUTO, SAVE_PAYER, SET_AUTO, TopUpColumns, UPDATE, bind_top_up,
};

#[async_trait]
impl TopUpStore for Sqlite {
    async fn payer(&self, account: AccountId, provider: &str) -> Result<Option<String>> {
        let statement = payer(account, provider);
        self.read(move |connection| Box::pin(text(connection, statement)))
            .await
    }

    async fn save_payer(
        &self,
        account: AccountId,
        provider: &str,
        payer_id: &str,
        at: Timestamp,
    ) -> Result<String> {
        let insert = sqlx::query(SAVE_PAYER)
            .bind(id_bytes(account.as_u128()))
            .bind(provider.to_owned())
            .bind(payer_id.to_owned())
            .bind(at.as_micros());
        let check = payer(account, provider);
        let save = self.write(
            move |connection| {
                Box::pin(async move {
                    execute(connection, insert).await?;
                    text(connection, check).await
                })
            },
            |payer| payer,
        );
        save.await?.ok_or_else(|| StorageError::not_found(account))
    }

    async fn create(&self, top_up: TopUp) -> Result<bool> {
        self.write(
            move |connection| Box::pin(create(connection, top_up)),
            |created| created,
        )
        .await
    }

    async fn get(&self, id: TopUpId) -> Result<Option<TopUp>> {
        self.read(move |connection| Box::pin(get(connection, id))).await
    }

    async fn by_reference(&self, reference: &str) -> Result<Option<TopUp>> {
        let statement = sqlx::query(BY_REFERENCE).bind(reference.to_owned());
        let found = self.top_ups(statement).await?;
        Ok(found.into_iter().next())
    }

    async fn list(
        &self,
        account: Option<AccountId>,
        before: Option<TopUpId>,
        limit: u32,
    ) -> Result<Vec<TopUp>> {
        let list = if account.is_some() { LIST_OF_ACCOUNT } else { LIST };
        let mut statement = sqlx::query(list)
            .bind(page_edge(before.map(TopUpId::as_u128), u8::MAX))
            .bind(i64::from(limit));
        if let Some(account) = account {
            statement = statement.bind(id_bytes(account.as_u128()));
        }
        self.top_ups(statement).await
    }

    async fn change(&self, id: TopUpId, change: TopUpChange, at: Timestamp) -> Result<TopUp> {
        self.write(
            move |connection| Box::pin(apply_change(connection, id, change, at)),
            |top_up| top_up,
        )
        .await
    }

    async fn pending_auto(&self, before: Timestamp, limit: u32) -> Result<Vec<TopUp>> {
        let statement = sqlx::query(PENDING_AUTO)
            .bind(before.as_micros())
            .bind(i64::from(limit));
        self.top_ups(statement).await
    }

    async fn auto_since(&self, account: AccountId, since: Timestamp) -> Result<Credits> {
        let statement = sqlx::query(AUTO_SINCE)
            .bind(id_bytes(account.as_u128()))
            .bind(since.as_micros());
        let rows = self.all(statement).await?;
        let sum = rows.first().map(|row| row.try_get("credits")).transpose();
        Ok(Credits::from_nanos(
            sum.map_err(storage_error)?.unwrap_or_default(),
        ))
    }

    async fn set_auto(&self, account: AccountId, auto: Option<AutoTopUp>) -> Result<()> {
        self.set_for(account, set_auto(account, auto)).await
    }

    async fn auto(&self, account: AccountId) -> Result<Option<AutoTopUp>> {
        let statement = sqlx::query(AUTO).bind(id_bytes(account.as_u128()));
        Ok(self.auto_top_ups(statement).await?.into_iter().next())
    }

    async fn autos(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<AutoTopUp>> {
        let statement = sqlx::query(AUTOS)
            .bind(page_edge(after.map(AccountId::as_u128), 0))
            .bind(i64::from(limit));
        self.auto_top_ups(statement).await
    }
}

impl Sqlite {
    async fn top_ups(&self, statement: Query) -> Result<Vec<TopUp>> {
        let rows = self.all(statement).await?;
        rows.iter().map(top_up).collect()
    }

    async fn auto_top_ups(&self, statement: Query) -> Result<Vec<AutoTopUp>> {
        let rows = self.all(statement).await?;
        let auto = |row| AutoColumns::from_row(row).map_err(storage_error)?.try_into();
        rows.iter().map(auto).collect()
    }
}

fn payer(account: AccountId, provider: &str) -> Query {
    sqlx::query(PAYER)
        .bind(id_bytes(account.as_u128()))
        .bind(provider.to_owned())
}

fn set_auto(account: AccountId, auto: Option<AutoTopUp>) -> Query {
    let Some(auto) = auto else {
        return sqlx::query(DELETE_AUTO).bind(id_bytes(account.as_u128()));
    };
    sqlx::query(SET_AUTO)
        .bind(id_bytes(account.as_u128()))
        .bind(auto.below.nanos())
        .bind(auto.amount.nanos())
        .bind(auto.monthly_limit.nanos())
        .bind(i64::from(auto.failures))
}

fn top_up(row: &SqliteRow) -> Result<TopUp> {
    TopUpColumns::from_row(row).map_err(storage_error)?.try_into()
}

async fn text(connection: &mut SqliteConnection, statement: Query) -> Result<Option<String>> {
    let row = statement
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    row.map(|row| row.try_get(0).map_err(storage_error)).transpose()
}

async fn get(connection: &mut SqliteConnection, id: TopUpId) -> Result<Option<TopUp>> {
    let statement = sqlx::query(GET).bind(id_bytes(id.as_u128()));
    rows(connection, statement).await?.first().map(top_up).transpose()
}

async fn create(connection: &mut SqliteConnection, new: TopUp) -> Result<bool> {
    if execute(connection, bind_top_up!(INSERT, &new)).await? > 0 {
        return Ok(true);
    }
    if account::get(connection, new.account).await?.is_none() {
        return Err(StorageError::not_found(new.account));
    }
    match get(connection, new.id).await? {
        Some(_) => Err(StorageError::new(StorageErrorKind::Conflict, new.id.to_string())),
        None => Ok(false),
    }
}

async fn apply_change(
    connection: &mut SqliteConnection,
    id: TopUpId,
    change: TopUpChange,
    at: Timestamp,
) -> Result<TopUp> {
    let before = get(connection, id).await?;
    let after = before
        .ok_or_else(|| StorageError::not_found(id))?
        .after(change, at)?;
    execute(connection, bind_top_up!(UPDATE, &after)).await?;
    Ok(after)
}
