//! Webhooks report the end of jobs, on both engines.

#![expect(
    clippy::disallowed_methods,
    reason = "aborting the task of a sender simulates the death of its process"
)]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tollgate_accounts::{Pepper, Vault, WebhookSecrets};
use tollgate_jobs::webhooks::{POST_TIMEOUT as LONGEST_POST, ReferenceRenderer};
use tollgate_jobs::{JobRenderer, Jobs, WebhookRecord, Webhooks};
use tollgate_providers::egress::{Allowed, SystemResolver};
use tollgate_providers::{EgressClient, EgressSettings, HttpClient, HttpSettings};
use tollgate_storage::{Delivery, DeliveryState, Job, NewJob, NoFiles};
use tollgate_testkit::gateway::eventually;
use tollgate_testkit::upstream::{FakeUpstream, Gate, ReceivedRequest, Reply};
use tollgate_types::{Clock, ErrorCode, JobId};

use crate::app::Scene;
use crate::jobs::{Shop, TIMEOUT, page};
use crate::ledger::engines::{ACCOUNT, ENGINES, Engine};

const HOOK: &str = "/hooks/jobs";
const OTHER_HOOK: &str = "/hooks/others";

/// Jobs with webhooks and the server that receives them.
struct WebhookTest {
    shop: Shop,
    webhook_test: FakeUpstream,
    /// Number of the last job that was created only to wake the senders.
    wakes: std::cell::Cell<u128>,
}

/// A running sender. An aborted task simulates the death of its process.
struct Sender {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Sender {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

fn egress(allow: Vec<Allowed>) -> EgressClient {
    let settings = EgressSettings {
        allow,
        total: LONGEST_POST,
        ..EgressSettings::default()
    };
    let http = HttpClient::new(HttpSettings::default());
    EgressClient::new(settings, Arc::new(SystemResolver), http)
}

impl WebhookTest {
    async fn open(engine: Engine) -> Self {
        let webhook_test = FakeUpstream::start().await;
        webhook_test.set_hook(HOOK, []);
        webhook_test.set_hook(OTHER_HOOK, []);
        Self {
            shop: Shop::open(engine).await,
            webhook_test,
            wakes: std::cell::Cell::new(1_000),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.webhook_test.address())
    }

    fn webhooks_with(
        &self,
        jobs: Arc<Jobs>,
        allow: Vec<Allowed>,
        renderer: Arc<dyn JobRenderer>,
    ) -> Arc<Webhooks> {
        let vault = Vault::new(Pepper::new(&[7; 32]).unwrap());
        let store = self.shop.ledger.storage.webhooks.clone();
        Arc::new(Webhooks {
            jobs,
            secrets: WebhookSecrets::new(store.clone(), vault.clone()),
            store,
            vault,
            poster: Arc::new(egress(allow)),
            renderer,
            clock: self.shop.clock.clone(),
        })
    }

    /// Creates a sender that may post to the receiver and is notified of jobs that end in this
    /// process.
    fn webhooks(&self) -> Arc<Webhooks> {
        let allowed = Allowed::parse(&self.webhook_test.address().to_string()).unwrap();
        self.webhooks_with(self.shop.jobs.clone(), vec![allowed], Arc::new(ReferenceRenderer))
    }

    /// Creates a sender that receives no notifications and has to poll.
    fn webhooks_of_another_process(&self) -> Arc<Webhooks> {
        let allowed = Allowed::parse(&self.webhook_test.address().to_string()).unwrap();
        let jobs = Arc::new(Jobs::new(self.shop.ledger.storage.jobs.clone()));
        self.webhooks_with(jobs, vec![allowed], Arc::new(ReferenceRenderer))
    }

    fn send(webhooks: &Arc<Webhooks>) -> Sender {
        let stop = CancellationToken::new();
        let task = tokio::spawn(webhooks.clone().run(stop.clone()));
        Sender { stop, task }
    }

