//! Webhooks of ended jobs: a POST to the job's webhook URL, signed by the scheme of Standard
//! Webhooks (standardwebhooks.com). Each attempt has the same event id; after the last failed
//! attempt the delivery is abandoned. A webhook may arrive more than once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_accounts::{Vault, WebhookSecrets};
use tollgate_storage::{
    DeliveryClaim, DeliveryOutcome, Job, LeasedDelivery, NewJobEvent, StorageError, WebhookStore,
};
use tollgate_types::{AccountId, Clock, Error, ErrorCode, JobId};
use tollgate_upstream::{NotifyError, Post, Poster};

use crate::{Jobs, POLL_INTERVAL};

/// Maximum number of concurrent requests of a process.
pub const MAX_CONCURRENT_POSTS: usize = 32;
/// Timeout of one request.
pub const POST_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of concurrent requests for one account, on all nodes together.
const MAX_POSTS_PER_ACCOUNT: u32 = 8;
/// Lease of a delivery attempt. When it expires, another node may retry the delivery.
const LEASE_DURATION: Duration = Duration::from_secs(60);
/// Delays between attempts, from the schedule of Standard Webhooks. If the attempt after the last
/// delay fails, the delivery has failed.
const RETRY_DELAYS: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(14),
    Duration::from_hours(20),
    Duration::from_hours(24),
];
/// Maximum length of a webhook URL, in bytes.
const MAX_URL_BYTES: usize = 2_048;
/// Name of the request parameter with the webhook URL.
const PARAM: &str = "webhook_url";

/// Renderer of the data of a job for its webhook event.
#[async_trait]
pub trait JobRenderer: Send + Sync {
    /// Returns the record of an ended job; `None` if the renderer does not support its kind. After
    /// an error, the delivery is retried.
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<WebhookRecord>>;
}

/// Type and data of a webhook event.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookRecord {
    /// Event type, such as `job.completed`.
    pub event: Arc<str>,
    /// The job, in the format of the API that accepted it.
    pub data: Value,
}

impl WebhookRecord {
    /// Creates a record with the default event type: `job.` and the final status.
    pub fn of_job(job: &Job, data: Value) -> Self {
        Self {
            event: NewJobEvent::status_changed(job.status).kind,
            data,
        }
    }
}

/// A renderer without records: the webhook of each job contains a reference to the job.
pub struct ReferenceRenderer;

#[async_trait]
impl JobRenderer for ReferenceRenderer {
    async fn render(&self, _: &Job) -> tollgate_storage::Result<Option<WebhookRecord>> {
        Ok(None)
    }
}

/// Renderers in order; the first one that supports the kind renders the job.
pub struct RendererChain(pub Vec<Arc<dyn JobRenderer>>);

