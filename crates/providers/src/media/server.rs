//! Requests to one server with many paths, since each job has its own path.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderName};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_upstream::{CallContext, ContentStream, UpstreamError};

use super::form::Form;
use crate::http::{
    BaseUrl, BodyChunks, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Socket,
    Timeouts, Variant,
};
use crate::refusal;

/// Name of the idempotency header.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Maximum number of redirects of a download, all within the server.
const MAX_REDIRECTS: usize = 3;

/// A server and its credentials.
#[derive(Debug)]
pub(crate) struct Server {
    base: BaseUrl,
    root: BaseUrl,
    /// Connection pool and headers, shared by all paths.
    endpoint: Endpoint,
    http: Arc<HttpClient>,
}

/// A request to a path of the server.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    method: Method,
    path: &'a str,
    body: Option<Body>,
    key: Option<&'a str>,
}

#[derive(Debug)]
enum Body {
    Json(Bytes),
    Form(Form),
}

impl<'a> Request<'a> {
    fn new(method: Method, path: &'a str) -> Self {
        Self {
            method,
            path,
            body: None,
            key: None,
        }
    }

    /// Creates a GET request.
    pub(crate) fn get(path: &'a str) -> Self {
        Self::new(Method::GET, path)
    }

    /// Creates a DELETE request.
    pub(crate) fn delete(path: &'a str) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Creates a PUT request without a body.
    pub(crate) fn put(path: &'a str) -> Self {
        Self::new(Method::PUT, path)
    }

    /// Creates a POST request without a body.
    pub(crate) fn post(path: &'a str) -> Self {
        Self::new(Method::POST, path)
    }

    /// Creates a POST request with a JSON body.
    pub(crate) fn json(path: &'a str, body: &Value) -> Self {
        Self {
            body: Some(Body::Json(body.to_string().into())),
            ..Self::post(path)
        }
    }

    /// Creates a POST request with a multipart form.
    pub(crate) fn form(path: &'a str, form: Form) -> Self {
        Self {
            body: Some(Body::Form(form)),
            ..Self::post(path)
        }
    }

    /// Returns the request with an idempotency key.
    pub(crate) fn with_key(self, key: &'a str) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }
}

impl Server {
    /// Builds a client of the server. Every request carries the credentials.
    pub(crate) fn new(
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        if base.is_secure() {
            http.check_tls()?;
        }
        let root = base.root();
        Ok(Self {
            endpoint: Endpoint::new(&root, "/", credentials)?,
            root,
            base: base.clone(),
            http,
        })
    }

    /// Returns the base URL of the server.
    pub(crate) fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Converts a path below the base URL to one below the root.
    pub(crate) fn path(&self, path: &str) -> String {
        self.base.path_of(path)
    }

    /// Sends a request and returns the response with any status.
    pub(crate) async fn send(
        &self,
        ctx: &CallContext,
        request: Request<'_>,
    ) -> Result<Response, UpstreamError> {
        let invalid_request = |error: EndpointError| UpstreamError::connect(error.to_string());
        let mut variant = Variant::new(&self.root, request.path).map_err(invalid_request)?;
        if let Some(key) = request.key {
            variant
                .insert_plain(IDEMPOTENCY_KEY, key)
                .map_err(invalid_request)?;
        }
        let body = match request.body {
            None => RequestBody::default(),
            Some(Body::Json(body)) => RequestBody::from(body),
            Some(Body::Form(form)) => {
                let content_type = form.content_type();
                variant
                    .insert_plain(CONTENT_TYPE, &content_type)
                    .map_err(invalid_request)?;
                form.into_body()
            }
        };
        let timeouts = Timeouts::of(ctx);
        self.http
            .send(request.method, &self.endpoint, Some(variant), body, timeouts)
            .await
    }

    /// Sends a request; returns an error for any status other than 2xx.
    pub(crate) async fn send_checked(
        &self,
        ctx: &CallContext,
        request: Request<'_>,
    ) -> Result<Response, UpstreamError> {
        let response = self.send(ctx, request).await?;
        self.check_status(response).await
    }

    async fn check_status(&self, response: Response) -> Result<Response, UpstreamError> {
        match response.status {
            200..=299 => Ok(response),
            _ => Err(self.refused(response).await),
        }
    }

    /// Converts an error response. After a 500 or 502, the outcome of the request is unknown.
    pub(crate) async fn refused(&self, response: Response) -> UpstreamError {
        super::with_unknown_retry(refusal::from_response(response, self.http.settings()).await)
    }

    /// Sends a request and decodes its JSON response of up to `limit` bytes.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        ctx: &CallContext,
        request: Request<'_>,
        limit: usize,
    ) -> Result<T, UpstreamError> {
        let response = self.send_checked(ctx, request).await?;
        parsed(&response.whole(limit).await?)
    }

    /// Like [`read`](Self::read), but returns `None` if the object does not exist (404, 410).
    pub(crate) async fn read_if_found<T: DeserializeOwned>(
        &self,
        ctx: &CallContext,
        request: Request<'_>,
        limit: usize,
    ) -> Result<Option<T>, UpstreamError> {
        let response = self.send(ctx, request).await?;
        if matches!(response.status, 404 | 410) {
            return Ok(None);
        }
        let response = self.check_status(response).await?;
        parsed(&response.whole(limit).await?).map(Some)
    }

    /// Checks that the server responds successfully at a path.
    pub(crate) async fn check_reachable(&self, path: &str, timeout: Duration) -> Result<(), UpstreamError> {
        let variant = Variant::new(&self.root, &self.path(path))
            .map_err(|error| UpstreamError::connect(error.to_string()))?;
        let timeouts = Timeouts::brief(timeout);
        let response = self.http.get_variant(&self.endpoint, variant, timeouts).await?;
        self.check_status(response).await.map(|_| ())
    }

    /// Sends a request and ignores the body of the response. A missing object (404, 410) or a
    /// conflict (409) counts as success.
    pub(crate) async fn send_command(
        &self,
        ctx: &CallContext,
        request: Request<'_>,
    ) -> Result<(), UpstreamError> {
        let response = self.send(ctx, request).await?;
        match response.status {
            404 | 409 | 410 => Ok(()),
            _ => self.check_status(response).await.map(|_| ()),
        }
    }

    /// Opens a WebSocket at a path, with the credentials. `timeout` limits the wait for the
    /// response of the handshake.
    pub(crate) async fn open_socket(&self, path: &str, timeout: Duration) -> Result<Socket, UpstreamError> {
        let variant = Variant::new(&self.root, path);
        let variant = variant.map_err(|error| UpstreamError::connect(error.to_string()))?;
        let timeouts = Timeouts::brief(timeout);
        self.http.open_socket(&self.endpoint, variant, timeouts).await
    }

    /// Downloads a path of this server, with the credentials. Follows redirects within the server.
    pub(crate) async fn download(
        &self,
        ctx: &CallContext,
        own: &str,
    ) -> Result<ContentStream, UpstreamError> {
        let get = |path: String| async move { self.send(ctx, Request::get(&path)).await };
        follow_redirects(&self.base, &self.http, own, get).await
    }
}

/// Downloads a path with `get`. Follows up to [`MAX_REDIRECTS`] redirects, only within this server,
/// because requests contain credentials.
pub(crate) async fn follow_redirects<F, A>(
    base: &BaseUrl,
    http: &HttpClient,
    own: &str,
    get: F,
) -> Result<ContentStream, UpstreamError>
where
    F: Fn(String) -> A,
    A: Future<Output = Result<Response, UpstreamError>>,
{
    let mut path = own.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let response = get(path).await?;
        let is_elsewhere = matches!(response.status, 301 | 302 | 303 | 307 | 308);
        let next = response
            .header("location")
            .and_then(|location| base.own_path(location));
        match next.filter(|_| is_elsewhere) {
            Some(next) => path = next,
            None if response.status == 200 => return Ok(streamed(response.chunks()?)),
            None => return Err(refusal::from_response(response, http.settings()).await),
        }
    }
    Err(UpstreamError::protocol("the download exceeds the redirect limit"))
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, UpstreamError> {
    serde_json::from_slice(body).map_err(|_| {
        UpstreamError::protocol(format!(
            "the response has an unexpected shape ({} bytes)",
            body.len()
        ))
    })
}

/// Returns the chunks as a stream that ends after the first error.
fn streamed(chunks: BodyChunks) -> ContentStream {
    let mut chunks = Some(chunks);
    Box::pin(stream::poll_fn(move |cx| {
        let Some(open) = &mut chunks else {
            return std::task::Poll::Ready(None);
        };
        let polled = open.poll_next(cx);
        if matches!(polled, std::task::Poll::Ready(None | Some(Err(_)))) {
            chunks = None;
        }
        polled
    }))
}
