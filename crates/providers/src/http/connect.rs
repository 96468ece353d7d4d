//! Connectors: TCP, and TLS with HTTP/2 if the server supports it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::ClientConfig;
use tower::{BoxError, Service};

use super::HttpSettings;
use super::endpoint::EndpointError;

/// Idle time after which TCP sends a keep-alive probe.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Builds the TCP connector.
pub(super) fn tcp(settings: &HttpSettings) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(settings.connect_timeout));
    connector.set_keepalive(Some(KEEP_ALIVE));
    connector.enforce_http(false);
    connector
}

/// The machine's trusted certificates, read on first use.
#[derive(Default)]
pub(super) struct TlsRoots {
    config: OnceLock<Result<Arc<ClientConfig>, EndpointError>>,
}

impl TlsRoots {
    /// Returns the TLS configuration, or the error of reading the certificates.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, EndpointError> {
        self.config.get_or_init(tls_config).clone()
    }
}

fn tls_config() -> Result<Arc<ClientConfig>, EndpointError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| EndpointError::new(format!("TLS cannot be set up: {error}")))?;
    let config = builder.with_native_roots().map_err(|error| {
        EndpointError::new(format!(
            "cannot load trusted root certificates for https: {error}; install the package ca-certificates"
        ))
    })?;
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Connects with TLS within a timeout that includes the handshake.
#[derive(Clone)]
pub(super) struct TlsConnector {
    https: HttpsConnector<HttpConnector>,
    timeout: Duration,
}

impl TlsConnector {
    pub(super) fn new(settings: &HttpSettings, config: Arc<ClientConfig>) -> Self {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(ClientConfig::clone(&config))
            .https_only()
            .enable_http1()
            .enable_http2()
            .wrap_connector(tcp(settings));
        Self {
            https,
            timeout: settings.tls_timeout,
        }
    }
}

impl Service<Uri> for TlsConnector {
    type Response = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connected = tokio::time::timeout(self.timeout, self.https.call(uri));
        Box::pin(async move {
            connected
                .await
                .unwrap_or_else(|_| Err("the connection or its TLS handshake timed out".into()))
        })
    }
}
