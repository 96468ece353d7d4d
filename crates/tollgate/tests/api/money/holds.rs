//! What must be there before anything is sent, and what is sent then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tollgate_testkit::gateway::http::Client;
use tollgate_testkit::gateway::{Balance, Storage};
use tollgate_testkit::upstream::{Answer, Gate, Reply, Usage};

use crate::scene::{CHAT, MOST_OUTPUT, PLAIN, Scene, assert_error, credits, flat_bound, hello, with};

/// Price of a token of [`PLAIN`], in nano-credits.
const PRICE: i64 = 1_000;

/// Another account of the scene with so many nano-credits: its id and its key.
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
        // One nano-credit more is enough.
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
            "the command line says the same"
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
async fn who_sets_no_cap_gets_the_largest_that_is_paid_for() {
    let scene = Scene::start().await;
    let body = plain(json!({}));
    let input = flat_bound(&body, PRICE, 0);
    let affordable = |cap: i64| input + cap * PRICE;
    // Balance, and the cap that the upstream is sent. One nano-credit is kept back for rounding.
    for (balance, expected) in [
        (affordable(MOST_OUTPUT), None),
        (affordable(2_000) + 1, Some(2_000)),
        (affordable(2_000) + PRICE / 2, Some(2_000)),
        (affordable(1_024) + 1, Some(1_024)),
    ] {
        let (account, key) = account_with(&scene, balance).await;
        // The upstream makes use of all of it.
        let cap = u64::try_from(expected.unwrap_or(MOST_OUTPUT)).unwrap();
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
            sent.get("max_completion_tokens"),
            expected.map(|cap| json!(cap)).as_ref(),
            "{balance}: {sent}"
        );
        assert_eq!(sent.get("max_tokens"), None);
        let left = balance - affordable(expected.unwrap_or(MOST_OUTPUT));
        assert_eq!(
            scene.gateway.balance(&account).await,
            Balance {
                credits: left,
                held: 0
            }
        );
    }
    // Less than 1,024 tokens are not worth an answer.
    let (_, key) = account_with(&scene, affordable(1_023) + PRICE - 1).await;
    let asked = scene.upstream.request_count();
    assert_error(
        "too little",
        &scene.client().post_json(CHAT, &key, &body).await,
        "insufficient_credits",
        None,
    );
    // A cap that the caller sent is never changed.
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
        assert_eq!(sent[name], 1_500);
    }
    assert_eq!(scene.upstream.request_count(), asked + 2);
    scene.finish().await;
}

/// Sends the body with every key at once; how many were served, once all are decided.
pub async fn at_once(
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
    // Those that are served wait at the upstream until the last of the others was refused, so nobody is served from
    // what somebody else gave back.
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

/// 256 callers, and a balance for exactly ten of their calls.
async fn ten_of_256(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let body = plain(json!({"max_tokens": 100}));
    let bound = flat_bound(&body, PRICE, 100);
    let (account, key) = account_with(&scene, 10 * bound).await;
    // Each costs all that was held for it.
    let prompt = u64::try_from(bound / PRICE - 100).unwrap();
    let gate = Gate::new();
    let answer = Answer::words(3).usage(Usage::Fixed {
        prompt,
        completion: 100,
    });
    scene.upstream.set_default(Reply::answer(answer).hold_head(&gate));
    let clients = (0..256).map(|_| (scene.client(), key.clone())).collect();
    assert_eq!(at_once(clients, &body, &scene, &gate, 10).await, 10);
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
