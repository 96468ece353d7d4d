//! Who wants to know is told that a job has ended, on both engines.

#![expect(
    clippy::disallowed_methods,
    reason = "the task of a sender is aborted, as its process would be"
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
use tollgate_jobs::webhooks::{PATIENCE as LONGEST_POST, References};
use tollgate_jobs::{JobRenderer, Jobs, Record, Webhooks};
use tollgate_providers::egress::{Allowed, SystemResolver};
use tollgate_providers::{EgressClient, EgressSettings, HttpClient, HttpSettings};
use tollgate_storage::{Delivery, DeliveryState, Job, NewJob, NoFiles};
use tollgate_testkit::gateway::eventually;
use tollgate_testkit::upstream::{FakeUpstream, Gate, ReceivedRequest, Reply};
use tollgate_types::{Clock, ErrorCode, JobId};

use crate::app::Scene;
use crate::jobs::{PATIENCE, Shop, page};
use crate::ledger::books::{ACCOUNT, ENGINES, Engine};

const HOOK: &str = "/hooks/jobs";
const OTHER_HOOK: &str = "/hooks/others";

/// A shop whose jobs tell somebody that they have ended.
struct Told {
    shop: Shop,
    told: FakeUpstream,
    /// The last job that was only there to wake the senders.
    wakes: std::cell::Cell<u128>,
}

/// A sender that runs. Aborting its task is the death of its process.
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

impl Told {
    async fn open(engine: Engine) -> Self {
        let told = FakeUpstream::start().await;
        told.set_hook(HOOK, []);
        told.set_hook(OTHER_HOOK, []);
        Self {
            shop: Shop::open(engine).await,
            told,
            wakes: std::cell::Cell::new(1_000),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.told.address())
    }

