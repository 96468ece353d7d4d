//! MCP servers as search backends, over streamable HTTP (modelcontextprotocol.io, Transports).
//!
//! A server has the tools `search(query)` and `fetch(id)`, as OpenAI's deep research requires them.
//! The addresses of servers may come from callers, so all requests go through the egress client.
//!
//! The client of the crate rmcp is not used: it keeps a stream open for each session and spawns its
//! own tasks, which outlive a cancelled call. Suggested reading order: `session`, `reply`, `tools`.

mod reply;
mod session;
#[cfg(test)]
mod tests;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::json;
use tollgate_types::{AccountId, Clock, Date};
use tollgate_upstream::{
    CallContext, SearchBackend, SearchDocument, SearchHit, SearchQuery, SourceKind, UpstreamError,
};

use crate::EgressClient;
use crate::http::{EndpointError, escape};
use session::Session;

/// Settings of one MCP server.
pub struct McpSettings {
    /// Name of the backend, which the addresses of its documents contain.
    pub name: String,
    /// URL of the server's endpoint, such as `https://example.com/mcp`.
    pub server_url: String,
    /// Value of the header `Authorization`, with its scheme.
    pub authorization: Option<SecretString>,
    /// Account whose concurrent requests are limited; `None` for a server of the operator.
    pub account: Option<AccountId>,
    /// Maximum duration of a search or fetch.
    pub timeout: Duration,
}

/// An MCP server as search backend. Its hits have the address `mcp://NAME/ID`.
pub struct McpServer {
    name: String,
    session: Session,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    /// Whether a caller has named the server.
    is_private: bool,
}

/// Builds the backend of an MCP server. Sends no request. Fails if the URL is no http or https URL
/// or has a forbidden address, or if the authorization is no header value.
pub fn backend(
    settings: McpSettings,
    egress: Arc<EgressClient>,
    clock: Arc<dyn Clock>,
) -> Result<McpServer, EndpointError> {
    let is_private = settings.account.is_some();
    let session = Session::new(
        settings.server_url,
        settings.authorization.as_ref(),
        settings.account,
        egress,
    )?;
    Ok(McpServer {
        name: settings.name,
        session,
        clock,
        timeout: settings.timeout,
        is_private,
    })
}

impl McpServer {
    /// Returns the address of a document.
    fn address(&self, id: &str) -> String {
        format!("mcp://{}/{}", self.name, escape(id, ""))
    }

    /// Returns the id in the address of a document; `None` for addresses of other backends.
    fn id_of(&self, address: &str) -> Option<String> {
        let escaped = address
            .strip_prefix("mcp://")?
            .strip_prefix(self.name.as_str())?
            .strip_prefix('/')?;
        tools::unescaped(escaped)
    }

    async fn within_timeout<T>(
        &self,
        work: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        tokio::time::timeout(self.timeout, work)
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("the MCP server did not answer in time")))
    }
}

#[async_trait]
impl SearchBackend for McpServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Mcp
    }

    fn is_private(&self) -> bool {
        self.is_private
    }

    async fn search(&self, _: &CallContext, query: &SearchQuery) -> Result<Vec<SearchHit>, UpstreamError> {
        if query.max_hits == 0 {
            return Ok(Vec::new());
        }
        let call = self
            .session
            .call_tool(tools::SEARCH, json!({"query": query.text}), self.timeout);
        let result = self.within_timeout(call).await?;
        let results = tools::results(&result)?.into_iter();
        let hits = results.take(usize::try_from(query.max_hits).unwrap_or(usize::MAX));
        Ok(hits
            .map(|result| SearchHit {
                url: self.address(&result.id),
                title: result.title,
                snippet: result.snippet,
                date: None,
                text: None,
                is_readable: true,
                is_date_filtered: false,
            })
            .collect())
    }

    async fn read(&self, _: &CallContext, url: &str) -> Result<Option<SearchDocument>, UpstreamError> {
        let Some(id) = self.id_of(url) else {
            return Ok(None);
        };
        let call = self
            .session
            .call_tool(tools::FETCH, json!({"id": id}), self.timeout);
        let result = self.within_timeout(call).await?;
        let today = Date::of(self.clock.now());
        let mut document = tools::document(&result, today)?;
        if document.url.is_empty() {
            document.url = url.to_owned();
        }
        Ok(Some(document))
    }
}
