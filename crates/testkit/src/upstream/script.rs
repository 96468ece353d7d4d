//! Selects the reply to a request, and records all requests and answers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::batches::Batches;
use super::chat_request::ChatRequest;
use super::counts;
use super::decisions::Decisions;
use super::directive;
use super::live::LiveServer;
use super::media::MediaServer;
use super::moderations;
use super::realtime::RealtimeServer;
use super::received::ReceivedRequest;
use super::reply::Reply;
use super::served::{End, Served};
use super::stripe::StripeServer;
use super::token_server::{self, TokenServer};

/// Function that answers a request before the rest of the script; `None` leaves the request to the
/// script.
pub(super) type Judge = Box<dyn Fn(&ReceivedRequest) -> Option<Reply> + Send>;

/// The state shared by the connections of one fake upstream.
pub(super) struct Script {
    state: Mutex<State>,
    /// Number of changes, for tests that wait for a condition.
    pub changes: watch::Sender<u64>,
}

pub(super) struct State {
    pub queue: VecDeque<Reply>,
    pub model_queues: HashMap<String, VecDeque<Reply>>,
    pub model_defaults: HashMap<String, Reply>,
    pub default: Reply,
    pub models_queue: VecDeque<Reply>,
    pub moderations_queue: VecDeque<Reply>,
    pub counts_queue: VecDeque<Reply>,
    pub models: Vec<String>,
    pub files: HashMap<String, Reply>,
    pub judge: Option<Judge>,
    pub hooks: HashMap<String, VecDeque<Reply>>,
    pub api_key: Option<String>,
    pub tokens: Option<TokenServer>,
    pub stripe: Option<StripeServer>,
    pub media_server: MediaServer,
    pub decisions: Decisions,
    pub batches: Batches,
    pub realtime: RealtimeServer,
    pub live: LiveServer,
    pub keep_requests: bool,
    /// Whether lists of models count as requests.
    pub counts_lists: bool,
    /// The text in front of an echo.
    pub preface: &'static str,
    pub requests: Vec<ReceivedRequest>,
    pub request_count: u64,
    pub connections: u64,
    pub open_connections: u64,
    pub served: Vec<Served>,
}

impl Script {
    pub fn new() -> Self {
        let state = State {
            queue: VecDeque::new(),
            model_queues: HashMap::new(),
            model_defaults: HashMap::new(),
            default: Reply::answer(super::Answer::default()),
            models_queue: VecDeque::new(),
            moderations_queue: VecDeque::new(),
            counts_queue: VecDeque::new(),
            models: vec!["fake-model".to_owned()],
            files: HashMap::new(),
            judge: None,
            hooks: HashMap::new(),
            api_key: None,
            tokens: None,
            stripe: None,
            media_server: MediaServer::new(),
            decisions: Decisions::default(),
            batches: Batches::default(),
            realtime: RealtimeServer::default(),
            live: LiveServer::default(),
            keep_requests: true,
            counts_lists: true,
            preface: "You said: ",
            requests: Vec::new(),
            request_count: 0,
            connections: 0,
            open_connections: 0,
            served: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
        }
    }

