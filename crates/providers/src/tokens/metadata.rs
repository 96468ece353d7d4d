//! Tokens of the account that a machine of Google Cloud runs under, from its metadata server
//! (cloud.google.com/compute/docs/access/authenticate-workloads); on GKE, that of the workload.

use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;

use super::{Issued, TokenError, TokenSource, read};
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, Timeouts};

/// Where the server is.
pub const HOST: &str = "metadata.google.internal";
/// The environment variable that says that it is elsewhere.
pub const HOST_VARIABLE: &str = "GCE_METADATA_HOST";
const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// The metadata server.
#[derive(Debug)]
pub(crate) struct Metadata {
    endpoint: Endpoint,
    place: String,
}

impl Metadata {
    /// The one at this host, which may have a port.
    pub(crate) fn new(host: &str) -> Result<Self, EndpointError> {
        let base = BaseUrl::parse(&format!("http://{host}"))?;
        // Shows that the request was meant: browsers and forwarded requests cannot have it.
        let flavor = Credential::header("metadata-flavor", &SecretString::from("Google"))?;
        Ok(Self {
            endpoint: Endpoint::new(&base, PATH, &[flavor])?,
            place: format!("the metadata server at {host}"),
        })
    }
}

#[async_trait]
impl TokenSource for Metadata {
    async fn issue(&self, http: &HttpClient, patience: Duration) -> Result<Issued, TokenError> {
        let asked = http.get(&self.endpoint, Timeouts::brief(patience)).await;
        let response = asked.map_err(|error| {
            TokenError::unavailable(format!(
                "{} cannot be reached: {}; it is there on machines of Google Cloud alone",
                self.place, error.detail
            ))
        })?;
        match response.status {
            200 => read(response, &self.place).await,
            status @ (403 | 404) => Err(TokenError::refused(format!(
                "{} has no account for this machine (status {status})",
                self.place
            ))),
            status => Err(TokenError::unavailable(format!(
                "{} answers with status {status}",
                self.place
            ))),
        }
    }

    fn place(&self) -> &str {
        &self.place
    }
}
