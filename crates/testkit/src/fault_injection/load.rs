//! Callers of the gateway: they call random running nodes until the run stops, and record the
//! responses.

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

/// Timeout of a caller, longer than any call of the gateway takes.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Pause of a caller after any result other than 200.
const PAUSE: Duration = Duration::from_millis(20);

/// Error responses that the documentation allows for correct requests.
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

/// State shared by all callers.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) accounts: Vec<Account>,
    pub(super) nodes: Mutex<Vec<SocketAddr>>,
    pub(super) stop: AtomicBool,
    pub(super) number: AtomicU64,
}

/// Record of the responses that callers received.
#[derive(Debug, Default)]
pub(super) struct ResponseLog {
    /// Account and cost of every complete response, by request id. A stream reports no cost.
    pub(super) whole: HashMap<String, (usize, Option<i64>)>,
    /// Number of responses by kind.
    pub(super) answers: BTreeMap<String, u64>,
}

impl ResponseLog {
    pub(super) fn add(&mut self, other: ResponseLog) {
        self.whole.extend(other.whole);
        for (kind, count) in other.answers {
            *self.answers.entry(kind).or_default() += count;
        }
    }

    fn count(&mut self, kind: &str) {
        *self.answers.entry(kind.to_owned()).or_default() += 1;
    }
}

/// Returns the body of a call. Its prompt names the account, so that the upstream's record can be
/// split by account.
pub(super) fn body(account: usize, call: u64) -> Value {
    let (tokens, pace) = (1 + call % 40, call % 3);
    let text = format!("account {account:04} [[tokens={tokens} pace={pace}]]");
    let message = json!([{"role": "user", "content": text}]);
    json!({"model": MODEL, "max_tokens": CAP, "stream": call.is_multiple_of(2), "messages": message})
}

pub(super) async fn call_on(load: Arc<Load>, seed: u64) -> ResponseLog {
    let (mut dice, mut responses) = (Dice::new(seed), ResponseLog::default());
    while !load.stop.load(Ordering::Relaxed) {
        let account = dice.below(load.accounts.len() as u64) as usize;
        let address = {
            let nodes = load.nodes.lock().unwrap();
            nodes[dice.below(nodes.len() as u64) as usize]
        };
        let body = body(account, load.number.fetch_add(1, Ordering::Relaxed));
        let client = Client::new(address);
        let call = client.try_post_json("/v1/chat/completions", &load.accounts[account].key, &body);
        let kind = match tokio::time::timeout(TIMEOUT, call).await {
            Err(_) => "timed out".to_owned(),
            Ok(None) => "no answer".to_owned(),
            Ok(Some(response)) => look(&response, account, body["stream"] == true, &mut responses),
        };
        if kind != "200" {
            tokio::time::sleep(PAUSE).await;
        }
        responses.count(&kind);
    }
    responses
}

/// Classifies a response. Panics if its kind is not allowed.
fn look(response: &Response, account: usize, streams: bool, responses: &mut ResponseLog) -> String {
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
    responses.whole.insert(id, (account, cost));
    "200".to_owned()
}
