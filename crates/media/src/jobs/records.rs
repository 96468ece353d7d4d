//! From a job as it is kept to what its owner sees.

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
use tollgate_jobs::webhooks::{JobRenderer, Record};
use tollgate_storage::{Job, StorageError, StorageErrorKind};
use tollgate_types::{Error, ErrorCode, JobStatus, Retry, Timestamp, Unit, Usage};

use super::wire::{JobRecord, JobReference};
use crate::order::{self, Kept, Outcome};
use crate::shelf::Shelf;
use crate::{compose, images, videos};

/// Writes down what owners see of jobs.
pub struct Records {
    /// Opens what is sealed.
    pub vault: Vault,
    /// Has what was made.
    pub shelf: Arc<Shelf>,
}

/// What is read of the order of any kind. Jobs of other rooms have none of it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    head: Option<SaidHead>,
}

#[derive(Default, Deserialize)]
struct SaidHead {
    #[serde(default)]
    origin: String,
    metadata: Option<BTreeMap<String, String>>,
}

/// A result with addresses that can be opened now.
pub(crate) struct Answered {
    pub(crate) body: Value,
    pub(crate) expires_at: Option<Timestamp>,
}

impl Records {
    /// The record, with its result. Addresses in it are new.
    pub async fn whole(&self, origin: &str, job: &Job) -> Result<JobRecord, Error> {
        let mut record = self.brief(origin, job)?;
        if let Some(answered) = self.result(origin, job).await? {
            record.result = Some(answered.body);
            record.expires_at = answered.expires_at.map(Timestamp::to_rfc3339);
        }
        Ok(record)
    }

    /// The record without its result.
    pub fn brief(&self, origin: &str, job: &Job) -> Result<JobRecord, Error> {
        let said: Said = order::open(&self.vault, job, &job.terms.body).unwrap_or_default();
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
            metadata: said.head.and_then(|head| head.metadata),
            request_id: job.request.to_string(),
            reference,
        })
    }

    /// What a completed job has made.
    pub(crate) async fn result(&self, origin: &str, job: &Job) -> Result<Option<Answered>, Error> {
        if job.status != JobStatus::Completed {
            return Ok(None);
        }
        let Some(sealed) = &job.result else {
            return Ok(None);
        };
        let outcome: Outcome = order::open(&self.vault, job, sealed)?;
        let mut answered = Answered {
            body: Value::Null,
            expires_at: None,
        };
        let mut data = Vec::with_capacity(outcome.pieces.len());
        for piece in &outcome.pieces {
            data.push(self.piece(origin, job, piece, &outcome, &mut answered).await?);
        }
        answered.body = match &*job.terms.kind {
            images::KIND => json!({"created": outcome.created_at.as_seconds(), "data": data}),
            videos::KIND => film(&outcome, data),
            compose::KIND => {
                let shown = compose::shown(&self.shelf, &self.vault, origin, job, sealed).await?;
                composition(&outcome, data, shown)
            }
            _ => Value::Null,
        };
        Ok(Some(answered))
    }

    async fn piece(
        &self,
        origin: &str,
        job: &Job,
        kept: &Kept,
        outcome: &Outcome,
        answered: &mut Answered,
    ) -> Result<Value, Error> {
        let mut piece = Map::new();
        if outcome.inline {
            let read = self.shelf.read(job.account, kept.media).await;
            let bytes = read.map_err(|error| unavailable(&error))?;
            let text = bytes.map(|(_, bytes)| STANDARD.encode(&bytes));
            piece.insert("b64_json".to_owned(), text.into());
        } else {
            let address = self
                .shelf
                .address(origin, job.account, kept.media, Disposition::Inline);
            let address = address.await.map_err(|error| unavailable(&error))?;
            // Past its time the address still says what was there; it answers 410.
            let gone = || format!("{origin}/v1/media/{}", kept.media);
            let ends = address.as_ref().map(|address| address.expires_at);
            answered.expires_at = [answered.expires_at, ends].into_iter().flatten().min();
            piece.insert("expires_at".to_owned(), ends.map(Timestamp::to_rfc3339).into());
            piece.insert(
                "url".to_owned(),
                address.map_or_else(gone, |address| address.url).into(),
            );
        }
        piece.insert("width".to_owned(), kept.width.into());
        piece.insert("height".to_owned(), kept.height.into());
        piece.insert("mime_type".to_owned(), kept.mime_type.clone().into());
        if let Some(prompt) = &kept.revised_prompt {
            piece.insert("revised_prompt".to_owned(), prompt.clone().into());
        }
        Ok(Value::Object(piece))
    }
}

#[async_trait]
impl JobRenderer for Records {
    /// The whole record, for a caller who has reached the service where the job was accepted. Jobs that say nothing of that
    /// are told by their reference.
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<Record>> {
        let said: Said = order::open(&self.vault, job, &job.terms.body).unwrap_or_default();
        let Some(head) = said.head else {
            return Ok(None);
        };
        let failed = |error: String| StorageError::new(StorageErrorKind::Unavailable, error);
        let record = self.whole(&head.origin, job).await;
        let record = record.map_err(|error| failed(error.to_string()))?;
        let value = serde_json::to_value(record).map_err(|error| failed(error.to_string()))?;
        Ok(Some(Record::of_job(job, value)))
    }
}

/// The result of a job that makes one film.
fn film(outcome: &Outcome, data: Vec<Value>) -> Value {
    let first = outcome.pieces.first();
    let of_first = |name: &str| data.first().and_then(|piece| piece.get(name)).cloned();
    let seconds = first
        .and_then(|piece| piece.duration)
        .map(|micros| micros as f64 / 1e6);
    json!({
        "video_url": of_first("url"),
        "url": of_first("url"),
        "duration": seconds,
        "width": first.map(|piece| piece.width),
        "height": first.map(|piece| piece.height),
        "expires_at": of_first("expires_at"),
        "data": data,
    })
}

/// The same with what else a composition shows; a plan has no film.
fn composition(outcome: &Outcome, data: Vec<Value>, shown: Map<String, Value>) -> Value {
    let mut whole = match outcome.pieces.is_empty() {
        true => Map::new(),
        false => film(outcome, data).as_object().cloned().unwrap_or_default(),
    };
    whole.extend(shown);
    Value::Object(whole)
}

/// A handler's word is `phase` or `phase/queue position`.
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

/// Quantities by class, as the account's usage names them.
fn usage(usage: &Usage) -> Value {
    let name = |unit: Unit| match unit {
        Unit::Image => "image_millionths".to_owned(),
        Unit::Video => "video_microseconds".to_owned(),
        Unit::Audio => "audio_microseconds".to_owned(),
        Unit::Character => "characters".to_owned(),
        token => format!("{}_tokens", token.as_str()),
    };
    let quantities = usage.iter().map(|(unit, quantity)| (name(unit), quantity.into()));
    Value::Object(quantities.collect())
}

/// What a caller is told when storage cannot be asked.
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
