//! The HTTP client for providers: connection pool, TLS, timeouts, limits and redaction.
//!
//! It uses hyper-util's client instead of reqwest to reduce the CPU time of a request. reqwest adds
//! a URL parser, redirects, cookies, decompression and boxed bodies; the gateway needs none of
//! them. An [`Endpoint`] computes the constant parts of a call once. The client follows no
//! redirects: a request contains a key and a prompt, and both are meant only for the address that
//! the operator configured. It neither requests nor accepts compression, because response bytes are
//! relayed.

mod body;
mod connect;
mod endpoint;
mod error_text;
mod failure;
mod plain;
mod request;
mod socket;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thread_local::ThreadLocal;
use tollgate_upstream::{CallContext, UpstreamError};

use body::AnyBody;
pub(crate) use body::BodyChunks;
use connect::{TlsConnector, TlsRoots};
pub use endpoint::{BaseUrl, Credential, Endpoint, EndpointError};
pub(crate) use endpoint::{Variant, escape};
pub(crate) use error_text::ErrorTexts;
pub(crate) use request::RequestBody;
pub(crate) use socket::Socket;

/// Maximum size of a connection's read buffer and of the response headers, in bytes.
const READ_BUFFER: usize = 64 * 1024;
/// Maximum number of bytes that an HTTP/2 upstream may send before the stream's reader consumes
/// them.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Timeouts and limits of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Maximum time to establish a TCP connection.
    pub connect_timeout: Duration,
    /// Maximum time to establish a TCP connection and complete its TLS handshake.
    pub tls_timeout: Duration,
    /// Time after which an unused connection is closed.
    pub pool_idle: Duration,
    /// Maximum number of unused connections per thread: to one host with TLS, of one [`Endpoint`]
    /// without TLS.
    pub pool_max_idle: usize,
    /// Maximum size of a complete response body, in bytes. Some calls, such as those for images and
    /// videos, have their own limits.
    pub body_limit: usize,
    /// Maximum number of bytes that are read of an error body.
    pub error_body_limit: usize,
    /// Maximum time to read an error body after its headers.
    pub error_body_timeout: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            tls_timeout: Duration::from_secs(3),
            pool_idle: Duration::from_secs(30),
            pool_max_idle: 256,
            body_limit: 64 << 20,
            error_body_limit: 64 << 10,
            error_body_timeout: Duration::from_secs(5),
        }
    }
}

type TlsClient = Client<TlsConnector, RequestBody>;

/// The HTTP client of the process, shared by all providers. Each thread has its own pool of TLS
/// connections. Each [`Endpoint`] has its own pool of plain connections; the module `plain`
/// explains the reason.
pub struct HttpClient {
    settings: HttpSettings,
    tls: ThreadLocal<TlsClient>,
    roots: TlsRoots,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl HttpClient {
    /// Builds a client with these settings. The client connects, and reads the trusted
    /// certificates, only when they are first needed.
    pub fn new(settings: HttpSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            tls: ThreadLocal::new(),
            roots: TlsRoots::default(),
        })
    }

    /// Returns the timeouts and limits of the client.
    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    /// Checks that the trusted certificates of the machine can be read. `https` URLs require them.
    pub fn check_tls(&self) -> Result<(), EndpointError> {
        self.roots.config().map(|_| ())
    }

    /// Returns the TLS configuration with the machine's trusted certificates.
    pub(crate) fn tls_config(&self) -> Result<Arc<rustls::ClientConfig>, EndpointError> {
        self.roots.config()
    }

    /// Sends a POST. Returns as soon as the response headers arrive.
    pub(crate) async fn post(
        &self,
        endpoint: &Endpoint,
        body: RequestBody,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        self.send(Method::POST, endpoint, None, body, timeouts).await
    }

    /// Sends a GET. Returns as soon as the response headers arrive.
    pub(crate) async fn get(
        &self,
        endpoint: &Endpoint,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        self.send(Method::GET, endpoint, None, RequestBody::default(), timeouts)
            .await
    }

    /// Like [`post`](Self::post), with the path and the additional headers of `variant`.
    pub(crate) async fn post_variant(
        &self,
        endpoint: &Endpoint,
        variant: Variant,
        body: RequestBody,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        self.send(Method::POST, endpoint, Some(variant), body, timeouts)
            .await
    }

    /// Like [`get`](Self::get), with the path and the additional headers of `variant`.
    pub(crate) async fn get_variant(
        &self,
        endpoint: &Endpoint,
        variant: Variant,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        self.send(
            Method::GET,
            endpoint,
            Some(variant),
            RequestBody::default(),
            timeouts,
        )
        .await
    }

    /// Sends a DELETE without a body. Returns as soon as the response headers arrive.
    pub(crate) async fn delete_variant(
        &self,
        endpoint: &Endpoint,
        variant: Variant,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        let body = RequestBody::default();
        self.send(Method::DELETE, endpoint, Some(variant), body, timeouts)
            .await
    }

    /// Sends a request. Returns when the response headers arrive; error statuses are responses too.
    pub(crate) async fn send(
        &self,
        method: Method,
        endpoint: &Endpoint,
        variant: Option<Variant>,
        body: RequestBody,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = endpoint.headers.clone();
        let (uri, path) = match variant {
            None => (endpoint.uri.clone(), endpoint.path.clone()),
            Some(variant) => {
                request.headers_mut().extend(variant.headers);
                (variant.uri, variant.path)
            }
        };
        let sent = async {
            if endpoint.secure {
                *request.uri_mut() = uri;
                let connection = capture_connection(&mut request);
                let answered = self.tls_client()?.request(request).await;
                let (head, body) = answered.map_err(failure::send_error)?.into_parts();
                let is_shared = head.version == Version::HTTP_2;
                if head.status.is_server_error() && !is_shared {
                    // The server may close the connection without notice.
                    if let Some(connected) = connection.connection_metadata().as_ref() {
                        connected.poison();
                    }
                }
                return Ok((head, AnyBody::Tls(body)));
            }
            *request.uri_mut() = path;
            let pool = &endpoint.pool;
            let answered = pool
                .send(&endpoint.uri, request, timeouts.resend, &self.settings)
                .await?;
            let (head, body) = answered.into_parts();
            Ok((head, AnyBody::Plain(body)))
        };
        let answered = tokio::time::timeout(timeouts.headers, sent).await;
        let (head, body) =
            answered.map_err(|_| UpstreamError::timeout("timed out waiting for the response headers"))??;
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            error_texts: endpoint.error_texts.clone(),
            chunks: BodyChunks::new(body, timeouts.idle),
        })
    }

    fn tls_client(&self) -> Result<&TlsClient, UpstreamError> {
        self.tls.get_or_try(|| {
            let config = self
                .roots
                .config()
                .map_err(|error| UpstreamError::connect(error.to_string()))?;
            Ok(self.builder().build(TlsConnector::new(&self.settings, config)))
        })
    }

    fn builder(&self) -> hyper_util::client::legacy::Builder {
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(self.settings.pool_idle)
            .pool_max_idle_per_host(self.settings.pool_max_idle)
            .http1_max_buf_size(READ_BUFFER)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_max_header_list_size(u32::try_from(READ_BUFFER).unwrap_or(u32::MAX));
        builder
    }
}

