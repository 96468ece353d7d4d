//! Requests to one server whose paths are many: each submission has some of its own.

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
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, Pieces, RequestBody, Response, Socket,
    Timeouts, Variant,
};
use crate::refusal;

/// The header by which a request that is sent again is known.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How often a download may be sent elsewhere on its own server.
const MOST_REDIRECTS: usize = 3;

/// A server with what is shown there.
#[derive(Debug)]
pub(crate) struct Server {
    base: BaseUrl,
    root: BaseUrl,
    /// All its paths; one pool of connections.
    endpoint: Endpoint,
    http: Arc<HttpClient>,
}

/// What is asked at a path of the server.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
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

impl<'a> Asked<'a> {
    fn new(method: Method, path: &'a str) -> Self {
        Self {
            method,
            path,
            body: None,
            key: None,
        }
    }

    /// What is there.
    pub(crate) fn get(path: &'a str) -> Self {
        Self::new(Method::GET, path)
    }

    /// That it be gone.
    pub(crate) fn delete(path: &'a str) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// What a PUT without a body asks for.
    pub(crate) fn put(path: &'a str) -> Self {
        Self::new(Method::PUT, path)
    }

    /// What a POST without a body asks for.
    pub(crate) fn post(path: &'a str) -> Self {
        Self::new(Method::POST, path)
    }

    /// What a POST of JSON asks for.
    pub(crate) fn json(path: &'a str, body: &Value) -> Self {
        Self {
            body: Some(Body::Json(body.to_string().into())),
            ..Self::post(path)
        }
    }

    /// What a POST of a form asks for.
    pub(crate) fn form(path: &'a str, form: Form) -> Self {
        Self {
            body: Some(Body::Form(form)),
            ..Self::post(path)
        }
    }

    /// The same under a key of idempotency.
    pub(crate) fn with_key(self, key: &'a str) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }
}

impl Server {
    /// The server at this address, with these credentials on every request.
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

    /// Its address.
    pub(crate) fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// A path under its address, as it is asked.
    pub(crate) fn path(&self, path: &str) -> String {
        self.base.path_of(path)
    }

    /// The answer, whatever its status.
    pub(crate) async fn send(&self, ctx: &CallContext, asked: Asked<'_>) -> Result<Response, UpstreamError> {
        let unsent = |error: EndpointError| UpstreamError::connect(error.to_string());
        let mut variant = Variant::new(&self.root, asked.path).map_err(unsent)?;
        if let Some(key) = asked.key {
            variant.insert_plain(IDEMPOTENCY_KEY, key).map_err(unsent)?;
        }
        let body = match asked.body {
            None => RequestBody::default(),
            Some(Body::Json(body)) => RequestBody::from(body),
            Some(Body::Form(form)) => {
                let content_type = form.content_type();
                variant
                    .insert_plain(CONTENT_TYPE, &content_type)
                    .map_err(unsent)?;
                form.into_body()
            }
        };
        let timeouts = Timeouts::of(ctx);
        self.http
            .send(asked.method, &self.endpoint, Some(variant), body, timeouts)
            .await
    }

    /// The answer, if it is none of an error.
    pub(crate) async fn ask(&self, ctx: &CallContext, asked: Asked<'_>) -> Result<Response, UpstreamError> {
        let response = self.send(ctx, asked).await?;
        self.accepted(response).await
    }

    async fn accepted(&self, response: Response) -> Result<Response, UpstreamError> {
        match response.status {
            200..=299 => Ok(response),
            _ => Err(self.refused(response).await),
        }
    }

    /// The failure that an answer with an error status tells of.
    pub(crate) async fn refused(&self, response: Response) -> UpstreamError {
        super::uncertain(refusal::from_response(response, self.http.settings()).await)
    }

    /// The answer as what it says.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        ctx: &CallContext,
        asked: Asked<'_>,
        limit: usize,
    ) -> Result<T, UpstreamError> {
        let response = self.ask(ctx, asked).await?;
        parsed(&response.whole(limit).await?)
    }

    /// The same for something that may be gone.
    pub(crate) async fn read_if_there<T: DeserializeOwned>(
        &self,
        ctx: &CallContext,
        asked: Asked<'_>,
        limit: usize,
    ) -> Result<Option<T>, UpstreamError> {
        let response = self.send(ctx, asked).await?;
        if matches!(response.status, 404 | 410) {
            return Ok(None);
        }
        let response = self.accepted(response).await?;
        parsed(&response.whole(limit).await?).map(Some)
    }

    /// Whether the server answers at a path.
    pub(crate) async fn is_there(&self, path: &str, timeout: Duration) -> Result<(), UpstreamError> {
        let variant = Variant::new(&self.root, &self.path(path))
            .map_err(|error| UpstreamError::connect(error.to_string()))?;
        let timeouts = Timeouts::brief(timeout);
        let response = self.http.get_variant(&self.endpoint, variant, timeouts).await?;
        self.accepted(response).await.map(|_| ())
    }

    /// Asks for something whose answer says nothing more; also when there is nothing (any more) to do it to.
    pub(crate) async fn tell(&self, ctx: &CallContext, asked: Asked<'_>) -> Result<(), UpstreamError> {
        let response = self.send(ctx, asked).await?;
        match response.status {
            404 | 409 | 410 => Ok(()),
            _ => self.accepted(response).await.map(|_| ()),
        }
    }

    /// A socket at a path, which is open when it is answered.
    pub(crate) async fn listen(&self, path: &str) -> Result<Socket, UpstreamError> {
        let variant = Variant::new(&self.root, path);
        let variant = variant.map_err(|error| UpstreamError::connect(error.to_string()))?;
        self.http.open_socket(&self.endpoint, variant).await
    }

    /// The bytes at a path of its own.
    pub(crate) async fn download(
        &self,
        ctx: &CallContext,
        own: &str,
    ) -> Result<ContentStream, UpstreamError> {
        let get = |path: String| async move { self.send(ctx, Asked::get(&path)).await };
        followed(&self.base, &self.http, own, get).await
    }
}

/// The bytes at a path of a server, which is asked so. A redirect is followed on this server alone: requests show a
/// key.
pub(crate) async fn followed<F, A>(
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
    for _ in 0..=MOST_REDIRECTS {
        let response = get(path).await?;
        let is_elsewhere = matches!(response.status, 301 | 302 | 303 | 307 | 308);
        let next = response.header("location").and_then(|told| base.own_path(told));
        match next.filter(|_| is_elsewhere) {
            Some(next) => path = next,
            None if response.status == 200 => return Ok(streamed(response.pieces()?)),
            None => return Err(refusal::from_response(response, http.settings()).await),
        }
    }
    Err(UpstreamError::protocol("a download that is sent on and on"))
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, UpstreamError> {
    serde_json::from_slice(body)
        .map_err(|_| UpstreamError::protocol(format!("the answer is not as agreed ({} bytes)", body.len())))
}

/// The pieces, until the first failure.
fn streamed(pieces: Pieces) -> ContentStream {
    let mut pieces = Some(pieces);
    Box::pin(stream::poll_fn(move |cx| {
        let Some(open) = &mut pieces else {
            return std::task::Poll::Ready(None);
        };
        let polled = open.poll_next(cx);
        if matches!(polled, std::task::Poll::Ready(None | Some(Err(_)))) {
            pieces = None;
        }
        polled
    }))
}
