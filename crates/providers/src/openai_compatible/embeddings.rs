//! Embeddings: the adapter edits and forwards requests, and checks responses. Vectors are relayed
//! verbatim unless their encoding differs from the requested one.

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_formats::embeddings::{
    EmbedHead, RequestEdits, ResponseHead, decode_response, inspect_response, splice_request, validate,
};
use tollgate_upstream::{
    CallContext, EmbedAnswer, EmbedCall, EmbedPayload, EmbedProvider, Outline, UpstreamCause, UpstreamError,
    UpstreamErrorKind,
};

use super::adapter::OpenAiCompatible;
use super::presets::Embeddings;
use crate::conversion::not_in_format;
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, Response, Timeouts};
use crate::refusal;

/// Maximum size of an embeddings response as a multiple of the body limit: 2,048 vectors of 3,072
/// numbers as text are 130 MB.
const BODY_FACTOR: usize = 3;

/// Endpoint of the embeddings and its differences from OpenAI's.
#[derive(Debug)]
pub(super) struct EmbeddingsEndpoint {
    row: &'static Embeddings,
    endpoint: Endpoint,
}

impl EmbeddingsEndpoint {
    pub(super) fn new(
        row: &'static Embeddings,
        base: &BaseUrl,
        credentials: &[Credential],
    ) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::new(base, row.path, credentials)?;
        Ok(Self { row, endpoint })
    }
}

impl OpenAiCompatible {
    async fn vectors(
        &self,
        ctx: &CallContext,
        head: &EmbedHead<'_>,
        response: Response,
    ) -> Result<EmbedAnswer, UpstreamError> {
        let limit = self.http.settings().body_limit.saturating_mul(BODY_FACTOR);
        let body = response.whole(limit).await?;
        self.read_vectors(ctx, head, body)
    }

    /// Decodes and checks a response.
    pub(super) fn read_vectors(
        &self,
        ctx: &CallContext,
        head: &EmbedHead<'_>,
        body: Bytes,
    ) -> Result<EmbedAnswer, UpstreamError> {
        let found = inspect_response(&body).map_err(|_| {
            UpstreamError::protocol(format!(
                "the response is not a JSON object ({} bytes)",
                body.len()
            ))
        })?;
        if found.is_error {
            return Err(refusal::from_object(&body));
        }
        if found.vectors != head.inputs {
            let detail = format!("received {} vectors for {} inputs", found.vectors, head.inputs);
            return Err(UpstreamError::protocol(detail));
        }
        if found.report.implausible {
            tracing::warn!(request.id = %ctx.request, provider = %self.id, "the usage report is implausible");
        }
        let is_other = |asked| found.encoding.is_some() && found.dimensions != Some(asked);
        if head.dimensions.is_some_and(is_other) {
            return Err(length_ignored(head, &found));
        }
        let payload = payload(body, head, found)?;
        Ok(EmbedAnswer {
            payload,
            usage: found.report.usage,
            output_bytes: found.output_bytes,
        })
    }
}

impl OpenAiCompatible {
    /// Passes the parsed request of the call to `of`. Parses the body only if the call has no
    /// outline.
    pub(super) fn with_embed_head<T>(
        &self,
        call: &EmbedCall,
        of: impl FnOnce(&'static Embeddings, &EmbedHead<'_>) -> Result<T, UpstreamError>,
    ) -> Result<T, UpstreamError> {
        let Some(EmbeddingsEndpoint { row, .. }) = &self.embeddings else {
            return Err(UpstreamError::connect("the provider does not support embeddings"));
        };
        match call.outline.as_ref().and_then(Outline::get::<EmbedHead<'static>>) {
            Some(head) => of(row, head),
            None => of(row, &validate(&call.body).map_err(|error| not_in_format(&error))?),
        }
    }

    /// Returns the body for the upstream.
    pub(super) fn embed_body(&self, row: &Embeddings, call: &EmbedCall, head: &EmbedHead<'_>) -> Bytes {
        let edits = RequestEdits {
            model: &call.upstream_model,
            remove: row.drops,
            vendor_fields: row.vendor_fields,
            dimensions_name: row.dimensions.filter(|name| *name != "dimensions"),
        };
        splice_request(&call.body, head, &edits)
    }
}

/// Returns the error for vectors whose length differs from the requested one, which shows that the
/// server ignores the field. The gateway does not truncate the vectors: truncation is correct only
/// for some models, and the response does not show for which.
fn length_ignored(head: &EmbedHead<'_>, found: &ResponseHead) -> UpstreamError {
    let asked = head.dimensions.unwrap_or_default();
    let received = found.dimensions.map_or("different sizes".to_owned(), |received| {
        format!("{received} dimensions")
    });
    UpstreamError {
        param: Some("dimensions".to_owned()),
        ..UpstreamError::new(
            UpstreamErrorKind::Unsupported,
            UpstreamCause::Protocol,
            format!("received vectors of {received} instead of {asked} dimensions"),
        )
    }
}

/// Returns the response's bytes if its encoding is the requested one, otherwise the decoded
/// vectors.
fn payload(body: Bytes, head: &EmbedHead<'_>, found: ResponseHead) -> Result<EmbedPayload, UpstreamError> {
    let invalid_vectors = || UpstreamError::protocol("the response contains values that are not vectors");
    let encoding = found.encoding.ok_or_else(invalid_vectors)?;
    if encoding == head.encoding {
        return Ok(EmbedPayload::Raw {
            body,
            outline: Outline::new(found),
        });
    }
    let response = decode_response(&body).map_err(|_| invalid_vectors())?;
    Ok(EmbedPayload::Common(Box::new(response)))
}

#[async_trait]
impl EmbedProvider for OpenAiCompatible {
    async fn embed(&self, ctx: &CallContext, call: &EmbedCall) -> Result<EmbedAnswer, UpstreamError> {
        let Some(EmbeddingsEndpoint { row, endpoint }) = &self.embeddings else {
            return Err(UpstreamError::connect("the provider does not support embeddings"));
        };
        let known = call.outline.as_ref();
        let validated;
        let head = match known.and_then(|outline| outline.get::<EmbedHead<'static>>()) {
            Some(head) => head,
            None => {
                validated = validate(&call.body).map_err(|error| not_in_format(&error))?;
                &validated
            }
        };
        let body = self.embed_body(row, call, head);
        let timeouts = Timeouts::of(ctx).resending();
        let model = &call.upstream_model;
        let response = self
            .post(endpoint, row.path, model, body.into(), timeouts)
            .await?;
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        self.vectors(ctx, head, response).await
    }

    fn allowed_fields(&self) -> &'static [&'static str] {
        self.embeddings
            .as_ref()
            .map_or(&[], |endpoint| endpoint.row.vendor_fields)
    }

    fn dropped_fields(&self) -> &'static [&'static str] {
        self.embeddings
            .as_ref()
            .map_or(&[], |endpoint| endpoint.row.drops)
    }

    fn takes_dimensions(&self) -> bool {
        let row = self.embeddings.as_ref().map(|endpoint| endpoint.row);
        row.is_some_and(|row| row.dimensions.is_some())
    }
}