    fn webhooks_with(
        &self,
        jobs: Arc<Jobs>,
        allow: Vec<Allowed>,
        renderer: Arc<dyn JobRenderer>,
    ) -> Arc<Webhooks> {
        let vault = Vault::new(Pepper::new(&[7; 32]).unwrap());
        let store = self.shop.books.storage.webhooks.clone();
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

    /// One that may post to whoever is told here, and hears of what ends in this process.
    fn webhooks(&self) -> Arc<Webhooks> {
        let allowed = Allowed::parse(&self.told.address().to_string()).unwrap();
        self.webhooks_with(self.shop.jobs.clone(), vec![allowed], Arc::new(References))
    }

    /// One that hears of nothing and has to look.
    fn webhooks_of_another_process(&self) -> Arc<Webhooks> {
        let allowed = Allowed::parse(&self.told.address().to_string()).unwrap();
        let jobs = Arc::new(Jobs::new(self.shop.books.storage.jobs.clone()));
        self.webhooks_with(jobs, vec![allowed], Arc::new(References))
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

    /// Lets so much time go by, and has the senders look at once.
    async fn later(&self, time: Duration) {
        self.shop.clock.advance(time);
        self.wakes.set(self.wakes.get() + 1);
        let woken = self.end(self.wakes.get(), OTHER_HOOK).await;
        self.until(woken, |delivery| delivery.state == DeliveryState::Delivered)
            .await;
    }

    async fn delivery(&self, id: JobId) -> Delivery {
        let found = self.shop.books.storage.webhooks.delivery(ACCOUNT, id).await;
        found.unwrap().unwrap()
    }

    async fn until(&self, id: JobId, fits: impl Fn(&Delivery) -> bool) -> Delivery {
        let mut seen = self.delivery(id).await;
        eventually("the delivery is so far", async || {
            seen = self.delivery(id).await;
            fits(&seen)
        })
        .await;
        seen
    }

    /// Posts to this path.
    fn posts(&self, path: &str) -> Vec<ReceivedRequest> {
        let mut posts = self.told.requests();
        posts.retain(|post| post.path == path);
        posts
    }

    async fn close(self, revenue: i128) {
        self.shop.close(revenue).await;
    }
}

/// Asserts that a post is signed as the scheme says, by somebody who has the secret.
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
async fn the_end_of_a_job_is_told_once_and_signed() {
    for engine in ENGINES {
        let told = Told::open(engine).await;
        let webhooks = told.webhooks();
        let (worker, sender) = (told.shop.start(1, PATIENCE), Told::send(&webhooks));
        let path = format!("{HOOK}?token=canary");
        let id = told.accept(5, "", &path).await;
        let delivery = told
            .until(id, |found| found.state == DeliveryState::Delivered)
            .await;
        assert_eq!((delivery.attempts, delivery.failure), (1, None));
        worker.stop().await;
        told.later(Duration::from_hours(48)).await;
        let posts = told.posts(&path);
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
        told.close(7).await;
    }
}

#[tokio::test]
async fn a_job_that_fails_tells_why() {
    let told = Told::open(Engine::Sqlite).await;
    let (worker, sender) = (told.shop.start(1, PATIENCE), Told::send(&told.webhooks()));
    told.accept(5, "panics", HOOK).await;
    told.told.wait_for_requests(1).await;
    let body = told.posts(HOOK)[0].json().unwrap();
    assert_eq!(
        (&body["type"], &body["data"]["status"]),
        (&json!("job.failed"), &json!("failed"))
    );
    assert_eq!(body["data"]["error"]["code"], "internal_error");
    sender.stop().await;
    worker.stop().await;
    told.close(0).await;
}

#[tokio::test]
async fn what_does_not_arrive_is_sent_again_under_the_same_id() {
    for engine in ENGINES {
        let told = Told::open(engine).await;
        let failing = [
            Reply::body(503, "text/plain", "busy"),
            Reply::body(302, "text/plain", "").header("location", OTHER_HOOK),
        ];
        told.told.set_hook(HOOK, failing);
        let webhooks = told.webhooks();
        let sender = Told::send(&webhooks);
        let id = told.end(5, HOOK).await;
        for (attempt, why, wait) in [
            (1, "the answer is 503", Duration::from_secs(6)),
            (2, "the answer is 302", Duration::from_mins(6)),
        ] {
            let failed = told
                .until(id, |found| found.failure.as_deref() == Some(why))
                .await;
            assert_eq!((failed.state, failed.attempts), (DeliveryState::Pending, attempt));
            // Before its time nothing is sent.
            told.later(Duration::ZERO).await;
            assert_eq!(told.delivery(id).await.attempts, attempt);
            told.later(wait).await;
        }
        let arrived = told
            .until(id, |found| found.state == DeliveryState::Delivered)
            .await;
        assert_eq!(arrived.attempts, 3);
        let posts = told.posts(HOOK);
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
        told.close(0).await;
    }
}

#[tokio::test]
async fn it_is_given_up_after_the_last_attempt_and_when_nobody_is_there_any_more() {
    let told = Told::open(Engine::Sqlite).await;
    told.told.set_hook(HOOK, [Reply::body(410, "text/plain", "gone")]);
    let sender = Told::send(&told.webhooks());
    let gone = told.end(5, HOOK).await;
    let failed = told
        .until(gone, |found| found.state == DeliveryState::Failed)
        .await;
    assert_eq!(
        (failed.attempts, failed.failure.as_deref()),
        (1, Some("the answer is 410"))
    );
    let failing = (501..=520).map(|status| Reply::body(status, "text/plain", ""));
    told.told.set_hook(HOOK, failing);
    let failing = told.end(6, HOOK).await;
    for attempt in 1..=10 {
        let why = format!("the answer is {}", 500 + attempt);
        let failed = told
            .until(failing, |found| found.failure.as_deref() == Some(&why))
            .await;
        let is_last = failed.state == DeliveryState::Failed;
        assert_eq!((failed.attempts, is_last), (attempt, attempt == 10));
        // The longest wait, and a tenth.
        told.later(Duration::from_hours(27)).await;
    }
    assert_eq!(told.delivery(failing).await.attempts, 10);
    assert_eq!(told.posts(HOOK).len(), 11);
    sender.stop().await;
    told.close(0).await;
}

/// Whoever dies between sending and noting has it sent again, by another.
#[tokio::test]
async fn what_was_on_its_way_when_the_sender_died_is_sent_again() {
    for engine in ENGINES {
        let told = Told::open(engine).await;
        let gate = Gate::new();
        told.told
            .set_hook(HOOK, [Reply::body(204, "text/plain", "").hold_head(&gate)]);
        let first = Told::send(&told.webhooks());
        let id = told.end(5, HOOK).await;
        told.told.wait_for_requests(1).await;
        first.task.abort();
        let _ = first.task.await;
        // Its requests die with it: nobody hears their answers.
        told.shop.clock.advance(Duration::from_secs(61));
        let second = Told::send(&told.webhooks_of_another_process());
        let arrived = told
            .until(id, |found| found.state == DeliveryState::Delivered)
            .await;
        assert_eq!(arrived.attempts, 2);
        let posts = told.posts(HOOK);
        let ids = ids(&posts);
        assert_eq!(ids, [ids[0]; 2]);
        second.stop().await;
        told.close(0).await;
    }
}

/// What ends while nobody sends is sent by the next who does; several senders share it.
#[tokio::test]
async fn several_nodes_tell_each_end_once() {
    for engine in ENGINES {
        let told = Told::open(engine).await;
        for number in 1..=30 {
            told.end(number, HOOK).await;
        }
        let nodes = [(); 3].map(|()| Told::send(&told.webhooks_of_another_process()));
        for number in 1..=30 {
            let id = JobId::from_u128(number);
            told.until(id, |found| found.state == DeliveryState::Delivered)
                .await;
        }
        let posts = told.posts(HOOK);
        let distinct: HashSet<_> = ids(&posts).into_iter().collect();
        assert_eq!((posts.len(), distinct.len()), (30, 30), "{engine:?}");
        for node in nodes {
            node.stop().await;
        }
        told.close(0).await;
    }
}

#[tokio::test]
async fn an_address_inside_is_not_posted_to() {
    let told = Told::open(Engine::Sqlite).await;
    let webhooks = told.webhooks_with(told.shop.jobs.clone(), Vec::new(), Arc::new(References));
    let sender = Told::send(&webhooks);
    let id = told.end(5, HOOK).await;
    let refused = told.until(id, |found| found.failure.is_some()).await;
    assert_eq!(refused.failure.as_deref(), Some("the address cannot be reached"));
    assert_eq!(refused.state, DeliveryState::Pending);
    assert_eq!(told.told.connection_count(), 0);
    sender.stop().await;
    told.close(0).await;
}

#[tokio::test]
async fn addresses_that_could_not_be_posted_to_are_refused() {
    let told = Told::open(Engine::Sqlite).await;
    let webhooks = told.webhooks();
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
    webhooks.check(&told.url(HOOK)).unwrap();
    told.close(0).await;
}

/// Knows jobs of an even number, and cannot look at first.
struct Even(std::sync::Mutex<bool>);

#[async_trait]
impl JobRenderer for Even {
    async fn render(&self, job: &Job) -> tollgate_storage::Result<Option<Record>> {
        let number = job.terms.id.as_u128();
        let failed_before = std::mem::replace(&mut *self.0.lock().unwrap(), true);
        match (number % 2, failed_before) {
            (0, false) => Err(tollgate_storage::StorageError::not_found("a picture")),
            (0, true) => Ok(Some(Record {
                event: "page.ready".into(),
                data: json!({"id": number.to_string(), "pages": 3}),
            })),
            _ => Ok(None),
        }
    }
}

#[tokio::test]
async fn what_is_told_is_written_by_whoever_knows_the_kind() {
    let told = Told::open(Engine::Sqlite).await;
    let allowed = Allowed::parse(&told.told.address().to_string()).unwrap();
    let renderer = Arc::new(Even(std::sync::Mutex::new(false)));
    let sender = Told::send(&told.webhooks_with(told.shop.jobs.clone(), vec![allowed], renderer));
    let id = told.end(2, HOOK).await;
    told.until(id, |found| found.failure.is_some()).await;
    assert!(told.posts(HOOK).is_empty());
    told.shop.clock.advance(Duration::from_secs(6));
    told.until(id, |found| found.state == DeliveryState::Delivered)
        .await;
    let body = told.posts(HOOK)[0].json().unwrap();
    assert_eq!(
        (&body["type"], &body["data"]),
        (&json!("page.ready"), &json!({"id": "2", "pages": 3}))
    );
    let other = told.end(3, HOOK).await;
    told.until(other, |found| found.state == DeliveryState::Delivered)
        .await;
    assert_eq!(
        told.posts(HOOK)[1].json().unwrap()["data"]["job_id"],
        json!(other)
    );
    sender.stop().await;
    told.close(0).await;
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
    let used = scene.domains.webhook_secrets.of(tenant.id).await.unwrap();
    assert_eq!(rotated.body["secret"], json!(used.reveal()));
}