    async fn accept(&self, number: u128, body: &str, path: &str) -> JobId {
        let id = JobId::from_u128(number);
        let address = self.webhooks().address(ACCOUNT, id, &self.url(path)).unwrap();
        let job = NewJob {
            webhook: Some(address),
            ..page(number, body)
        };
        self.shop.accept_job(job).await
    }

    /// Accepts a job and cancels it.
    async fn end(&self, number: u128, path: &str) -> JobId {
        let id = self.accept(number, "", path).await;
        let at = self.shop.clock.now();
        self.shop.jobs.cancel(ACCOUNT, id, at).await.unwrap();
        id
    }

    /// Advances the clock by `time` and wakes the senders.
    async fn later(&self, time: Duration) {
        self.shop.clock.advance(time);
        self.wakes.set(self.wakes.get() + 1);
        let woken = self.end(self.wakes.get(), OTHER_HOOK).await;
        self.until(woken, |delivery| delivery.state == DeliveryState::Delivered)
            .await;
    }

    async fn delivery(&self, id: JobId) -> Delivery {
        let found = self.shop.ledger.storage.webhooks.delivery(ACCOUNT, id).await;
        found.unwrap().unwrap()
    }

    async fn until(&self, id: JobId, fits: impl Fn(&Delivery) -> bool) -> Delivery {
        let mut seen = self.delivery(id).await;
        eventually("the delivery has the expected state", async || {
            seen = self.delivery(id).await;
            fits(&seen)
        })
        .await;
        seen
    }

    /// Returns the received posts with this path.
    fn posts(&self, path: &str) -> Vec<ReceivedRequest> {
        let mut posts = self.webhook_test.requests();
        posts.retain(|post| post.path == path);
        posts
    }

