//! Tests against a server that speaks MCP over streamable HTTP.

mod calls;
mod faults;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, ReceivedRequest, Reply};
use tollgate_types::clock::ManualClock;
use tollgate_types::{RequestId, Timestamp};
use tollgate_upstream::{CallContext, Permit, SearchQuery};

use super::{McpServer, McpSettings, backend};
use crate::egress::{Allowed, EgressSettings, SystemResolver};
use crate::http::{HttpClient, HttpSettings};
use crate::{EgressClient, http::EndpointError};

const TOKEN: &str = "Bearer canary-token-4711";
const SESSION: &str = "session-1";

/// Behavior of a server.
#[derive(Clone, Debug, Default)]
struct Server {
    /// Whether calls need a session with this id, which the handshake returns.
    session: Option<&'static str>,
    /// Status of calls whose session does not exist; 404 if it is 0.
    lost_status: u16,
    /// Whether the server has only the protocol without a handshake.
    is_stateless: bool,
    /// Whether responses are events of a stream, after a notification.
    streams: bool,
    /// Reply to calls of tools, instead of the result.
    fault: Option<Reply>,
    /// Result of calls of tools.
    result: Value,
}

struct Fixture {
    server: FakeUpstream,
    behavior: Arc<Mutex<Server>>,
    mcp: McpServer,
}

impl Fixture {
    async fn new(behavior: Server) -> Self {
        Self::with_timeout(behavior, Duration::from_secs(20)).await
    }

    async fn with_timeout(behavior: Server, timeout: Duration) -> Self {
        let server = FakeUpstream::start().await;
        let behavior = Arc::new(Mutex::new(behavior));
        let shared = behavior.clone();
        server.set_judge(move |request| Some(shared.lock().unwrap().reply(request)));
        let url = format!("http://{}/mcp", server.address());
        let allowed = format!("127.0.0.1:{}", server.address().port());
        let mcp = mcp_at(&url, &[&allowed], timeout).unwrap();
        Self {
            server,
            behavior,
            mcp,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Server)) {
        change(&mut self.behavior.lock().unwrap());
    }

    /// Returns the methods of the received messages.
    fn methods(&self) -> Vec<String> {
        let requests = self.server.requests();
        let messages = requests.iter().map(|request| request.json().unwrap());
        messages
            .map(|message| message["method"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn mcp_at(url: &str, allow: &[&str], timeout: Duration) -> Result<McpServer, EndpointError> {
    let settings = EgressSettings {
        allow: allow.iter().map(|rule| Allowed::parse(rule).unwrap()).collect(),
        ..EgressSettings::default()
    };
    let http = HttpClient::new(HttpSettings::default());
    let egress = EgressClient::new(settings, Arc::new(SystemResolver), http);
    let settings = McpSettings {
        name: "docs".to_owned(),
        server_url: url.to_owned(),
        authorization: Some(SecretString::from(TOKEN)),
        account: None,
        timeout,
    };
    let clock = ManualClock::at(Timestamp::parse("2026-03-15T12:00:00Z").unwrap());
    backend(settings, Arc::new(egress), Arc::new(clock))
}

impl Server {
    /// Creates a server with sessions whose tools return this object as text.
    fn returning(content: &Value) -> Self {
        Self {
            session: Some(SESSION),
            result: text_result(content),
            ..Self::default()
        }
    }

    fn reply(&self, request: &ReceivedRequest) -> Reply {
        let message = request.json().unwrap_or_default();
        let is_authorized = request.header("authorization") == Some(TOKEN);
        let accepts = request.header("accept").unwrap_or_default();
        if !is_authorized || !accepts.contains("application/json") || !accepts.contains("text/event-stream") {
            return Reply::body(401, "application/json", "{}");
        }
        match message["method"].as_str() {
            Some("initialize") => self.initialize(&message),
            _ if !self.has_session(request) => {
                let status = if self.lost_status == 0 {
                    404
                } else {
                    self.lost_status
                };
                let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32_000, "message": "no session"}});
                Reply::body(status, "application/json", error.to_string())
            }
            Some("notifications/initialized") => Reply::body(202, "application/json", ""),
            Some("tools/call") => match &self.fault {
                Some(fault) => fault.clone(),
                None => self.respond(&message, "result", &self.result),
            },
            _ => Reply::body(400, "application/json", "{}"),
        }
    }

    fn has_session(&self, request: &ReceivedRequest) -> bool {
        self.is_stateless || request.header("mcp-session-id") == self.session
    }

    fn initialize(&self, message: &Value) -> Reply {
        if self.is_stateless {
            let error = json!({"code": -32_601, "message": "Method not found"});
            return self.respond(message, "error", &error).status(404);
        }
        let result = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": false}},
            "serverInfo": {"name": "docs", "version": "1"}
        });
        let reply = self.respond(message, "result", &result);
        match self.session {
            Some(id) => reply.header("mcp-session-id", id),
            None => reply,
        }
    }

    fn respond(&self, message: &Value, member: &str, value: &Value) -> Reply {
        let response = json!({"jsonrpc": "2.0", "id": message["id"], member: value}).to_string();
        if !self.streams {
            return Reply::body(200, "application/json", response);
        }
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
        let other = json!({"jsonrpc": "2.0", "id": 999_999, "result": {}});
        Reply::events([progress.to_string(), other.to_string(), response])
    }
}

/// Returns the result of a tool with this object as text content.
fn text_result(content: &Value) -> Value {
    json!({"content": [{"type": "text", "text": content.to_string()}], "isError": false})
}

fn context() -> CallContext {
    CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        inspected: false,
    }
}

fn query() -> SearchQuery {
    SearchQuery {
        text: "long pier".to_owned(),
        max_hits: 20,
        ..SearchQuery::default()
    }
}
