//! Sends the requests of all kinds, and maps every failure to an error of the port.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::ACCEPT;
use serde_json::Value;
use tollgate_types::{Clock, Date};
use tollgate_upstream::{CallContext, SearchBackend, SearchHit, SearchQuery, UpstreamError};
use url::form_urlencoded::Serializer;

use super::ask::Ask;
use super::{Call, SearchKind, WireRequest, hits};
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, Response, Timeouts, Variant};
use crate::refusal;

/// Maximum size of a response, in bytes: the texts of 20 pages.
const BODY_LIMIT: usize = 16 << 20;

/// A search backend of one kind.
pub(super) struct WebSearch {
    name: String,
    kind: &'static SearchKind,
    base: BaseUrl,
    endpoint: Endpoint,
    http: Arc<HttpClient>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
}

impl WebSearch {
    pub(super) fn new(
        name: String,
        kind: &'static SearchKind,
        base: BaseUrl,
        credentials: &[Credential],
        (http, clock, timeout): (Arc<HttpClient>, Arc<dyn Clock>, Duration),
    ) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::new(&base, kind.path, credentials)?;
        Ok(Self {
            name,
            kind,
            base,
            endpoint,
            http,
            clock,
            timeout,
        })
    }

    async fn exchange(&self, ctx: &CallContext, request: WireRequest) -> Result<Value, UpstreamError> {
        let timeouts = Timeouts {
            headers: ctx.header_timeout,
            ..Timeouts::brief(self.timeout)
        };
        let response = self.send(request, timeouts.resending()).await?;
        if !(200..300).contains(&response.status) {
            return Err(self.refused(response).await);
        }
        let media_type = response.media_type();
        if !media_type.is_empty() && !media_type.contains("json") {
            let media_type = refusal::word(media_type).unwrap_or_default();
            let detail = format!("the response is {media_type} instead of JSON: check base_url");
            return Err(UpstreamError::protocol(detail));
        }
        let body = response.whole(BODY_LIMIT).await?;
        serde_json::from_slice(&body).map_err(|_| UpstreamError::protocol("the response is not valid JSON"))
    }

    async fn send(&self, request: WireRequest, timeouts: Timeouts) -> Result<Response, UpstreamError> {
        let (path, body) = match request.call {
            Call::Get(parameters) => {
                let query = Serializer::new(String::new()).extend_pairs(parameters).finish();
                (format!("{}?{query}", self.kind.path), None)
            }
            Call::Post(body) => (self.kind.path.to_owned(), Some(Bytes::from(body.to_string()))),
        };
        let mut variant = Variant::new(&self.base, &path).map_err(invalid)?;
        variant
            .insert_plain(ACCEPT, "application/json")
            .map_err(invalid)?;
        match body {
            None => self.http.get_variant(&self.endpoint, variant, timeouts).await,
            Some(body) => {
                self.http
                    .post_variant(&self.endpoint, variant, body.into(), timeouts)
                    .await
            }
        }
    }

    async fn refused(&self, response: Response) -> UpstreamError {
        let is_redirect = (300..400).contains(&response.status);
        let (error, body) = refusal::read(response, self.http.settings()).await;
        match is_redirect {
            true => UpstreamError {
                detail: "the address redirects: set base_url to the final address".to_owned(),
                ..error
            },
            false => (self.kind.refine)(error, &body),
        }
    }
}

fn invalid(error: EndpointError) -> UpstreamError {
    UpstreamError::connect(error.to_string())
}

#[async_trait]
impl SearchBackend for WebSearch {
    fn name(&self) -> &str {
        &self.name
    }

    async fn search(&self, ctx: &CallContext, query: &SearchQuery) -> Result<Vec<SearchHit>, UpstreamError> {
        if query.max_hits == 0 {
            return Ok(Vec::new());
        }
        let today = Date::of(self.clock.now()).ok_or_else(|| UpstreamError::connect("the clock is wrong"))?;
        let request = (self.kind.request)(&Ask { query, today });
        let is_date_filtered = query.filters.restricts_date() && request.filters_date;
        let exchanged = tokio::time::timeout(self.timeout, self.exchange(ctx, request)).await;
        let body = exchanged.map_err(|_| UpstreamError::timeout("the search took too long"))??;
        let found = (self.kind.hits)(&body, &self.base)?;
        Ok(hits::hits(found, query.max_hits, is_date_filtered, today))
    }
}
