//! Random cost limits: a report costs at most its hold and its limit. Smaller limits are refused
//! with the amount that suffices.

use std::hash::{BuildHasher, RandomState};

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Key, nanos};

use super::server::{ResearchServer, question};
use super::{RESEARCH, Scene, minimal};
use crate::scene::{GRANTED, assert_error, credits, with};

/// Number of requests that run concurrently.
const BATCH: u64 = 12;
/// Number of requests of an account; a multiple of [`BATCH`].
const REQUESTS_PER_ACCOUNT: u64 = 8 * BATCH;
/// Tokens that the models report: few, some, and more than any call may cost.
const TOKENS: [(u64, u64); 3] = [(100, 10), (9_000, 700), (1_000_000, 1_000_000)];

#[tokio::test]
async fn reports_stay_within_their_limits() {
    limited(BATCH).await;
}

#[tokio::test]
#[ignore = "a proof: make prove"]
async fn prove_a_thousand_random_budgets() {
    limited(1_000).await;
}

/// Random numbers. The same seed produces the same numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let count = u64::try_from(of.len()).unwrap_or(1);
        &of[usize::try_from(self.below(count)).unwrap_or(0)]
    }

    /// Returns an amount from 100 nano-credits to 10 credits, of every size equally often.
    fn amount(&mut self) -> i64 {
        let size = 10_u64.pow(u32::try_from(3 + self.below(8)).unwrap_or(3));
        i64::try_from(size / 10 + self.below(size - size / 10)).unwrap_or(i64::MAX)
    }
}

/// A request with its limits.
struct Limited {
    body: Value,
    header: Option<i64>,
}

/// An accepted report.
struct Accepted {
    id: String,
    /// Maximum charge, in nano-credits.
    hold: i64,
}

