//! What is told of a batch to others than its owner's requests: to whoever wants to know of its end, and to operators.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_accounts::Vault;
use tollgate_jobs::{JobRenderer, Record};
use tollgate_storage::{BatchStore, Job, LineCounts, StorageError, StorageErrorKind};
use tollgate_types::{BatchId, Error, FileId, JobStatus, MessageBatchId, Timestamp};

use super::order::{KIND, MESSAGES_KIND, Order, Outcome, opened};
use super::wire::{Batch, Shown, status};
use crate::responses::kept::unavailable;

/// The kinds of jobs that batches are.
pub const KINDS: [&str; 2] = [KIND, MESSAGES_KIND];

/// Writes down what is told of batches.
pub struct BatchRecords {
    /// Opens what is sealed.
    pub vault: Vault,
    /// Their lines.
    pub store: Arc<dyn BatchStore>,
}

/// A batch as operators see it: nothing of what its requests say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSummary {
    /// As its owner knows it.
    pub id: String,
    /// Where its requests go.
    pub endpoint: &'static str,
    /// As `GET /v1/batches/{id}` has it.
    pub status: &'static str,
    /// Requests.
    pub total: u64,
    /// Those that were answered, by now.
    pub completed: u64,
    /// Those that have failed, by now.
    pub failed: u64,
    /// Tokens that they may consume, by a likely measure.
    pub tokens: u64,
    /// Its requests.
    pub input: FileId,
    /// What was answered, once it has ended.
    pub output: Option<FileId>,
    /// What has failed or was not begun, once it has ended.
    pub errors: Option<FileId>,
    /// When it is too late.
    pub expires_at: Timestamp,
}

impl BatchRecords {
    fn open(&self, job: &Job) -> Result<(Order, Option<Outcome>), Error> {
        let order = opened(&self.vault, job, &job.terms.body)?;
        let outcome = job.result.as_deref();
        let outcome = outcome.map(|sealed| opened(&self.vault, job, sealed));
        Ok((order, outcome.transpose()?))
    }

    /// How a batch stands; none of a job that is no batch.
    pub async fn summary(&self, job: &Job) -> Result<Option<BatchSummary>, Error> {
        if !KINDS.contains(&&*job.terms.kind) {
            return Ok(None);
        }
        let (order, outcome) = self.open(job)?;
        let counts = match &outcome {
            Some(outcome) => outcome.counts(),
            None if job.started_at.is_none() => LineCounts::default(),
            None => {
                let counts = self.store.counts(job.account, job.terms.id).await;
                counts.map_err(|error| unavailable(&error))?
            }
        };
        let number = job.terms.id.as_u128();
        Ok(Some(BatchSummary {
            id: match &*job.terms.kind {
                KIND => BatchId::from_u128(number).to_string(),
                _ => MessageBatchId::from_u128(number).to_string(),
            },
            endpoint: order.endpoint.as_str(),
            status: status(job),
            total: u64::from(order.total),
            completed: counts.done,
            failed: counts.failed,
            tokens: order.tokens,
            input: order.input,
            output: outcome.as_ref().and_then(|outcome| outcome.output),
            errors: outcome.as_ref().and_then(|outcome| outcome.errors),
            expires_at: order.expires_at(),
        }))
    }

    fn ended(&self, job: &Job) -> Result<Batch, Error> {
        let (order, outcome) = self.open(job)?;
        let of_outcome = outcome.as_ref();
        Ok(Batch::of(Shown {
            job,
            order,
            // One that has no outcome has failed before any of its lines.
            counts: of_outcome.map_or_else(LineCounts::default, Outcome::counts),
            finalizing_at: of_outcome.and_then(|outcome| outcome.finalizing_at),
            cancelling_at: match of_outcome {
                Some(outcome) => outcome.cancelling_at,
                // Nobody had begun it.
                None => job.completed_at.filter(|_| job.status == JobStatus::Cancelled),
            },
            outcome,
        }))
    }
}

#[async_trait]
impl JobRenderer for BatchRecords {
    /// The batch as `GET /v1/batches/{id}` shows it, under the names of OpenAI's events.
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<Record>> {
        if &*job.terms.kind != KIND {
            return Ok(None);
        }
        let failed = |error: String| StorageError::new(StorageErrorKind::Unavailable, error);
        let batch = self.ended(job).map_err(|error| failed(error.to_string()))?;
        Ok(Some(Record {
            event: format!("batch.{}", job.status.as_str()).into(),
            data: serde_json::to_value(batch).map_err(|error| failed(error.to_string()))?,
        }))
    }
}
