//! WebSockets whose messages start work. Each turn is a request of its own: it has an id, its key is looked at again,
//! and it takes a place among the account's requests per minute.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, HeaderName};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_accounts::Caller;
use tollgate_storage::Budget;
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, RequestId, Retry};

use crate::auth::Gate;
use crate::context::RequestContext;
use crate::family::Family;
use crate::max_cost::MaxCost;

/// Largest message that is taken.
pub const MOST_MESSAGE_BYTES: usize = 16 << 20;
/// Most sessions of an account on this node.
pub const MOST_SESSIONS: usize = 20;

const PING_EVERY: Duration = Duration::from_secs(20);
/// A session without a turn that hears nothing for so long is closed.
const MOST_IDLE: Duration = Duration::from_mins(5);
/// A client that takes nothing for so long is left.
const MOST_STALL: Duration = Duration::from_mins(1);

/// Opens sessions.
pub struct Sessions {
    gate: Arc<Gate>,
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    stop: CancellationToken,
    running: TaskTracker,
    open: Arc<Mutex<HashMap<AccountId, usize>>>,
}

impl Sessions {
    /// Sessions that end between two turns once `stop` is given; `running` knows those that are open.
    pub fn new(
        gate: Arc<Gate>,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
        stop: CancellationToken,
        running: TaskTracker,
    ) -> Self {
        Self {
            gate,
            clock,
            ids,
            stop,
            running,
            open: Arc::default(),
        }
    }

    /// Accepts the handshake of this caller, and has `talk` hold the session. 403 for a page of another site, 429 when
    /// the account has as many sessions as it may.
    pub fn open<F>(
        self: &Arc<Self>,
        caller: &Caller,
        ctx: &RequestContext,
        headers: &HeaderMap,
        upgrade: WebSocketUpgrade,
        talk: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Result<Response, Error>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if is_foreign_page(headers) {
            let message = "A page of another site cannot open a session here.";
            return Err(Error::new(ErrorCode::PermissionDenied, message));
        }
        let place = self.take_place(caller.account_id()).ok_or_else(too_many)?;
        let (sessions, headers) = (self.clone(), key_headers(headers));
        let (peer, max_cost) = (ctx.peer, ctx.max_cost);
        let upgrade = upgrade
            .max_message_size(MOST_MESSAGE_BYTES)
            .max_frame_size(MOST_MESSAGE_BYTES);
        Ok(upgrade.on_upgrade(move |socket| {
            let running = sessions.running.clone();
            let mut pings = interval(PING_EVERY);
            pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
            running.track_future(talk(Session {
                socket,
                sessions,
                headers,
                peer,
                max_cost,
                pings,
                heard: Instant::now(),
                _place: place,
            }))
        }))
    }

    fn take_place(&self, account: AccountId) -> Option<Place> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(account).or_default();
        if *count >= MOST_SESSIONS {
            return None;
        }
        *count += 1;
        Some(Place {
            account,
            open: self.open.clone(),
        })
    }
}

/// Browsers say which page asks. One that was not served by this very address has no business here.
fn is_foreign_page(headers: &HeaderMap) -> bool {
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
    let message = format!("The account has {MOST_SESSIONS} open sessions. Close one, then connect again.");
    Error::new(ErrorCode::RateLimitExceeded, message).with_retry(Retry::After(Duration::from_secs(5)))
}

/// A session's place in the count of its account; given back when it is dropped.
struct Place {
    account: AccountId,
    open: Arc<Mutex<HashMap<AccountId, usize>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.account);
            }
        }
    }
}

/// One open WebSocket.
pub struct Session {
    socket: WebSocket,
    sessions: Arc<Sessions>,
    headers: HeaderMap,
    peer: IpAddr,
    /// What each turn may cost.
    max_cost: MaxCost,
    pings: Interval,
    heard: Instant,
    _place: Place,
}

