//! `Idempotency-Key`: a POST that is sent again under its key is carried out once, and its answer is given again.
//!
//! What runs under a key runs to its end, also when its caller leaves: whoever sends a key means to come back. An answer
//! is kept, sealed, for a day. What fails has cost nothing, so it gives its key back and may be tried again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, stream};
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use memchr::memmem;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;
use tollgate_accounts::{Caller, Vault};
use tollgate_storage::{Budget, Claim, Claimed, IdempotencyStore, RepeatKey, StorageError};
use tollgate_types::{AccountId, Clock, Credits, Error, ErrorCode, RequestId, Retry};

use crate::auth::Gate;
use crate::body::{self, MEDIA_BODY};
use crate::context::{RequestContext, context_of};
use crate::error::ApiError;
use crate::family;
use crate::form;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const ORIGINAL: HeaderName = HeaderName::from_static("x-tollgate-original-request-id");

/// Longest key.
const MOST_KEY_BYTES: usize = 255;
/// How long an answer is kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Largest answer that is kept.
const MOST_KEPT_BYTES: usize = 8 * 1024 * 1024;
/// Pieces of a streamed answer that wait for a slow caller.
const WAITING_PIECES: usize = 16;

/// Carries requests out once for each key.
pub struct Idempotency {
    gate: Arc<Gate>,
    store: Arc<dyn IdempotencyStore>,
    vault: Vault,
    clock: Arc<dyn Clock>,
    calls: TaskTracker,
    lifetime: Duration,
}

/// What is to be done about a request.
enum Next {
    /// It is the first.
    CarryOut(Box<Request<Body>>, Ticket),
    /// It was carried out.
    Answer(Response),
}

/// The right to carry out a request, and the duty to say what became of it.
struct Ticket {
    store: Arc<dyn IdempotencyStore>,
    vault: Vault,
    account: AccountId,
    key: RepeatKey,
    request: RequestId,
}

impl Idempotency {
    /// Keeps answers in `store`. A request runs for `lifetime` at the most; after that its process is taken for dead. What
    /// runs is counted in `calls`, so that a shutdown waits for it.
    pub fn new(
        gate: Arc<Gate>,
        store: Arc<dyn IdempotencyStore>,
        vault: Vault,
        clock: Arc<dyn Clock>,
        calls: TaskTracker,
        lifetime: Duration,
    ) -> Self {
        Self {
            gate,
            store,
            vault,
            clock,
            calls,
            lifetime,
        }
    }

    /// Whether a request has a key.
    pub fn is_asked_for<B>(request: &Request<B>) -> bool {
        request.method() == Method::POST && request.headers().contains_key(KEY)
    }

