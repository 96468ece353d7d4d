//! Sessions and calls of tools, in two protocols: since 2026-07-28 each request is independent,
//! before that a handshake starts a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tollgate_types::AccountId;
use tollgate_upstream::{FetchError, Poster, UpstreamCause, UpstreamError, UpstreamErrorKind};

use super::reply::{MAX_BYTES, Replied, Reply, SESSION_HEADER, refused};
use crate::EgressClient;
use crate::egress::EgressCall;
use crate::http::EndpointError;
use crate::refusal;

/// Last protocol with a handshake. A server answers with this or an earlier one.
const HANDSHAKE_PROTOCOL: &str = "2025-11-25";
/// First protocol without a handshake.
const STATELESS_PROTOCOL: &str = "2026-07-28";
/// Protocol of servers that state none in the handshake.
const OLDEST_PROTOCOL: &str = "2025-03-26";
/// JSON-RPC error of a method that the server does not have.
const METHOD_NOT_FOUND: i64 = -32_601;
/// JSON-RPC error of wrong parameters, such as the name of a tool that the server does not have.
const INVALID_PARAMS: i64 = -32_602;

const PROTOCOL_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";

/// Access to one MCP server.
pub(super) struct Session {
    url: String,
    authorization: Option<HeaderValue>,
    account: Option<AccountId>,
    egress: Arc<EgressClient>,
    next_id: AtomicU64,
    /// State after the first call; `None` before it, and after the session ended.
    state: Mutex<Option<State>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// A session, which may have no id.
    Started { id: Option<String>, protocol: String },
    /// The server has no sessions.
    Stateless,
}

impl Session {
    pub(super) fn new(
        url: String,
        authorization: Option<&SecretString>,
        account: Option<AccountId>,
        egress: Arc<EgressClient>,
    ) -> Result<Self, EndpointError> {
        egress
            .check(&url)
            .map_err(|error| EndpointError::new(format!("the URL of the MCP server {error}")))?;
        let header = |secret: &SecretString| {
            let mut value = HeaderValue::from_str(secret.expose_secret().trim()).map_err(|_| {
                EndpointError::new("the authorization has characters that are invalid in a header")
            })?;
            value.set_sensitive(true);
            Ok(value)
        };
        Ok(Self {
            authorization: authorization.map(header).transpose()?,
            url,
            account,
            egress,
            next_id: AtomicU64::new(1),
            state: Mutex::new(None),
        })
    }

    /// Calls a tool and returns its result. Starts a session if there is none, and a new one if the
    /// server has ended it.
    pub(super) async fn call_tool(
        &self,
        tool: &str,
        arguments: Value,
        timeout: Duration,
    ) -> Result<Value, UpstreamError> {
        let deadline = Instant::now() + timeout;
        let state = self.state(deadline).await?;
        let (status, replied) = self.send_call(&state, tool, &arguments, deadline).await?;
        let is_stateless = state == State::Stateless;
        let is_lost = match status {
            200..=299 => false,
            // The server may have refused the handshake for another reason.
            _ if is_stateless => true,
            status => matches!(status, 400 | 404),
        };
        if is_lost {
            self.forget(&state).await;
        }
        if !is_lost || is_stateless {
            return self.result(tool, replied?);
        }
        let state = self.state(deadline).await?;
        let (_, replied) = self.send_call(&state, tool, &arguments, deadline).await?;
        self.result(tool, replied?)
    }

    /// Ends the use of a session, unless a concurrent call has replaced it already.
    async fn forget(&self, state: &State) {
        let mut current = self.state.lock().await;
        if current.as_ref() == Some(state) {
            *current = None;
        }
    }

    fn result(&self, tool: &str, replied: Replied) -> Result<Value, UpstreamError> {
        replied.outcome.map_err(|code| {
            let detail = match code {
                METHOD_NOT_FOUND => "the MCP server has no tools".to_owned(),
                INVALID_PARAMS => format!("error {code}: check that the MCP server has the tool `{tool}`"),
                _ => format!("error {code} of the tool `{tool}` of the MCP server"),
            };
            UpstreamError::new(UpstreamErrorKind::Unavailable, UpstreamCause::Status, detail)
        })
    }

