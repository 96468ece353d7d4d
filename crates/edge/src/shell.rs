//! The outermost layer, once for every request: id, panic guard, headers of every answer, log, metrics.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use metrics::{Counter, Histogram};
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, Error, ErrorCode, RequestId};

use crate::context::RequestContext;
use crate::error::{ApiError, Logged};
use crate::family::{self, Family};
use crate::limits;
use crate::max_cost::MaxCost;
use crate::values::Values;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const COST: HeaderName = HeaderName::from_static("x-tollgate-cost");
const OVERHEAD: HeaderName = HeaderName::from_static("x-tollgate-overhead-us");
const STRUCTURED: HeaderName = HeaderName::from_static("x-tollgate-structured");
const IGNORED: HeaderName = HeaderName::from_static("x-tollgate-ignored");

/// Longest address of a request.
const MOST_URI_BYTES: usize = 8 * 1024;

/// The most headers that the shell adds.
const ADDED_HEADERS: usize = 11;

/// Which requests are logged. The usage rows are the record of those that succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Those that fail.
    Errors,
    /// All.
    All,
}

/// The outermost layer.
pub struct Shell {
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    access_log: AccessLog,
    trusted_proxies: Vec<IpAddr>,
    body_time: Duration,
    answered: [Counter; 5],
    panics: Counter,
    overhead: Histogram,
}

/// What is remembered of a request for its log line.
struct Seen {
    method: Method,
    path: String,
    client_request_id: Option<String>,
}

impl Shell {
    /// A shell. A body may take `body_time` before it must keep up a pace of 1 KiB a second.
    pub fn new(
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
        access_log: AccessLog,
        trusted_proxies: Vec<IpAddr>,
        body_time: Duration,
    ) -> Self {
        metrics::describe_counter!("tollgate_http_responses_total", "Answers, by class of status");
        metrics::describe_counter!("tollgate_panics_total", "Requests whose handler panicked");
        metrics::describe_histogram!(
            "tollgate_overhead_seconds",
            "What the gateway itself adds to a call"
        );
        let class =
            |class: &'static str| metrics::counter!("tollgate_http_responses_total", "class" => class);
        Self {
            clock,
            ids,
            access_log,
            trusted_proxies,
            body_time,
            answered: [
                class("1xx"),
                class("2xx"),
                class("3xx"),
                class("4xx"),
                class("5xx"),
            ],
            panics: metrics::counter!("tollgate_panics_total"),
            overhead: metrics::histogram!("tollgate_overhead_seconds"),
        }
    }

    /// Serves a request with `inner`.
    pub async fn serve<B, F>(
        &self,
        peer: IpAddr,
        mut request: Request<B>,
        inner: impl FnOnce(Request<B>) -> F,
    ) -> Response
    where
        F: Future<Output = Response>,
    {
        let now = self.clock.now();
        let id = RequestId::from_u128(self.ids.next(now));
        let peer = self.client_address(peer, request.headers());
        let family = Family::of(request.uri(), request.headers());
        let max_cost = MaxCost::of(request.headers());
        let started = self.clock.monotonic_micros();
        let ctx = RequestContext::new(id, now, started, peer, family, max_cost, self.body_time);
        let Some(ctx) = ctx else {
            return ApiError(Error::internal("a request id is not a header value")).into_response();
        };
        let ctx = Arc::new(ctx);
        request.extensions_mut().insert(ctx.clone());
        let seen = Seen {
            method: request.method().clone(),
            path: logged_path(request.uri()),
            client_request_id: client_request_id(request.headers()),
        };
        let mut response = if uri_bytes(request.uri()) > MOST_URI_BYTES {
            uri_too_long()
        } else {
            let served = AssertUnwindSafe(inner(request)).catch_unwind().await;
            served.unwrap_or_else(|_| {
                self.panics.increment(1);
                ApiError(Error::internal("the handler panicked")).into_response()
            })
        };
        self.finish(&ctx, &seen, &mut response);
        response
    }

