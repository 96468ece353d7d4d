//! Implements [`MediaStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::media::MAX_RETENTION;
use tollgate_storage::{Media, MediaStore, Result, StorageError};
use tollgate_types::{AccountId, MediaId, Timestamp};

use super::pool::Pool;
use super::rows;
use crate::rows::{MediaColumns, duration_column, quantity_column};

pub(super) struct MediaRows(pub(super) Arc<Pool>);

#[async_trait]
impl MediaStore for MediaRows {
    async fn insert(&self, media: Media) -> Result<()> {
        // The id is unique over all accounts, which an index per shard cannot enforce.
        let statement = sqlx::query(
            "WITH taken AS (SELECT 1 FROM media WHERE id = $2), owner AS (SELECT id FROM account WHERE id = $1),
            written AS (
                INSERT INTO media (account_id, id, object, sha256, bytes, mime_type, width, height, duration, created_at,
                    expires_at, source_id, deleted_at)
                SELECT id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 FROM owner
                WHERE NOT EXISTS (SELECT 1 FROM taken) ON CONFLICT DO NOTHING
                RETURNING 1
            )
            SELECT (SELECT count(*) FROM owner) AS owners, (SELECT count(*) FROM written) AS written",
        );
        let statement = statement
            .bind(media.account.as_u128().to_be_bytes())
            .bind(media.id.as_u128().to_be_bytes())
            .bind(media.object.to_be_bytes())
            .bind(media.sha256)
            .bind(quantity_column(media.bytes))
            .bind(media.mime_type)
            .bind(media.width.map(i64::from))
            .bind(media.height.map(i64::from))
            .bind(duration_column(media.duration))
            .bind(media.created_at.as_micros())
            .bind(media.expires_at.as_micros())
            .bind(media.source.map(u128::to_be_bytes))
            .bind(media.deleted_at.map(Timestamp::as_micros));
        let row = self.0.one(statement).await?;
        match (
            rows::get::<i64>(&row, "owners")?,
            rows::get::<i64>(&row, "written")?,
        ) {
            (0, _) => Err(StorageError::not_found(media.account)),
            (_, 0) => Err(crate::rows::taken(media.id)),
            _ => Ok(()),
        }
    }

    async fn get(&self, id: MediaId) -> Result<Option<Media>> {
        let statement = sqlx::query("SELECT * FROM media WHERE id = $1 LIMIT 1");
        let row = self
            .0
            .optional(statement.bind(id.as_u128().to_be_bytes()))
            .await?;
        row.map(|row| rows::whole::<MediaColumns, _>(&row)).transpose()
    }

    async fn of_account(&self, account: AccountId, id: MediaId) -> Result<Option<Media>> {
        let statement = sqlx::query("SELECT * FROM media WHERE account_id = $1 AND id = $2");
        let statement = statement
            .bind(account.as_u128().to_be_bytes())
            .bind(id.as_u128().to_be_bytes());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<MediaColumns, _>(&row)).transpose()
    }

    async fn extend(
        &self,
        account: AccountId,
        id: MediaId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let statement = sqlx::query(
            "UPDATE media SET expires_at = greatest(expires_at, least($4, created_at + $5))
            WHERE account_id = $1 AND id = $2 AND expires_at > $3 AND deleted_at IS NULL
            RETURNING expires_at",
        );
        let statement = statement
            .bind(account.as_u128().to_be_bytes())
            .bind(id.as_u128().to_be_bytes())
            .bind(now.as_micros())
            .bind(until.as_micros())
            .bind(duration_column(Some(MAX_RETENTION)));
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::timestamp(&row, "expires_at")).transpose()
    }

    async fn expired(&self, now: Timestamp, limit: u32) -> Result<Vec<Media>> {
        let statement = sqlx::query(
            "SELECT * FROM media WHERE expires_at <= $1 AND deleted_at IS NULL ORDER BY expires_at LIMIT $2",
        );
        let statement = statement.bind(now.as_micros()).bind(i64::from(limit));
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<MediaColumns, _>).collect()
    }

    async fn forget(&self, account: AccountId, id: MediaId, now: Timestamp) -> Result<bool> {
        let statement = sqlx::query(
            "UPDATE media SET deleted_at = $3 WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL",
        );
        let statement = statement
            .bind(account.as_u128().to_be_bytes())
            .bind(id.as_u128().to_be_bytes())
            .bind(now.as_micros());
        Ok(self.0.execute(statement).await? > 0)
    }
}
