//! A scripted upstream on loopback. It implements OpenAI's `POST …/chat/completions`, `POST
//! …/embeddings`, `POST …/moderations` and `POST …/responses`, Anthropic's `POST …/messages`,
//! Gemini's `POST …/models/{model}:generateContent` (also in Vertex AI's form), Bedrock's `POST
//! …/model/{model}/converse`, the token count endpoints of these APIs, decisions
//! ([`DecisionFault`]), `POST …/audio/speech` and `POST …/audio/transcriptions`, and `GET
//! …/models`, byte by byte. Over WebSocket, it implements `GET …/realtime` ([`RealtimeFault`]) and
//! Gemini's Live API ([`LiveFault`]). A test can set replies at other paths. The upstream also
//! issues access tokens, simulates Stripe's payments, and generates images and videos in the
//! formats of [`media`].
//!
//! It uses raw sockets so that it can produce every fault of a real provider. It records its
//! answers ([`Served`]), so that a test can check a ledger. It is also available as the program
//! `fake-upstream`.

mod answer;
mod audio;
mod batches;
mod chat_request;
mod completion;
mod composed;
mod connection;
mod converse;
mod counts;
mod decisions;
mod delivery;
mod directive;
mod embeddings;
pub mod event_stream;
mod faults;
mod gate;
mod generate_content;
mod gzip;
mod live;
pub mod media;
mod messages;
mod moderations;
mod plan;
mod realtime;
mod received;
mod reply;
mod responses;
mod schema;
mod script;
mod served;
mod sse;
mod stream;
mod stripe;
#[cfg(test)]
mod tests;
mod texts;
mod token_server;
mod writes;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

pub use answer::{Answer, Usage, UsagePosition};
pub use audio::{HEARD_SECONDS, speech_audio};
pub use batches::{BATCH_TOKENS, BatchFault, Batched};
pub use decisions::DecisionFault;
pub use delivery::{At, Framing, How, LineEnd, Writes};
pub use embeddings::vector;
pub use faults::{FAULTS, Fault, Outcome, fault};
pub use gate::Gate;
pub use live::{LiveFault, LiveReceived};
pub use media::{CitedSentence, FormPart, Making, MediaFault, SocketFault};
pub use realtime::{RealtimeFault, RealtimeReceived, RealtimeWire};
pub use received::ReceivedRequest;
pub use reply::Reply;
pub use served::{End, Served, Tokens};
pub use stripe::{Card, Event};

use script::Script;
use stripe::StripeServer;
use token_server::TokenServer;

/// Maximum duration of [`FakeUpstream::wait_until`].
const DEADLINE: Duration = Duration::from_secs(60);

/// The running upstream. Dropping it stops it and closes all its connections.
///
/// The reply to a chat completion, a message or a response is the first of: the queue of its model,
/// the common queue, the directive in the caller's last text, the standing reply of its model, the
/// default (an echo). Embeddings are answered in the same order by their last text, but only the
/// usage of an answer applies to them.
pub struct FakeUpstream {
    address: SocketAddr,
    script: Arc<Script>,
    tasks: JoinSet<()>,
}

