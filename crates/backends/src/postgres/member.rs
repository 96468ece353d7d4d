//! Implements [`MemberStore`] on PostgreSQL. A change that may remove an owner locks the account's
//! row, so that two concurrent changes cannot remove the last two owners.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::PgConnection;
use tollgate_storage::{
    AccountState, Member, MemberRole, MemberStore, Result, StorageError, StorageErrorKind,
};
use tollgate_types::{AccountId, MemberId, PersonId};

use super::error::while_running;
use super::lot::transact;
use super::pool::Pool;
use super::rows;
use super::subscription::execute;
use crate::people;
use crate::rows::admin::MemberColumns;

pub(super) struct Members(pub(super) Arc<Pool>);

#[async_trait]
impl MemberStore for Members {
    async fn add(&self, member: Member) -> Result<()> {
        transact(&self.0, move |connection| {
            Box::pin(async move {
                // A concurrent redemption may create the first owner, with the same address.
                lock_account(connection, member.account).await?;
                insert(connection, member).await
            })
        })
        .await
    }

    async fn list(&self, account: AccountId) -> Result<Vec<Member>> {
        transact(&self.0, move |connection| Box::pin(list(connection, account))).await
    }

    async fn of_person(&self, account: AccountId, person: PersonId) -> Result<Option<Member>> {
        let statement = sqlx::query("SELECT * FROM member WHERE account_id = $1 AND person_id = $2")
            .bind(account.as_u128().to_be_bytes())
            .bind(person.as_u128().to_be_bytes());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<MemberColumns, _>(&row)).transpose()
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
                for statement in [people::DELETE_LINKS_OF_MEMBER, "DELETE FROM member WHERE id = $1"] {
                    let statement = sqlx::query(statement).bind(id.as_u128().to_be_bytes());
                    execute(connection, statement).await?;
                }
                Ok(member)
            })
        })
        .await
    }
}

/// Inserts a member. Returns `Conflict` if the account has a member with this address or person.
pub(super) async fn insert(connection: &mut PgConnection, member: Member) -> Result<()> {
    let statement = sqlx::query(
        "INSERT INTO member (id, account_id, email, role, created_at, person_id)
        VALUES ($1, $2, $3, $4, $5, $6)",
    );
    let statement = statement
        .bind(member.id.as_u128().to_be_bytes())
        .bind(member.account.as_u128().to_be_bytes())
        .bind(member.email)
        .bind(member.role.as_str())
        .bind(member.created_at.as_micros())
        .bind(member.person.map(|person| person.as_u128().to_be_bytes()));
    execute(connection, statement).await
}

/// Updates the person and the role of a member.
pub(super) async fn update(connection: &mut PgConnection, member: &Member) -> Result<()> {
    let statement = sqlx::query("UPDATE member SET person_id = $2, role = $3 WHERE id = $1")
        .bind(member.id.as_u128().to_be_bytes())
        .bind(member.person.map(|person| person.as_u128().to_be_bytes()))
        .bind(member.role.as_str());
    execute(connection, statement).await
}

/// Lists the members of an account, sorted by id.
pub(super) async fn list(connection: &mut PgConnection, account: AccountId) -> Result<Vec<Member>> {
    let found = sqlx::query("SELECT * FROM member WHERE account_id = $1 ORDER BY id")
        .bind(account.as_u128().to_be_bytes())
        .fetch_all(connection)
        .await
        .map_err(while_running)?;
    found.iter().map(rows::whole::<MemberColumns, _>).collect()
}

/// Locks the account's row until the transaction ends, if the account exists. Returns its state.
pub(super) async fn lock_account(
    connection: &mut PgConnection,
    account: AccountId,
) -> Result<Option<AccountState>> {
    let lock = sqlx::query("SELECT state FROM account WHERE id = $1 FOR NO KEY UPDATE")
        .bind(account.as_u128().to_be_bytes());
    let row = lock.fetch_optional(connection).await.map_err(while_running)?;
    row.map(|row| rows::name(&row, "state", AccountState::parse))
        .transpose()
}

/// Locks the account and returns the member. Returns `Conflict` if the change would remove the last
/// owner.
async fn locked(
    connection: &mut PgConnection,
    account: AccountId,
    id: MemberId,
    stays_owner: bool,
) -> Result<Member> {
    lock_account(connection, account).await?;
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
