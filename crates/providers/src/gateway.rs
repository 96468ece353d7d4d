//! A client of a running gateway, for evaluation tools.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use tollgate_upstream::UpstreamError;

use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
};

/// Maximum size of a response, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// One endpoint of a gateway, and paths to read, with an API key.
pub struct GatewayClient {
    http: Arc<HttpClient>,
    base: BaseUrl,
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
            base,
        })
    }

    /// Posts JSON and returns the complete response with any status. `timeout` limits the wait for
    /// the headers and for each chunk of the body.
    pub async fn post(&self, body: Bytes, timeout: Duration) -> Result<GatewayAnswer, UpstreamError> {
        let timeouts = timeouts(timeout, false);
        let response = self.http.post(&self.endpoint, RequestBody::from(body), timeouts);
        answer(response.await?).await
    }

    /// Reads another path of the gateway, such as `/v1/jobs/ID?wait=20`, with the same key and the
    /// same meaning of `timeout`.
    pub async fn get(&self, path: &str, timeout: Duration) -> Result<GatewayAnswer, UpstreamError> {
        let variant =
            Variant::new(&self.base, path).map_err(|error| UpstreamError::protocol(error.to_string()))?;
        let response = self
            .http
            .get_variant(&self.endpoint, variant, timeouts(timeout, true));
        answer(response.await?).await
    }
}

fn timeouts(timeout: Duration, resend: bool) -> Timeouts {
    Timeouts {
        headers: timeout,
        idle: timeout,
        resend,
    }
}

async fn answer(response: Response) -> Result<GatewayAnswer, UpstreamError> {
    let seconds = response.header("retry-after").and_then(|text| text.parse().ok());
    Ok(GatewayAnswer {
        status: response.status,
        retry_after: seconds.map(Duration::from_secs),
        body: response.whole(MAX_ANSWER_BYTES).await?,
    })
}