    async fn close(self, revenue: i128) {
        self.shop.close(revenue).await;
    }
}

/// Asserts that a post is signed with the secret according to Standard Webhooks.
fn assert_signed(request: &ReceivedRequest, secret: &str) {
    use hmac::{Hmac, KeyInit, Mac};
    let header = |name| request.header(name).unwrap();
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    mac.update(&request.body);
    let signature = header("webhook-signature").strip_prefix("v1,").unwrap();
    mac.verify_slice(&STANDARD.decode(signature).unwrap()).unwrap();
    assert_eq!(header("content-type"), "application/json");
}

fn ids(posts: &[ReceivedRequest]) -> Vec<&str> {
    let id = |post| ReceivedRequest::header(post, "webhook-id").unwrap();
    posts.iter().map(id).collect()
}

#[tokio::test]
async fn the_end_of_a_job_sends_one_signed_webhook() {
    for engine in ENGINES {
        let webhook_test = WebhookTest::open(engine).await;
        let webhooks = webhook_test.webhooks();
        let (worker, sender) = (webhook_test.shop.start(1, TIMEOUT), WebhookTest::send(&webhooks));
        let path = format!("{HOOK}?token=canary");
        let id = webhook_test.accept(5, "", &path).await;
        let delivery = webhook_test
            .until(id, |found| found.state == DeliveryState::Delivered)
            .await;
        assert_eq!((delivery.attempts, delivery.failure), (1, None));
        worker.stop().await;
        webhook_test.later(Duration::from_hours(48)).await;
        let posts = webhook_test.posts(&path);
        assert_eq!(posts.len(), 1, "{engine:?}");
        let secret = webhooks.secrets.of(ACCOUNT).await.unwrap();
        assert_signed(&posts[0], &secret.reveal());
        assert_eq!(ids(&posts), [id.to_string().replace("job_", "evt_")]);
        let expected = json!({
            "id": ids(&posts)[0],
            "object": "event",
            "type": "job.completed",
            "created_at": 1_795_181_400,
            "timestamp": "2026-11-20T13:30:00Z",
            "data": {
                "job_id": id,
                "object": "job",
                "type": "test.print",
                "status": "completed",
                "created_at": "2026-11-20T13:30:00Z",
                "completed_at": "2026-11-20T13:30:00Z",
                "error": null,
            },
        });
        assert_eq!(posts[0].json().unwrap(), expected);
        sender.stop().await;
        webhook_test.close(7).await;
    }
}

#[tokio::test]
async fn a_job_that_fails_tells_why() {
    let webhook_test = WebhookTest::open(Engine::Sqlite).await;
    let (worker, sender) = (
        webhook_test.shop.start(1, TIMEOUT),
        WebhookTest::send(&webhook_test.webhooks()),
    );
    webhook_test.accept(5, "panics", HOOK).await;
    webhook_test.webhook_test.wait_for_requests(1).await;
    let body = webhook_test.posts(HOOK)[0].json().unwrap();
    assert_eq!(
        (&body["type"], &body["data"]["status"]),
        (&json!("job.failed"), &json!("failed"))
    );
    assert_eq!(body["data"]["error"]["code"], "internal_error");
    sender.stop().await;
    worker.stop().await;
    webhook_test.close(0).await;
}

#[tokio::test]
async fn what_does_not_arrive_is_sent_again_under_the_same_id() {
    for engine in ENGINES {
        let webhook_test = WebhookTest::open(engine).await;
        let failing = [
            Reply::body(503, "text/plain", "busy"),
            Reply::body(302, "text/plain", "").header("location", OTHER_HOOK),
        ];
        webhook_test.webhook_test.set_hook(HOOK, failing);
        let webhooks = webhook_test.webhooks();
        let sender = WebhookTest::send(&webhooks);
        let id = webhook_test.end(5, HOOK).await;
        for (attempt, why, wait) in [
            (1, "the endpoint returned 503", Duration::from_secs(6)),
            (2, "the endpoint returned 302", Duration::from_mins(6)),
        ] {
            let failed = webhook_test
                .until(id, |found| found.failure.as_deref() == Some(why))
                .await;
            assert_eq!((failed.state, failed.attempts), (DeliveryState::Pending, attempt));
            // No attempt is made before the retry time.
            webhook_test.later(Duration::ZERO).await;
            assert_eq!(webhook_test.delivery(id).await.attempts, attempt);
            webhook_test.later(wait).await;
        }
        let arrived = webhook_test
            .until(id, |found| found.state == DeliveryState::Delivered)
            .await;
        assert_eq!(arrived.attempts, 3);
        let posts = webhook_test.posts(HOOK);
        let (ids, secret) = (ids(&posts), webhooks.secrets.of(ACCOUNT).await.unwrap());
        assert_eq!(ids, [ids[0]; 3]);
        posts
            .iter()
            .for_each(|post| assert_signed(post, &secret.reveal()));
        let times: HashSet<_> = posts
            .iter()
            .map(|post| post.header("webhook-timestamp"))
            .collect();
        assert_eq!(times.len(), 3);
        let bodies: HashSet<_> = posts.iter().map(|post| &post.body).collect();
        assert_eq!(bodies.len(), 1);
        sender.stop().await;
        webhook_test.close(0).await;
    }
}

#[tokio::test]
async fn a_webhook_is_abandoned_after_the_last_attempt_or_without_receiver() {
    let webhook_test = WebhookTest::open(Engine::Sqlite).await;
    webhook_test
        .webhook_test
        .set_hook(HOOK, [Reply::body(410, "text/plain", "gone")]);
    let sender = WebhookTest::send(&webhook_test.webhooks());
    let gone = webhook_test.end(5, HOOK).await;
    let failed = webhook_test
        .until(gone, |found| found.state == DeliveryState::Failed)
        .await;
    assert_eq!(
        (failed.attempts, failed.failure.as_deref()),
        (1, Some("the endpoint returned 410"))
    );
    let failing = (501..=520).map(|status| Reply::body(status, "text/plain", ""));
    webhook_test.webhook_test.set_hook(HOOK, failing);
    let failing = webhook_test.end(6, HOOK).await;
    for attempt in 1..=10 {
        let why = format!("the endpoint returned {}", 500 + attempt);
        let failed = webhook_test
            .until(failing, |found| found.failure.as_deref() == Some(&why))
            .await;
        let is_last = failed.state == DeliveryState::Failed;
        assert_eq!((failed.attempts, is_last), (attempt, attempt == 10));
        // The maximum retry delay plus 10 % jitter.
        webhook_test.later(Duration::from_hours(27)).await;
    }
    assert_eq!(webhook_test.delivery(failing).await.attempts, 10);
    assert_eq!(webhook_test.posts(HOOK).len(), 11);
    sender.stop().await;
    webhook_test.close(0).await;
}

/// If a sender dies between a post and its record, another sender repeats the post.
#[tokio::test]
async fn what_was_on_its_way_when_the_sender_died_is_sent_again() {
    for engine in ENGINES {
        let webhook_test = WebhookTest::open(engine).await;
        let gate = Gate::new();
        webhook_test
            .webhook_test
            .set_hook(HOOK, [Reply::body(204, "text/plain", "").hold_head(&gate)]);
        let first = WebhookTest::send(&webhook_test.webhooks());
        let id = webhook_test.end(5, HOOK).await;
        webhook_test.webhook_test.wait_for_requests(1).await;
        first.task.abort();
        let _ = first.task.await;
        // The requests of the first sender are aborted, so their responses are lost.
        webhook_test.shop.clock.advance(Duration::from_secs(61));
        let second = WebhookTest::send(&webhook_test.webhooks_of_another_process());
        let arrived = webhook_test
            .until(id, |found| found.state == DeliveryState::Delivered)
            .await;
        assert_eq!(arrived.attempts, 2);
        let posts = webhook_test.posts(HOOK);
        let ids = ids(&posts);
        assert_eq!(ids, [ids[0]; 2]);
        second.stop().await;
        webhook_test.close(0).await;
    }
}

/// Jobs that end while no sender runs are reported by later senders. Several senders share the
/// deliveries.
#[tokio::test]
async fn several_nodes_tell_each_end_once() {
    for engine in ENGINES {
        let webhook_test = WebhookTest::open(engine).await;
        for number in 1..=30 {
            webhook_test.end(number, HOOK).await;
        }
        let nodes = [(); 3].map(|()| WebhookTest::send(&webhook_test.webhooks_of_another_process()));
        for number in 1..=30 {
            let id = JobId::from_u128(number);
            webhook_test
                .until(id, |found| found.state == DeliveryState::Delivered)
                .await;
        }
        let posts = webhook_test.posts(HOOK);
        let distinct: HashSet<_> = ids(&posts).into_iter().collect();
        assert_eq!((posts.len(), distinct.len()), (30, 30), "{engine:?}");
        for node in nodes {
            node.stop().await;
        }
        webhook_test.close(0).await;
    }
}

#[tokio::test]
async fn an_address_inside_is_not_posted_to() {
    let webhook_test = WebhookTest::open(Engine::Sqlite).await;
    let webhooks = webhook_test.webhooks_with(
        webhook_test.shop.jobs.clone(),
        Vec::new(),
        Arc::new(ReferenceRenderer),
    );
    let sender = WebhookTest::send(&webhooks);
    let id = webhook_test.end(5, HOOK).await;
    let refused = webhook_test.until(id, |found| found.failure.is_some()).await;
    assert_eq!(refused.failure.as_deref(), Some("the endpoint cannot be reached"));
    assert_eq!(refused.state, DeliveryState::Pending);
    assert_eq!(webhook_test.webhook_test.connection_count(), 0);
    sender.stop().await;
    webhook_test.close(0).await;
}

#[tokio::test]
async fn addresses_that_could_not_be_posted_to_are_refused() {
    let webhook_test = WebhookTest::open(Engine::Sqlite).await;
    let webhooks = webhook_test.webhooks();
    for bad in [
        "",
        "nowhere",
        "ftp://example.com/",
        "https://user:secret@example.com/",
        "https://user@example.com/",
        "https://@example.com/",
        "https:///hook",
        "https://example.com/a b",
        "https://example.com\\@inside/",
        "http://127.0.0.1/",
        "http://0x7f.1/",
        "http://[::ffff:169.254.169.254]/",
        "https://example.com:8443/",
        &format!("https://example.com/{}", "a".repeat(2_030)),
    ] {
        let refused = webhooks.check(bad).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidParameter, "{bad}");
        assert_eq!(refused.param.as_deref(), Some("webhook_url"), "{bad}");
        assert!(refused.message.contains("'webhook_url'"), "{}", refused.message);
    }
    let longest = format!("https://example.com/{}", "a".repeat(2_028));
    let id = JobId::from_u128(5);
    let sealed = webhooks.address(ACCOUNT, id, &longest).unwrap();
    assert!(!sealed.windows(7).any(|part| part == b"example"));
    webhooks.check("http://example.com/?a=b#c").unwrap();
    webhooks.check(&webhook_test.url(HOOK)).unwrap();
    webhook_test.close(0).await;
}

/// Renderer of jobs with an even number. Its first lookup fails.
struct Even(std::sync::Mutex<bool>);

#[async_trait]
impl JobRenderer for Even {
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<WebhookRecord>> {
        let number = job.terms.id.as_u128();
        let failed_before = std::mem::replace(&mut *self.0.lock().unwrap(), true);
        match (number % 2, failed_before) {
            (0, false) => Err(tollgate_storage::StorageError::not_found("an image")),
            (0, true) => Ok(Some(WebhookRecord {
                event: "page.ready".into(),
                data: json!({"id": number.to_string(), "pages": 3}),
            })),
            _ => Ok(None),
        }
    }
}

#[tokio::test]
async fn each_kind_writes_its_own_webhook() {
    let webhook_test = WebhookTest::open(Engine::Sqlite).await;
    let allowed = Allowed::parse(&webhook_test.webhook_test.address().to_string()).unwrap();
    let renderer = Arc::new(Even(std::sync::Mutex::new(false)));
    let sender = WebhookTest::send(&webhook_test.webhooks_with(
        webhook_test.shop.jobs.clone(),
        vec![allowed],
        renderer,
    ));
    let id = webhook_test.end(2, HOOK).await;
    webhook_test.until(id, |found| found.failure.is_some()).await;
    assert!(webhook_test.posts(HOOK).is_empty());
    webhook_test.shop.clock.advance(Duration::from_secs(6));
    webhook_test
        .until(id, |found| found.state == DeliveryState::Delivered)
        .await;
    let body = webhook_test.posts(HOOK)[0].json().unwrap();
    assert_eq!(
        (&body["type"], &body["data"]),
        (&json!("page.ready"), &json!({"id": "2", "pages": 3}))
    );
    let other = webhook_test.end(3, HOOK).await;
    webhook_test
        .until(other, |found| found.state == DeliveryState::Delivered)
        .await;
    assert_eq!(
        webhook_test.posts(HOOK)[1].json().unwrap()["data"]["job_id"],
        json!(other)
    );
    sender.stop().await;
    webhook_test.close(0).await;
}

#[tokio::test]
async fn the_secret_is_shown_and_replaced() {
    const PATH: &str = "/v1/account/webhook_secret";
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let (tenant, other) = (scene.tenant(1).await, scene.tenant(1).await);
    let shown = scene.get(&tenant, PATH).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    let secret = shown.body["secret"].as_str().unwrap().to_owned();
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    assert_eq!((key.len(), &shown.body["object"]), (32, &json!("webhook_secret")));
    assert_eq!(scene.get(&tenant, PATH).await.body, shown.body);
    assert_ne!(scene.get(&other, PATH).await.body, shown.body);
    let rotated = scene.post(&tenant, &format!("{PATH}/rotate"), &json!({})).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    assert_ne!(rotated.body["secret"], json!(secret));
    assert_eq!(scene.get(&tenant, PATH).await.body, rotated.body);
    let used = scene.app_state.webhook_secrets.of(tenant.id).await.unwrap();
    assert_eq!(rotated.body["secret"], json!(used.reveal()));
}
