//! Who wants to know is told that a job has ended: by a POST to the address that the job names, signed by the scheme of
//! Standard Webhooks (standardwebhooks.com). It is sent until it arrives or is given up, under the same id each time; it may
//! arrive more than once.

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

use crate::{Jobs, LOOK_AGAIN};

/// Posts that are on their way at once.
pub const AT_ONCE: usize = 32;
/// How long one may take.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Posts of one account that are on their way at once, on all nodes together.
const PER_ACCOUNT: u32 = 8;
/// How long an attempt may take, with all that goes with it, before somebody else tries.
const LEASED: Duration = Duration::from_secs(60);
/// How long is waited after each attempt that came to nothing; after the last one it is given up. The schedule of the scheme.
const WAITS: [Duration; 9] = [
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
/// The longest address.
const LONGEST: usize = 2_048;
/// The parameter that has it.
const PARAM: &str = "webhook_url";

/// Writes the record of a job, as its callers read it.
#[async_trait]
pub trait JobRenderer: Send + Sync {
    /// The record of a job that has ended; none when this does not know jobs of its kind. After a failure it is asked again later.
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<Record>>;
}

/// What is told of a job that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What has happened, such as `job.completed`.
    pub event: Arc<str>,
    /// The job, as whoever has accepted it reads it.
    pub data: Value,
}

impl Record {
    /// A job that is told of as most are: `job.` and how it has ended.
    pub fn of_job(job: &Job, data: Value) -> Self {
        Self {
            event: NewJobEvent::became(job.status).kind,
            data,
        }
    }
}

/// Knows no kind: every job is told by its reference.
pub struct References;

#[async_trait]
impl JobRenderer for References {
    async fn render(&self, _: &Job) -> tollgate_storage::Result<Option<Record>> {
        Ok(None)
    }
}

/// Asks one after another, until somebody knows the kind.
pub struct Renderers(pub Vec<Arc<dyn JobRenderer>>);

