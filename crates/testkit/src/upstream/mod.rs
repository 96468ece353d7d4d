//! A scripted upstream on loopback that speaks OpenAI's `POST …/chat/completions`, `POST …/embeddings`,
//! `POST …/moderations` and `POST …/responses`, Anthropic's `POST …/messages`, Gemini's
//! `POST …/models/{model}:generateContent` (also as Vertex AI takes it), Bedrock's `POST …/model/{model}/converse`, the
//! counts of tokens beside them, decisions ([`DecisionFault`]), `POST …/audio/speech` and `POST …/audio/transcriptions`, and `GET …/models`, byte by byte; other paths have what a test puts there. It issues
//! access tokens, takes payments as Stripe does, and makes pictures and films in the ways of [`media`], too.
//!
//! It is written on raw sockets so that every fault of a real provider can be played, and it keeps books of its own
//! ([`Served`]), against which a ledger can be checked. It also runs as the program `fake-upstream`.

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
pub mod media;
mod messages;
mod moderations;
mod plan;
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
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

pub use answer::{Answer, Usage, UsagePlace};
pub use audio::{HEARD_SECONDS, sound};
pub use batches::{BATCH_TOKENS, BatchFault, Batched};
pub use decisions::DecisionFault;
pub use delivery::{At, Framing, How, LineEnd, Writes};
pub use embeddings::vector;
pub use faults::{FAULTS, Fault, Outcome, fault};
pub use gate::Gate;
pub use media::{FormPart, Making, MediaFault, SocketFault};
pub use received::ReceivedRequest;
pub use reply::Reply;
pub use served::{End, Served, Tokens};
pub use stripe::{Card, Event};

use script::Script;
use stripe::StripeServer;
use token_server::TokenServer;

/// How long [`FakeUpstream::wait_until`] waits before it gives up.
const DEADLINE: Duration = Duration::from_secs(60);

/// The running upstream. It stops, with all its connections, when it is dropped.
///
/// A chat completion, a message or a response gets the first of: the queue of its model, the common queue, the directive in what the
/// caller said last, the standing reply of its model, the default (an echo). Embeddings get the same with their last text; of an
/// answer nothing but the usage matters to them.
pub struct FakeUpstream {
    address: SocketAddr,
    script: Arc<Script>,
    tasks: JoinSet<()>,
}

