//! WebSocket sessions whose messages start work. Each turn is a separate request: it has its own
//! id, its key is validated again, and it counts against the account's requests per minute.

mod duplex;
mod registry;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use futures_util::SinkExt;
use http::header::{AUTHORIZATION, HOST, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderName, Method};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_accounts::{Caller, ClientSecrets, SecretCaller};
use tollgate_storage::Budget;
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, Error, ErrorCode, RequestId, Retry};

use crate::auth::{Authenticator, Target};
use crate::client_dialect::{self, ClientDialect};
use crate::context::RequestContext;
use crate::max_cost::MaxCost;
use registry::{Registry, SessionSlot};

pub use axum::extract::ws::Utf8Bytes;
pub use duplex::{Closing, Inbox, Outbox};
pub use registry::{SessionLabel, SessionRecord};

/// Close code of RFC 6455 for a session that has fulfilled its purpose.
pub const NORMAL_CLOSURE: u16 = close_code::NORMAL;
/// Close code for a client that violates the gateway's rules.
pub const POLICY_VIOLATION: u16 = close_code::POLICY;
/// Close code for a session that has been idle.
pub const GOING_AWAY: u16 = close_code::AWAY;
/// Close code for a session that ends because the gateway shuts down.
pub const SERVICE_RESTART: u16 = close_code::RESTART;
/// Close code for an error of the gateway or of an upstream.
pub const INTERNAL_ERROR: u16 = close_code::ERROR;

/// Maximum size of a message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// Maximum number of open sessions per account on this node.
pub const MAX_SESSIONS: usize = 20;

/// Initial size of the read and write buffers of a session, in bytes.
const BUFFER_BYTES: usize = 16 << 10;
/// Subprotocol that the gateway confirms if a client offers it.
const SUBPROTOCOL: &str = "realtime";

const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Time without a message after which a session without a running turn is closed.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// Maximum duration of the answer to a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum duration of a write. A session with a slower write is dropped.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);

/// Acceptor of WebSocket connections, which limits the sessions per account.
pub struct Sessions {
    authenticator: Arc<Authenticator>,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    stop: CancellationToken,
    running: TaskTracker,
    registry: Arc<Registry>,
}

impl Sessions {
    /// Creates the session limiter. Sessions end between two turns once `stop` is set; `running`
    /// tracks the open ones.
    pub fn new(
        authenticator: Arc<Authenticator>,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
        stop: CancellationToken,
        running: TaskTracker,
    ) -> Self {
        Self {
            authenticator,
            clock,
            ids,
            stop,
            running,
            registry: Arc::default(),
        }
    }

    /// Accepts the caller's handshake and runs `handler` with the session. Returns 403 for a page
    /// of another origin, and 429 if the account has too many open sessions.
    pub fn open<F>(
        self: &Arc<Self>,
        caller: &Caller,
        ctx: &RequestContext,
        handshake: Handshake<'_>,
        handler: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Result<Response, Error>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Ok(self.accept(caller, ctx, handshake)?.upgrade(handler))
    }

    /// Checks the caller's handshake and counts its session. Returns 403 for a page of another
    /// origin, and 429 if the account has too many open sessions.
    pub fn accept<'h>(
        self: &Arc<Self>,
        caller: &Caller,
        ctx: &RequestContext,
        handshake: Handshake<'h>,
    ) -> Result<AcceptedHandshake<'h>, Error> {
        check_origin(handshake.headers, handshake.secret.as_deref())?;
        let (secret, label) = (handshake.secret.as_deref(), handshake.label.clone());
        let record = SessionRecord::new(ctx.id, caller, secret, label, self.clock.clone());
        let slot = self.registry.add(record).ok_or_else(too_many)?;
        Ok(AcceptedHandshake {
            sessions: self.clone(),
            handshake,
            peer: ctx.peer,
            max_cost: ctx.max_cost,
            slot,
        })
    }

    /// Returns the open sessions of all accounts, oldest first.
    pub fn records(&self) -> Vec<Arc<SessionRecord>> {
        self.registry.records()
    }

    /// Returns the open session of this handshake.
    pub fn record(&self, request: RequestId) -> Option<Arc<SessionRecord>> {
        self.registry.get(request)
    }
}

/// A handshake that was checked and whose session is counted. Dropping it ends the count.
pub struct AcceptedHandshake<'a> {
    sessions: Arc<Sessions>,
    handshake: Handshake<'a>,
    peer: IpAddr,
    max_cost: MaxCost,
    slot: SessionSlot,
}

