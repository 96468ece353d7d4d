//! Callers: they call until they are told to stop, whoever is there, and remember what they were told.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::dice::Dice;
use super::{Account, CAP, MODEL};
use crate::gateway::http::{Client, Response};
use crate::gateway::nanos;

/// How long a caller waits: longer than any call of the gateway takes.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a caller waits that was refused.
const PAUSE: Duration = Duration::from_millis(20);

/// Failures that the documentation names for callers that did nothing wrong.
const FAILURES: [(u16, &str); 8] = [
    (402, "insufficient_credits"),
    (429, "rate_limit_exceeded"),
    (500, "internal_error"),
    (502, "upstream_error"),
    (503, "model_unavailable"),
    (503, "overloaded"),
    (504, "upstream_timeout"),
    (408, "request_timeout"),
];

/// What all callers share.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) accounts: Vec<Account>,
    pub(super) nodes: Mutex<Vec<SocketAddr>>,
    pub(super) stop: AtomicBool,
    pub(super) number: AtomicU64,
}

/// What callers were told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The account and the cost of every whole answer, by request id; streams are told none.
    pub(super) whole: HashMap<String, (usize, Option<i64>)>,
    /// How many answers there were of each kind.
    pub(super) answers: BTreeMap<String, u64>,
}

impl Told {
    pub(super) fn add(&mut self, other: Told) {
        self.whole.extend(other.whole);
        for (kind, count) in other.answers {
            *self.answers.entry(kind).or_default() += count;
        }
    }

    fn count(&mut self, kind: &str) {
        *self.answers.entry(kind.to_owned()).or_default() += 1;
    }
}

/// The prompt says whose call it is, so that the upstream's books can be held against each account's.
pub(super) fn body(account: usize, call: u64) -> Value {
    let (tokens, pace) = (1 + call % 40, call % 3);
    let text = format!("account {account:04} [[tokens={tokens} pace={pace}]]");
    let message = json!([{"role": "user", "content": text}]);
    json!({"model": MODEL, "max_tokens": CAP, "stream": call.is_multiple_of(2), "messages": message})
}

pub(super) async fn call_on(load: Arc<Load>, seed: u64) -> Told {
    let (mut dice, mut told) = (Dice::new(seed), Told::default());
    while !load.stop.load(Ordering::Relaxed) {
        let account = dice.below(load.accounts.len() as u64) as usize;
        let address = {
            let nodes = load.nodes.lock().unwrap();
            nodes[dice.below(nodes.len() as u64) as usize]
        };
        let body = body(account, load.number.fetch_add(1, Ordering::Relaxed));
        let client = Client::new(address);
        let call = client.try_post_json("/v1/chat/completions", &load.accounts[account].key, &body);
        let kind = match tokio::time::timeout(PATIENCE, call).await {
            Err(_) => "patience lost".to_owned(),
            Ok(None) => "no answer".to_owned(),
            Ok(Some(response)) => look(&response, account, body["stream"] == true, &mut told),
        };
        if kind != "200" {
            tokio::time::sleep(PAUSE).await;
        }
        told.count(&kind);
    }
    told
}

/// What kind of answer it is; panics when no answer may be like that.
fn look(response: &Response, account: usize, streams: bool, told: &mut Told) -> String {
    if !response.whole {
        return "cut".to_owned();
    }
    if response.status != 200 {
        let error = response.error();
        let known = FAILURES.contains(&(response.status, error.code.as_str()));
        assert!(
            known,
            "{} is no answer to a right request: {error:?}",
            response.status
        );
        return format!("{} {}", response.status, error.code);
    }
    let id = response.request_id().to_owned();
    let cost = if streams {
        if !response.events().last().is_some_and(|event| event.is_done()) {
            return "200, ended by an error".to_owned();
        }
        None
    } else {
        Some(nanos(&response.json()["usage"]["cost"]))
    };
    told.whole.insert(id, (account, cost));
    "200".to_owned()
}
