//! Converts stored jobs to the records of the API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_accounts::{Disposition, Vault};
use tollgate_edge::error::{ErrorBody, ErrorObject};
use tollgate_jobs::webhooks::{JobRenderer, WebhookRecord};
use tollgate_storage::{Job, StorageError, StorageErrorKind};
use tollgate_types::{Error, ErrorCode, JobStatus, Retry, Timestamp, Unit, Usage};

use super::wire::{JobRecord, JobReference};
use crate::job_payload::{self, Outcome, StoredMedia};
use crate::storage::MediaStorage;
use crate::{compose, images, videos};

/// Builds the API records of jobs, for responses and webhooks.
pub struct Records {
    /// Decrypts payloads and results.
    pub vault: Vault,
    /// Storage of the outputs.
    pub storage: Arc<MediaStorage>,
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

/// Result of a job with newly signed URLs, and the earliest time at which one of them expires.
pub(crate) struct JobResult {
    pub(crate) body: Value,
    pub(crate) expires_at: Option<Timestamp>,
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
        let payload: PartialPayload =
            job_payload::open(&self.vault, job, &job.terms.body).unwrap_or_default();
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
            usage: has_ended.then(|| usage(&job.usage)),
            cost: job.charge.map(|charge| charge.to_string()),
            metadata: payload.head.and_then(|head| head.metadata),
            request_id: job.request.to_string(),
            reference,
        })
    }

    /// Returns the result of a completed media job; `None` for other jobs and for jobs without a
    /// stored result. Batches and background responses have their own endpoints.
    pub(crate) async fn result(&self, origin: &str, job: &Job) -> Result<Option<JobResult>, Error> {
        let is_media = [images::KIND, videos::KIND, compose::KIND].contains(&&*job.terms.kind);
        if job.status != JobStatus::Completed || !is_media {
            return Ok(None);
        }
        let Some(sealed) = &job.result else {
            return Ok(None);
        };
        let outcome: Outcome = job_payload::open(&self.vault, job, sealed)?;
        let mut job_result = JobResult {
            body: Value::Null,
            expires_at: None,
        };
        let mut data = Vec::with_capacity(outcome.items.len());
        for item in &outcome.items {
            data.push(self.item(origin, job, item, &outcome, &mut job_result).await?);
        }
        job_result.body = match &*job.terms.kind {
            images::KIND => json!({"created": outcome.created_at.as_seconds(), "data": data}),
            videos::KIND => video(&outcome, data),
            compose::KIND => {
                let result_fields =
                    compose::result_fields(&self.storage, &self.vault, origin, job, sealed).await?;
                composition(&outcome, data, result_fields)
            }
            _ => Value::Null,
        };
        Ok(Some(job_result))
    }

    async fn item(
        &self,
        origin: &str,
        job: &Job,
        stored: &StoredMedia,
        outcome: &Outcome,
        job_result: &mut JobResult,
    ) -> Result<Value, Error> {
        let mut item = Map::new();
        if outcome.inline {
            let read = self.storage.read(job.account, stored.media).await;
            let bytes = read.map_err(|error| unavailable(&error))?;
            let text = bytes.map(|(_, bytes)| STANDARD.encode(&bytes));
            item.insert("b64_json".to_owned(), text.into());
        } else {
            let address = self
                .storage
                .address(origin, job.account, stored.media, Disposition::Inline);
            let address = address.await.map_err(|error| unavailable(&error))?;
            let ends = address.as_ref().map(|address| address.expires_at);
            job_result.expires_at = [job_result.expires_at, ends].into_iter().flatten().min();
            item.insert("expires_at".to_owned(), ends.map(Timestamp::to_rfc3339).into());
            item.insert("url".to_owned(), address.map(|address| address.url).into());
        }
        item.insert("width".to_owned(), stored.width.into());
        item.insert("height".to_owned(), stored.height.into());
        item.insert("mime_type".to_owned(), stored.mime_type.clone().into());
        if let Some(prompt) = &stored.revised_prompt {
            item.insert("revised_prompt".to_owned(), prompt.clone().into());
        }
        Ok(Value::Object(item))
    }
}

#[async_trait]
impl JobRenderer for Records {
    /// Renders the complete record. Its URLs begin with the base URL of the original request.
    /// Returns `None` for jobs that store no base URL; the webhook then contains only the job
    /// reference.
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<WebhookRecord>> {
        let payload: PartialPayload =
            job_payload::open(&self.vault, job, &job.terms.body).unwrap_or_default();
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

/// Builds the result of a job with one video.
fn video(outcome: &Outcome, data: Vec<Value>) -> Value {
    let first = outcome.items.first();
    let of_first = |name: &str| data.first().and_then(|item| item.get(name)).cloned();
    let seconds = first
        .and_then(|item| item.duration)
        .map(|micros| micros as f64 / 1e6);
    json!({
        "video_url": of_first("url"),
        "url": of_first("url"),
        "duration": seconds,
        "width": first.map(|item| item.width),
        "height": first.map(|item| item.height),
        "expires_at": of_first("expires_at"),
        "data": data,
    })
}

/// Builds the result of a composition. A plan has no video fields.
fn composition(outcome: &Outcome, data: Vec<Value>, result_fields: Map<String, Value>) -> Value {
    let mut whole = match outcome.items.is_empty() {
        true => Map::new(),
        false => video(outcome, data).as_object().cloned().unwrap_or_default(),
    };
    whole.extend(result_fields);
    Value::Object(whole)
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

/// Returns the quantities as images, seconds, characters and tokens. The field names are those of
/// the account's usage report.
fn usage(usage: &Usage) -> Value {
    let quantities = usage.iter().map(|(unit, quantity)| match unit {
        Unit::Image => ("images".to_owned(), plain(quantity)),
        Unit::Video => ("video_seconds".to_owned(), plain(quantity)),
        Unit::Audio => ("audio_seconds".to_owned(), plain(quantity)),
        Unit::Character => ("characters".to_owned(), quantity.into()),
        token => (format!("{}_tokens", token.as_str()), quantity.into()),
    });
    Value::Object(quantities.collect())
}

/// Converts millionths to a JSON number: an integer if there is no fraction.
fn plain(millionths: u64) -> Value {
    match millionths % 1_000_000 {
        0 => (millionths / 1_000_000).into(),
        _ => (millionths as f64 / 1e6).into(),
    }
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
