//! Batch summaries for webhooks and for the admin API.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_accounts::Vault;
use tollgate_jobs::{JobRenderer, WebhookRecord, sealed};
use tollgate_storage::{BatchStore, Job, LineCounts, StorageError, StorageErrorKind};
use tollgate_types::{BatchId, Error, FileId, JobStatus, MessageBatchId, Timestamp};

use super::payload::{BatchPayload, KIND, MESSAGES_KIND, Outcome};
use super::wire::{Batch, BatchView, status};
use crate::responses::store::unavailable;

/// Job kinds of batches.
pub const KINDS: [&str; 2] = [KIND, MESSAGES_KIND];

/// Builds webhook payloads and summaries of batches.
pub struct BatchRecords {
    /// Decrypts the data of jobs.
    pub vault: Vault,
    /// Stored lines, to count their states.
    pub store: Arc<dyn BatchStore>,
}

/// Summary of a batch for operators, without the content of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSummary {
    /// Public id, as the owner sees it.
    pub id: String,
    /// Endpoint of all requests.
    pub endpoint: &'static str,
    /// Status, as in `GET /v1/batches/{id}`.
    pub status: &'static str,
    /// Total number of requests.
    pub total: u64,
    /// Number of requests that have succeeded so far.
    pub completed: u64,
    /// Number of requests that have failed so far.
    pub failed: u64,
    /// Estimated tokens of all lines: bytes ÷ 4, plus the output cap of each line.
    pub tokens: u64,
    /// Id of the input file.
    pub input: FileId,
    /// Id of the file with the successful responses, once the batch has ended.
    pub output: Option<FileId>,
    /// Id of the file with the failed requests and those that were not started, once the batch has
    /// ended.
    pub errors: Option<FileId>,
    /// Time at which requests that have not started expire.
    pub expires_at: Timestamp,
}

impl BatchRecords {
    fn open(&self, job: &Job) -> Result<(BatchPayload, Option<Outcome>), Error> {
        let payload = sealed::open(&self.vault, job, &job.terms.body)?;
        let outcome = job.result.as_deref();
        let outcome = outcome.map(|sealed| sealed::open(&self.vault, job, sealed));
        Ok((payload, outcome.transpose()?))
    }

    /// Returns the summary of a batch; `None` if the job is not a batch.
    pub async fn summary(&self, job: &Job) -> Result<Option<BatchSummary>, Error> {
        if !KINDS.contains(&&*job.terms.kind) {
            return Ok(None);
        }
        let (payload, outcome) = self.open(job)?;
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
            endpoint: payload.endpoint.as_str(),
            status: status(job),
            total: u64::from(payload.total),
            completed: counts.done,
            failed: counts.failed,
            tokens: payload.tokens,
            input: payload.input,
            output: outcome.as_ref().and_then(|outcome| outcome.output),
            errors: outcome.as_ref().and_then(|outcome| outcome.errors),
            expires_at: payload.expires_at(),
        }))
    }

    fn ended(&self, job: &Job) -> Result<Batch, Error> {
        let (payload, outcome) = self.open(job)?;
        let of_outcome = outcome.as_ref();
        Ok(Batch::of(BatchView {
            job,
            payload,
            // Without an outcome the batch failed before its first line.
            counts: of_outcome.map_or_else(LineCounts::default, Outcome::counts),
            finalizing_at: of_outcome.and_then(|outcome| outcome.finalizing_at),
            cancelling_at: match of_outcome {
                Some(outcome) => outcome.cancelling_at,
                // The batch was cancelled before it started.
                None => job.completed_at.filter(|_| job.status == JobStatus::Cancelled),
            },
            outcome,
        }))
    }
}

#[async_trait]
impl JobRenderer for BatchRecords {
    /// Returns the batch as in `GET /v1/batches/{id}`, with the names of OpenAI's webhook events.
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<WebhookRecord>> {
        if &*job.terms.kind != KIND {
            return Ok(None);
        }
        let failed = |error: String| StorageError::new(StorageErrorKind::Unavailable, error);
        let batch = self.ended(job).map_err(|error| failed(error.to_string()))?;
        Ok(Some(WebhookRecord {
            event: format!("batch.{}", job.status.as_str()).into(),
            data: serde_json::to_value(batch).map_err(|error| failed(error.to_string()))?,
        }))
    }
}
