//! Batches as operators see them.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_inference::batches::{BatchRecords, KINDS};
use tollgate_operations::BatchSource;
use tollgate_operations::batches::BatchView;
use tollgate_storage::Job;
use tollgate_types::{Error, Timestamp};

/// Reader of batches for the commands of operators.
pub struct OperatorBatches(pub Arc<BatchRecords>);

#[async_trait]
impl BatchSource for OperatorBatches {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    async fn view(&self, job: &Job, now: Timestamp) -> Result<Option<BatchView>, Error> {
        let Some(summary) = self.0.summary(job).await? else {
            return Ok(None);
        };
        Ok(Some(BatchView {
            id: summary.id,
            account: job.account,
            account_name: None,
            state: summary.status.to_owned(),
            endpoint: summary.endpoint.to_owned(),
            model: job.model.to_string(),
            total: summary.total,
            completed: summary.completed,
            failed: summary.failed,
            tokens: summary.tokens,
            held: job.held,
            cost: job.charge,
            input_file: summary.input.to_string(),
            output_file: summary.output.map(|id| id.to_string()),
            error_file: summary.errors.map(|id| id.to_string()),
            failure: job.error.as_ref().map(|error| error.message.clone()),
            created_at: job.created_at.to_rfc3339(),
            started_at: job.started_at.map(Timestamp::to_rfc3339),
            ended_at: job.completed_at.map(Timestamp::to_rfc3339),
            expires_at: summary.expires_at.to_rfc3339(),
            age_seconds: now.since(job.created_at).as_secs(),
        }))
    }
}
