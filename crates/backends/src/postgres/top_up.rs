//! Implements [`TopUpStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection};
use tollgate_storage::{
    AccountStore, AutoTopUp, Result, StorageError, StorageErrorKind, TopUp, TopUpChange, TopUpStore,
};
use tollgate_types::{AccountId, Credits, Timestamp, TopUpId};

use super::account::Accounts;
use super::error::while_running;
use super::lot::transact;
use super::pool::{Pool, Statement};
use super::rows;
use super::subscription::execute;
use crate::rows::{id_bytes, page_edge};
use crate::top_ups::{
    AUTO, AUTO_SINCE, AUTOS, AutoColumns, BY_REFERENCE, DELETE_AUTO, GET, INSERT, LIST, LIST_OF_ACCOUNT,
    PAYER, PENDING_AUTO, SAVE_PAYER, SET_AUTO, TopUpColumns, UPDATE, bind_top_up,
};

pub(super) struct TopUps(pub(super) Arc<Pool>);

#[async_trait]
impl TopUpStore for TopUps {
    async fn payer(&self, account: AccountId, provider: &str) -> Result<Option<String>> {
        let statement = sqlx::query(PAYER)
            .bind(id_bytes(account.as_u128()))
            .bind(provider.to_owned());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::get(&row, "payer")).transpose()
    }

    async fn save_payer(
        &self,
        account: AccountId,
        provider: &str,
        payer_id: &str,
        at: Timestamp,
    ) -> Result<String> {
        let statement = sqlx::query(SAVE_PAYER)
            .bind(id_bytes(account.as_u128()))
            .bind(provider.to_owned())
            .bind(payer_id.to_owned())
            .bind(at.as_micros());
        self.0.execute(statement).await?;
        let found = self.payer(account, provider).await?;
        found.ok_or_else(|| StorageError::not_found(account))
    }

    async fn create(&self, top_up: TopUp) -> Result<bool> {
        if self.0.execute(bind_top_up!(INSERT, &top_up)).await? > 0 {
            return Ok(true);
        }
        check_account(&self.0, top_up.account).await?;
        match self.get(top_up.id).await? {
            Some(_) => Err(StorageError::new(
                StorageErrorKind::Conflict,
                top_up.id.to_string(),
            )),
            None => Ok(false),
        }
    }

    async fn get(&self, id: TopUpId) -> Result<Option<TopUp>> {
        let statement = sqlx::query(GET).bind(id_bytes(id.as_u128()));
        self.0.optional(statement).await?.as_ref().map(top_up).transpose()
    }

    async fn by_reference(&self, reference: &str) -> Result<Option<TopUp>> {
        let statement = sqlx::query(BY_REFERENCE).bind(reference.to_owned());
        self.0.optional(statement).await?.as_ref().map(top_up).transpose()
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
        self.0.all(statement).await?.iter().map(top_up).collect()
    }

    async fn change(&self, id: TopUpId, change: TopUpChange, at: Timestamp) -> Result<TopUp> {
        transact(&self.0, move |connection| {
            Box::pin(apply_change(connection, id, change, at))
        })
        .await
    }

    async fn pending_auto(&self, before: Timestamp, limit: u32) -> Result<Vec<TopUp>> {
        let statement = sqlx::query(PENDING_AUTO)
            .bind(before.as_micros())
            .bind(i64::from(limit));
        self.0.all(statement).await?.iter().map(top_up).collect()
    }

    async fn auto_since(&self, account: AccountId, since: Timestamp) -> Result<Credits> {
        let statement = sqlx::query(AUTO_SINCE)
            .bind(id_bytes(account.as_u128()))
            .bind(since.as_micros());
        rows::credits(&self.0.one(statement).await?, "credits")
    }

    async fn set_auto(&self, account: AccountId, auto: Option<AutoTopUp>) -> Result<()> {
        let statement = match auto {
            None => sqlx::query(DELETE_AUTO).bind(id_bytes(account.as_u128())),
            Some(auto) => sqlx::query(SET_AUTO)
                .bind(id_bytes(account.as_u128()))
                .bind(auto.below.nanos())
                .bind(auto.amount.nanos())
                .bind(auto.monthly_limit.nanos())
                .bind(i64::from(auto.failures)),
        };
        self.0.execute(statement).await?;
        check_account(&self.0, account).await
    }

    async fn auto(&self, account: AccountId) -> Result<Option<AutoTopUp>> {
        let statement = sqlx::query(AUTO).bind(id_bytes(account.as_u128()));
        self.0.optional(statement).await?.as_ref().map(auto).transpose()
    }

    async fn autos(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<AutoTopUp>> {
        let statement = sqlx::query(AUTOS)
            .bind(page_edge(after.map(AccountId::as_u128), 0))
            .bind(i64::from(limit));
        self.0.all(statement).await?.iter().map(auto).collect()
    }
}

/// Checks that the account exists; returns `NotFound` if it does not.
pub(super) async fn check_account(pool: &Arc<Pool>, account: AccountId) -> Result<()> {
    let found = Accounts(pool.clone()).get(account).await?;
    found.map(drop).ok_or_else(|| StorageError::not_found(account))
}

fn top_up(row: &PgRow) -> Result<TopUp> {
    rows::whole::<TopUpColumns, _>(row)
}

fn auto(row: &PgRow) -> Result<AutoTopUp> {
    rows::whole::<AutoColumns, _>(row)
}

async fn apply_change(
    connection: &mut PgConnection,
    id: TopUpId,
    change: TopUpChange,
    at: Timestamp,
) -> Result<TopUp> {
    let check: Statement = sqlx::query(AssertSqlSafe(format!("{GET} FOR UPDATE")));
    let row = check
        .bind(id_bytes(id.as_u128()))
        .fetch_optional(&mut *connection)
        .await
        .map_err(while_running)?;
    let found = row.as_ref().map(top_up).transpose()?;
    let after = found
        .ok_or_else(|| StorageError::not_found(id))?
        .after(change, at)?;
    execute(connection, bind_top_up!(UPDATE, &after)).await?;
    Ok(after)
}
