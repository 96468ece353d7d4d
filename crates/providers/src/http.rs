//! The only HTTP client: pool, TLS, time-outs, bounds and redaction.
//!
//! It stands on hyper-util's client and not on reqwest because of the CPU per request: what reqwest adds (a URL
//! parser, redirects, cookies, decompression, boxed bodies) is never wanted here, and everything about a call that does
//! not change is worked out once, in its [`Endpoint`]. Redirects are not followed: a request carries a key, and the
//! prompt of somebody who trusts the address that the operator wrote down. Compression is neither asked for nor
//! accepted: the bytes of an answer are relayed.

mod body;
mod connect;
mod endpoint;
mod failure;
mod plain;
mod request;
mod socket;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thread_local::ThreadLocal;
use tollgate_upstream::{CallContext, UpstreamError};

use body::AnyBody;
pub(crate) use body::Pieces;
use connect::{TlsConnector, TlsRoots};
pub use endpoint::{BaseUrl, Credential, Endpoint, EndpointError};
pub(crate) use endpoint::{Variant, escape};
pub(crate) use request::RequestBody;
pub(crate) use socket::Socket;

/// The most that is kept of a connection's unread head or body, and so the largest response head.
const READ_BUFFER: usize = 64 * 1024;
/// How much of a stream HTTP/2 lets an upstream send ahead of its reader.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Bounds of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Longest wait for a TCP connection.
    pub connect_timeout: Duration,
    /// Longest wait for a TCP connection and the TLS handshake on it.
    pub tls_timeout: Duration,
    /// How long an unused connection is kept.
    pub pool_idle: Duration,
    /// Most unused connections to one address, for each thread.
    pub pool_most_idle: usize,
    /// Most bytes of a whole answer.
    pub body_limit: usize,
    /// Most bytes that are read of the answer to a refused call, and of a list of models.
    pub error_body_limit: usize,
    /// Longest wait for the answer to a refused call, after its headers.
    pub error_body_timeout: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            tls_timeout: Duration::from_secs(3),
            pool_idle: Duration::from_secs(30),
            pool_most_idle: 256,
            body_limit: 64 << 20,
            error_body_limit: 64 << 10,
            error_body_timeout: Duration::from_secs(5),
        }
    }
}

type TlsClient = Client<TlsConnector, RequestBody>;

/// The client of one process, shared by all providers. Connections with TLS are in pools of its own, one for each
/// thread; those without are in the [`Endpoint`]'s; the module `plain` says why.
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
    /// A client with these bounds. It connects nowhere and reads no certificates before it is used.
    pub fn new(settings: HttpSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            tls: ThreadLocal::new(),
            roots: TlsRoots::default(),
        })
    }

    /// The bounds.
    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    /// Whether `https` can be spoken here: the certificates that this machine trusts can be read.
    pub fn check_tls(&self) -> Result<(), EndpointError> {
        self.roots.config().map(|_| ())
    }

    /// How TLS is spoken with servers whose certificates this machine trusts.
    pub(crate) fn tls_config(&self) -> Result<Arc<rustls::ClientConfig>, EndpointError> {
        self.roots.config()
    }

    /// Sends a POST and answers when the response headers are there.
    pub(crate) async fn post(
        &self,
        endpoint: &Endpoint,
        body: RequestBody,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        self.send(Method::POST, endpoint, None, body, timeouts).await
    }

    /// Sends a GET and answers when the response headers are there.
    pub(crate) async fn get(
        &self,
        endpoint: &Endpoint,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        self.send(Method::GET, endpoint, None, RequestBody::default(), timeouts)
            .await
    }

    /// The same as [`post`](Self::post), for a request with a path and headers of its own.
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

    /// The same as [`get`](Self::get), for a request with a path and headers of its own.
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

    /// Sends a DELETE without a body.
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

    /// Sends a request and answers when the response headers are there.
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
                let answered = self.tls_client()?.request(request).await;
                let (head, body) = answered.map_err(failure::of_sending)?.into_parts();
                return Ok((head, AnyBody::Tls(body)));
            }
            *request.uri_mut() = path;
            let answered = endpoint.pool.send(&endpoint.uri, request, &self.settings).await?;
            let (head, body) = answered.into_parts();
            Ok((head, AnyBody::Plain(body)))
        };
        let answered = tokio::time::timeout(timeouts.headers, sent).await;
        let (head, body) = answered.map_err(|_| UpstreamError::timeout("no response headers in time"))??;
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            pieces: Pieces::new(body, timeouts.idle),
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
            .pool_max_idle_per_host(self.settings.pool_most_idle)
            .http1_max_buf_size(READ_BUFFER)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_max_header_list_size(u32::try_from(READ_BUFFER).unwrap_or(u32::MAX));
        builder
    }
}

/// Time-outs of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Until the response headers.
    pub(crate) headers: Duration,
    /// Between two pieces of the body.
    pub(crate) idle: Duration,
}

impl Timeouts {
    /// Those of a call.
    pub(crate) fn of(ctx: &CallContext) -> Self {
        Self {
            headers: ctx.header_timeout,
            idle: ctx.idle_timeout,
        }
    }

    /// For a call that is small and quick as a whole.
    pub(crate) fn brief(timeout: Duration) -> Self {
        Self {
            headers: timeout,
            idle: timeout,
        }
    }
}

/// Response headers, and the body as it comes.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: HeaderMap,
    pieces: Pieces,
}

impl Response {
    /// A header, if it is there once and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The media type without its parameters; empty when none is given.
    pub(crate) fn media_type(&self) -> &str {
        let whole = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        whole.split(';').next().unwrap_or_default().trim()
    }

    /// Whether the body is JSON or an event stream as it is, and not packed.
    fn check_encoding(&self) -> Result<(), UpstreamError> {
        let packed = |value: &&http::HeaderValue| {
            !value.is_empty() && !value.as_bytes().eq_ignore_ascii_case(b"identity")
        };
        match self.headers.get_all(CONTENT_ENCODING).iter().find(packed) {
            None => Ok(()),
            Some(_) => Err(UpstreamError::protocol(
                "the answer is compressed, although that was not asked for",
            )),
        }
    }

    /// The whole body.
    pub(crate) async fn whole(self, limit: usize) -> Result<Bytes, UpstreamError> {
        self.check_encoding()?;
        self.pieces.whole(limit).await
    }

    /// The body piece by piece.
    pub(crate) fn pieces(self) -> Result<Pieces, UpstreamError> {
        self.check_encoding()?;
        Ok(self.pieces)
    }

    /// The first bytes of the body, as far as they come in time. For answers that are errors anyway.
    pub(crate) async fn beginning(self, settings: &HttpSettings) -> Bytes {
        if self.check_encoding().is_err() {
            return Bytes::new();
        }
        self.pieces
            .beginning(settings.error_body_limit, settings.error_body_timeout)
            .await
    }
}

#[cfg(test)]
mod tests;
