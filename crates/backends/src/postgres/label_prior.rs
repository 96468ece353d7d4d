//! Implements [`LabelPriorStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::Row;
use tollgate_storage::{LabelPriorStore, Result, StoredLabelPrior};

use super::pool::Pool;
use crate::label_priors::{ALL, bind_label_prior, label_prior_from};

pub(super) struct LabelPriors(pub(super) Arc<Pool>);

#[async_trait]
impl LabelPriorStore for LabelPriors {
    async fn all(&self) -> Result<Vec<StoredLabelPrior>> {
        let found = self.0.all(sqlx::query(ALL)).await?;
        found.iter().map(|row| label_prior_from!(row)).collect()
    }

    async fn save(&self, prior: StoredLabelPrior) -> Result<()> {
        self.0.execute(bind_label_prior!(prior)).await.map(drop)
    }
}
