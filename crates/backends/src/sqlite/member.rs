//! Implements [`MemberStore`] on SQLite. Only one connection writes, so the number of owners does
//! not change between the check and the change.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{Member, MemberRole, MemberStore, Result, StorageError};
use tollgate_types::{AccountId, MemberId, PersonId};

use super::Sqlite;
use super::account::{self, conflict};
use super::query::execute;
use crate::people;
use crate::rows::admin::MemberColumns;
use crate::rows::{id_bytes, storage_error};

const ADD: &str = "INSERT INTO member (id, account_id, email, role, created_at, person_id) \
    VALUES ($1, $2, $3, $4, $5, $6)";
const LIST: &str = "SELECT * FROM member WHERE account_id = $1 ORDER BY id";
const OF_PERSON: &str = "SELECT * FROM member WHERE account_id = $1 AND person_id = $2";
const UPDATE: &str = "UPDATE member SET person_id = $2, role = $3 WHERE id = $1";
const SET_ROLE: &str = "UPDATE member SET role = $2 WHERE id = $1";
const REMOVE: &str = "DELETE FROM member WHERE id = $1";

#[async_trait]
impl MemberStore for Sqlite {
    async fn add(&self, member: Member) -> Result<()> {
        self.write(move |connection| Box::pin(add(connection, member)), |()| ())
            .await
    }

    async fn list(&self, account: AccountId) -> Result<Vec<Member>> {
        self.read(move |connection| Box::pin(list(connection, account)))
            .await
    }

    async fn of_person(&self, account: AccountId, person: PersonId) -> Result<Option<Member>> {
        self.read(move |connection| Box::pin(of_person(connection, account, person)))
            .await
    }

    async fn set_role(&self, account: AccountId, id: MemberId, role: MemberRole) -> Result<Member> {
        self.write(
            move |connection| Box::pin(set_role(connection, account, id, role)),
            |member| member,
        )
        .await
    }

    async fn remove(&self, account: AccountId, id: MemberId) -> Result<Member> {
        self.write(
            move |connection| Box::pin(remove(connection, account, id)),
            |member| member,
        )
        .await
    }
}

async fn add(connection: &mut SqliteConnection, member: Member) -> Result<()> {
    if account::get(connection, member.account).await?.is_none() {
        return Err(StorageError::not_found(member.account));
    }
    insert(connection, member).await
}

/// Inserts a member. Returns `Conflict` if the account has a member with this address or person.
pub(super) async fn insert(connection: &mut SqliteConnection, member: Member) -> Result<()> {
    let insert = sqlx::query(ADD)
        .bind(id_bytes(member.id.as_u128()))
        .bind(id_bytes(member.account.as_u128()))
        .bind(member.email)
        .bind(member.role.as_str())
        .bind(member.created_at.as_micros())
        .bind(member.person.map(|person| id_bytes(person.as_u128())));
    insert.execute(connection).await.map_err(storage_error)?;
    Ok(())
}

/// Updates the person and the role of a member.
pub(super) async fn update(connection: &mut SqliteConnection, member: &Member) -> Result<()> {
    let update = sqlx::query(UPDATE)
        .bind(id_bytes(member.id.as_u128()))
        .bind(member.person.map(|person| id_bytes(person.as_u128())))
        .bind(member.role.as_str());
    update.execute(connection).await.map_err(storage_error)?;
    Ok(())
}

/// Lists the members of an account, sorted by id, including uncommitted changes of this connection.
pub(super) async fn list(connection: &mut SqliteConnection, account: AccountId) -> Result<Vec<Member>> {
    let rows: Vec<MemberColumns> = sqlx::query_as(LIST)
        .bind(id_bytes(account.as_u128()))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Member::try_from).collect()
}

async fn of_person(
    connection: &mut SqliteConnection,
    account: AccountId,
    person: PersonId,
) -> Result<Option<Member>> {
    let columns: Option<MemberColumns> = sqlx::query_as(OF_PERSON)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(person.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(Member::try_from).transpose()
}

/// Returns a member that can be removed or lose the owner role. Returns `Conflict` for the last
/// owner and `NotFound` for an unknown member.
async fn replaceable(connection: &mut SqliteConnection, account: AccountId, id: MemberId) -> Result<Member> {
    let members = list(connection, account).await?;
    match MemberRole::last_owner(&members) == Some(id) {
        true => Err(conflict("the member is the last owner")),
        false => find(members, id),
    }
}

fn find(members: Vec<Member>, id: MemberId) -> Result<Member> {
    let found = members.into_iter().find(|member| member.id == id);
    found.ok_or_else(|| StorageError::not_found(id))
}

async fn set_role(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: MemberId,
    role: MemberRole,
) -> Result<Member> {
    let member = match role {
        MemberRole::Owner => find(list(connection, account).await?, id)?,
        _ => replaceable(connection, account, id).await?,
    };
    let update = sqlx::query(SET_ROLE)
        .bind(id_bytes(id.as_u128()))
        .bind(role.as_str());
    update.execute(connection).await.map_err(storage_error)?;
    Ok(member)
}

async fn remove(connection: &mut SqliteConnection, account: AccountId, id: MemberId) -> Result<Member> {
    let member = replaceable(connection, account, id).await?;
    for statement in [people::DELETE_LINKS_OF_MEMBER, REMOVE] {
        execute(connection, sqlx::query(statement).bind(id_bytes(id.as_u128()))).await?;
    }
    Ok(member)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[ADD, LIST, OF_PERSON, UPDATE, SET_ROLE, REMOVE];
