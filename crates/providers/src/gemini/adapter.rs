//! The adapter of the Gemini API and Vertex AI.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_formats::gemini::{
    GenerateHead, Purpose, StreamDecoder, check_compatible, decode_response, encode_request,
    has_foreign_seal, inspect_response, splice_request, validate,
};
use tollgate_formats::reasoning_envelope::origin_of;
use tollgate_formats::to_common::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_types::generate::GenerateRequest;
use tollgate_types::{Abilities, Error, Format, RequestId};
use tollgate_upstream::{
    CallContext, CountProvider, DecideProvider, EmbedProvider, ImageCall, JobProvider, ListedModel,
    MediaKind, Outline, Payload, Provider, RealtimeProvider, ReportCall, TextAnswer, TextCall, TextProvider,
    TextReply, UpstreamCause, UpstreamError, UpstreamErrorKind, VideoCall,
};

use super::access::Access;
use super::surface::Surface;
use super::{decisions, listing, stream};
use crate::conversion::{self, not_in_format};
use crate::decisions::TextLabels;
use crate::http::{EndpointError, HttpClient, Response, Timeouts};
use crate::{counted, refusal};

/// A provider that uses Gemini's format, on one of its two services.
#[derive(Debug)]
pub struct Gemini {
    id: Arc<str>,
    /// Origin of this provider's thought signatures. Reasoning with another origin is dropped.
    pub(super) origin: String,
    pub(super) http: Arc<HttpClient>,
    pub(super) access: Access,
    pub(super) surface: Surface,
    pub(super) decisions: TextLabels,
}

impl Gemini {
    /// Builds the provider of the configuration block `id`.
    pub fn new(
        id: Arc<str>,
        surface: Surface,
        access: Access,
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        if access.is_secure() {
            http.check_tls()?;
        }
        Ok(Self {
            origin: origin_of(&id),
            id,
            http,
            access,
            surface,
            decisions: decisions::text_labels(),
        })
    }

    /// Posts a body and returns the response with any status.
    pub(super) async fn send(
        &self,
        ctx: &CallContext,
        path: &str,
        body: Bytes,
    ) -> Result<Response, UpstreamError> {
        let timeouts = Timeouts::of(ctx);
        self.access.post(&self.http, path, &body, timeouts).await
    }

    pub(super) async fn post(
        &self,
        ctx: &CallContext,
        path: &str,
        body: Bytes,
    ) -> Result<Response, UpstreamError> {
        let response = self.send(ctx, path, body).await?;
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        Ok(response)
    }

    /// Returns the request body for the upstream's service.
    fn prepare(&self, call: &TextCall) -> Result<Bytes, UpstreamError> {
        let body = self.request_body(call)?;
        self.surface.body(body).map_err(|error| not_in_format(&error))
    }

    /// Returns the request in Gemini's format.
    fn request_body(&self, call: &TextCall) -> Result<Bytes, UpstreamError> {
        if !call.is_in(Format::GenerateContent) {
            let mut request = conversion::common_form(call)?;
            drop_foreign_reasoning(&mut request, &self.origin);
            return Ok(Bytes::from(encode_request(
                &request,
                &call.abilities,
                call.clamp_output,
            )));
        }
        let known = call
            .outline
            .as_ref()
            .and_then(|outline| outline.get::<GenerateHead>());
        let validated;
        let head = match known {
            Some(head) => head,
            None => {
                validated = validate(&call.body, Purpose::Generate).map_err(|error| not_in_format(&error))?;
                &validated
            }
        };
        Ok(splice_request(
            &call.body,
            head,
            &call.upstream_model,
            &self.origin,
            call.clamp_output,
        ))
    }

    async fn whole(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        response: Response,
    ) -> Result<TextReply, UpstreamError> {
        let body = response.whole(self.http.settings().body_limit).await?;
        let invalid_answer = |what: &str| UpstreamError::protocol(format!("{what} ({} bytes)", body.len()));
        let head = inspect_response(&body, &self.origin)
            .map_err(|_| invalid_answer("the response is not a JSON object"))?;
        if head.is_error {
            return Err(refusal::from_object(&body));
        }
        if head.candidates == 0 {
            return Err(match head.is_blocked {
                true => blocked().reporting(head.usage),
                false => invalid_answer("the response has no candidates").reporting(head.usage),
            });
        }
        if head.is_malformed && !head.has_content {
            return Err(invalid_answer("the model produced a malformed response").reporting(head.usage));
        }
        if !conversion::relays(ctx, call, Format::GenerateContent) {
            let answer = decode_response(&body, seconds(ctx.request), &ctx.request.to_string())
                .map_err(|_| invalid_answer("the response cannot be parsed"))?;
            return Ok(conversion::whole(
                answer,
                &self.origin,
                head.usage,
                head.output_bytes,
            ));
        }
        Ok(TextReply::Whole(TextAnswer {
            capped_answers: 0,
            payload: Payload::Raw(Format::GenerateContent, body),
            usage: head.usage,
            output_bytes: head.output_bytes,
            outline: Some(Outline::new(head)),
        }))
    }
}