#[async_trait]
impl JobRenderer for Renderers {
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<Record>> {
        for renderer in &self.0 {
            if let Some(record) = renderer.render(job).await? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

/// Tells who wants to know that a job has ended.
pub struct Webhooks {
    /// Jobs.
    pub jobs: Arc<Jobs>,
    /// What is still to be told.
    pub store: Arc<dyn WebhookStore>,
    /// What posts are signed with.
    pub secrets: WebhookSecrets,
    /// Seals addresses: what is in their queries may be secret.
    pub vault: Vault,
    /// Posts.
    pub poster: Arc<dyn Poster>,
    /// Writes what is told.
    pub renderer: Arc<dyn JobRenderer>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Webhooks {
    /// Refuses an address that could not be posted to; nobody is asked.
    pub fn check(&self, url: &str) -> Result<(), Error> {
        let refused = |why: String| Error::new(ErrorCode::InvalidParameter, why).with_param(PARAM);
        if url.len() > LONGEST {
            return Err(refused(format!("'{PARAM}' has at most {LONGEST} bytes.")));
        }
        let checked = self.poster.check(url);
        checked.map_err(|error| refused(format!("'{PARAM}' {error}.")))
    }

    /// An address that a caller wrote, as [`tollgate_storage::NewJob`] has it: checked and sealed.
    pub fn address(&self, account: AccountId, job: JobId, url: &str) -> Result<Vec<u8>, Error> {
        self.check(url)?;
        let sealed = self.vault.seal(account, job.as_u128(), url.as_bytes());
        sealed.map_err(|error| Error::internal(error.to_string()))
    }

    /// Sends what is due, as soon as it is, until it is told to stop. What is on its way then is waited for.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (room, sending) = (Arc::new(Semaphore::new(AT_ONCE)), TaskTracker::new());
        while !stop.is_cancelled() {
            tokio::select! { _ = room.acquire() => {}, () = stop.cancelled() => break }
            for leased in self.claim(room.available_permits()).await {
                let Ok(permit) = room.clone().acquire_owned().await else {
                    break;
                };
                let webhooks = self.clone();
                sending.spawn(async move {
                    webhooks.tell(&leased).await;
                    drop(permit);
                    // There may be more of the same account.
                    webhooks.jobs.watch.due.notify_one();
                });
            }
            tokio::select! {
                () = self.jobs.watch.due.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
        sending.close();
        sending.wait().await;
    }

    async fn claim(&self, room: usize) -> Vec<LeasedDelivery> {
        let now = self.clock.now();
        let claim = DeliveryClaim {
            now,
            until: now.plus(LEASED),
            limit: u32::try_from(room).unwrap_or(u32::MAX),
            per_account: PER_ACCOUNT,
        };
        match self.store.claim(claim).await {
            Ok(leased) => leased,
            Err(error) => {
                tracing::warn!(%error, "cannot look for jobs that have ended and are to be told of");
                Vec::new()
            }
        }
    }

    async fn tell(&self, leased: &LeasedDelivery) {
        let id = leased.job.terms.id;
        let sent = self.send(&leased.job).await;
        let now = self.clock.now();
        let outcome = match (sent, wait(id, leased.attempt)) {
            (Ok(()), _) => DeliveryOutcome::Delivered { at: now },
            (Err(error), Some(wait)) if !error.is_final => DeliveryOutcome::Again {
                due_at: now.plus(wait),
                why: error.detail,
            },
            (Err(error), _) => {
                tracing::warn!(%error, job.id = %id, "the webhook of {id} is given up");
                DeliveryOutcome::Failed { why: error.detail }
            }
        };
        if let Err(error) = self.store.finish(leased, outcome).await {
            tracing::warn!(%error, job.id = %id, "what became of the webhook of {id} is lost; it is sent again");
        }
    }

    async fn send(&self, job: &Job) -> Result<(), NotifyError> {
        let sealed = job.terms.webhook.as_deref().unwrap_or_default();
        let url = self.vault.open(job.account, job.terms.id.as_u128(), sealed);
        let url = url.and_then(|url| String::from_utf8(url).ok());
        let url = url.ok_or_else(|| NotifyError::for_good("the address cannot be opened"))?;
        let record = self.renderer.render(job).await.map_err(away)?;
        let record = record.unwrap_or_else(|| Record::of_job(job, reference(job)));
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
        let secret = self.secrets.of(job.account).await.map_err(away)?;
        let post = Post {
            url,
            headers: secret.headers(&event_id(job.terms.id), self.clock.now(), &body),
            body: body.into(),
        };
        self.poster.post(&post).await
    }
}

/// Storage does not answer; it may later.
fn away(error: StorageError) -> NotifyError {
    NotifyError::for_now(error.to_string())
}

/// The id of the event that a job has ended. There is one, so it has the number of the job.
fn event_id(job: JobId) -> String {
    format!("evt_{:032x}", job.as_u128())
}

/// A job as whoever has accepted it is told of it.
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

/// How long is waited after the attempt of this number: up to a tenth longer than the schedule says, so that what failed together does
/// not come back together.
fn wait(job: JobId, attempt: u32) -> Option<Duration> {
    let place = usize::try_from(attempt).ok()?.checked_sub(1)?;
    let wait = *WAITS.get(place)?;
    let digest = Sha256::new()
        .chain_update(job.as_u128().to_be_bytes())
        .chain_update(attempt.to_be_bytes())
        .finalize();
    let dice = digest.first().copied().unwrap_or_default();
    Some(wait + wait * u32::from(dice) / 2_560)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_schedule_and_not_all_the_same() {
        for number in 0..100 {
            let job = JobId::from_u128(number);
            for (place, least) in WAITS.into_iter().enumerate() {
                let attempt = u32::try_from(place).unwrap() + 1;
                let waited = wait(job, attempt).unwrap();
                assert!(waited >= least && waited <= least * 11 / 10, "{waited:?}");
                assert_eq!(waited, wait(job, attempt).unwrap());
            }
            assert_eq!(wait(job, 10), None);
        }
        let first = |number| wait(JobId::from_u128(number), 1);
        assert!((1..20).any(|number| first(number) != first(0)));
        assert_eq!(wait(JobId::from_u128(1), 0), None);
    }
}