impl AcceptedHandshake<'_> {
    /// Upgrades the connection and runs `handler` with the session.
    pub fn upgrade<F>(self, handler: impl FnOnce(Session) -> F + Send + 'static) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self {
            sessions,
            handshake,
            peer,
            max_cost,
            slot,
        } = self;
        let Handshake {
            path,
            headers,
            upgrade,
            secret,
            label: _,
        } = handshake;
        let headers = key_headers(headers);
        let upgrade = upgrade
            .protocols([SUBPROTOCOL])
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(BUFFER_BYTES)
            .max_message_size(MAX_MESSAGE_BYTES)
            .max_frame_size(MAX_MESSAGE_BYTES);
        upgrade.on_upgrade(move |socket| {
            let running = sessions.running.clone();
            let mut pings = interval(PING_INTERVAL);
            pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
            running.track_future(handler(Session {
                socket,
                turns: Turns {
                    sessions,
                    path,
                    headers,
                    secret,
                    peer,
                    max_cost,
                    slot,
                },
                pings,
                last_message_at: Instant::now(),
            }))
        })
    }
}

/// Refuses pages of other origins, except with a client secret that allows them.
fn check_origin(headers: &HeaderMap, secret: Option<&SecretCaller>) -> Result<(), Error> {
    let is_allowed = match secret {
        Some(secret) => {
            let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
            secret.allows_origin(origin)
        }
        None => !is_cross_origin(headers),
    };
    match is_allowed {
        true => Ok(()),
        false => {
            let message = "Pages of this origin cannot open a session with this key or secret.";
            Err(Error::new(ErrorCode::PermissionDenied, message))
        }
    }
}

/// Whether a browser sent the request from a page of another origin. Browsers send the origin of
/// the page; only pages served from this host may connect.
fn is_cross_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return false;
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let page = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match (page, host) {
        (Some((_, page)), Some(host)) => !page.eq_ignore_ascii_case(host),
        _ => true,
    }
}

fn too_many() -> Error {
    let message = format!("The account has {MAX_SESSIONS} open sessions. Close one, then connect again.");
    Error::new(ErrorCode::RateLimitExceeded, message).with_retry(Retry::After(Duration::from_secs(5)))
}

/// Handshake of a session.
pub struct Handshake<'a> {
    /// Path of the request.
    pub path: &'static str,
    /// Headers of the request.
    pub headers: &'a HeaderMap,
    /// The upgrade of the connection.
    pub upgrade: WebSocketUpgrade,
    /// Client secret that opens the session; pages of other origins may do so only with one.
    pub secret: Option<Box<SecretCaller>>,
    /// Purpose of the session for operators; `None` if they do not list such sessions.
    pub label: Option<SessionLabel>,
}

/// One open WebSocket.
pub struct Session {
    socket: WebSocket,
    turns: Turns,
    pings: Interval,
    last_message_at: Instant,
}

/// Starter of the turns of a session.
pub struct Turns {
    sessions: Arc<Sessions>,
    /// Path of the handshake.
    path: &'static str,
    headers: HeaderMap,
    secret: Option<Box<SecretCaller>>,
    peer: IpAddr,
    /// Cost limit of each turn.
    max_cost: MaxCost,
    slot: SessionSlot,
}

/// Error of a session whose client has disconnected or reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

impl Session {
    /// Returns the next message; `None` when the session is over. During a turn (`busy`), the
    /// session neither times out nor stops. Cancel-safe.
    pub async fn recv(&mut self, busy: bool) -> Option<Utf8Bytes> {
        loop {
            tokio::select! {
                message = self.socket.recv() => match message {
                    Some(Ok(Message::Text(text))) => {
                        self.last_message_at = Instant::now();
                        return Some(text);
                    }
                    Some(Ok(Message::Binary(_))) => {
                        self.close(close_code::UNSUPPORTED, "Send text messages.").await;
                        return None;
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Err(error)) => {
                        self.refuse(error).await;
                        return None;
                    }
                    Some(Ok(Message::Close(_))) => {
                        // Answers the close frame.
                        let _ = timeout(CLOSE_TIMEOUT, self.socket.close()).await;
                        return None;
                    }
                    None => return None,
                },
                _ = self.pings.tick() => self.deliver(Message::Ping(Bytes::new())).await.ok()?,
                () = sleep_until(self.last_message_at + IDLE_TIMEOUT), if !busy => {
                    self.close(close_code::AWAY, "No message was received for five minutes.").await;
                    return None;
                }
                () = self.turns.sessions.stop.cancelled(), if !busy => {
                    self.close(close_code::RESTART, "The gateway is shutting down: connect again.").await;
                    return None;
                }
            }
        }
    }

    /// Sends a text message to the client.
    pub async fn send(&mut self, text: impl Into<Utf8Bytes>) -> Result<(), Disconnected> {
        self.last_message_at = Instant::now();
        self.deliver(Message::Text(text.into())).await
    }

    /// Logs why a turn failed, as the request layer does for requests.
    pub fn log_failure(&self, turn: RequestId, error: &Error) {
        let (code, param) = (error.code.as_str(), error.param.as_deref());
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::info!(request.id = %turn, code, param, cause, "turn failed: {turn}");
    }