    /// Locks the state. A panic while the lock is held cannot leave the state inconsistent.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and notifies the waiters.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        result
    }

    /// Whether a request lists models and such requests are not recorded.
    pub fn passes_over(&self, request: &ReceivedRequest) -> bool {
        let is_list = request.method == "GET" && request.bare_path().ends_with("/models");
        is_list && !self.state().counts_lists
    }

    /// Numbers a request. The request is recorded once its body has been read.
    pub fn count_request(&self) -> u64 {
        self.change(|state| {
            state.request_count += 1;
            state.request_count
        })
    }

    pub fn record_request(&self, request: ReceivedRequest) {
        self.change(|state| {
            if state.keep_requests {
                state.requests.push(request);
            }
        });
    }

    /// Returns the next scripted reply, if it does not wait for the body.
    pub fn reply_before_body(&self) -> Option<Reply> {
        let mut state = self.state();
        match state.queue.front() {
            Some(next) if next.unread => state.queue.pop_front(),
            Some(_) => None,
            None => Some(state.default.clone()).filter(|reply| reply.unread),
        }
    }

    /// Returns the reply to a chat completion, from the first of: the queue of its model, the
    /// common queue, the directive in its prompt, the standing reply of its model, the default.
    pub fn chat_reply(&self, request: &ChatRequest) -> Reply {
        let mut state = self.state();
        let queued = state
            .model_queues
            .get_mut(&request.model)
            .and_then(VecDeque::pop_front);
        if let Some(reply) = queued.or_else(|| state.queue.pop_front()) {
            return reply;
        }
        match directive::read(&request.last_text) {
            Ok(Some(reply)) => return reply,
            Err(problem) => return Reply::error(400, "invalid_directive", &problem),
            Ok(None) => {}
        }
        state
            .model_defaults
            .get(&request.model)
            .unwrap_or(&state.default)
            .clone()
    }

    /// Returns the reply to `GET …/models` (`model` is `None`) or `GET …/models/{model}`.
    pub fn models_reply(&self, model: Option<&str>) -> Reply {
        let mut state = self.state();
        if let Some(reply) = state.models_queue.pop_front() {
            return reply;
        }
        let record =
            |id: &String| json!({"id": id, "object": "model", "created": 1_790_000_000, "owned_by": "fake"});
        let body = match model {
            None => json!({"object": "list", "data": state.models.iter().map(record).collect::<Vec<_>>()}),
            Some(wanted) => match state.models.iter().find(|id| *id == wanted) {
                Some(id) => record(id),
                None => {
                    let message = format!("The model '{wanted}' does not exist");
                    return Reply::error(404, "model_not_found", &message);
                }
            },
        };
        Reply::body(200, "application/json", body.to_string())
    }

    /// Returns the standing reply to a `GET` of this path; `None` if there is none.
    pub fn file_reply(&self, path: &str) -> Option<Reply> {
        self.state().files.get(path).cloned()
    }

    /// Returns the reply to a `POST` to this path, if it is a webhook.
    pub fn hook_reply(&self, path: &str) -> Option<Reply> {
        let mut state = self.state();
        let queue = state.hooks.get_mut(path)?;
        Some(
            queue
                .pop_front()
                .unwrap_or_else(|| Reply::body(204, "text/plain", "")),
        )
    }

    /// Returns the reply to `POST …/moderations`.
    pub fn moderations_reply(&self, body: &[u8]) -> Reply {
        let scripted = self.state().moderations_queue.pop_front();
        scripted.unwrap_or_else(|| moderations::reply(body))
    }

    /// Returns the reply to a token count request.
    pub fn counts_reply(&self, path: &str, body: &[u8]) -> Reply {
        let scripted = self.state().counts_queue.pop_front();
        scripted.unwrap_or_else(|| counts::reply(path, body))
    }

    /// Takes the next scripted reply from the common queue.
    pub fn queued_reply(&self) -> Option<Reply> {
        self.state().queue.pop_front()
    }

    /// Returns the reply to a request for an access token; `None` if the upstream issues none.
    pub fn tokens_reply(&self, request: &ReceivedRequest) -> Option<Reply> {
        let is_requested = [token_server::PATH, token_server::METADATA_PATH].contains(&request.bare_path());
        let mut state = self.state();
        let server = state.tokens.as_mut().filter(|_| is_requested)?;
        Some(server.reply(request))
    }

    /// Returns the reply of Stripe's API; `None` if it is disabled or for other requests.
    pub fn stripe_reply(&self, request: &ReceivedRequest) -> Option<Reply> {
        self.change(|state| state.stripe.as_mut()?.reply(request))
    }

    /// Returns the reply of an image or video provider; `None` for other requests.
    pub fn media_reply(&self, request: &ReceivedRequest) -> Option<Reply> {
        self.change(|state| state.media_server.reply(request))
    }

    /// Returns the reply to a request of the batch APIs.
    pub fn batches_reply(&self, request: &ReceivedRequest) -> Option<Reply> {
        self.change(|state| state.batches.reply(request))
    }

    /// Returns the reply to a decision request.
    pub fn decision_reply(&self, request: &ReceivedRequest) -> Option<Reply> {
        self.change(|state| state.decisions.reply(request))
    }

    /// Whether the request has the required key or token, or needs none. The key may be in any of
    /// the usual headers.
    pub fn admits(&self, request: &ReceivedRequest) -> bool {
        let state = self.state();
        if let Some(server) = &state.tokens {
            return server.admits(request);
        }
        let Some(key) = state.api_key.as_deref() else {
            return true;
        };
        // Files at another host require no key.
        let is_public = |host: &str| host.starts_with("localhost:");
        if request.path.starts_with("/media/") && request.header("host").is_some_and(is_public) {
            return true;
        }
        let bearer = request.header("authorization").and_then(|value| {
            value
                .strip_prefix("Bearer ")
                .or_else(|| value.strip_prefix("Key "))
        });
        let headers = ["x-api-key", "api-key", "x-goog-api-key"].map(|name| request.header(name));
        bearer == Some(key) || headers.contains(&Some(key))
    }

    /// Adds an entry to the record and returns its index.
    pub fn open_served(&self, served: Served) -> usize {
        self.change(|state| {
            state.served.push(served);
            state.served.len() - 1
        })
    }

    pub fn change_served(&self, position: usize, change: impl FnOnce(&mut Served)) {
        self.change(|state| {
            if let Some(served) = state.served.get_mut(position) {
                change(served);
            }
        });
    }

    /// Returns the record in the format of `GET /_served`.
    pub fn served_json(&self) -> Value {
        let state = self.state();
        let prompt: u64 = state.served.iter().map(|served| served.used.prompt).sum();
        let completion: u64 = state.served.iter().map(|served| served.used.completion).sum();
        let complete = state
            .served
            .iter()
            .filter(|served| served.end == End::Complete)
            .count();
        json!({
            "requests": state.request_count,
            "connections": state.connections,
            "open_connections": state.open_connections,
            "totals": {
                "answers": state.served.len(),
                "complete": complete,
                "prompt_tokens": prompt,
                "completion_tokens": completion,
            },
            "served": state.served.iter().map(Served::to_json).collect::<Vec<_>>(),
        })
    }
}
