//! Results of media jobs: the URLs or bytes of their outputs.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tollgate_accounts::{Disposition, Vault};
use tollgate_jobs::{JobResult, JobView, sealed};
use tollgate_storage::Job;
use tollgate_types::{Error, JobStatus, Timestamp};

use super::records::unavailable;
use crate::job_payload::{Outcome, StoredMedia};
use crate::storage::MediaStorage;
use crate::{compose, images, videos};

/// View of media jobs. The URLs in the results are newly signed.
struct MediaView {
    kind: &'static str,
    vault: Vault,
    storage: Arc<MediaStorage>,
}

/// Returns the views of all kinds of media jobs.
pub fn views(vault: &Vault, storage: &Arc<MediaStorage>) -> Vec<Arc<dyn JobView>> {
    let kinds = [images::KIND, videos::KIND, compose::KIND];
    let view = |kind| -> Arc<dyn JobView> {
        Arc::new(MediaView {
            kind,
            vault: vault.clone(),
            storage: storage.clone(),
        })
    };
    kinds.into_iter().map(view).collect()
}

#[async_trait]
impl JobView for MediaView {
    fn kind(&self) -> &'static str {
        self.kind
    }

    async fn result(&self, origin: &str, job: &Job) -> Result<Option<JobResult>, Error> {
        if job.status != JobStatus::Completed {
            return Ok(None);
        }
        let Some(sealed) = &job.result else {
            return Ok(None);
        };
        let outcome: Outcome = sealed::open(&self.vault, job, sealed)?;
        let mut job_result = JobResult {
            body: Value::Null,
            expires_at: None,
        };
        let mut data = Vec::with_capacity(outcome.items.len());
        for item in &outcome.items {
            data.push(self.item(origin, job, item, &outcome, &mut job_result).await?);
        }
        job_result.body = match self.kind {
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
}

impl MediaView {
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