/// The client is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl Session {
    /// The next message; `None` when the session is over. While a turn is `busy` the session is neither idle nor
    /// stopped. Nothing is lost when the future is dropped.
    pub async fn recv(&mut self, busy: bool) -> Option<Utf8Bytes> {
        loop {
            tokio::select! {
                message = self.socket.recv() => match message {
                    Some(Ok(Message::Text(text))) => {
                        self.heard = Instant::now();
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
                    Some(Ok(Message::Close(_))) | None => return None,
                },
                _ = self.pings.tick() => self.deliver(Message::Ping(Bytes::new())).await.ok()?,
                () = sleep_until(self.heard + MOST_IDLE), if !busy => {
                    self.close(close_code::AWAY, "Nothing was sent for five minutes.").await;
                    return None;
                }
                () = self.sessions.stop.cancelled(), if !busy => {
                    self.close(close_code::RESTART, "The gateway is going away: connect again.").await;
                    return None;
                }
            }
        }
    }

    /// Sends a message.
    pub async fn send(&mut self, text: impl Into<Utf8Bytes>) -> Result<(), Gone> {
        self.heard = Instant::now();
        self.deliver(Message::Text(text.into())).await
    }

    /// Logs why a turn failed, as the shell does for requests.
    pub fn log_failure(&self, turn: RequestId, error: &Error) {
        let (code, param) = (error.code.as_str(), error.param.as_deref());
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::info!(request.id = %turn, code, param, cause, "turn failed: {turn}");
    }

    /// Says why and ends the session.
    pub async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::from_static(reason),
        };
        // Who is gone need not be told.
        let _ = self.deliver(Message::Close(Some(frame))).await;
    }

    /// Begins a turn. The key is looked at again: it may have been revoked since the last one.
    pub async fn turn(&mut self) -> Turn {
        let (sessions, gate) = (&self.sessions, &self.sessions.gate);
        let now = sessions.clock.now();
        let id = RequestId::from_u128(sessions.ids.next(now));
        let started = sessions.clock.monotonic_micros();
        let (peer, max_cost) = (self.peer, self.max_cost);
        let ctx = RequestContext::new(id, now, started, peer, Family::Common, max_cost, Duration::MAX);
        let Some(ctx) = ctx else {
            let never = Error::internal("a request id is not a header value");
            return Turn {
                id,
                started: Err(never),
            };
        };
        let started = gate.admit_caller(&self.headers, None, &ctx, Budget::Work).await;
        Turn {
            id,
            started: started.map(|caller| (caller, Arc::new(ctx))),
        }
    }

    async fn deliver(&mut self, message: Message) -> Result<(), Gone> {
        let sent = timeout(MOST_STALL, self.socket.send(message)).await;
        sent.map_err(|_| Gone)?.map_err(|_| Gone)
    }

    async fn refuse(&mut self, error: axum::Error) {
        let cause = error.into_inner();
        let (code, reason) = match cause.downcast_ref::<tungstenite::Error>() {
            Some(tungstenite::Error::Capacity(_)) => (close_code::SIZE, "A message has at most 16 MiB."),
            Some(tungstenite::Error::Utf8(_)) => (close_code::INVALID, "A text message is not UTF-8."),
            Some(tungstenite::Error::Protocol(_)) => (close_code::PROTOCOL, "This is not the protocol."),
            _ => return,
        };
        self.close(code, reason).await;
    }
}

/// One request within a session.
pub struct Turn {
    /// Its id.
    pub id: RequestId,
    /// Who asks, and the frame of the request; or why it is refused.
    pub started: Result<(Caller, Arc<RequestContext>), Error>,
}

/// The headers that say who is calling.
fn key_headers(headers: &HeaderMap) -> HeaderMap {
    let key_headers = [AUTHORIZATION, HeaderName::from_static("x-api-key")];
    let found = key_headers
        .into_iter()
        .filter_map(|name| headers.get(&name).cloned().map(|value| (name, value)));
    found.collect()
}
