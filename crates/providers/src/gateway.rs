//! A client of a running gateway, for evaluation tools.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use tollgate_upstream::UpstreamError;

use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Timeouts};

/// Maximum size of a response, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// One endpoint of a gateway, with an API key.
pub struct GatewayClient {
    http: Arc<HttpClient>,
    endpoint: Endpoint,
}

impl fmt::Debug for GatewayClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayClient").finish_non_exhaustive()
    }
}

/// A gateway's response, successful or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayAnswer {
    /// HTTP status of the response, possibly an error status.
    pub status: u16,
    /// Value of the `Retry-After` header; `None` if it is absent or not a whole number of seconds.
    pub retry_after: Option<Duration>,
    /// The complete body, verbatim.
    pub body: Bytes,
}

impl GatewayClient {
    /// Builds a client of the endpoint at `path`. A trailing `/v1` of `address` is removed, so
    /// `path` must include it.
    pub fn new(
        http: &Arc<HttpClient>,
        address: &str,
        path: &str,
        key: &SecretString,
    ) -> Result<Self, EndpointError> {
        let address = address.trim().trim_end_matches('/');
        let base = BaseUrl::parse(address.strip_suffix("/v1").unwrap_or(address))?;
        Ok(Self {
            http: http.clone(),
            endpoint: Endpoint::new(&base, path, &[Credential::bearer(key)?])?,
        })
    }

    /// Posts JSON and returns the complete response with any status. `timeout` limits the wait for
    /// the headers and for each chunk of the body.
    pub async fn post(&self, body: Bytes, timeout: Duration) -> Result<GatewayAnswer, UpstreamError> {
        let timeouts = Timeouts {
            headers: timeout,
            idle: timeout,
            resend: false,
        };
        let response = self
            .http
            .post(&self.endpoint, RequestBody::from(body), timeouts)
            .await?;
        let seconds = response.header("retry-after").and_then(|text| text.parse().ok());
        Ok(GatewayAnswer {
            status: response.status,
            retry_after: seconds.map(Duration::from_secs),
            body: response.whole(MAX_ANSWER_BYTES).await?,
        })
    }
}
