//! Implements [`SessionStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use tollgate_storage::{Result, Session, SessionOwner, SessionStore};
use tollgate_types::{SessionId, Timestamp};

use super::lot::transact;
use super::pool::{Pool, Statement};
use super::rows;
use super::subscription::execute;
use crate::rows::id_bytes;
use crate::sessions::{
    DELETE, DELETE_OTHERS, FIND, LIST, REPLACE, SessionColumns, TOUCH, bind_session, of_owner,
};

pub(super) struct Sessions(pub(super) Arc<Pool>);

const SWEEP: &str = "DELETE FROM session WHERE id IN (
        SELECT id FROM session WHERE expires_at < $1 OR last_seen_at < $2 LIMIT $3
        FOR UPDATE SKIP LOCKED
    )";

#[async_trait]
impl SessionStore for Sessions {
    async fn create(&self, session: Session, replaces: Option<SessionId>) -> Result<()> {
        transact(&self.0, move |connection| {
            Box::pin(async move {
                if let Some(replaced) = replaces {
                    let delete = sqlx::query(REPLACE).bind(id_bytes(replaced.as_u128()));
                    execute(connection, delete).await?;
                }
                execute(connection, bind_session!(&session)).await
            })
        })
        .await
    }

    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<Session>> {
        let statement = sqlx::query(FIND).bind(digest_prefix.to_vec());
        self.0
            .optional(statement)
            .await?
            .as_ref()
            .map(session)
            .transpose()
    }

    async fn touch(&self, id: SessionId, at: Timestamp) -> Result<()> {
        let statement = sqlx::query(TOUCH)
            .bind(id_bytes(id.as_u128()))
            .bind(at.as_micros());
        self.0.execute(statement).await.map(drop)
    }

    async fn list(&self, owner: SessionOwner) -> Result<Vec<Session>> {
        let found = self.0.all(of_owner!(LIST, owner)).await?;
        found.iter().map(session).collect()
    }

    async fn delete(&self, owner: SessionOwner, id: SessionId) -> Result<bool> {
        let statement = of_owner!(DELETE, owner).bind(id_bytes(id.as_u128()));
        Ok(self.0.execute(statement).await? > 0)
    }

    async fn delete_others(&self, owner: SessionOwner, keep: Option<SessionId>) -> Result<u64> {
        self.0.execute(delete_others(owner, keep)).await
    }

    async fn sweep(&self, expired: Timestamp, idle: Timestamp, limit: u32) -> Result<u64> {
        let statement = sqlx::query(SWEEP)
            .bind(expired.as_micros())
            .bind(idle.as_micros())
            .bind(i64::from(limit));
        self.0.execute(statement).await
    }
}

fn session(row: &PgRow) -> Result<Session> {
    rows::whole::<SessionColumns, _>(row)
}

/// Returns the statement that deletes the sessions of an owner except `keep`.
pub(super) fn delete_others(owner: SessionOwner, keep: Option<SessionId>) -> Statement {
    of_owner!(DELETE_OTHERS, owner).bind(keep.map(|id| id_bytes(id.as_u128())))
}
