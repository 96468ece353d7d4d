//! Holds: the balance that a call requires, and the output cap that the balance allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tollgate_testkit::gateway::http::Client;
use tollgate_testkit::gateway::{Balance, Storage};
use tollgate_testkit::upstream::{Answer, Gate, Reply, Usage};

use crate::scene::{CHAT, MAX_OUTPUT_TOKENS, PLAIN, Scene, assert_error, credits, flat_bound, hello, with};

/// Price of a token of [`PLAIN`], in nano-credits.
const PRICE: i64 = 1_000;

/// Creates another account in the scene with this balance in nano-credits. Returns its id and a
/// key.
pub async fn account_with(scene: &Scene, nanos: i64) -> (String, String) {
    let account = scene.gateway.account().await;
    if nanos > 0 {
        scene.gateway.grant(&account, &credits(nanos)).await;
    }
    let key = scene.gateway.key(&account).await.secret;
    (account, key)
}

fn plain(members: Value) -> Value {
    with(hello(json!({"model": PLAIN})), members)
}

#[tokio::test]
async fn a_402_writes_nothing_and_sends_nothing() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let capped = plain(json!({"max_tokens": 100}));
        let bound = flat_bound(&capped, PRICE, 100);
        let (account, key) = account_with(&scene, bound - 1).await;
        let (_, empty) = account_with(&scene, 0).await;
        let before = scene.gateway.ledger_check().await;
        for (what, key, body) in [
            ("one too little", &key, capped.clone()),
            ("streamed", &key, with(capped.clone(), json!({"stream": true}))),
            ("nothing there", &empty, capped.clone()),
            ("no cap, and not enough for a small one", &key, plain(json!({}))),
            ("no cap and nothing there", &empty, plain(json!({}))),
            ("several answers", &key, with(capped.clone(), json!({"n": 2}))),
        ] {
            let response = scene.client().post_json(CHAT, key, &body).await;
            assert_error(what, &response, "insufficient_credits", None);
            assert_eq!(response.header("x-should-retry"), Some("false"), "{what}");
            assert_eq!(response.header("retry-after"), None, "{what}");
        }
        assert_eq!(scene.upstream.request_count(), 0);
        assert_eq!(scene.gateway.ledger_check().await, before, "nothing was written");
        assert_eq!(
            scene.gateway.balance(&account).await,
            Balance {
                credits: bound - 1,
                held: 0
            }
        );
        // One more nano-credit is enough.
        scene.gateway.grant(&account, "0.000000001").await;
        let response = scene.client().post_json(CHAT, &key, &capped).await;
        assert_eq!(response.status, 200, "{}", response.text());
        scene.finish().await;
    }
}

#[tokio::test]
async fn the_whole_bound_is_held_while_a_call_runs() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let gate = Gate::new();
        scene.upstream.push(Reply::words(3).hold_head(&gate));
        let body = plain(json!({"max_tokens": 100}));
        let (client, request) = (scene.client(), scene.request(&body));
        let call = tokio::spawn(async move { client.send(&request).await });
        scene.upstream.wait_for_requests(1).await;
        let bound = flat_bound(&body, PRICE, 100);
        let running = scene.balance().await;
        assert_eq!(
            running,
            Balance {
                credits: crate::scene::GRANTED - bound,
                held: bound
            }
        );
        assert_eq!(
            scene.gateway.balance(&scene.account).await,
            running,
            "the command line shows the same"
        );
        gate.open();
        assert_eq!(call.await.unwrap().status, 200);
        // `Hi there` is two tokens.
        let after = Balance {
            credits: crate::scene::GRANTED - 5 * PRICE,
            held: 0,
        };
        assert_eq!(scene.balance().await, after);
        scene.finish().await;
    }
}

