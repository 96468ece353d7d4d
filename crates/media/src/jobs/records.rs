//! Converts stored jobs to the records of the API.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use tollgate_accounts::Vault;
use tollgate_edge::JobReference;
use tollgate_edge::error::{ErrorBody, ErrorObject};
use tollgate_jobs::{JobRenderer, JobResult, JobViews, WebhookRecord, quantities, sealed};
use tollgate_storage::{Job, StorageError, StorageErrorKind};
use tollgate_types::{Error, ErrorCode, JobStatus, Retry, Timestamp};

use super::wire::JobRecord;

/// Builds the API records of jobs, for responses and webhooks.
pub struct Records {
    /// Decrypts the payloads of jobs, for their metadata.
    pub vault: Vault,
    /// Results and events of each kind of job.
    pub views: JobViews,
}

/// Payload fields that all media jobs have. Jobs of other API crates have none of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialPayload {
    head: Option<PartialHead>,
}

#[derive(Default, Deserialize)]
struct PartialHead {
    #[serde(default)]
    origin: String,
    metadata: Option<BTreeMap<String, String>>,
}

impl Records {
    /// Returns the record with its result. The URLs in the result are newly signed.
    pub async fn whole(&self, origin: &str, job: &Job) -> Result<JobRecord, Error> {
        let mut record = self.brief(origin, job)?;
        if let Some(job_result) = self.result(origin, job).await? {
            record.result = Some(job_result.body);
            record.expires_at = job_result.expires_at.map(Timestamp::to_rfc3339);
        }
        Ok(record)
    }

    /// Returns the record without its result.
    pub fn brief(&self, origin: &str, job: &Job) -> Result<JobRecord, Error> {
        let payload: PartialPayload = sealed::open(&self.vault, job, &job.terms.body).unwrap_or_default();
        let reference = JobReference::of(origin, job);
        let has_ended = job.status.is_terminal();
        let (phase, queue_position) = phase(job);
        Ok(JobRecord {
            id: reference.job_id.clone(),
            model: job.model.to_string(),
            progress: match job.status {
                JobStatus::Completed => Some(100),
                _ => job.progress,
            },
            phase,
            queue_position,
            started_at: job.started_at.map(Timestamp::to_rfc3339),
            completed_at: job.completed_at.map(Timestamp::to_rfc3339),
            expires_at: None,
            cancel_url: format!("{}/cancel", reference.poll_url),
            result: None,
            error: error_of(job),
            usage: has_ended.then(|| quantities(&job.usage)),
            cost: job.charge.map(|charge| charge.to_string()),
            metadata: payload.head.and_then(|head| head.metadata),
            request_id: job.request.to_string(),
            reference,
        })
    }

    /// Returns the result of a job that has ended; `None` for jobs without a result. Batches and
    /// background responses have their own endpoints.
    pub(crate) async fn result(&self, origin: &str, job: &Job) -> Result<Option<JobResult>, Error> {
        match self.views.of(job) {
            Some(view) if job.status.is_terminal() => view.result(origin, job).await,
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl JobRenderer for Records {
    /// Renders the complete record. Its URLs begin with the base URL of the original request.
    /// Returns `None` for jobs that store no base URL; the webhook then contains only the job
    /// reference.
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<WebhookRecord>> {
        let payload: PartialPayload = sealed::open(&self.vault, job, &job.terms.body).unwrap_or_default();
        let Some(head) = payload.head else {
            return Ok(None);
        };
        let failed = |error: String| StorageError::new(StorageErrorKind::Unavailable, error);
        let record = self.whole(&head.origin, job).await;
        let record = record.map_err(|error| failed(error.to_string()))?;
        let value = serde_json::to_value(record).map_err(|error| failed(error.to_string()))?;
        Ok(Some(WebhookRecord::of_job(job, value)))
    }
}

/// Returns the phase and the queue position of a job. Handlers report them as `phase` or
/// `phase/position`.
fn phase(job: &Job) -> (Option<String>, Option<u32>) {
    match job.status {
        JobStatus::Queued => (Some("accepted".to_owned()), None),
        JobStatus::InProgress => {
            let (phase, position) = job.phase.split_once('/').unwrap_or((&job.phase, ""));
            let phase = if phase.is_empty() { "claimed" } else { phase };
            (Some(phase.to_owned()), position.parse().ok())
        }
        _ => (None, None),
    }
}

fn error_of(job: &Job) -> Option<ErrorObject> {
    let error = job.error.as_ref()?;
    Some(ErrorBody::from(&Error::from(error)).error)
}

/// Converts a storage error to the error for the caller.
pub(crate) fn unavailable(error: &StorageError) -> Error {
    match error.kind {
        StorageErrorKind::Unavailable | StorageErrorKind::Timeout => {
            let message = "The gateway cannot reach its storage at the moment. Retry with backoff.";
            Error::new(ErrorCode::Overloaded, message)
                .with_retry(Retry::After(Duration::from_secs(2)))
                .with_source(error.to_string())
        }
        _ => Error::internal(error.to_string()),
    }
}
