//! `Idempotency-Key`: a repeated POST with the same key is executed once; later attempts get the
//! stored response.
//!
//! A request with a key runs to its end even if the caller disconnects, because the caller may
//! retry. Its response is stored encrypted for one day. A failed request costs nothing; it releases
//! its key and can be retried.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, stream};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use memchr::memmem;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;
use tollgate_accounts::{Caller, Vault};
use tollgate_storage::{Budget, Claim, ClaimOutcome, IdempotencyKeyHash, IdempotencyStore, StorageError};
use tollgate_types::{AccountId, Clock, Credits, Error, ErrorCode, RequestId, Retry};

use crate::auth::{Authenticator, Target};
use crate::body::{self, MEDIA_BODY};
use crate::client_dialect;
use crate::context::{RequestContext, context_of};
use crate::error::ApiError;
use crate::form;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const ORIGINAL: HeaderName = HeaderName::from_static("x-tollgate-original-request-id");

/// Path whose requests may have the key in their body, as `idempotency_key`.
const BODY_KEY_PATH: &str = "/v1/async/chat/completions";
const BODY_KEY: &str = "idempotency_key";

/// Maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 255;
/// Time for which a response is stored.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum size of a stored response, in bytes.
const MAX_STORED_BYTES: usize = 8 * 1024 * 1024;
/// Number of stream chunks that are buffered for a slow caller.
const BUFFERED_CHUNKS: usize = 16;

/// Middleware that executes each request with an idempotency key once.
pub struct Idempotency {
    authenticator: Arc<Authenticator>,
    store: Arc<dyn IdempotencyStore>,
    vault: Vault,
    clock: Arc<dyn Clock>,
    calls: TaskTracker,
    lifetime: Duration,
}

/// Next step for a request.
enum Next {
    /// Execute the request: it is the first with its key.
    Execute(Box<Request<Body>>, Ticket),
    /// Execute the request: it has no key.
    ExecuteWithoutKey(Box<Request<Body>>),
    /// Return the stored response.
    Answer(Response),
}

/// Claim on an idempotency key. The holder of the claim executes the request, and must then store
/// the response or release the key.
struct Ticket {
    store: Arc<dyn IdempotencyStore>,
    vault: Vault,
    account: AccountId,
    key: IdempotencyKeyHash,
    request: RequestId,
}

impl Idempotency {
    /// Creates the middleware over `store`. A request runs for at most `lifetime`; after that its
    /// process counts as dead. Running requests are counted in `calls`, so that a shutdown waits
    /// for them.
    pub fn new(
        authenticator: Arc<Authenticator>,
        store: Arc<dyn IdempotencyStore>,
        vault: Vault,
        clock: Arc<dyn Clock>,
        calls: TaskTracker,
        lifetime: Duration,
    ) -> Self {
        Self {
            authenticator,
            store,
            vault,
            clock,
            calls,
            lifetime,
        }
    }

    /// Whether a request is a POST that has an idempotency key, or may have one in its body. The
    /// console has none.
    pub fn may_have_key<B>(request: &Request<B>) -> bool {
        let path = request.uri().path();
        let may_have_key = request.headers().contains_key(KEY) || path == BODY_KEY_PATH;
        request.method() == Method::POST && may_have_key && !path.starts_with("/console/")
    }