impl FakeUpstream {
    /// Starts on a free port of the loopback interface.
    ///
    /// # Panics
    /// When the loopback interface has no port left.
    #[expect(
        clippy::expect_used,
        reason = "without a port the test cannot go on, and there is no one to tell"
    )]
    pub async fn start() -> Self {
        Self::start_on(0).await.expect("loopback should have a free port")
    }

    /// Starts on this port of the loopback interface.
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

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT/v1`, the form in which clients and gateways want it.
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

    /// Adds a reply for the next `GET` of the models.
    pub fn push_for_models(&self, reply: Reply) {
        self.script.change(|state| state.models_queue.push_back(reply));
    }

    /// Adds a reply for the next moderation. Without one, what says "violent" is violence.
    pub fn push_for_moderations(&self, reply: Reply) {
        self.script
            .change(|state| state.moderations_queue.push_back(reply));
    }

    /// Adds a reply for the next count of tokens. Without one, every byte of a request is a token.
    pub fn push_for_counts(&self, reply: Reply) {
        self.script.change(|state| state.counts_queue.push_back(reply));
    }

    /// Adds a reply for the next request that wants a decision, whatever its format.
    pub fn push_for_decisions(&self, reply: Reply) {
        self.script.change(|state| state.decisions.queue.push_back(reply));
    }

    /// Does wrong in this way with every decision from now on, or with none.
    pub fn set_decision_fault(&self, fault: Option<DecisionFault>) {
        self.script.change(|state| state.decisions.fault = fault);
    }

    /// Says what becomes of the next submission to a maker of pictures or films.
    pub fn push_for_media(&self, fault: MediaFault) {
        self.script.change(|state| state.makers.faults.push_back(fault));
    }

    /// Sets how often something is asked for until it is made. Until then it waits, the first time, and is worked on.
    pub fn set_media_polls(&self, polls: u32) {
        self.script.change(|state| state.makers.polls = polls);
    }

    /// Says what is wrong with sockets that tell how far something is.
    pub fn set_media_socket(&self, fault: SocketFault) {
        self.script.change(|state| state.makers.socket = fault);
    }

    /// Everything that makers of pictures and films have taken, in order.
    pub fn made(&self) -> Vec<Making> {
        self.script.state().makers.made.clone()
    }

    /// How many submissions came to makers of pictures and films, taken or not.
    pub fn media_submissions(&self) -> u64 {
        self.script.state().makers.submissions
    }

    /// Says what becomes of the next submission of many requests at once.
    pub fn push_for_batches(&self, fault: BatchFault) {
        self.script.change(|state| state.batches.faults.push_back(fault));
    }

    /// Sets how often many requests are asked for until they have ended.
    pub fn set_batch_polls(&self, polls: u32) {
        self.script.change(|state| state.batches.polls = polls);
    }

    /// Everything that was submitted as many requests at once, and taken.
    pub fn batches(&self) -> Vec<Batched> {
        self.script.state().batches.made.clone()
    }

    /// How many such submissions came, taken or not.
    pub fn batch_submissions(&self) -> u64 {
        self.script.state().batches.submissions
    }

    /// Files of such submissions that nobody has deleted.
    pub fn batch_files(&self) -> usize {
        self.script.state().batches.files.len()
    }

    /// Sets the reply for when nothing else is scripted.
    pub fn set_default(&self, reply: Reply) {
        self.script.change(|state| state.default = reply);
    }

    /// Sets the standing reply of one model.
    pub fn set_for_model(&self, model: &str, reply: Reply) {
        self.script
            .change(|state| state.model_defaults.insert(model.to_owned(), reply));
    }

    /// Sets the ids that `GET …/models` lists. Chat completions take any model.
    pub fn set_models<T: Into<String>>(&self, models: impl IntoIterator<Item = T>) {
        self.script
            .change(|state| state.models = models.into_iter().map(Into::into).collect());
    }

    /// Sets the standing reply for a `GET` of this path, whoever asks: what callers name by its address.
    pub fn set_file(&self, path: &str, reply: Reply) {
        self.script
            .change(|state| state.files.insert(path.to_owned(), reply));
    }

    /// Is somebody who is told something at this path: each `POST` gets one of the replies, then 204.
    pub fn set_hook(&self, path: &str, replies: impl IntoIterator<Item = Reply>) {
        let replies = replies.into_iter().collect();
        self.script
            .change(|state| state.hooks.insert(path.to_owned(), replies));
    }

    /// Demands this key as `Authorization: Bearer`, `x-api-key` or `api-key`; others get 401.
    pub fn set_api_key(&self, key: &str) {
        self.script.change(|state| state.api_key = Some(key.to_owned()));
    }

    /// Demands access tokens from now on, and issues them. The result is the key of the account to which it does, as the
    /// JSON text of its file; it also issues them as the metadata server of a machine.
    pub fn issue_tokens(&self) -> String {
        let (server, key) = TokenServer::new(format!("http://{}{}", self.address, token_server::PATH));
        self.script.change(|state| state.tokens = Some(server));
        key
    }

    /// Adds a reply for the next request for a token.
    pub fn push_for_tokens(&self, reply: Reply) {
        self.of_tokens(|server| server.queue.push_back(reply));
    }

    /// Sets how long tokens are said to hold.
    pub fn set_token_life(&self, seconds: u64) {
        self.of_tokens(|server| server.life = seconds);
    }

    /// Takes back all tokens that were issued.
    pub fn revoke_tokens(&self) {
        self.of_tokens(TokenServer::revoke);
    }

    /// How many tokens were issued.
    pub fn token_count(&self) -> u64 {
        self.of_tokens(|server| server.issued).unwrap_or_default()
    }

    fn of_tokens<T>(&self, change: impl FnOnce(&mut TokenServer) -> T) -> Option<T> {
        self.script.change(|state| state.tokens.as_mut().map(change))
    }

    /// Is Stripe, too, from now on: for this secret key, and with events that are signed by this secret.
    pub fn sell(&self, key: &str, webhook_secret: &str) {
        let server = StripeServer::new(key, webhook_secret);
        self.script.change(|state| state.stripe = Some(server));
    }

    /// Answers the next request to Stripe with this; `after` says whether it is carried out all the same.
    pub fn push_for_stripe(&self, reply: Reply, after: bool) {
        self.of_stripe(|server| server.queue.push_back((reply, after)));
    }

    /// Stripe's objects: customers, Checkout sessions, payment intents.
    pub fn stripe_objects(&self) -> [Vec<Value>; 3] {
        self.of_stripe(|server| {
            [
                server.customers.clone(),
                server.sessions.clone(),
                server.intents.clone(),
            ]
        })
    }

    /// Somebody pays on the page of the session of this number; the session.
    pub fn pay(&self, session: usize) -> Value {
        self.of_stripe(|server| server.pay(session))
    }

    /// What the cards of all customers do from now on.
    pub fn keep_cards(&self, card: Card) {
        self.of_stripe(|server| server.keep_cards(card));
    }

    /// Somebody begins a plan on the page of the session of this number, at an instant in seconds; its first invoice, paid.
    pub fn begin_plan(&self, session: usize, at: i64) -> Value {
        self.of_stripe(|server| server.begin_plan(session, at))
    }

    /// A period of the plan of this number is over; the invoice of the next one, which is paid or is not.
    pub fn bill_plan(&self, plan: usize, is_paid: bool) -> Value {
        self.of_stripe(|server| server.bill_plan(plan, is_paid))
    }

    /// An invoice that was not paid is paid after all; the invoice.
    pub fn settle_invoice(&self, id: &str) -> Value {
        self.of_stripe(|server| server.settle_invoice(id))
    }

    /// The plan of this number is cancelled in the portal with its period, or that is taken back; the subscription.
    pub fn cancel_in_portal(&self, plan: usize, cancel: bool) -> Value {
        self.of_stripe(|server| server.cancel_in_portal(plan, cancel))
    }

    /// The plan of this number ends now; the subscription.
    pub fn end_plan(&self, plan: usize) -> Value {
        self.of_stripe(|server| server.end_plan(plan))
    }

    /// Stripe's subscriptions, and the payments of their invoices.
    pub fn stripe_plans(&self) -> [Vec<Value>; 2] {
        self.of_stripe(|server| [server.subscriptions.clone(), server.invoice_payments.clone()])
    }

    /// An event of Stripe about an object, signed at an instant in seconds.
    pub fn stripe_event(&self, kind: &str, object: &Value, at: i64) -> Event {
        self.of_stripe(|server| server.event(kind, object, at))
    }

    #[expect(
        clippy::expect_used,
        reason = "a test that asks Stripe has said that it is there"
    )]
    fn of_stripe<T>(&self, change: impl FnOnce(&mut StripeServer) -> T) -> T {
        let done = self.script.change(|state| state.stripe.as_mut().map(change));
        done.expect("`sell` comes first")
    }

    /// Makes an echo the caller's own words, without anything before them, as the gateway's simulator answers.
    pub fn echo_plainly(&self) {
        self.script.change(|state| state.preface = "");
    }

    /// Whether requests are kept for [`requests`](Self::requests); a long run under load may not want that.
    pub fn keep_requests(&self, keep: bool) {
        self.script.change(|state| state.keep_requests = keep);
    }

    /// All requests read so far, on all paths, in the order in which their bodies were complete.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.script.state().requests.clone()
    }

    /// How many request heads arrived.
    pub fn request_count(&self) -> u64 {
        self.script.state().request_count
    }

    /// How many connections were accepted.
    pub fn connection_count(&self) -> u64 {
        self.script.state().connections
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> u64 {
        self.script.state().open_connections
    }

    /// The upstream's books: every answer that it began, in order.
    pub fn served(&self) -> Vec<Served> {
        self.script.state().served.clone()
    }

    /// How many answers it began; cheaper than [`served`](Self::served) under load.
    pub fn served_count(&self) -> usize {
        self.script.state().served.len()
    }

    /// How many scripted replies of the common queue are left.
    pub fn queued(&self) -> usize {
        self.script.state().queue.len()
    }

    /// Waits until the condition holds; it is asked again whenever something has changed.
    ///
    /// # Panics
    /// When it does not hold within a minute; `what` is in the message.
    #[expect(clippy::panic, reason = "a condition that never comes true is a failed test")]
    pub async fn wait_until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        let mut changes = self.script.changes.subscribe();
        while !condition(self) {
            if timeout_at(deadline, changes.changed()).await.is_err() {
                panic!("the fake upstream waited in vain: {what}");
            }
        }
    }

    /// Waits until this many request heads have arrived.
    ///
    /// # Panics
    /// When they do not arrive within a minute.
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

/// A base URL at which connections are refused.
///
/// # Panics
/// When the loopback interface has no port left.
pub async fn refusing_base_url() -> String {
    let mut upstream = FakeUpstream::start().await;
    upstream.stop().await;
    upstream.base_url()
}

/// Accepts connections for ever. They end with this task.
async fn accept(listener: TcpListener, port: u16, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                // Without it the kernel would hold small events back and join them.
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