#[tokio::test]
async fn without_a_cap_the_largest_affordable_cap_is_sent() {
    let scene = Scene::start().await;
    let body = plain(json!({}));
    let input = flat_bound(&body, PRICE, 0);
    let affordable = |cap: i64| input + cap * PRICE;
    // The balance, and the cap that the upstream receives. One nano-credit is reserved for
    // rounding.
    for (balance, expected) in [
        (affordable(MAX_OUTPUT_TOKENS), None),
        (affordable(2_000) + 1, Some(2_000)),
        (affordable(2_000) + PRICE / 2, Some(2_000)),
        (affordable(1_024) + 1, Some(1_024)),
    ] {
        let (account, key) = account_with(&scene, balance).await;
        // The upstream uses the whole cap.
        let cap = u64::try_from(expected.unwrap_or(MAX_OUTPUT_TOKENS)).unwrap();
        let prompt = u64::try_from(input / PRICE).unwrap();
        scene
            .upstream
            .push(Reply::answer(Answer::words(2).usage(Usage::Fixed {
                prompt,
                completion: cap,
            })));
        let response = scene.client().post_json(CHAT, &key, &body).await;
        assert_eq!(response.status, 200, "{balance}: {}", response.text());
        let sent = scene.upstream.requests().last().unwrap().json().unwrap();
        assert_eq!(
            sent.get("max_tokens"),
            expected.map(|cap| json!(cap)).as_ref(),
            "{balance}: {sent}"
        );
        assert_eq!(sent.get("max_completion_tokens"), None);
        let left = balance - affordable(expected.unwrap_or(MAX_OUTPUT_TOKENS));
        assert_eq!(
            scene.gateway.balance(&account).await,
            Balance {
                credits: left,
                held: 0
            }
        );
    }
    // A balance for fewer than 1,024 output tokens is refused.
    let (_, key) = account_with(&scene, affordable(1_023) + PRICE - 1).await;
    let asked = scene.upstream.request_count();
    assert_error(
        "too little",
        &scene.client().post_json(CHAT, &key, &body).await,
        "insufficient_credits",
        None,
    );
    // A cap of the caller is never changed, and is sent under the name that every server supports.
    let (_, key) = account_with(&scene, affordable(2_000)).await;
    for name in ["max_tokens", "max_completion_tokens"] {
        let mut capped = plain(json!({}));
        capped[name] = json!(3_000);
        assert_error(
            name,
            &scene.client().post_json(CHAT, &key, &capped).await,
            "insufficient_credits",
            None,
        );
        capped[name] = json!(1_500);
        assert_eq!(scene.client().post_json(CHAT, &key, &capped).await.status, 200);
        let sent = scene.upstream.requests().last().unwrap().json().unwrap();
        assert_eq!(sent["max_tokens"], 1_500);
    }
    assert_eq!(scene.upstream.request_count(), asked + 2);
    scene.finish().await;
}

/// Sends the body concurrently with every key. Returns the number of served calls once all are
/// decided.
pub async fn send_concurrently(
    clients: Vec<(Client, String)>,
    body: &Value,
    scene: &Scene,
    gate: &Gate,
    served: u64,
) -> u64 {
    let refused = Arc::new(AtomicU64::new(0));
    let decided = Arc::new(Notify::new());
    let expected = clients.len() as u64 - served;
    let mut calls = JoinSet::new();
    for (client, key) in clients {
        let (body, refused, decided) = (body.clone(), refused.clone(), decided.clone());
        calls.spawn(async move {
            let response = client.post_json(CHAT, &key, &body).await;
            if response.status != 200 {
                assert_error("refused", &response, "insufficient_credits", None);
                refused.fetch_add(1, Ordering::SeqCst);
                decided.notify_one();
            }
            response.status
        });
    }
    // The served calls wait at the upstream until the last other call was refused. No call is
    // served from a released hold.
    while refused.load(Ordering::SeqCst) < expected {
        tokio::select! {
            () = decided.notified() => {}
            () = scene.upstream.wait_until("too many are served", |upstream| upstream.request_count() > served) => {
                panic!("{} calls reached the upstream", scene.upstream.request_count());
            }
        }
    }
    scene.upstream.wait_for_requests(served).await;
    gate.open();
    calls
        .join_all()
        .await
        .into_iter()
        .filter(|status| *status == 200)
        .count() as u64
}

/// Sends calls of 256 callers with a balance for exactly ten calls.
async fn ten_of_256(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let body = plain(json!({"max_tokens": 100}));
    let bound = flat_bound(&body, PRICE, 100);
    let (account, key) = account_with(&scene, 10 * bound).await;
    // Each call costs its whole hold.
    let prompt = u64::try_from(bound / PRICE - 100).unwrap();
    let gate = Gate::new();
    let answer = Answer::words(3).usage(Usage::Fixed {
        prompt,
        completion: 100,
    });
    scene.upstream.set_default(Reply::answer(answer).hold_head(&gate));
    let clients = (0..256).map(|_| (scene.client(), key.clone())).collect();
    assert_eq!(send_concurrently(clients, &body, &scene, &gate, 10).await, 10);
    assert_eq!(scene.upstream.request_count(), 10);
    assert_eq!(
        scene.gateway.balance(&account).await,
        Balance { credits: 0, held: 0 }
    );
    let check = scene.finish().await;
    assert_eq!(
        (check.usage_rows, check.revenue, check.overrun),
        (10, 10 * bound, 0)
    );
}

#[tokio::test]
async fn ten_of_256_callers_are_served_on_sqlite() {
    ten_of_256(Storage::Sqlite).await;
}

#[tokio::test]
async fn ten_of_256_callers_are_served_on_postgres() {
    ten_of_256(Storage::Postgres).await;
}
