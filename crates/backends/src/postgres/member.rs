//! Implements [`MemberStore`] on PostgreSQL. A change that may remove an owner locks the account's
//! row, so that two concurrent changes cannot remove the last two owners.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;
use tollgate_storage::{Member, MemberRole, MemberStore, Result, StorageError, StorageErrorKind};
use tollgate_types::{AccountId, MemberId};

use super::error::while_running;
use super::lot::transact;
use super::pool::Pool;
use super::rows;
use super::subscription::execute;
use crate::rows::admin::MemberColumns;

pub(super) struct Members(pub(super) Arc<Pool>);

#[async_trait]
impl MemberStore for Members {
    async fn add(&self, member: Member) -> Result<()> {
        let statement = sqlx::query(
            "INSERT INTO member (id, account_id, email, role, created_at) VALUES ($1, $2, $3, $4, $5)",
        );
        let statement = statement
            .bind(member.id.as_u128().to_be_bytes())
            .bind(member.account.as_u128().to_be_bytes())
            .bind(member.email)
            .bind(member.role.as_str())
            .bind(member.created_at.as_micros());
        self.0.execute(statement).await.map(drop)
    }

    async fn list(&self, account: AccountId) -> Result<Vec<Member>> {
        transact(&self.0, move |connection| Box::pin(list(connection, account))).await
    }

    async fn set_role(&self, account: AccountId, id: MemberId, role: MemberRole) -> Result<Member> {
        transact(&self.0, move |connection| {
            Box::pin(async move {
                let member = locked(connection, account, id, role == MemberRole::Owner).await?;
                let statement = sqlx::query("UPDATE member SET role = $2 WHERE id = $1")
                    .bind(id.as_u128().to_be_bytes())
                    .bind(role.as_str());
                execute(connection, statement).await?;
                Ok(member)
            })
        })
        .await
    }

    async fn remove(&self, account: AccountId, id: MemberId) -> Result<Member> {
        transact(&self.0, move |connection| {
            Box::pin(async move {
                let member = locked(connection, account, id, false).await?;
                let statement =
                    sqlx::query("DELETE FROM member WHERE id = $1").bind(id.as_u128().to_be_bytes());
                execute(connection, statement).await?;
                Ok(member)
            })
        })
        .await
    }
}

async fn list(connection: &mut PgConnection, account: AccountId) -> Result<Vec<Member>> {
    let found = sqlx::query("SELECT * FROM member WHERE account_id = $1 ORDER BY id")
        .bind(account.as_u128().to_be_bytes())
        .fetch_all(connection)
        .await
        .map_err(while_running)?;
    found.iter().map(rows::whole::<MemberColumns, _>).collect()
}

/// Locks the account and returns the member. Returns `Conflict` if the change would remove the last
/// owner.
async fn locked(
    connection: &mut PgConnection,
    account: AccountId,
    id: MemberId,
    stays_owner: bool,
) -> Result<Member> {
    let lock = sqlx::query("SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE")
        .bind(account.as_u128().to_be_bytes());
    lock.fetch_optional(&mut *connection)
        .await
        .map_err(while_running)?;
    let members = list(connection, account).await?;
    if !stays_owner && MemberRole::last_owner(&members) == Some(id) {
        return Err(StorageError::new(
            StorageErrorKind::Conflict,
            "the member is the last owner",
        ));
    }
    let found = members.into_iter().find(|member| member.id == id);
    found.ok_or_else(|| StorageError::not_found(id))
}
