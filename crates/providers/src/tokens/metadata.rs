//! Tokens of the service account of a Google Cloud machine, from its metadata server
//! (cloud.google.com/compute/docs/access/authenticate-workloads). On GKE, the account is that of
//! the workload.

use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;

use super::{Issued, TokenError, TokenSource, read};
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, Timeouts};

/// Default host of the metadata server.
pub const HOST: &str = "metadata.google.internal";
/// Environment variable that overrides the host.
pub const HOST_VARIABLE: &str = "GCE_METADATA_HOST";
const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// A client of the metadata server.
#[derive(Debug)]
pub(crate) struct Metadata {
    endpoint: Endpoint,
    description: String,
}

impl Metadata {
    /// Builds the client for this host, which may include a port.
    pub(crate) fn new(host: &str) -> Result<Self, EndpointError> {
        let base = BaseUrl::parse(&format!("http://{host}"))?;
        // The server requires this header, which browsers and forwarded requests cannot set.
        let flavor = Credential::header("metadata-flavor", &SecretString::from("Google"))?;
        Ok(Self {
            endpoint: Endpoint::new(&base, PATH, &[flavor])?,
            description: format!("the metadata server at {host}"),
        })
    }
}

#[async_trait]
impl TokenSource for Metadata {
    async fn issue(&self, http: &HttpClient, timeout: Duration) -> Result<Issued, TokenError> {
        let asked = http.get(&self.endpoint, Timeouts::brief(timeout)).await;
        let response = asked.map_err(|error| {
            TokenError::unavailable(format!(
                "{} cannot be reached: {}; it exists only on machines of Google Cloud",
                self.description, error.detail
            ))
        })?;
        match response.status {
            200 => read(response, &self.description).await,
            status @ (403 | 404) => Err(TokenError::refused(format!(
                "{} has no service account for this machine (status {status})",
                self.description
            ))),
            status => Err(TokenError::unavailable(format!(
                "{} returned status {status}",
                self.description
            ))),
        }
    }

    fn description(&self) -> &str {
        &self.description
    }
}