    /// Serves a request that has a key with `inner`, or as it was served before.
    pub async fn serve<F>(&self, request: Request<Body>, inner: impl FnOnce(Request<Body>) -> F) -> Response
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let (request, ticket) = match self.claim(request).await {
            Ok(Next::CarryOut(request, ticket)) => (request, ticket),
            Ok(Next::Answer(response)) => return response,
            Err(error) => return error.into_response(),
        };
        let (respond, response) = oneshot::channel();
        let served = AssertUnwindSafe(inner(*request)).catch_unwind();
        self.calls.spawn(async move {
            match served.await {
                Ok(response) => ticket.pass_on(response, respond).await,
                Err(_) => ticket.release().await,
            }
        });
        let panicked = |_| ApiError(Error::internal("the handler panicked")).into_response();
        response.await.unwrap_or_else(panicked)
    }

    async fn claim(&self, request: Request<Body>) -> Result<Next, ApiError> {
        let (parts, body) = request.into_parts();
        let ctx = context_of(&parts)?;
        let of_family = family::key_of(&parts.uri, &parts.headers);
        let caller = self.gate.caller(&parts.headers, of_family, &ctx).await?;
        let key = key(&parts)?;
        let body = body::read(&parts.headers, body, MEDIA_BODY, ctx.body_time).await?;
        let now = self.clock.now();
        let claim = Claim {
            account: caller.account_id(),
            key,
            fingerprint: fingerprint(&parts.uri, form::boundary(&parts.headers), &body),
            request: ctx.id,
            now,
            abandoned_at: now.plus(self.lifetime),
            expires_at: now.plus(KEPT),
        };
        let claimed = self.store.claim(claim).await.map_err(unavailable)?;
        if claimed == Claimed::First {
            let ticket = Ticket {
                store: self.store.clone(),
                vault: self.vault.clone(),
                account: caller.account_id(),
                key,
                request: ctx.id,
            };
            let request = Request::from_parts(parts, Body::from(body));
            return Ok(Next::CarryOut(Box::new(request), ticket));
        }
        // It starts no work.
        self.gate.count(&caller, &ctx, Budget::Control).await?;
        match claimed {
            Claimed::Answered { request, content } => {
                Ok(Next::Answer(self.replay(&caller, &ctx, request, &content)?))
            }
            Claimed::Reused => Err(reused().into()),
            Claimed::Running | Claimed::First => Err(in_progress().into()),
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
        let opened = opened.ok_or_else(|| Error::internal("a kept answer cannot be opened"))?;
        let answer = KeptAnswer::decode(Bytes::from(opened))
            .ok_or_else(|| Error::internal("a kept answer cannot be read"))?;
        let KeptAnswer::Whole {
            status,
            content_type,
            body,
        } = answer
        else {
            let message = format!(
                "The request {request} was carried out under this idempotency key, and its answer was too large to be kept."
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
    /// Hands the answer to the caller, if there still is one, and keeps it: before its end is given, so that whoever has
    /// the whole of it finds it again.
    async fn pass_on(self, response: Response, respond: oneshot::Sender<Response>) {
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
            self.keep(status, content_type, &whole).await;
            drop(respond.send(Response::from_parts(head, Body::from(whole))));
            return;
        }
        let (pieces, waiting) = mpsc::channel(WAITING_PIECES);
        drop(respond.send(Response::from_parts(head, streamed(waiting))));
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    // Whoever reads it must not take its break for its end.
                    drop(pieces.send(Err(error)).await);
                    return self.release().await;
                }
            };
            let Ok(piece) = frame.into_data() else { continue };
            if whole.len() <= MOST_KEPT_BYTES {
                whole.extend_from_slice(&piece);
            }
            // The caller may have left; the answer is wanted all the same.
            drop(pieces.send(Ok(piece)).await);
        }
        self.keep(status, content_type, &whole).await;
    }

    async fn keep(&self, status: StatusCode, content_type: Option<HeaderValue>, body: &[u8]) {
        let content = KeptAnswer::encode(status, content_type.as_ref(), body);
        let kept = match self.vault.seal(self.account, self.request.as_u128(), &content) {
            Ok(sealed) => {
                let answer = self.store.answer(self.account, self.key, self.request, sealed);
                answer.await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = kept {
            // The key stays taken: to carry the request out again would charge for it again.
            tracing::error!(request.id = %self.request, %error, "cannot keep an answer for its idempotency key");
        }
    }

    async fn release(&self) {
        let released = self.store.release(self.account, self.key, self.request).await;
        if let Err(error) = released {
            tracing::warn!(request.id = %self.request, %error, "cannot give an idempotency key back");
        }
    }
}

/// An answer in the form in which it is kept: a line with status and type, then the body. An answer that was too large
/// has the status 0 and no body.
#[derive(Debug, PartialEq, Eq)]
enum KeptAnswer {
    Whole {
        status: StatusCode,
        content_type: Option<HeaderValue>,
        body: Bytes,
    },
    TooLarge,
}

impl KeptAnswer {
    fn encode(status: StatusCode, content_type: Option<&HeaderValue>, body: &[u8]) -> Vec<u8> {
        if body.len() > MOST_KEPT_BYTES {
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

fn streamed(waiting: mpsc::Receiver<Result<Bytes, axum::Error>>) -> Body {
    let pieces = stream::unfold(waiting, |mut waiting| async move {
        let piece = waiting.recv().await?;
        Some((piece, waiting))
    });
    Body::from_stream(pieces)
}

/// The digest of a caller's key and of the path that it is for.
fn key(parts: &Parts) -> Result<RepeatKey, Error> {
    let key = readable_key(&parts.headers)?;
    let mut digest = Sha256::new();
    digest.update(parts.uri.path().as_bytes());
    digest.update([0]);
    digest.update(key.as_bytes());
    Ok(digest.finalize().into())
}

fn readable_key(headers: &HeaderMap) -> Result<&str, Error> {
    let mut values = headers.get_all(KEY).iter();
    let key = values.next().and_then(|value| value.to_str().ok()).map(str::trim);
    match (key, values.next()) {
        (Some(key), None) if (1..=MOST_KEY_BYTES).contains(&key.len()) => Ok(key),
        _ => {
            let message = format!(
                "'Idempotency-Key' must be sent once, with 1 to {MOST_KEY_BYTES} printable ASCII characters, such as a UUID."
            );
            Err(Error::new(ErrorCode::InvalidParameter, message).with_param("Idempotency-Key"))
        }
    }
}

/// The digest of what is asked for. A key of the service may stand in the query, and may change; so may what stands between
/// the fields of a form, which clients draw anew for each attempt.
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
    let message = "A request with this idempotency key is still running. Retry shortly to get its answer.";
    Error::new(ErrorCode::IdempotencyInProgress, message)
}

fn reused() -> Error {
    let message = "This idempotency key was used for another request. Use a new key for each request, and the same one \
                   only to send the same request again.";
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
    fn a_kept_answer_is_read_back() {
        let json = HeaderValue::from_static("application/json");
        for (content_type, body) in [(Some(json), &b"{}\n\n"[..]), (None, b"")] {
            let content = KeptAnswer::encode(StatusCode::CREATED, content_type.as_ref(), body);
            let whole = KeptAnswer::Whole {
                status: StatusCode::CREATED,
                content_type,
                body: Bytes::from_static(body),
            };
            assert_eq!(KeptAnswer::decode(Bytes::from(content)), Some(whole));
        }
        for (bytes, is_kept) in [(MOST_KEPT_BYTES, true), (MOST_KEPT_BYTES + 1, false)] {
            let content = KeptAnswer::encode(StatusCode::OK, None, &vec![b'x'; bytes]);
            let decoded = KeptAnswer::decode(Bytes::from(content)).unwrap();
            assert_eq!(decoded != KeptAnswer::TooLarge, is_kept, "{bytes}");
        }
        for broken in ["", "200", "200 \x01\n", "abc \n"] {
            assert_eq!(KeptAnswer::decode(Bytes::from(broken)), None, "{broken:?}");
        }
    }

    #[test]
    fn keys_are_bounded_and_printable() {
        let key_of = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(KEY, HeaderValue::from_bytes(value).unwrap());
            }
            readable_key(&headers).map(str::to_owned)
        };
        assert_eq!(key_of(&[b" a b "]).unwrap(), "a b");
        assert_eq!(key_of(&[&[b'k'; 255]]).unwrap().len(), 255);
        let (long, foreign) = ([b'k'; 256], "ä".as_bytes());
        for bad in [&[&b""[..]][..], &[b" "], &[&long], &[foreign], &[b"a", b"a"]] {
            let error = key_of(bad).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidParameter, "{bad:?}");
            assert_eq!(error.param.as_deref(), Some("Idempotency-Key"));
        }
    }

    #[test]
    fn what_is_asked_for_is_path_query_and_body() {
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
