//! Connections: TCP, and TLS on it with HTTP/2 where the other side speaks it.

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

/// A connection that is idle this long is asked for a sign of life by TCP.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Makes TCP connections.
pub(super) fn tcp(settings: &HttpSettings) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(settings.connect_timeout));
    connector.set_keepalive(Some(KEEP_ALIVE));
    connector.enforce_http(false);
    connector
}

/// The certificates that this machine trusts, read when the first `https` address needs them.
#[derive(Default)]
pub(super) struct TlsRoots {
    config: OnceLock<Result<Arc<ClientConfig>, EndpointError>>,
}

impl TlsRoots {
    /// The configuration of TLS clients.
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
            "this machine trusts no certificates, so https cannot be used: {error}; install the package ca-certificates"
        ))
    })?;
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Makes TLS connections within a time that counts the handshake.
#[derive(Clone)]
pub(super) struct TlsConnector {
    https: HttpsConnector<HttpConnector>,
    patience: Duration,
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
            patience: settings.tls_timeout,
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
        let connected = tokio::time::timeout(self.patience, self.https.call(uri));
        Box::pin(async move {
            connected
                .await
                .unwrap_or_else(|_| Err("the TLS handshake took too long".into()))
        })
    }
}
