//! A gateway as its callers see it, for those who judge what it answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use tollgate_upstream::UpstreamError;

use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Timeouts};

/// The most bytes of an answer.
const LONGEST_ANSWER: usize = 16 << 20;

/// One endpoint of a gateway, with the key of a caller.
pub struct GatewayClient {
    http: Arc<HttpClient>,
    endpoint: Endpoint,
}

impl fmt::Debug for GatewayClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayClient").finish_non_exhaustive()
    }
}

/// What a gateway answered, whether it is what was asked for or an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayAnswer {
    /// The status.
    pub status: u16,
    /// How long it asks to wait before the same is asked again.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Bytes,
}

impl GatewayClient {
    /// The endpoint at this path. The address is that of the gateway, with `/v1` or without.
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

    /// Posts a body of JSON; answers when all of the answer is there, or nothing has come for this long.
    pub async fn post(&self, body: Bytes, patience: Duration) -> Result<GatewayAnswer, UpstreamError> {
        let timeouts = Timeouts {
            headers: patience,
            idle: patience,
        };
        let response = self
            .http
            .post(&self.endpoint, RequestBody::from(body), timeouts)
            .await?;
        let seconds = response.header("retry-after").and_then(|text| text.parse().ok());
        Ok(GatewayAnswer {
            status: response.status,
            retry_after: seconds.map(Duration::from_secs),
            body: response.whole(LONGEST_ANSWER).await?,
        })
    }
}