#[async_trait]
impl JobRenderer for RendererChain {
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<WebhookRecord>> {
        for renderer in &self.0 {
            if let Some(record) = renderer.render(job).await? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

/// Sender of the webhooks of ended jobs.
pub struct Webhooks {
    /// Service that notifies the sender about ended jobs.
    pub jobs: Arc<Jobs>,
    /// Queue of pending deliveries.
    pub store: Arc<dyn WebhookStore>,
    /// Signing secrets of the accounts.
    pub secrets: WebhookSecrets,
    /// Vault that seals the URLs, because their queries may contain secrets.
    pub vault: Vault,
    /// Client that sends the requests.
    pub poster: Arc<dyn Poster>,
    /// Renderer of the event data.
    pub renderer: Arc<dyn JobRenderer>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

impl Webhooks {
    /// Checks the syntax and length of a webhook URL, without a network request.
    pub fn check(&self, url: &str) -> Result<(), Error> {
        let refused = |why: String| Error::new(ErrorCode::InvalidParameter, why).with_param(PARAM);
        if url.len() > MAX_URL_BYTES {
            return Err(refused(format!("'{PARAM}' exceeds {MAX_URL_BYTES} bytes.")));
        }
        let checked = self.poster.check(url);
        checked.map_err(|error| refused(format!("'{PARAM}' {error}.")))
    }

    /// Checks a caller's webhook URL and seals it for [`tollgate_storage::NewJob`].
    pub fn address(&self, account: AccountId, job: JobId, url: &str) -> Result<Vec<u8>, Error> {
        self.check(url)?;
        let sealed = self.vault.seal(account, job.as_u128(), url.as_bytes());
        sealed.map_err(|error| Error::internal(error.to_string()))
    }

    /// Sends due webhooks until `stop` is cancelled, then waits for requests in progress.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (slots, sending) = (Arc::new(Semaphore::new(MAX_CONCURRENT_POSTS)), TaskTracker::new());
        while !stop.is_cancelled() {
            tokio::select! { _ = slots.acquire() => {}, () = stop.cancelled() => break }
            for leased in self.claim(slots.available_permits()).await {
                let Ok(permit) = slots.clone().acquire_owned().await else {
                    break;
                };
                let webhooks = self.clone();
                sending.spawn(async move {
                    webhooks.deliver(&leased).await;
                    drop(permit);
                    // The account may have more due webhooks.
                    webhooks.jobs.watch.due.notify_one();
                });
            }
            tokio::select! {
                () = self.jobs.watch.due.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = stop.cancelled() => {}
            }
        }
        sending.close();
        sending.wait().await;
    }

    async fn claim(&self, slots: usize) -> Vec<LeasedDelivery> {
        let now = self.clock.now();
        let claim = DeliveryClaim {
            now,
            until: now.plus(LEASE_DURATION),
            limit: u32::try_from(slots).unwrap_or(u32::MAX),
            per_account: MAX_POSTS_PER_ACCOUNT,
        };
        match self.store.claim(claim).await {
            Ok(leased) => leased,
            Err(error) => {
                tracing::warn!(%error, "cannot claim due job webhooks");
                Vec::new()
            }
        }
    }

    async fn deliver(&self, leased: &LeasedDelivery) {
        let id = leased.job.terms.id;
        let sent = self.send(&leased.job).await;
        let now = self.clock.now();
        let outcome = match (sent, wait(id, leased.attempt)) {
            (Ok(()), _) => DeliveryOutcome::Delivered { at: now },
            (Err(error), Some(wait)) if !error.is_final => DeliveryOutcome::Retry {
                due_at: now.plus(wait),
                why: error.detail,
            },
            (Err(error), _) => {
                tracing::warn!(%error, job.id = %id, "giving up on the webhook of {id}");
                DeliveryOutcome::Failed { why: error.detail }
            }
        };
        if let Err(error) = self.store.finish(leased, outcome).await {
            tracing::warn!(%error, job.id = %id, "cannot store the outcome of the webhook of {id}; it will be sent again");
        }
    }

    async fn send(&self, job: &Job) -> Result<(), NotifyError> {
        let sealed = job.terms.webhook.as_deref().unwrap_or_default();
        let url = self.vault.open(job.account, job.terms.id.as_u128(), sealed);
        let url = url.and_then(|url| String::from_utf8(url).ok());
        let url = url.ok_or_else(|| NotifyError::permanent("the webhook URL cannot be decrypted"))?;
        let record = self.renderer.render(job).await.map_err(storage_error)?;
        let record = record.unwrap_or_else(|| WebhookRecord::of_job(job, reference(job)));
        let ended_at = job.completed_at.unwrap_or(job.created_at);
        let body = json!({
            "id": event_id(job.terms.id),
            "object": "event",
            "type": &*record.event,
            "created_at": ended_at.as_seconds(),
            "timestamp": ended_at.to_rfc3339(),
            "data": record.data,
        });
        let body = body.to_string();
        let secret = self.secrets.of(job.account).await.map_err(storage_error)?;
        let post = Post {
            url,
            headers: secret.headers(&event_id(job.terms.id), self.clock.now(), &body),
            body: body.into(),
        };
        self.poster.post(&post).await
    }
}

/// Converts a storage failure to a transient delivery error.
fn storage_error(error: StorageError) -> NotifyError {
    NotifyError::transient(error.to_string())
}

/// Returns the id of a job's only webhook event; it contains the job id.
pub fn event_id(job: JobId) -> String {
    format!("evt_{:032x}", job.as_u128())
}

/// Returns the reference of a job, in the format of the jobs API.
fn reference(job: &Job) -> Value {
    let error = job
        .error
        .as_ref()
        .map(|error| json!({"code": error.code.as_str(), "message": error.message, "param": error.param}));
    json!({
        "job_id": job.terms.id,
        "object": "job",
        "type": &*job.terms.kind,
        "status": job.status,
        "created_at": job.created_at.to_rfc3339(),
        "completed_at": job.completed_at.map(|at| at.to_rfc3339()),
        "error": error,
    })
}

/// Returns the delay after this attempt; `None` after the last attempt. The delay is up to a tenth
/// longer than scheduled, so that deliveries that failed simultaneously are not retried
/// simultaneously.
fn wait(job: JobId, attempt: u32) -> Option<Duration> {
    let place = usize::try_from(attempt).ok()?.checked_sub(1)?;
    let wait = *RETRY_DELAYS.get(place)?;
    let digest = Sha256::new()
        .chain_update(job.as_u128().to_be_bytes())
        .chain_update(attempt.to_be_bytes())
        .finalize();
    let jitter = digest.first().copied().unwrap_or_default();
    Some(wait + wait * u32::from(jitter) / 2_560)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_follow_the_schedule_with_jitter() {
        for number in 0..100 {
            let job = JobId::from_u128(number);
            let longest = (1..=9).filter_map(|attempt| wait(job, attempt)).max();
            assert!(longest.unwrap() <= tollgate_storage::notice::MAX_RETRY_WAIT);
            for (place, min_wait) in RETRY_DELAYS.into_iter().enumerate() {
                let attempt = u32::try_from(place).unwrap() + 1;
                let waited = wait(job, attempt).unwrap();
                assert!(waited >= min_wait && waited <= min_wait * 11 / 10, "{waited:?}");
                assert_eq!(waited, wait(job, attempt).unwrap());
            }
            assert_eq!(wait(job, 10), None);
        }
        let first = |number| wait(JobId::from_u128(number), 1);
        assert!((1..20).any(|number| first(number) != first(0)));
        assert_eq!(wait(JobId::from_u128(1), 0), None);
    }
}