impl FakeUpstream {
    /// Starts the upstream on a free port of the loopback interface.
    ///
    /// # Panics
    /// If the loopback interface has no free port.
    #[expect(
        clippy::expect_used,
        reason = "a test cannot continue without a port, so it fails here"
    )]
    pub async fn start() -> Self {
        Self::start_on(0).await.expect("loopback has a free port")
    }

    /// Starts the upstream on this port of the loopback interface.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn start_on(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let script = Arc::new(Script::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, address.port(), Arc::clone(&script)));
        Ok(Self {
            address,
            script,
            tasks,
        })
    }

    /// Returns the address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL `http://127.0.0.1:PORT/v1`, in the form that clients and gateways
    /// expect.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds a reply for the next chat completion of any model.
    pub fn push(&self, reply: Reply) {
        self.script.change(|state| state.queue.push_back(reply));
    }

    /// Adds a reply for the next chat completion of this model.
    pub fn push_for_model(&self, model: &str, reply: Reply) {
        self.script.change(|state| {
            state
                .model_queues
                .entry(model.to_owned())
                .or_default()
                .push_back(reply)
        });
    }

    /// Adds a reply for the next `GET` of the model list.
    pub fn push_for_models(&self, reply: Reply) {
        self.script.change(|state| state.models_queue.push_back(reply));
    }

    /// Adds a reply for the next moderation. Without one, texts with "violent" are flagged.
    pub fn push_for_moderations(&self, reply: Reply) {
        self.script
            .change(|state| state.moderations_queue.push_back(reply));
    }

    /// Adds a reply for the next token count. Without one, every byte of a request is a token.
    pub fn push_for_counts(&self, reply: Reply) {
        self.script.change(|state| state.counts_queue.push_back(reply));
    }

    /// Adds a reply for the next decision request, regardless of its format.
    pub fn push_for_decisions(&self, reply: Reply) {
        self.script.change(|state| state.decisions.queue.push_back(reply));
    }

    /// Sets the fault of every decision from now on; `None` for no fault.
    pub fn set_decision_fault(&self, fault: Option<DecisionFault>) {
        self.script.change(|state| state.decisions.fault = fault);
    }

    /// Sets the fault of the next image or video submission.
    pub fn push_for_media(&self, fault: MediaFault) {
        self.script
            .change(|state| state.media_server.faults.push_back(fault));
    }

    /// Sets the sentences of the research reports that the upstream writes.
    pub fn set_report(&self, cited: Vec<CitedSentence>) {
        self.script.change(|state| state.media_server.cited = cited);
    }

    /// Sets the number of polls until a job is done. The first poll reports the job as queued,
    /// later ones as running.
    pub fn set_media_polls(&self, polls: u32) {
        self.script.change(|state| state.media_server.polls = polls);
    }

    /// Sets the fault of the WebSockets that report progress.
    pub fn set_media_socket(&self, fault: SocketFault) {
        self.script.change(|state| state.media_server.socket = fault);
    }

    /// Returns all accepted image and video jobs, in order.
    pub fn made(&self) -> Vec<Making> {
        self.script.state().media_server.made.clone()
    }

    /// Returns the number of image and video submissions, accepted or not.
    pub fn media_submissions(&self) -> u64 {
        self.script.state().media_server.submissions
    }

    /// Sets the fault of the next batch submission.
    pub fn push_for_batches(&self, fault: BatchFault) {
        self.script.change(|state| state.batches.faults.push_back(fault));
    }

    /// Sets the number of status queries until a batch has ended.
    pub fn set_batch_polls(&self, polls: u32) {
        self.script.change(|state| state.batches.polls = polls);
    }

    /// Returns all accepted batches, in order.
    pub fn batches(&self) -> Vec<Batched> {
        self.script.state().batches.made.clone()
    }

    /// Returns the number of batch submissions, accepted or not.
    pub fn batch_submissions(&self) -> u64 {
        self.script.state().batches.submissions
    }

    /// Returns the number of batch files that were not deleted.
    pub fn batch_files(&self) -> usize {
        self.script.state().batches.files.len()
    }

    /// Adds a fault of Gemini's Live conversations. It occurs once.
    pub fn push_for_live(&self, fault: LiveFault) {
        self.script.change(|state| state.live.faults.push_back(fault));
    }

    /// Sets the length of the tone of answers in Live conversations, in milliseconds.
    pub fn set_live_audio(&self, audio_ms: u64) {
        self.script.change(|state| state.live.audio_ms = Some(audio_ms));
    }

    /// Returns all messages of the clients of Live conversations, in order.
    pub fn live_messages(&self) -> Vec<LiveReceived> {
        self.script.state().live.received.clone()
    }

    /// Returns the number of answers in Live conversations.
    pub fn live_answers(&self) -> u64 {
        self.script.state().live.answers
    }

    /// Returns the number of Live connections that have ended.
    pub fn live_ended(&self) -> u64 {
        self.script.state().live.ended
    }

    /// Sets the form of realtime conversations that begin from now on.
    pub fn set_realtime_wire(&self, wire: RealtimeWire) {
        self.script.change(|state| state.realtime.wire = wire);
    }

    /// Sets the length of the tone of spoken answers, in milliseconds.
    pub fn set_realtime_audio(&self, audio_ms: u64) {
        self.script
            .change(|state| state.realtime.audio_ms = Some(audio_ms));
    }

    /// Adds a fault of realtime conversations. It occurs once.
    pub fn push_for_realtime(&self, fault: RealtimeFault) {
        self.script.change(|state| state.realtime.faults.push_back(fault));
    }

    /// Returns all events of the clients of realtime conversations, in order.
    pub fn realtime_events(&self) -> Vec<RealtimeReceived> {
        self.script.state().realtime.received.clone()
    }

    /// Returns the number of responses that realtime conversations have started, requested or not.
    pub fn realtime_responses(&self) -> u64 {
        self.script.state().realtime.responses
    }

    /// Returns the number of pongs that clients of realtime conversations have sent.
    pub fn realtime_pongs(&self) -> u64 {
        self.script.state().realtime.pongs
    }

    /// Sets the reply to requests for which no other reply is scripted.
    pub fn set_default(&self, reply: Reply) {
        self.script.change(|state| state.default = reply);
    }

    /// Sets the standing reply of one model.
    pub fn set_for_model(&self, model: &str, reply: Reply) {
        self.script
            .change(|state| state.model_defaults.insert(model.to_owned(), reply));
    }

    /// Sets the ids that `GET …/models` lists. Chat completions accept any model.
    pub fn set_models<T: Into<String>>(&self, models: impl IntoIterator<Item = T>) {
        self.script
            .change(|state| state.models = models.into_iter().map(Into::into).collect());
    }

    /// Sets the standing reply for a `GET` of this path, for any caller: files that callers
    /// reference by URL.
    pub fn set_file(&self, path: &str, reply: Reply) {
        self.script
            .change(|state| state.files.insert(path.to_owned(), reply));
    }

    /// Answers requests with the replies of a function; `None` leaves a request to the script.
    pub fn set_judge(&self, judge: impl Fn(&ReceivedRequest) -> Option<Reply> + Send + 'static) {
        self.script.change(|state| state.judge = Some(Box::new(judge)));
    }

    /// Accepts webhooks at this path. Each `POST` receives the next of the replies; after the last,
    /// 204.
    pub fn set_hook(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        let replies = replies.into_iter().collect();
        self.script
            .change(|state| state.hooks.insert(path.to_owned(), replies));
    }

    /// Requires this key as `Authorization: Bearer`, `x-api-key` or `api-key`. Requests without it
    /// receive 401.
    pub fn set_api_key(&self, key: &str) {
        self.script.change(|state| state.api_key = Some(key.to_owned()));
    }

    /// Requires access tokens from now on, and issues them for a service account and as the
    /// metadata server of a machine. Returns the JSON key file of the service account.
    pub fn issue_tokens(&self) -> String {
        let (server, key) = TokenServer::new(format!("http://{}{}", self.address, token_server::PATH));
        self.script.change(|state| state.tokens = Some(server));
        key
    }

    /// Adds a reply for the next request for a token.
    pub fn push_for_tokens(&self, reply: Reply) {
        self.of_tokens(|server| server.queue.push_back(reply));
    }

    /// Sets the reported lifetime of tokens, in seconds.
    pub fn set_token_life(&self, seconds: u64) {
        self.of_tokens(|server| server.life = seconds);
    }

    /// Revokes all issued tokens.
    pub fn revoke_tokens(&self) {
        self.of_tokens(TokenServer::revoke);
    }

    /// Returns the number of issued tokens.
    pub fn token_count(&self) -> u64 {
        self.of_tokens(|server| server.issued).unwrap_or_default()
    }

    fn of_tokens<T>(&self, change: impl FnOnce(&mut TokenServer) -> T) -> Option<T> {
        self.script.change(|state| state.tokens.as_mut().map(change))
    }

    /// Enables Stripe's API for this secret key. Its events are signed with the webhook secret.
    pub fn sell(&self, key: &str, webhook_secret: &str) {
        let server = StripeServer::new(key, webhook_secret);
        self.script.change(|state| state.stripe = Some(server));
    }

    /// Sets the reply to the next request of Stripe's API. If `after` is set, the request is also
    /// executed.
    pub fn push_for_stripe(&self, reply: Reply, after: bool) {
        self.of_stripe(|server| server.queue.push_back((reply, after)));
    }

    /// Returns Stripe's objects: customers, Checkout sessions, payment intents.
    pub fn stripe_objects(&self) -> [Vec<Value>; 3] {
        self.of_stripe(|server| {
            [
                server.customers.clone(),
                server.sessions.clone(),
                server.intents.clone(),
            ]
        })
    }

    /// Pays on the page of the session with this index; returns the session.
    pub fn pay(&self, session: usize) -> Value {
        self.of_stripe(|server| server.pay(session))
    }

    /// Saves a card with this behavior for every customer.
    pub fn keep_cards(&self, card: Card) {
        self.of_stripe(|server| server.keep_cards(card));
    }

    /// Starts a plan on the page of the session with this index, at an instant in Unix seconds.
    /// Returns its first invoice, which is paid.
    pub fn begin_plan(&self, session: usize, at: i64) -> Value {
        self.of_stripe(|server| server.begin_plan(session, at))
    }

    /// Ends a period of the plan with this index. Returns the invoice of the next period, paid or
    /// not.
    pub fn bill_plan(&self, plan: usize, is_paid: bool) -> Value {
        self.of_stripe(|server| server.bill_plan(plan, is_paid))
    }

    /// Pays an unpaid invoice; returns the invoice.
    pub fn settle_invoice(&self, id: &str) -> Value {
        self.of_stripe(|server| server.settle_invoice(id))
    }

    /// Cancels the plan with this index in the portal at the end of its period, or reverts the
    /// cancellation. Returns the subscription.
    pub fn cancel_in_portal(&self, plan: usize, cancel: bool) -> Value {
        self.of_stripe(|server| server.cancel_in_portal(plan, cancel))
    }

    /// Ends the plan with this index immediately; returns the subscription.
    pub fn end_plan(&self, plan: usize) -> Value {
        self.of_stripe(|server| server.end_plan(plan))
    }

    /// Returns Stripe's subscriptions, and the payments of their invoices.
    pub fn stripe_plans(&self) -> [Vec<Value>; 2] {
        self.of_stripe(|server| [server.subscriptions.clone(), server.invoice_payments.clone()])
    }

    /// Returns an event of Stripe about an object, signed at an instant in Unix seconds.
    pub fn stripe_event(&self, kind: &str, object: &Value, at: i64) -> Event {
        self.of_stripe(|server| server.event(kind, object, at))
    }

    #[expect(
        clippy::expect_used,
        reason = "a test must call `sell` before it uses Stripe's API"
    )]
    fn of_stripe<T>(&self, change: impl FnOnce(&mut StripeServer) -> T) -> T {
        let done = self.script.change(|state| state.stripe.as_mut().map(change));
        done.expect("`sell` was called")
    }

    /// Makes an echo repeat the caller's text without a preface, as the gateway's simulator does.
    pub fn echo_plainly(&self) {
        self.script.change(|state| state.preface = "");
    }

    /// Stops counting and recording requests for the model list, which a gateway sends at its
    /// start.
    pub fn pass_over_lists(&self) {
        self.script.change(|state| state.counts_lists = false);
    }

    /// Sets whether requests are recorded for [`requests`](Self::requests). A long run under load
    /// may need too much memory for that.
    pub fn keep_requests(&self, keep: bool) {
        self.script.change(|state| state.keep_requests = keep);
    }

    /// Returns all requests read so far, on all paths, in the order in which their bodies were
    /// complete.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.script.state().requests.clone()
    }

    /// Returns the number of request heads received.
    pub fn request_count(&self) -> u64 {
        self.script.state().request_count
    }

    /// Returns the number of accepted connections.
    pub fn connection_count(&self) -> u64 {
        self.script.state().connections
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> u64 {
        self.script.state().open_connections
    }

    /// Returns the record of all answers that the upstream started, in order.
    pub fn served(&self) -> Vec<Served> {
        self.script.state().served.clone()
    }

    /// Returns the number of started answers. Under load, this is cheaper than
    /// [`served`](Self::served).
    pub fn served_count(&self) -> usize {
        self.script.state().served.len()
    }

    /// Returns the number of scripted replies in the common queue.
    pub fn queued(&self) -> usize {
        self.script.state().queue.len()
    }

    /// Waits until the condition is true. Checks it after every change.
    ///
    /// # Panics
    /// If the condition is not true within a minute. The message contains `what`.
    #[expect(clippy::panic, reason = "a condition that stays false fails the test")]
    pub async fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        let mut changes = self.script.changes.subscribe();
        while !condition(self) {
            if timeout_at(deadline, changes.changed()).await.is_err() {
                panic!("the fake upstream timed out: {what}");
            }
        }
    }

    /// Waits until this many request heads have arrived.
    ///
    /// # Panics
    /// If they do not arrive within a minute.
    pub async fn wait_for_requests(&self, count: u64) {
        self.wait_until(&format!("{count} requests"), |upstream| {
            upstream.request_count() >= count
        })
        .await;
    }

    /// Stops listening and drops all connections. Further connection attempts are refused.
    pub async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }
}

/// Returns a base URL at which connections are refused. Its port belongs to this process until it
/// ends, so that no server of another test listens there.
///
/// # Panics
/// If the loopback interface has no port left.
#[expect(
    clippy::expect_used,
    reason = "a test cannot continue without a port, so it fails here"
)]
pub fn refusing_base_url() -> String {
    let socket = TcpSocket::new_v4().expect("sockets are available");
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    socket.bind(address).expect("loopback has a free port");
    let address = socket.local_addr().expect("the socket is bound");
    std::mem::forget(socket);
    format!("http://{address}/v1")
}

/// Accepts connections until the task ends, which also ends the connections.
async fn accept(listener: TcpListener, port: u16, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                // Otherwise, the kernel would delay and join small events.
                let _ = stream.set_nodelay(true);
                let number = script.change(|state| {
                    state.open_connections += 1;
                    state.connections += 1;
                    state.connections
                });
                let script = Arc::clone(&script);
                connections.spawn(async move {
                    connection::serve(stream, number, port, Arc::clone(&script)).await;
                    script.change(|state| state.open_connections -= 1);
                });
            }
        }
    }
}