    /// Executes a request by a call of `inner`, or returns the stored response of its idempotency
    /// key.
    pub async fn serve<F>(&self, request: Request<Body>, inner: impl FnOnce(Request<Body>) -> F) -> Response
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let (request, ticket) = match self.claim(request).await {
            Ok(Next::Execute(request, ticket)) => (request, ticket),
            Ok(Next::ExecuteWithoutKey(request)) => return inner(*request).await,
            Ok(Next::Answer(response)) => return response,
            Err(error) => return error.into_response(),
        };
        let (respond, response) = oneshot::channel();
        let served = AssertUnwindSafe(inner(*request)).catch_unwind();
        self.calls.spawn(async move {
            match served.await {
                Ok(response) => ticket.deliver_and_store(response, respond).await,
                Err(_) => ticket.release().await,
            }
        });
        let panicked = |_| ApiError(Error::internal("the handler panicked")).into_response();
        response.await.unwrap_or_else(panicked)
    }

    async fn claim(&self, request: Request<Body>) -> Result<Next, ApiError> {
        let (parts, body) = request.into_parts();
        let ctx = context_of(&parts)?;
        let dialect_key = client_dialect::key_of(&parts.uri, &parts.headers);
        let caller = self
            .authenticator
            .caller(Target::of(&parts), &parts.headers, dialect_key, &ctx)
            .await?;
        let in_header = readable_key(&parts.headers)?;
        let body = body::read(&parts.headers, body, MEDIA_BODY, ctx.body_grace_period).await?;
        let in_body = match in_header {
            None => key_in_body(&body)?,
            Some(_) => None,
        };
        let Some(key) = in_header.or(in_body.as_deref()) else {
            let request = Request::from_parts(parts, Body::from(body));
            return Ok(Next::ExecuteWithoutKey(Box::new(request)));
        };
        let key = hash(parts.uri.path(), key);
        let now = self.clock.now();
        let claim = Claim {
            account: caller.account_id(),
            key,
            fingerprint: fingerprint(&parts.uri, form::boundary(&parts.headers), &body),
            request: ctx.id,
            now,
            abandoned_at: now.plus(self.lifetime),
            expires_at: now.plus(RETENTION),
        };
        let claimed = self.store.claim(claim).await.map_err(unavailable)?;
        if claimed == ClaimOutcome::First {
            let ticket = Ticket {
                store: self.store.clone(),
                vault: self.vault.clone(),
                account: caller.account_id(),
                key,
                request: ctx.id,
            };
            let request = Request::from_parts(parts, Body::from(body));
            return Ok(Next::Execute(Box::new(request), ticket));
        }
        // A repeated request starts no work.
        self.authenticator.count(&caller, &ctx, Budget::Control).await?;
        match claimed {
            ClaimOutcome::Answered { request, content } => {
                Ok(Next::Answer(self.replay(&caller, &ctx, request, &content)?))
            }
            ClaimOutcome::Reused => Err(reused().into()),
            ClaimOutcome::Running | ClaimOutcome::First => Err(in_progress().into()),
        }
    }

    fn replay(
        &self,
        caller: &Caller,
        ctx: &RequestContext,
        request: RequestId,
        sealed: &[u8],
    ) -> Result<Response, Error> {
        let opened = self.vault.open(caller.account_id(), request.as_u128(), sealed);
        let opened = opened.ok_or_else(|| Error::internal("cannot decrypt the stored response"))?;
        let answer = StoredAnswer::decode(Bytes::from(opened))
            .ok_or_else(|| Error::internal("cannot parse the stored response"))?;
        let StoredAnswer::Whole {
            status,
            content_type,
            body,
        } = answer
        else {
            let message = format!(
                "The request {request} was executed with this idempotency key, but its response was too large to be stored. To execute it again, use a new key."
            );
            return Err(Error::new(ErrorCode::Conflict, message));
        };
        ctx.note_cost(Credits::ZERO);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        let original = HeaderValue::from_maybe_shared(Bytes::from(request.to_string()));
        headers.insert(ORIGINAL, original.map_err(Error::internal)?);
        Ok(response)
    }
}

impl Ticket {
    /// Delivers the response to the caller, if the caller is still connected, and stores a
    /// successful response; any other response releases the key. A response of known length is
    /// stored before its delivery, a stream before its end is signaled, so that a caller who has
    /// received the complete response can repeat the request.
    async fn deliver_and_store(self, response: Response, respond: oneshot::Sender<Response>) {
        if !response.status().is_success() {
            self.release().await;
            drop(respond.send(response));
            return;
        }
        let (head, mut body) = response.into_parts();
        let (status, content_type) = (head.status, head.headers.get(CONTENT_TYPE).cloned());
        if body.size_hint().exact().is_some() {
            let Ok(whole) = body.collect().await else {
                return self.release().await;
            };
            let whole = whole.to_bytes();
            self.store_answer(status, content_type, &whole).await;
            drop(respond.send(Response::from_parts(head, Body::from(whole))));
            return;
        }
        let (chunks, receiver) = mpsc::channel(BUFFERED_CHUNKS);
        drop(respond.send(Response::from_parts(head, streamed(receiver))));
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    // The reader must receive a broken stream, not a complete one.
                    drop(chunks.send(Err(error)).await);
                    return self.release().await;
                }
            };
            let Ok(chunk) = frame.into_data() else { continue };
            if whole.len() <= MAX_STORED_BYTES {
                whole.extend_from_slice(&chunk);
            }
            // The caller may have disconnected; the response is still needed for the store.
            drop(chunks.send(Ok(chunk)).await);
        }
        self.store_answer(status, content_type, &whole).await;
    }

    async fn store_answer(&self, status: StatusCode, content_type: Option<HeaderValue>, body: &[u8]) {
        let content = StoredAnswer::encode(status, content_type.as_ref(), body);
        let stored = match self.vault.seal(self.account, self.request.as_u128(), &content) {
            Ok(sealed) => {
                let answer = self.store.answer(self.account, self.key, self.request, sealed);
                answer.await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = stored {
            // The key stays claimed, because a second execution would charge the account again.
            tracing::error!(request.id = %self.request, %error, "cannot store the response of an idempotency key");
        }
    }

    async fn release(&self) {
        let released = self.store.release(self.account, self.key, self.request).await;
        if let Err(error) = released {
            tracing::warn!(request.id = %self.request, %error, "cannot release an idempotency key");
        }
    }
}

/// Serialized form of a stored response: a line with status and content type, then the body. A
/// response that was too large has status 0 and no body.
#[derive(Debug, PartialEq, Eq)]
enum StoredAnswer {
    Whole {
        status: StatusCode,
        content_type: Option<HeaderValue>,
        body: Bytes,
    },
    TooLarge,
}

impl StoredAnswer {
    fn encode(status: StatusCode, content_type: Option<&HeaderValue>, body: &[u8]) -> Vec<u8> {
        if body.len() > MAX_STORED_BYTES {
            return b"0 \n".to_vec();
        }
        let mut content = format!("{} ", status.as_u16()).into_bytes();
        content.extend_from_slice(content_type.map_or(&[], HeaderValue::as_bytes));
        content.push(b'\n');
        content.extend_from_slice(body);
        content
    }

    fn decode(content: Bytes) -> Option<Self> {
        let end = content.iter().position(|byte| *byte == b'\n')?;
        let line = content.get(..end)?;
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (status, content_type) = (line.get(..space)?, line.get(space + 1..)?);
        if status == b"0" {
            return Some(Self::TooLarge);
        }
        let content_type = match content_type {
            b"" => None,
            bytes => Some(HeaderValue::from_bytes(bytes).ok()?),
        };
        Some(Self::Whole {
            status: StatusCode::from_bytes(status).ok()?,
            content_type,
            body: content.slice(end + 1..),
        })
    }
}

fn streamed(receiver: mpsc::Receiver<Result<Bytes, axum::Error>>) -> Body {
    let chunks = stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((chunk, receiver))
    });
    Body::from_stream(chunks)
}