/// Returns the error of a blocked prompt. The response to such a prompt has status 200.
pub(super) fn blocked() -> UpstreamError {
    UpstreamError::new(
        UpstreamErrorKind::ContentBlocked,
        UpstreamCause::Status,
        "the prompt was blocked",
    )
}

/// Returns the time of the request in Unix seconds, from its UUIDv7. Responses in this format
/// contain no time.
fn seconds(request: RequestId) -> i64 {
    i64::try_from((request.as_u128() >> 80) / 1_000).unwrap_or(0)
}

#[async_trait]
impl TextProvider for Gemini {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let body = self.prepare(call)?;
        if !call.stream {
            let path = self.surface.path_of(&call.upstream_model, "generateContent");
            let response = self.post(ctx, &path, body).await?;
            return self.whole(ctx, call, response).await;
        }
        let path = self
            .surface
            .path_of(&call.upstream_model, "streamGenerateContent?alt=sse");
        let response = self.post(ctx, &path, body).await?;
        if response.media_type() == "text/event-stream" {
            let events = stream::open(response, call, &self.origin)?;
            return Ok(TextReply::Stream(
                match conversion::relays(ctx, call, Format::GenerateContent) {
                    true => events,
                    false => {
                        let decoder = StreamDecoder::new(seconds(ctx.request), &ctx.request.to_string());
                        conversion::stream(events, decoder, &self.origin)
                    }
                },
            ));
        }
        // Instead of a stream, the server may have returned an error object or a blocked prompt.
        let body = response.read_prefix(self.http.settings()).await;
        match inspect_response(&body, &self.origin) {
            Ok(head) if head.is_error => Err(refusal::from_object(&body)),
            Ok(head) if head.is_blocked => Err(blocked()),
            _ => Err(UpstreamError::protocol(format!(
                "expected a stream, received {} bytes of another type",
                body.len()
            ))),
        }
    }

    fn takes(&self, format: Format) -> bool {
        format == Format::GenerateContent
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        match kind {
            MediaKind::Image => Some(&["image/png", "image/jpeg", "image/webp"]),
            MediaKind::Document => Some(&["application/pdf", "text/plain"]),
            _ => None,
        }
    }

    fn drops_reasoning(&self, call: &TextCall) -> bool {
        let head = call.outline.as_ref().and_then(Outline::get::<GenerateHead>);
        head.is_some_and(|head| has_foreign_seal(&call.body, head, &self.origin))
    }

    fn check_compatible(
        &self,
        request: &GenerateRequest,
        abilities: &Abilities,
    ) -> Result<Vec<String>, Error> {
        let mut ignored = check_compatible(request, abilities)?;
        if has_foreign_reasoning(request, &self.origin) {
            ignored.push("reasoning".to_owned());
        }
        Ok(ignored)
    }
}

#[async_trait]
impl CountProvider for Gemini {
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError> {
        let body = self.surface.counted(self.prepare(call)?, &call.upstream_model);
        let body = body.map_err(|error| not_in_format(&error))?;
        let path = self.surface.path_of(&call.upstream_model, "countTokens");
        let response = self.post(ctx, &path, body).await?;
        counted::tokens(response, &self.http, "totalTokens").await
    }
}

#[async_trait]
impl Provider for Gemini {
    fn id(&self) -> &str {
        &self.id
    }

    fn text(&self) -> Option<&dyn TextProvider> {
        Some(self)
    }

    fn counts(&self) -> Option<&dyn CountProvider> {
        Some(self)
    }

    fn embeddings(&self) -> Option<&dyn EmbedProvider> {
        Some(self)
    }

    fn decisions(&self) -> Option<&dyn DecideProvider> {
        Some(self)
    }

    fn images(&self) -> Option<&dyn JobProvider<ImageCall>> {
        Some(self)
    }

    fn videos(&self) -> Option<&dyn JobProvider<VideoCall>> {
        Some(self)
    }

    fn realtime(&self) -> Option<&dyn RealtimeProvider> {
        match self.surface {
            Surface::Gemini => Some(self),
            Surface::Vertex { .. } => None,
        }
    }

    fn reports(&self) -> Option<&dyn JobProvider<ReportCall>> {
        // Interactions are an API of the Gemini API only.
        match self.surface {
            Surface::Gemini => Some(self),
            Surface::Vertex { .. } => None,
        }
    }

    async fn list_models(&self, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        tokio::time::timeout(timeout, listing::all(self, timeout))
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("timed out listing the models")))
    }
}
