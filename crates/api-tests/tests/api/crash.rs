//! Crash tests: the process is killed repeatedly under load at random times. Afterwards, the ledger
//! is compared with the upstream's counts.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollgate_testkit::gateway::http::Client;
use tollgate_testkit::gateway::{Key, Storage, eventually, nanos};
use tollgate_testkit::upstream::End;

use crate::scene::{CHAT, PLAIN, Scene, credits, flat_bound, with};

/// Price of a token of [`PLAIN`], in nano-credits.
const PRICE: i64 = 1_000;
const CAP: i64 = 64;

/// Storage, load and number of rounds of one test.
struct CrashConfig {
    storage: Storage,
    rounds: usize,
    accounts: usize,
    callers: usize,
    /// Upper bound of the random number of answers between two kills.
    longest_round: u64,
}

/// Random numbers with a new seed in each run. The test prints the seed.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

/// One account under load.
struct Account {
    id: String,
    key: Key,
    granted: i64,
}

/// Responses that the callers of one account received.
#[derive(Default)]
struct Delivered {
    /// Cost of each complete response, by request id.
    whole: HashMap<String, i64>,
    /// Request ids of the streams that arrived completely.
    streams: Vec<String>,
}

/// Returns the body of a call. Its prompt names the account, so that the upstream's counts can be
/// compared by account.
fn body(account: usize, call: u64) -> Value {
    let tokens = 1 + call % 40;
    let pace = call % 3;
    let text = format!("account {account:04} [[tokens={tokens} pace={pace}]]");
    let message = json!([{"role": "user", "content": text}]);
    json!({"model": PLAIN, "max_tokens": CAP, "stream": call.is_multiple_of(2), "messages": message})
}

/// Sends calls until `stop` is set or the gateway does not respond.
async fn call_on(
    client: Client,
    key: String,
    account: usize,
    numbers: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) -> Delivered {
    let mut delivered = Delivered::default();
    while !stop.load(Ordering::Relaxed) {
        let body = body(account, numbers.fetch_add(1, Ordering::Relaxed));
        let Some(response) = client.try_post_json(CHAT, &key, &body).await else {
            break;
        };
        if !response.whole || response.status != 200 {
            // The call was refused for lack of credits, or the kill interrupted it.
            continue;
        }
        let id = response.request_id().to_owned();
        if body["stream"] == true {
            if response.events().last().is_some_and(|event| event.is_done()) {
                delivered.streams.push(id);
            }
        } else {
            delivered
                .whole
                .insert(id, nanos(&response.json()["usage"]["cost"]));
        }
    }
    delivered
}

async fn kill_under_load(config: CrashConfig) {
    let mut dice = Dice::new();
    println!("seed {}", dice.0);
    let settings = "[timeouts]\ntotal_ms = 1000\n[drain]\ntime_ms = 500\n[retries]\nextra_attempts = 0\n";
    let mut scene = Scene::start_on(config.storage, settings).await;
    let mut accounts = Vec::new();
    for number in 0..config.accounts {
        let id = scene.gateway.account().await;
        // Every second account runs out of credits during the test.
        let granted = if number % 2 == 0 { 1_000_000_000 } else { 4_000_000 };
        scene.gateway.grant(&id, &credits(granted)).await;
        let key = scene.gateway.key(&id).await;
        accounts.push(Account { id, key, granted });
    }
    let numbers = Arc::new(AtomicU64::new(0));
    let mut delivered: Vec<Delivered> = accounts.iter().map(|_| Delivered::default()).collect();
    for round in 0..config.rounds {
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for caller in 0..config.callers {
            let place = caller % accounts.len();
            let key = accounts[place].key.secret.clone();
            let calls = call_on(scene.client(), key, place, numbers.clone(), stop.clone());
            callers.spawn(async move { (place, calls.await) });
        }
        let answers =
            scene.upstream.served_count() + usize::try_from(dice.below(config.longest_round)).unwrap();
        scene
            .upstream
            .wait_until("the load runs", |upstream| upstream.served_count() > answers)
            .await;
        tokio::time::sleep(Duration::from_micros(dice.below(20_000))).await;
        // The last round ends with a regular stop, so that both kinds of end occur.
        if round + 1 < config.rounds {
            scene.gateway.kill().await;
        }
        stop.store(true, Ordering::Relaxed);
        for (place, more) in callers.join_all().await {
            delivered[place].whole.extend(more.whole);
            delivered[place].streams.extend(more.streams);
        }
        if round + 1 < config.rounds {
            scene.gateway.restart().await;
        }
    }
    // On PostgreSQL, the holds of a dead process are released once they expire. Every start
    // releases expired holds.
    for account in &accounts {
        eventually("no hold is left", async || {
            let balance = scene.gateway.balance(&account.id).await;
            if balance.held > 0 {
                scene.gateway.stop().await;
                scene.gateway.restart().await;
            }
            balance.held == 0
        })
        .await;
    }
    check(scene, &accounts, &delivered).await;
}

/// The upstream's counts of one account: the cost in nano-credits of all answers that it started,
/// and of those with a usage report.
#[derive(Default)]
struct Generated {
    started: i64,
    reported: i64,
    answers: usize,
}

