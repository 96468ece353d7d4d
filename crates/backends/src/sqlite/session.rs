//! Implements [`SessionStore`] on SQLite.

use async_trait::async_trait;
use sqlx::FromRow;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use tollgate_storage::{Result, Session, SessionOwner, SessionStore, StorageError};
use tollgate_types::{SessionId, Timestamp};

use super::Sqlite;
use super::query::{execute, rows};
use crate::rows::{id_bytes, storage_error};
use crate::sessions::{
    DELETE, DELETE_OTHERS, FIND, LIST, REPLACE, SessionColumns, TOUCH, bind_session, of_owner,
};

const OWNER: &str = "SELECT id FROM person WHERE id = $1 UNION ALL SELECT id FROM admin WHERE id = $2";
const SWEEP: &str = "DELETE FROM session WHERE id IN \
    (SELECT id FROM session WHERE expires_at < $1 OR last_seen_at < $2 LIMIT $3)";

#[async_trait]
impl SessionStore for Sqlite {
    async fn create(&self, session: Session, replaces: Option<SessionId>) -> Result<()> {
        self.write(
            move |connection| Box::pin(create(connection, session, replaces)),
            |()| (),
        )
        .await
    }

    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<Session>> {
        let found = self.all(sqlx::query(FIND).bind(digest_prefix.to_vec())).await?;
        found.first().map(session).transpose()
    }

    async fn touch(&self, id: SessionId, at: Timestamp) -> Result<()> {
        let statement = sqlx::query(TOUCH)
            .bind(id_bytes(id.as_u128()))
            .bind(at.as_micros());
        self.write_one(move |connection| Box::pin(execute(connection, statement)))
            .await
            .map(drop)
    }

    async fn list(&self, owner: SessionOwner) -> Result<Vec<Session>> {
        let found = self.all(of_owner!(LIST, owner)).await?;
        found.iter().map(session).collect()
    }

    async fn delete(&self, owner: SessionOwner, id: SessionId) -> Result<bool> {
        let statement = of_owner!(DELETE, owner).bind(id_bytes(id.as_u128()));
        self.write(
            move |connection| Box::pin(execute(connection, statement)),
            |deleted| deleted > 0,
        )
        .await
    }

    async fn delete_others(&self, owner: SessionOwner, keep: Option<SessionId>) -> Result<u64> {
        self.write(
            move |connection| Box::pin(delete_others(connection, owner, keep)),
            |deleted| deleted,
        )
        .await
    }

    async fn sweep(&self, expired: Timestamp, idle: Timestamp, limit: u32) -> Result<u64> {
        let statement = sqlx::query(SWEEP)
            .bind(expired.as_micros())
            .bind(idle.as_micros())
            .bind(i64::from(limit));
        self.write(
            move |connection| Box::pin(execute(connection, statement)),
            |swept| swept,
        )
        .await
    }
}

fn session(row: &SqliteRow) -> Result<Session> {
    SessionColumns::from_row(row).map_err(storage_error)?.try_into()
}

async fn create(
    connection: &mut SqliteConnection,
    session: Session,
    replaces: Option<SessionId>,
) -> Result<()> {
    if rows(connection, of_owner!(OWNER, session.owner))
        .await?
        .is_empty()
    {
        return Err(StorageError::not_found("the owner of the session"));
    }
    if let Some(replaced) = replaces {
        let delete = sqlx::query(REPLACE).bind(id_bytes(replaced.as_u128()));
        execute(connection, delete).await?;
    }
    execute(connection, bind_session!(&session)).await.map(drop)
}

/// Deletes the sessions of an owner except `keep`; returns their number.
pub(super) async fn delete_others(
    connection: &mut SqliteConnection,
    owner: SessionOwner,
    keep: Option<SessionId>,
) -> Result<u64> {
    let keep = keep.map(|id| id_bytes(id.as_u128()));
    execute(connection, of_owner!(DELETE_OTHERS, owner).bind(keep)).await
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[OWNER, SWEEP];
