//! The outermost layer of every request: id, panic guard, common headers, log and metrics.

use std::cell::RefCell;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{DATE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use metrics::{Counter, Histogram};
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, Error, ErrorCode, RequestId, Timestamp};

use crate::client_dialect::{self, ClientDialect};
use crate::context::RequestContext;
use crate::error::{ApiError, Logged};
use crate::header_values::HeaderValues;
use crate::limits;
use crate::max_cost::MaxCost;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const COST: HeaderName = HeaderName::from_static("x-tollgate-cost");
const OVERHEAD: HeaderName = HeaderName::from_static("x-tollgate-overhead-us");
const STRUCTURED: HeaderName = HeaderName::from_static("x-tollgate-structured");
const IGNORED: HeaderName = HeaderName::from_static("x-tollgate-ignored");

/// Maximum length of a request URI, in bytes.
const MAX_URI_BYTES: usize = 8 * 1024;

/// Maximum number of headers that the request layer adds.
const ADDED_HEADERS: usize = 12;

/// Selection of the requests that are logged. Usage rows record successful calls in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// Only failed requests.
    Errors,
    /// Failed requests, and requests with a client-supplied id.
    Identified,
    /// Successful and failed requests.
    All,
}

/// The outermost middleware.
pub struct RequestLayer {
    clock: Arc<dyn Clock>,
    ids: Arc<IdSource>,
    access_log: AccessLog,
    trusted_proxies: Vec<IpAddr>,
    body_grace_period: Duration,
    responses: [Counter; 5],
    overhead: Histogram,
}

/// Request data that the log line needs after the request has been consumed.
struct RequestSummary {
    method: Method,
    path: String,
    client_request_id: Option<String>,
}

impl RequestLayer {
    /// Creates a request layer. After `body_grace_period`, a body must arrive at 1 KiB/s or faster.
    pub fn new(
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
        access_log: AccessLog,
        trusted_proxies: Vec<IpAddr>,
        body_grace_period: Duration,
    ) -> Self {
        metrics::describe_counter!("tollgate_http_responses_total", "Responses by status class");
        metrics::describe_histogram!(
            "tollgate_overhead_seconds",
            "Latency that the gateway adds to a call"
        );
        let class =
            |class: &'static str| metrics::counter!("tollgate_http_responses_total", "class" => class);
        Self {
            clock,
            ids,
            access_log,
            trusted_proxies,
            body_grace_period,
            responses: [
                class("1xx"),
                class("2xx"),
                class("3xx"),
                class("4xx"),
                class("5xx"),
            ],
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
        let is_forwarded = self.trusted_proxies.contains(&peer);
        let id = RequestId::from_u128(self.ids.next(now));
        let peer = self.client_address(peer, request.headers());
        let dialect = ClientDialect::of(request.uri(), request.headers());
        let max_cost = MaxCost::of(request.headers());
        let started = self.clock.monotonic_micros();
        let ctx = RequestContext::new(id, now, started, peer, dialect, max_cost, self.body_grace_period);
        let ctx = ctx.map(|ctx| ctx.forwarded(is_forwarded));
        let Some(ctx) = ctx else {
            return ApiError(Error::internal("the request id is not a valid header value")).into_response();
        };
        let ctx = Arc::new(ctx);
        request.extensions_mut().insert(ctx.clone());
        let summary = RequestSummary {
            method: request.method().clone(),
            path: logged_path(request.uri()),
            client_request_id: client_request_id(request.headers()),
        };
        let mut response = if uri_bytes(request.uri()) > MAX_URI_BYTES {
            uri_too_long()
        } else {
            let served = AssertUnwindSafe(inner(request)).catch_unwind().await;
            served.unwrap_or_else(|_| ApiError(Error::internal("the handler panicked")).into_response())
        };
        self.finish(&ctx, &summary, &mut response);
        response
    }

    fn finish(&self, ctx: &RequestContext, summary: &RequestSummary, response: &mut Response) {
        let notes = ctx.take_notes();
        let mut values = HeaderValues::default();
        client_dialect::apply_dialect(ctx, &notes, &mut values, response);
        let headers = response.headers_mut();
        headers.reserve(ADDED_HEADERS);
        // The HTTP library would keep sending a future date after the clock was set back.
        headers.insert(DATE, date_header(self.clock.now()));
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
            let own_micros = elapsed.saturating_sub(waited);
            values.insert(headers, &OVERHEAD, own_micros);
            self.overhead.record(Duration::from_micros(own_micros));
        }
        let status = response.status();
        let class = usize::from(status.as_u16() / 100).clamp(1, 5) - 1;
        self.responses[class].increment(1);
        // Failed requests carry an error. The response of a failed health probe has none and is not
        // logged.
        let failed = response.extensions().get::<Logged>();
        let is_logged = match self.access_log {
            AccessLog::Errors => false,
            AccessLog::Identified => summary.client_request_id.is_some(),
            AccessLog::All => true,
        };
        if is_logged || failed.is_some() {
            let account = notes.account.map(|id| id.to_string());
            log(
                ctx,
                summary,
                account.as_deref(),
                elapsed,
                status,
                response.extensions().get::<Logged>(),
            );
        }
    }