fn generated(scene: &Scene) -> HashMap<usize, Generated> {
    let requests: HashMap<u64, usize> = scene
        .upstream
        .requests()
        .iter()
        .map(|request| {
            let body = request.json().unwrap();
            let text = body["messages"][0]["content"].as_str().unwrap().to_owned();
            (request.sequence, text[8..12].parse().unwrap())
        })
        .collect();
    let mut all: HashMap<usize, Generated> = HashMap::new();
    for served in scene.upstream.served() {
        let one = all.entry(requests[&served.request]).or_default();
        let tokens = i64::try_from(served.used.prompt + served.used.completion).unwrap();
        one.answers += 1;
        one.started += tokens * PRICE;
        if let Some((prompt, completion)) = served.reported_tokens() {
            one.reported += i64::try_from(prompt + completion).unwrap() * PRICE;
        } else {
            assert_ne!(served.end, End::Complete, "whole answers have a report");
        }
    }
    all
}

async fn check(scene: Scene, accounts: &[Account], delivered: &[Delivered]) {
    let generated = generated(&scene);
    // The largest hold of one of these calls.
    let largest = with(body(9_999, 39), json!({"stream": false}));
    let bound = flat_bound(&largest, PRICE, CAP) + 100 * PRICE;
    let (mut revenue, mut crashed_calls) = (0, 0);
    for (place, account) in accounts.iter().enumerate() {
        let rows = all_rows(&scene, &account.key.secret).await;
        let paid: i64 = rows.values().map(|row| nanos(&row["cost"])).sum();
        let crashed = rows.values().filter(|row| row["outcome"] == "crashed");
        let crashed = crashed
            .inspect(|row| assert_eq!(row["cost"], "0", "{row}"))
            .count();
        let nothing = Generated::default();
        let upstream = generated.get(&place).unwrap_or(&nothing);
        // No account pays more than the upstream reported for it.
        assert!(
            paid <= upstream.reported,
            "account {place}: {paid} paid, {} reported",
            upstream.reported
        );
        // Invariant I8: the unpaid cost is at most the holds of the calls that crashes interrupted.
        let lost = upstream.started - paid;
        let voided = i64::try_from(crashed).unwrap() * bound;
        assert!(
            lost <= voided,
            "account {place}: {lost} lost, {voided} were held by {crashed} voided calls"
        );
        // A completely answered call was settled first, at the cost that its caller received.
        for (id, cost) in &delivered[place].whole {
            let row = rows.get(id).unwrap_or_else(|| panic!("{id} has no row"));
            assert_eq!(
                (nanos(&row["cost"]), &row["outcome"]),
                (*cost, &json!("ok")),
                "{row}"
            );
        }
        for id in &delivered[place].streams {
            assert_eq!(
                rows.get(id).unwrap_or_else(|| panic!("{id} has no row"))["outcome"],
                "ok"
            );
        }
        let balance = scene.gateway.balance(&account.id).await;
        assert_eq!(
            (balance.credits, balance.held),
            (account.granted - paid, 0),
            "account {place}"
        );
        assert!(balance.credits >= 0);
        assert!(
            rows.len() >= upstream.answers,
            "every call that reached the upstream had a hold, and so has a row"
        );
        (revenue, crashed_calls) = (revenue + paid, crashed_calls + crashed);
    }
    let whole: usize = delivered
        .iter()
        .map(|one| one.whole.len() + one.streams.len())
        .sum();
    println!("{whole} answers delivered, {crashed_calls} calls voided, {revenue} nano-credits paid");
    assert!(whole > 0, "some calls ended");
    let check = scene.finish().await;
    assert_eq!((check.revenue, check.overrun), (revenue, 0));
    assert_eq!(check.crashed, crashed_calls as u64);
}

/// Reads every usage row of an account, by request id.
async fn all_rows(scene: &Scene, key: &str) -> HashMap<String, Value> {
    let (mut rows, mut after) = (HashMap::new(), String::new());
    loop {
        let page = scene.gateway.usage(key, &format!("?limit=100{after}")).await;
        for row in page["data"].as_array().unwrap() {
            let id = row["request_id"].as_str().unwrap().to_owned();
            assert!(rows.insert(id, row.clone()).is_none(), "one row for each request");
            after = format!("&after={}", row["id"].as_str().unwrap());
        }
        if page["has_more"] == false {
            return rows;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_under_load_on_sqlite() {
    kill_under_load(CrashConfig {
        storage: Storage::Sqlite,
        rounds: 4,
        accounts: 4,
        callers: 16,
        longest_round: 60,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_under_load_on_postgres() {
    kill_under_load(CrashConfig {
        storage: Storage::Postgres,
        rounds: 3,
        accounts: 4,
        callers: 16,
        longest_round: 40,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs for minutes"]
async fn prove_recovery_from_many_kills_on_sqlite() {
    kill_under_load(CrashConfig {
        storage: Storage::Sqlite,
        rounds: 60,
        accounts: 8,
        callers: 48,
        longest_round: 800,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "runs for minutes"]
async fn prove_recovery_from_many_kills_on_postgres() {
    kill_under_load(CrashConfig {
        storage: Storage::Postgres,
        rounds: 40,
        accounts: 8,
        callers: 32,
        longest_round: 300,
    })
    .await;
}