    async fn send_call(
        &self,
        state: &State,
        tool: &str,
        arguments: &Value,
        deadline: Instant,
    ) -> Result<(u16, Result<Replied, UpstreamError>), UpstreamError> {
        let mut params = json!({"name": tool, "arguments": arguments});
        let mut headers = HeaderMap::new();
        match state {
            State::Started { id, protocol } => {
                insert(&mut headers, PROTOCOL_HEADER, protocol);
                if let Some(id) = id {
                    insert(&mut headers, SESSION_HEADER, id);
                }
            }
            State::Stateless => {
                insert(&mut headers, PROTOCOL_HEADER, STATELESS_PROTOCOL);
                insert(&mut headers, METHOD_HEADER, "tools/call");
                insert(&mut headers, NAME_HEADER, tool);
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": STATELESS_PROTOCOL,
                    "io.modelcontextprotocol/clientInfo": client_info(),
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
            }
        }
        self.request("tools/call", &params, headers, deadline).await
    }

    /// Returns the state of the session, after a handshake if there is none.
    async fn state(&self, deadline: Instant) -> Result<State, UpstreamError> {
        let mut current = self.state.lock().await;
        if let Some(state) = &*current {
            return Ok(state.clone());
        }
        let state = self.start(deadline).await?;
        *current = Some(state.clone());
        Ok(state)
    }

    async fn start(&self, deadline: Instant) -> Result<State, UpstreamError> {
        let params = json!({
            "protocolVersion": HANDSHAKE_PROTOCOL,
            "capabilities": {},
            "clientInfo": client_info(),
        });
        let (_, replied) = self
            .request("initialize", &params, HeaderMap::new(), deadline)
            .await?;
        let replied = replied?;
        // A server without the handshake answers with an error.
        let Ok(result) = replied.outcome else {
            return Ok(State::Stateless);
        };
        let protocol = result.get("protocolVersion").and_then(Value::as_str);
        let protocol = protocol
            .and_then(refusal::word)
            .unwrap_or_else(|| OLDEST_PROTOCOL.to_owned());
        let mut headers = HeaderMap::new();
        insert(&mut headers, PROTOCOL_HEADER, &protocol);
        if let Some(id) = &replied.session {
            insert(&mut headers, SESSION_HEADER, id);
        }
        let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let status = self
            .post(&message, headers, deadline, Reply::to(0))
            .await?
            .status();
        match status {
            200..=299 => Ok(State::Started {
                id: replied.session,
                protocol,
            }),
            status => Err(refused(status, None)),
        }
    }

    /// Sends a request. Returns the HTTP status and the reply.
    async fn request(
        &self,
        method: &str,
        params: &Value,
        headers: HeaderMap,
        deadline: Instant,
    ) -> Result<(u16, Result<Replied, UpstreamError>), UpstreamError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let reply = self.post(&message, headers, deadline, Reply::to(id)).await?;
        Ok((reply.status(), reply.finish()))
    }

    async fn post(
        &self,
        message: &Value,
        mut headers: HeaderMap,
        deadline: Instant,
        mut reply: Reply,
    ) -> Result<Reply, UpstreamError> {
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let call = EgressCall {
            url: &self.url,
            account: self.account,
            headers,
            body: Bytes::from(message.to_string()),
            max_bytes: MAX_BYTES,
            deadline,
        };
        self.egress.call(call, &mut reply).await.map_err(error)?;
        Ok(reply)
    }
}

fn client_info() -> Value {
    json!({"name": "tollgate", "version": env!("CARGO_PKG_VERSION")})
}

/// Sets a header to a word of this module or of the server, which is valid in a header.
fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

fn error(error: FetchError) -> UpstreamError {
    match error {
        FetchError::NotAnAddress => UpstreamError::new(
            UpstreamErrorKind::Rejected,
            UpstreamCause::Connect,
            "the URL of the MCP server is not allowed",
        ),
        FetchError::Busy => UpstreamError::connect("too many requests to external URLs are running"),
        FetchError::TooSlow => UpstreamError::timeout("the MCP server did not answer in time"),
        FetchError::TooLarge => UpstreamError::protocol("the response of the MCP server is too large"),
        FetchError::Unreachable | FetchError::WrongType => {
            UpstreamError::protocol("the MCP server cannot be reached, or broke off its response")
        }
    }
}