    /// Returns the peer address. Behind trusted proxies, returns the last forwarded address that is
    /// not a trusted proxy.
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

/// Returns the `date` header value, cached per thread for one second.
fn date_header(now: Timestamp) -> HeaderValue {
    thread_local! {
        static LAST: RefCell<(i64, HeaderValue)> = const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
    }
    LAST.with_borrow_mut(|(second, header)| {
        if *second != now.as_seconds() {
            *second = now.as_seconds();
            *header = HeaderValue::try_from(now.to_http_date()).unwrap_or(HeaderValue::from_static(""));
        }
        header.clone()
    })
}

/// Returns the length of the URI as received: usually path and query; some proxies send an absolute
/// URI.
fn uri_bytes(uri: &Uri) -> usize {
    let server = match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => scheme.len() + "://".len() + authority.as_str().len(),
        (None, Some(authority)) => authority.as_str().len(),
        _ => 0,
    };
    server + uri.path_and_query().map_or(0, |path| path.as_str().len())
}

fn uri_too_long() -> Response {
    let message = "The URL exceeds the maximum of 8 KiB. Shorten its path or query.";
    ApiError(Error::new(ErrorCode::RequestTooLarge, message)).into_response()
}

/// Returns the path for the log. A path of more than [`MAX_URI_BYTES`] is truncated to 256
/// characters.
fn logged_path(uri: &Uri) -> String {
    match uri.path() {
        path if path.len() > MAX_URI_BYTES => path.chars().take(256).collect(),
        path => path.to_owned(),
    }
}

fn client_request_id(headers: &HeaderMap) -> Option<String> {
    let value = headers
        .get(X_REQUEST_ID)
        .or_else(|| headers.get("x-client-request-id"))?;
    Some(value.to_str().ok()?.chars().take(128).collect())
}

/// Logs a request. Failures are logged only here.
fn log(
    ctx: &RequestContext,
    summary: &RequestSummary,
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
    let (method, path, status_code) = (summary.method.as_str(), summary.path.as_str(), status.as_u16());
    let client_request_id = summary.client_request_id.as_deref();
    let is_server_fault =
        matches!(code, "internal_error" | "overloaded") || (status.is_server_error() && code.is_empty());
    if is_server_fault {
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

/// Returns the response for an unknown path.
pub async fn not_found() -> ApiError {
    let message = "Unknown path. GET /openapi.json lists the paths of this service.";
    ApiError(Error::new(ErrorCode::NotFound, message))
}

/// Returns the response for an unsupported method. The router adds the `allow` header.
pub async fn method_not_allowed() -> ApiError {
    let message = "This path does not support this method. The 'allow' header lists the supported methods.";
    ApiError(Error::new(ErrorCode::MethodNotAllowed, message))
}