/// Returns the digest of the request path and the caller's idempotency key.
fn hash(path: &str, key: &str) -> IdempotencyKeyHash {
    let mut digest = Sha256::new();
    digest.update(path.as_bytes());
    digest.update([0]);
    digest.update(key.as_bytes());
    digest.finalize().into()
}

/// Returns the key of the header; `None` without the header.
fn readable_key(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut values = headers.get_all(KEY).iter();
    let Some(first) = values.next() else {
        return Ok(None);
    };
    let key = first.to_str().ok().map(str::trim);
    match (key.filter(|key| is_key(key)), values.next()) {
        (Some(key), None) => Ok(Some(key)),
        _ => Err(invalid_key("Idempotency-Key")),
    }
}

/// Returns the key in the body of a request; `None` for a body without a key or with invalid JSON,
/// which the handler refuses.
fn key_in_body(body: &[u8]) -> Result<Option<String>, Error> {
    #[derive(serde::Deserialize)]
    struct Keyed {
        idempotency_key: Option<serde_json::Value>,
    }
    let keyed: Option<Keyed> = serde_json::from_slice(body).ok();
    match keyed.and_then(|keyed| keyed.idempotency_key) {
        None => Ok(None),
        Some(serde_json::Value::String(key)) if is_key(&key) => Ok(Some(key)),
        Some(_) => Err(invalid_key(BODY_KEY)),
    }
}

fn is_key(key: &str) -> bool {
    let is_printable = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    (1..=MAX_KEY_BYTES).contains(&key.len()) && is_printable
}

fn invalid_key(name: &str) -> Error {
    let message = format!(
        "'{name}' must be sent once, with 1 to {MAX_KEY_BYTES} printable ASCII characters, such as a UUID."
    );
    Error::new(ErrorCode::InvalidParameter, message).with_param(name)
}

/// Returns a digest of the request. It excludes the API key in the query, which may be rotated, and
/// form boundaries, which clients generate anew for each attempt.
fn fingerprint(uri: &Uri, boundary: Option<&str>, body: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for pair in uri.query().unwrap_or_default().split('&') {
        if !pair.starts_with("key=") {
            digest.update(pair.as_bytes());
            digest.update(b"&");
        }
    }
    digest.update([0]);
    let Some(boundary) = boundary else {
        digest.update(body);
        return digest.finalize().into();
    };
    let mut rest = body;
    while let Some((field, after)) = memmem::find(rest, boundary.as_bytes())
        .and_then(|at| Some((rest.get(..at)?, rest.get(at + boundary.len()..)?)))
    {
        digest.update((field.len() as u64).to_be_bytes());
        digest.update(field);
        rest = after;
    }
    digest.update(rest);
    digest.finalize().into()
}

fn in_progress() -> Error {
    let message = "A request with this idempotency key is still running. Retry shortly to get its response.";
    Error::new(ErrorCode::IdempotencyInProgress, message)
}