/// Sends random requests. The variable `TOLLGATE_TEST_SEED` repeats a run whose seed was printed.
async fn limited(count: u64) {
    let seed = std::env::var("TOLLGATE_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(count));
    println!("TOLLGATE_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let server = ResearchServer::start().await;
    let mut scene = Scene::start_with(&server.settings()).await;
    let poor = scene.gateway.account().await;
    let poor_key = scene.gateway.key(&poor).await;
    scene.gateway.grant(&poor, "0.0000005").await;
    let (mut charged, mut rows, mut refused) = (0, 0, 0);
    let mut sent = 0;
    while sent < count {
        if sent > 0 && sent.is_multiple_of(REQUESTS_PER_ACCOUNT) {
            scene.use_new_account().await;
            charged = 0;
        }
        server.report_tokens(*dice.one(&TOKENS));
        let mut batch = Vec::new();
        for _ in 0..BATCH.min(count - sent) {
            let limited = Limited::random(&mut dice);
            if dice.below(8) == 0 {
                limited.is_refused_without_credits(&scene, &poor_key).await;
                refused += 1;
            }
            batch.push(limited.accepted(&scene).await);
            sent += 1;
        }
        for Accepted { id, hold } in batch {
            let job = scene.researched(&id).await;
            assert_eq!(job["status"], "completed", "{job}");
            let cost = nanos(&job["cost"]);
            assert!(cost <= hold, "{cost} of {hold}: {job}");
            (charged, rows) = (charged + cost, rows + 1);
        }
        assert_eq!(scene.settled().await.credits, GRANTED - charged);
    }
    let balance = scene.gateway.balance(&poor).await;
    assert_eq!(
        (balance.credits, balance.held),
        (500, 0),
        "after {refused} refused requests"
    );
    let jobs = scene.client().get("/v1/jobs", &poor_key.secret).await.json();
    assert_eq!(jobs["data"], json!([]));
    let check = scene.finish().await;
    assert!(check.clean);
    assert_eq!(check.usage_rows, rows);
}

impl Limited {
    fn random(dice: &mut Dice) -> Self {
        let effort = *dice.one(&["minimal", "low", "medium", "high"]);
        // Two pages and two searches suffice for any cost, and take little time.
        let (searches, pages) = (1 + dice.below(2), 1 + dice.below(3));
        let limits = json!({"reasoning_effort": effort, "max_searches": searches, "max_pages": pages});
        let mut body = match dice.below(2) {
            0 => minimal(limits),
            _ => question("Unit", limits),
        };
        if dice.below(3) == 0 {
            body = with(body, json!({"max_output_tokens": 256 + dice.below(3_000)}));
        }
        let place = dice.below(4);
        if place != 0 {
            body = with(body, json!({"max_cost": credits(dice.amount())}));
        }
        let header = (place != 1).then(|| dice.amount());
        Self { body, header }
    }

    /// Returns the lowest limit.
    fn limit(&self) -> i64 {
        let member = self.body.get("max_cost").map(nanos);
        member.into_iter().chain(self.header).min().unwrap_or(i64::MAX)
    }

    /// Returns the same request with this limit alone.
    fn with_limit(&self, amount: i64) -> Self {
        let body = with(self.body.clone(), json!({"max_cost": credits(amount)}));
        Self { body, header: None }
    }

    async fn send(&self, scene: &Scene, path: &str, key: &Key) -> Response {
        let body = match path {
            RESEARCH => self.body.clone(),
            _ => json!({"endpoint": RESEARCH, "request": self.body}),
        };
        let mut request = Request::json(path, &body).key(&key.secret);
        if let Some(header) = self.header {
            request = request.header("x-max-cost", credits(header));
        }
        scene.client().send(&request).await
    }

    /// Sends the request. If its limit is too low, asserts that the stated amount suffices, and
    /// that no lower one does.
    async fn accepted(&self, scene: &Scene) -> Accepted {
        let response = self.send(scene, RESEARCH, &scene.key).await;
        if response.status == 202 {
            return self.taken(scene, &response).await;
        }
        let minimum = self.minimum(&response);
        assert!(minimum > self.limit(), "{minimum} {}", self.body);
        let lower = self.with_limit(minimum - 1);
        let response = lower.send(scene, RESEARCH, &scene.key).await;
        assert_eq!(lower.minimum(&response), minimum, "{}", self.body);
        let exact = self.with_limit(minimum);
        let response = exact.send(scene, RESEARCH, &scene.key).await;
        assert_eq!(response.status, 202, "{} {}", exact.body, response.text());
        exact.taken(scene, &response).await
    }

    /// Returns the accepted report of a response, after a comparison of its quote with its limits.
    async fn taken(&self, scene: &Scene, response: &Response) -> Accepted {
        let id = response.json()["job_id"].as_str().unwrap().to_owned();
        let quote = self.send(scene, "/v1/quote", &scene.key).await;
        assert_eq!(quote.status, 200, "{} {}", self.body, quote.text());
        let hold = nanos(&quote.json()["most"]);
        assert!(hold <= self.limit(), "{hold} {:?} {}", self.header, self.body);
        Accepted { id, hold }
    }

    /// Returns the amount that a refusal states.
    fn minimum(&self, response: &Response) -> i64 {
        let member = self.body.get("max_cost").map(nanos);
        let is_member = member.is_some_and(|member| member == self.limit());
        let param = if is_member { "max_cost" } else { "x-max-cost" };
        let error = assert_error("limit", response, "parameter_out_of_range", Some(param));
        let (_, rest) = error.message.split_once("must be at least ").unwrap();
        let (amount, _) = rest.split_once(':').unwrap();
        nanos(&json!(amount))
    }

    /// Asserts that an account without enough credits is refused.
    async fn is_refused_without_credits(&self, scene: &Scene, poor: &Key) {
        let response = self.send(scene, RESEARCH, poor).await;
        match response.status {
            422 => assert!(self.minimum(&response) > self.limit()),
            _ => drop(assert_error("poor", &response, "insufficient_credits", None)),
        }
    }
}