/// Timeouts of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Maximum time until the response headers arrive.
    pub(crate) headers: Duration,
    /// Maximum wait for the next chunk of the body.
    pub(crate) idle: Duration,
    /// Whether to send the request again if a reused connection without TLS closes before any byte
    /// of the response. Ignored for TLS connections.
    pub(crate) resend: bool,
}

impl Timeouts {
    /// Returns the timeouts of a call, without a resend.
    pub(crate) fn of(ctx: &CallContext) -> Self {
        Self {
            headers: ctx.header_timeout,
            idle: ctx.idle_timeout,
            resend: false,
        }
    }

    /// Permits a second attempt on a new connection if a reused connection without TLS closes
    /// before any byte of the response. Text and embedding calls permit it; jobs that are billed
    /// per submission do not.
    pub(crate) fn resending(self) -> Self {
        Self { resend: true, ..self }
    }

    /// Returns the timeouts of a short call: `timeout` for the headers and for each chunk.
    pub(crate) fn brief(timeout: Duration) -> Self {
        Self {
            headers: timeout,
            idle: timeout,
            resend: false,
        }
    }
}

/// Response headers and the stream of the body.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: HeaderMap,
    error_texts: Arc<ErrorTexts>,
    chunks: BodyChunks,
}

impl Response {
    /// Returns the value of a header; `None` if it is absent or not text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the media type of the body without its parameters; empty if not declared.
    pub(crate) fn media_type(&self) -> &str {
        let whole = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim()
    }

    /// Returns an error if the body is compressed.
    fn check_encoding(&self) -> Result<(), UpstreamError> {
        let packed = |value: &&http::HeaderValue| {
            !value.is_empty() && !value.as_bytes().eq_ignore_ascii_case(b"identity")
        };
        match self.headers.get_all(CONTENT_ENCODING).iter().find(packed) {
            None => Ok(()),
            Some(_) => Err(UpstreamError::protocol(
                "the response is compressed, but the request did not accept compression",
            )),
        }
    }

    /// Reads the whole body. Returns an error if the body is compressed or exceeds `limit` bytes.
    pub(crate) async fn whole(self, limit: usize) -> Result<Bytes, UpstreamError> {
        self.check_encoding()?;
        self.chunks.whole(limit).await
    }

    /// Returns the body as a stream of chunks. Returns an error if the body is compressed.
    pub(crate) fn chunks(self) -> Result<BodyChunks, UpstreamError> {
        self.check_encoding()?;
        Ok(self.chunks)
    }

    /// Returns the policy for error messages of this endpoint.
    pub(crate) fn error_texts(&self) -> Arc<ErrorTexts> {
        self.error_texts.clone()
    }

    /// Reads the first bytes of an error body, within the size and time limits of `settings`.
    /// Returns no bytes if the body is compressed.
    pub(crate) async fn read_prefix(self, settings: &HttpSettings) -> Bytes {
        if self.check_encoding().is_err() {
            return Bytes::new();
        }
        self.chunks
            .read_prefix(settings.error_body_limit, settings.error_body_timeout)
            .await
    }
}

#[cfg(test)]
mod tests;