fn reused() -> Error {
    let message = "This idempotency key was used for another request. Use a new key for each \
                   request, and reuse a key only to repeat the same request.";
    Error::new(ErrorCode::IdempotencyKeyReused, message).with_param("Idempotency-Key")
}

fn unavailable(error: StorageError) -> Error {
    let message = "The gateway cannot look up idempotency keys at the moment. Retry with backoff.";
    Error::new(ErrorCode::Overloaded, message)
        .with_retry(Retry::After(Duration::from_secs(2)))
        .with_source(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_answers_are_read_back() {
        let json = HeaderValue::from_static("application/json");
        for (content_type, body) in [(Some(json), &b"{}\n\n"[..]), (None, b"")] {
            let content = StoredAnswer::encode(StatusCode::CREATED, content_type.as_ref(), body);
            let whole = StoredAnswer::Whole {
                status: StatusCode::CREATED,
                content_type,
                body: Bytes::from_static(body),
            };
            assert_eq!(StoredAnswer::decode(Bytes::from(content)), Some(whole));
        }
        for (bytes, is_stored) in [(MAX_STORED_BYTES, true), (MAX_STORED_BYTES + 1, false)] {
            let content = StoredAnswer::encode(StatusCode::OK, None, &vec![b'x'; bytes]);
            let decoded = StoredAnswer::decode(Bytes::from(content)).unwrap();
            assert_eq!(decoded != StoredAnswer::TooLarge, is_stored, "{bytes}");
        }
        for broken in ["", "200", "200 \x01\n", "abc \n"] {
            assert_eq!(StoredAnswer::decode(Bytes::from(broken)), None, "{broken:?}");
        }
    }

    #[test]
    fn keys_are_bounded_and_printable() {
        let key_of = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(KEY, HeaderValue::from_bytes(value).unwrap());
            }
            readable_key(&headers).map(|key| key.map(str::to_owned))
        };
        assert_eq!(key_of(&[]).unwrap(), None);
        assert_eq!(key_of(&[b" a b "]).unwrap().unwrap(), "a b");
        assert_eq!(key_of(&[&[b'k'; 255]]).unwrap().unwrap().len(), 255);
        let (long, foreign) = ([b'k'; 256], "ä".as_bytes());
        for bad in [
            &[&b""[..]][..],
            &[b" "],
            &[&long],
            &[foreign],
            &[b"a\tb"],
            &[b"a", b"a"],
        ] {
            let error = key_of(bad).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidParameter, "{bad:?}");
            assert_eq!(error.param.as_deref(), Some("Idempotency-Key"));
        }
    }

    #[test]
    fn bodies_may_have_keys() {
        let longest = "k".repeat(MAX_KEY_BYTES);
        for (body, expected) in [
            ("{}".to_owned(), None),
            (r#"{"idempotency_key": null}"#.to_owned(), None),
            ("{".to_owned(), None),
            (r#"{"idempotency_key": "a b"}"#.to_owned(), Some("a b")),
            (
                format!(r#"{{"idempotency_key": "{longest}"}}"#),
                Some(longest.as_str()),
            ),
        ] {
            assert_eq!(
                key_in_body(body.as_bytes()).unwrap().as_deref(),
                expected,
                "{body}"
            );
        }
        for key in [
            "7".to_owned(),
            "\"\"".to_owned(),
            "\"ä\"".to_owned(),
            format!("\"{longest}k\""),
        ] {
            let error = key_in_body(format!(r#"{{"idempotency_key": {key}}}"#).as_bytes()).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(BODY_KEY), "{key}");
        }
    }

    #[test]
    fn fingerprints_cover_path_query_and_body() {
        let of = |uri: &'static str, body: &str| fingerprint(&Uri::from_static(uri), None, body.as_bytes());
        assert_eq!(of("/v1/a?alt=sse&key=1", "{}"), of("/v1/a?alt=sse&key=2", "{}"));
        assert_ne!(of("/v1/a?alt=sse", "{}"), of("/v1/a", "{}"));
        assert_ne!(of("/v1/a", "{}"), of("/v1/a", "{ }"));
        let form = |boundary: &str, fields: &str| {
            let body = fields.replace('|', boundary);
            fingerprint(&Uri::from_static("/v1/a"), Some(boundary), body.as_bytes())
        };
        assert_eq!(
            form("xyz", "--|\r\na\r\n--|--"),
            form("drawn-anew", "--|\r\na\r\n--|--")
        );
        assert_ne!(form("xyz", "--|\r\na\r\n--|--"), form("xyz", "--|\r\nb\r\n--|--"));
        assert_ne!(form("xyz", "a|bc|"), form("xyz", "ab|c|"));
    }
}
