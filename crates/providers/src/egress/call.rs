//! JSON requests to callers' URLs, whose responses are received in chunks, as MCP requires them.

use std::ops::ControlFlow;

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::{Instant, timeout_at};
use tollgate_types::AccountId;
use tollgate_upstream::FetchError;

use super::target::Target;
use super::{EgressClient, connection};

/// A POST of JSON.
pub(crate) struct EgressCall<'a> {
    pub(crate) url: &'a str,
    /// Account whose concurrent requests are limited; `None` for a URL of the operator.
    pub(crate) account: Option<AccountId>,
    /// Headers in addition to those of every request of the client.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Maximum size of the response body, in bytes.
    pub(crate) max_bytes: u64,
    pub(crate) deadline: Instant,
}

/// Receiver of a response.
pub(crate) trait Receive: Send {
    /// Receives the status and the headers of the response.
    fn head(&mut self, status: u16, headers: &HeaderMap);

    /// Receives the next chunk of the body. `Break` ends the response without an error.
    fn chunk(&mut self, chunk: Bytes) -> ControlFlow<()>;
}

impl EgressClient {
    /// Sends a POST to a URL and passes the response to `receiver`, with any status. Follows no
    /// redirects.
    pub(crate) async fn call(
        &self,
        call: EgressCall<'_>,
        receiver: &mut dyn Receive,
    ) -> Result<(), FetchError> {
        let called = async {
            let _permit = self.permit(call.account).await?;
            let target = Target::parse(call.url)?;
            connection::call(self, &target, &call, receiver).await
        };
        timeout_at(call.deadline, called)
            .await
            .unwrap_or(Err(FetchError::TooSlow))
    }
}
