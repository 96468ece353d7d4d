//! Tenants.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::{Account, AccountState, AccountStore, LedgerAccount, Limits, Result, StorageError};
use tollgate_types::AccountId;

use super::pool::Pool;
use super::rows;
use crate::rows::tpm_column;

pub(super) struct Accounts(pub(super) Arc<Pool>);

const COLUMNS: [&str; 6] = ["id", "name", "state", "rpm", "tpm", "created_at"];

#[async_trait]
impl AccountStore for Accounts {
    async fn create(&self, account: Account) -> Result<()> {
        let kinds: Vec<&'static str> = LedgerAccount::ALL.map(LedgerAccount::as_str).into();
        let statement = sqlx::query(
            "WITH created AS (
                INSERT INTO account (id, name, state, rpm, tpm, created_at)
                VALUES ($1, $2, $3, $4, $5, $6) RETURNING id
            )
            INSERT INTO ledger_account (account_id, kind, balance)
            SELECT created.id, kinds.kind, 0 FROM created, unnest($7::text[]) AS kinds (kind)",
        );
        let statement = statement
            .bind(account.id.as_u128().to_be_bytes())
            .bind(account.name)
            .bind(account.state.as_str())
            .bind(account.limits.rpm.map(i64::from))
            .bind(tpm_column(account.limits))
            .bind(account.created_at.as_micros())
            .bind(kinds);
        self.0.execute(statement).await.map(drop)
    }

    async fn get(&self, id: AccountId) -> Result<Option<Account>> {
        let statement = sqlx::query("SELECT * FROM account WHERE id = $1").bind(id.as_u128().to_be_bytes());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::account(&row, COLUMNS)).transpose()
    }

    async fn list(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<Account>> {
        let statement =
            sqlx::query("SELECT * FROM account WHERE $1::bytea IS NULL OR id > $1 ORDER BY id LIMIT $2")
                .bind(after.map(|id| id.as_u128().to_be_bytes()))
                .bind(i64::from(limit));
        let found = self.0.all(statement).await?;
        found.iter().map(|row| rows::account(row, COLUMNS)).collect()
    }

    async fn set_limits(&self, id: AccountId, limits: Limits) -> Result<()> {
        let statement = sqlx::query("UPDATE account SET rpm = $2, tpm = $3 WHERE id = $1")
            .bind(id.as_u128().to_be_bytes())
            .bind(limits.rpm.map(i64::from))
            .bind(tpm_column(limits));
        self.change(id, statement).await
    }

    async fn set_state(&self, id: AccountId, state: AccountState) -> Result<()> {
        let statement = sqlx::query("UPDATE account SET state = $2 WHERE id = $1")
            .bind(id.as_u128().to_be_bytes())
            .bind(state.as_str());
        self.change(id, statement).await
    }
}

impl Accounts {
    async fn change(&self, id: AccountId, statement: super::pool::Statement) -> Result<()> {
        match self.0.execute(statement).await? {
            0 => Err(StorageError::not_found(id)),
            _ => Ok(()),
        }
    }
}