    fn finish(&self, ctx: &RequestContext, seen: &Seen, response: &mut Response) {
        let notes = ctx.take_notes();
        let mut values = Values::default();
        family::dress(ctx, &notes, &mut values, response);
        let headers = response.headers_mut();
        headers.reserve(ADDED_HEADERS);
        headers.insert(X_REQUEST_ID, ctx.id_header.clone());
        headers.insert(REQUEST_ID, ctx.id_header.clone());
        limits::insert(headers, &mut values, notes.requests, notes.tokens);
        if let Some(cost) = notes.cost {
            values.insert(headers, &COST, cost);
        }
        if let Some(how) = notes.structure {
            headers.insert(STRUCTURED, HeaderValue::from_static(how));
        }
        if let Some(ignored) = notes.ignored {
            values.insert(headers, &IGNORED, ignored);
        }
        let elapsed = self.clock.monotonic_micros().saturating_sub(ctx.started_micros);
        if let Some(wait) = notes.upstream_wait {
            let waited = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
            let own = elapsed.saturating_sub(waited);
            values.insert(headers, &OVERHEAD, own);
            self.overhead.record(Duration::from_micros(own));
        }
        let status = response.status();
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.answered[class].increment(1);
        // What fails has an error with it; a health probe's answer has none and is no failure of a request.
        let failed = response.extensions().get::<Logged>();
        if self.access_log == AccessLog::All || failed.is_some() {
            let account = notes.account.map(|id| id.to_string());
            log(
                ctx,
                seen,
                account.as_deref(),
                elapsed,
                status,
                response.extensions().get::<Logged>(),
            );
        }
    }

    /// The peer, or what a trusted proxy says of it: the last address that is not itself a trusted proxy.
    fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if self.trusted_proxies.is_empty() || !self.trusted_proxies.contains(&peer) {
            return peer;
        }
        let forwarded = headers
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|value| value.to_str().ok());
        let addresses: Vec<IpAddr> = forwarded
            .flat_map(|value| value.split(','))
            .filter_map(|text| text.trim().parse().ok())
            .collect();
        addresses
            .into_iter()
            .rev()
            .find(|address| !self.trusted_proxies.contains(address))
            .unwrap_or(peer)
    }
}

/// The address as it stood in the request: most often a path with a query, from some proxies with its server.
fn uri_bytes(uri: &Uri) -> usize {
    let server = match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => scheme.len() + "://".len() + authority.as_str().len(),
        (None, Some(authority)) => authority.as_str().len(),
        _ => 0,
    };
    server + uri.path_and_query().map_or(0, |path| path.as_str().len())
}

fn uri_too_long() -> Response {
    let message = "The request's path and query are longer than what is taken: 8 KiB.";
    ApiError(Error::new(ErrorCode::RequestTooLarge, message)).into_response()
}

/// No path of the service is as long as what is cut off here.
fn logged_path(uri: &Uri) -> String {
    match uri.path() {
        path if path.len() > MOST_URI_BYTES => path.chars().take(256).collect(),
        path => path.to_owned(),
    }
}

fn client_request_id(headers: &HeaderMap) -> Option<String> {
    let value = headers
        .get(X_REQUEST_ID)
        .or_else(|| headers.get("x-client-request-id"))?;
    Some(value.to_str().ok()?.chars().take(128).collect())
}

/// A failure is logged here and nowhere else.
fn log(
    ctx: &RequestContext,
    seen: &Seen,
    account: Option<&str>,
    elapsed: u64,
    status: StatusCode,
    failed: Option<&Logged>,
) {
    let id = ctx.id;
    let (code, param) = failed.map_or(("", None), |Logged(error)| {
        (error.code.as_str(), error.param.as_deref())
    });
    let cause = failed
        .and_then(|Logged(error)| std::error::Error::source(&**error))
        .map(ToString::to_string);
    let (method, path, status_code) = (seen.method.as_str(), seen.path.as_str(), status.as_u16());
    let client_request_id = seen.client_request_id.as_deref();
    let ours =
        matches!(code, "internal_error" | "overloaded") || (status.is_server_error() && code.is_empty());
    if ours {
        tracing::error!(
            request.id = %id, method, path, status = status_code, code, cause, account.id = account,
            client_request_id, duration_us = elapsed, "request failed: {id}"
        );
    } else {
        tracing::info!(
            request.id = %id, method, path, status = status_code, code, param, cause, account.id = account,
            client_request_id, duration_us = elapsed, "request answered: {id}"
        );
    }
}

/// The answer to a path that does not exist.
pub async fn not_found() -> ApiError {
    let message = "There is nothing at this path. GET /openapi.json describes the paths of this service.";
    ApiError(Error::new(ErrorCode::NotFound, message))
}

/// The answer to a method that a path does not have; `allow` says which it has.
pub async fn method_not_allowed() -> ApiError {
    let message = "This path does not take this method; the 'allow' header says which it takes.";
    ApiError(Error::new(ErrorCode::MethodNotAllowed, message))
}