    /// Sends a close frame with the reason and ends the session.
    pub async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::from_static(reason),
        };
        // A disconnected client does not need the close frame.
        let _ = self.deliver(Message::Close(Some(frame))).await;
    }

    /// Starts a turn; see [`Turns::turn`].
    pub async fn turn(&mut self) -> Turn {
        self.turns.turn().await
    }

    /// Splits the session into its receiving and its sending half.
    pub fn split(self) -> (Inbox, Outbox, Turns) {
        let record = self.turns.slot.record.clone();
        let (inbox, outbox) = duplex::split(self.socket, self.pings, &self.turns.sessions.running, record);
        (inbox, outbox, self.turns)
    }

    async fn deliver(&mut self, message: Message) -> Result<(), Disconnected> {
        let sent = timeout(WRITE_TIMEOUT, self.socket.send(message)).await;
        sent.map_err(|_| Disconnected)?.map_err(|_| Disconnected)
    }

    async fn refuse(&mut self, error: axum::Error) {
        if let Some((code, reason)) = violation(error) {
            self.close(code, reason).await;
        }
    }
}

/// Returns the close code and reason for a message that cannot be read; `None` if the connection
/// has failed.
fn violation(error: axum::Error) -> Option<(u16, &'static str)> {
    let cause = error.into_inner();
    match cause.downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Capacity(_)) => {
            Some((close_code::SIZE, "The message is larger than 16 MiB."))
        }
        Some(tungstenite::Error::Utf8(_)) => Some((close_code::INVALID, "The text is not valid UTF-8.")),
        Some(tungstenite::Error::Protocol(_)) => Some((close_code::PROTOCOL, "WebSocket protocol error.")),
        _ => None,
    }
}

impl Turns {
    /// Starts a turn. Validates the key again, since it may have been revoked after the previous
    /// turn.
    pub async fn turn(&self) -> Turn {
        let (sessions, authenticator) = (&self.sessions, &self.sessions.authenticator);
        let now = sessions.clock.now();
        let id = RequestId::from_u128(sessions.ids.next(now));
        let started = sessions.clock.monotonic_micros();
        let (peer, max_cost) = (self.peer, self.max_cost);
        let ctx = RequestContext::new(
            id,
            now,
            started,
            peer,
            ClientDialect::Common,
            max_cost,
            Duration::MAX,
        );
        let Some(ctx) = ctx else {
            let never = Error::internal("the request id is not a valid header value");
            return Turn {
                id,
                started: Err(never),
            };
        };
        let target = Target {
            method: &Method::GET,
            path: self.path,
        };
        let dialect_key = client_dialect::subprotocol_key(&self.headers);
        let started = match &self.secret {
            Some(secret) => {
                authenticator
                    .admit_secret(target, secret, &ctx, Budget::Work)
                    .await
            }
            None => {
                authenticator
                    .admit_caller(target, &self.headers, dialect_key, &ctx, Budget::Work)
                    .await
            }
        };
        Turn {
            id,
            started: started.map(|caller| (caller, Arc::new(ctx))),
        }
    }

    /// Returns a new id of an object of the session.
    pub fn new_id(&self) -> u128 {
        self.sessions.ids.next(self.sessions.clock.now())
    }

    /// Returns the client secret that opened the session, and the service that has its budget.
    pub fn secret(&self) -> Option<(&SecretCaller, &Arc<ClientSecrets>)> {
        let secret = self.secret.as_deref()?;
        Some((secret, &self.sessions.authenticator.client_secrets))
    }

    /// Returns the record of the session.
    pub fn record(&self) -> &Arc<SessionRecord> {
        &self.slot.record
    }

    /// Returns the close frame of a session that an operator has ended, after which
    /// [`Inbox::recv`] returns `None`.
    pub fn closing(&self) -> Option<Closing> {
        self.slot.record.is_ended().then_some(Closing {
            code: POLICY_VIOLATION,
            reason: "An operator has ended the session.",
        })
    }

    /// Waits until the gateway shuts down.
    pub async fn stopped(&self) {
        self.sessions.stop.cancelled().await;
    }
}

/// One request within a session.
pub struct Turn {
    /// Request id of the turn.
    pub id: RequestId,
    /// The caller and request context, or the error if the turn is refused.
    pub started: Result<(Caller, Arc<RequestContext>), Error>,
}

/// Returns only the headers that can contain a key.
fn key_headers(headers: &HeaderMap) -> HeaderMap {
    let key_headers = [
        AUTHORIZATION,
        HeaderName::from_static("x-api-key"),
        SEC_WEBSOCKET_PROTOCOL,
    ];
    let found = key_headers
        .into_iter()
        .filter_map(|name| headers.get(&name).cloned().map(|value| (name, value)));
    found.collect()
}
