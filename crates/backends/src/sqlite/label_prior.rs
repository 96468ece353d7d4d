//! Implements [`LabelPriorStore`] on SQLite.

use async_trait::async_trait;
use sqlx::Row;
use tollgate_storage::{LabelPriorStore, Result, StoredLabelPrior};

use super::Sqlite;
use super::query::{Query, execute};
use crate::label_priors::{ALL, bind_label_prior, label_prior_from};

#[async_trait]
impl LabelPriorStore for Sqlite {
    async fn all(&self) -> Result<Vec<StoredLabelPrior>> {
        let found = Sqlite::all(self, sqlx::query(ALL)).await?;
        found.iter().map(|row| label_prior_from!(row)).collect()
    }

    async fn save(&self, prior: StoredLabelPrior) -> Result<()> {
        let statement: Query = bind_label_prior!(prior);
        self.write(move |connection| Box::pin(execute(connection, statement)), |_| ())
            .await
    }
}
