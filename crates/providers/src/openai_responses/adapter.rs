//! The adapter of OpenAI's Responses API.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_formats::counting;
use tollgate_formats::openai_responses::{
    MIN_OUTPUT_TOKENS, RequestEdits, ResponsesHead, StreamDecoder, check_compatible, decode_response,
    encode_request, has_foreign_seal, inspect_response, splice_request, validate,
};
use tollgate_formats::reasoning_envelope::origin_of;
use tollgate_formats::to_common::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::GenerateRequest;
use tollgate_types::{Abilities, Error, Format};
use tollgate_upstream::{
    CallContext, CountProvider, DecideProvider, DecisionWay, Draw, JobProvider, LabelCall, LabelDraws,
    ListedModel, MediaKind, Outline, Payload, Provider, ReportCall, TextAnswer, TextCall, TextProvider,
    TextReply, UpstreamError,
};

use super::reports::ReportsEndpoint;
use super::stream;
use crate::conversion::{self, not_in_format};
use crate::decisions::TextLabels;
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts,
};
use crate::openai_compatible::listing;
use crate::{counted, refusal};

/// Domains of OpenAI's servers and of Azure OpenAI. Other servers accept smaller output caps than
/// [`MIN_OUTPUT_TOKENS`].
const OPENAI_DOMAINS: [&str; 2] = ["openai.com", "azure.com"];

/// A provider that uses the Responses format.
#[derive(Debug)]
pub struct OpenAiResponses {
    id: Arc<str>,
    /// Origin of this provider's encrypted reasoning. Reasoning with another origin is dropped.
    origin: String,
    http: Arc<HttpClient>,
    responses: Endpoint,
    counts: Endpoint,
    models: Endpoint,
    reports: ReportsEndpoint,
    decisions: TextLabels,
    /// Minimum output cap that the server accepts.
    min_output_tokens: u64,
}

impl OpenAiResponses {
    /// Builds the provider of the configuration block `id`. Every request carries the credentials.
    pub fn new(
        id: Arc<str>,
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        if base.is_secure() {
            http.check_tls()?;
        }
        Ok(Self {
            origin: origin_of(&id),
            id,
            reports: ReportsEndpoint::new(base, credentials, http.clone())?,
            http,
            responses: Endpoint::new(base, "/responses", credentials)?,
            counts: Endpoint::new(base, "/responses/input_tokens", credentials)?,
            models: Endpoint::new(base, "/models", credentials)?,
            decisions: TextLabels::new(&[StateMediaKind::Image], 0),
            min_output_tokens: if base.is_in_domain(&OPENAI_DOMAINS) {
                MIN_OUTPUT_TOKENS
            } else {
                1
            },
        })
    }

    /// Returns the request body for the upstream.
    fn prepare(&self, call: &TextCall) -> Result<Bytes, UpstreamError> {
        // A model without reasoning would reject the request for encrypted reasoning.
        let asks_seal = call.reasons && call.format.supports_seals();
        if !call.is_in(Format::Responses) {
            let mut request = conversion::common_form(call)?;
            drop_foreign_reasoning(&mut request, &self.origin);
            return Ok(Bytes::from(encode_request(
                &request,
                call.clamp_output,
                asks_seal,
            )));
        }
        let known = call
            .outline
            .as_ref()
            .and_then(|outline| outline.get::<ResponsesHead<'static>>());
        let validated;
        let head = match known {
            Some(head) => head,
            None => {
                validated = validate(&call.body).map_err(|error| not_in_format(&error))?;
                &validated
            }
        };
        let edits = RequestEdits {
            model: &call.upstream_model,
            origin: &self.origin,
            clamp_output: call.clamp_output,
            stream: call.stream,
            reasons: asks_seal,
        };
        Ok(splice_request(&call.body, head, edits))
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
            return Err(refusal::from_object_of(self.responses.error_texts(), &body));
        }
        if !head.has_output {
            return Err(invalid_answer("the response has no output").reporting(head.usage));
        }
        if !conversion::relays(ctx, call, Format::Responses) {
            let answer =
                decode_response(&body).map_err(|_| invalid_answer("the response cannot be parsed"))?;
            return Ok(conversion::whole(
                answer,
                &self.origin,
                head.usage,
                head.output_bytes,
            ));
        }
        Ok(TextReply::Whole(TextAnswer {
            capped_answers: 0,
            payload: Payload::Raw(Format::Responses, body),
            usage: head.usage,
            output_bytes: head.output_bytes,
            outline: Some(Outline::new(head)),
        }))
    }
}

#[async_trait]
impl TextProvider for OpenAiResponses {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let body = self.prepare(call)?;
        let timeouts = Timeouts::of(ctx).resending();
        let response = self
            .http
            .post(&self.responses, RequestBody::from(body), timeouts)
            .await?;
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        if !call.stream {
            return self.whole(ctx, call, response).await;
        }
        if response.media_type() == "text/event-stream" {
            let events = stream::open(response, call, &self.origin)?;
            return Ok(TextReply::Stream(
                match conversion::relays(ctx, call, Format::Responses) {
                    true => events,
                    false => conversion::stream(events, StreamDecoder::default(), &self.origin),
                },
            ));
        }
        // Instead of a stream, the server may have returned an error object.
        let body = response.read_prefix(self.http.settings()).await;
        match inspect_response(&body, &self.origin) {
            Ok(head) if head.is_error => Err(refusal::from_object_of(self.responses.error_texts(), &body)),
            _ => Err(UpstreamError::protocol(format!(
                "expected a stream, received {} bytes of another type",
                body.len()
            ))),
        }
    }

    fn takes(&self, format: Format) -> bool {
        format == Format::Responses
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        // OpenAI can fetch documents itself. However, the cost of a document depends on its size,
        // and the gateway places the hold before OpenAI would fetch the document.
        match kind {
            MediaKind::Document => Some(&["application/pdf"]),
            _ => None,
        }
    }

    fn drops_reasoning(&self, call: &TextCall) -> bool {
        let head = call
            .outline
            .as_ref()
            .and_then(Outline::get::<ResponsesHead<'static>>);
        head.is_some_and(|head| has_foreign_seal(&call.body, head, &self.origin))
    }

    fn check_compatible(&self, request: &GenerateRequest, _: &Abilities) -> Result<Vec<String>, Error> {
        let mut ignored = check_compatible(request, self.min_output_tokens)?;
        if has_foreign_reasoning(request, &self.origin) {
            ignored.push("reasoning".to_owned());
        }
        Ok(ignored)
    }
}

#[async_trait]
impl CountProvider for OpenAiResponses {
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError> {
        let body = counting::responses(&self.prepare(call)?).map_err(|error| not_in_format(&error))?;
        let body = RequestBody::from(body);
        let response = self.http.post(&self.counts, body, Timeouts::of(ctx)).await?;
        counted::tokens(response, &self.http, "input_tokens").await
    }
}

#[async_trait]
impl DecideProvider for OpenAiResponses {
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay> {
        self.decisions.ways(upstream_model, state)
    }

    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        draw: Draw,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        self.decisions.draw(self, ctx, call, draw).await.map(Some)
    }
}

#[async_trait]
impl Provider for OpenAiResponses {
    fn id(&self) -> &str {
        &self.id
    }

    fn text(&self) -> Option<&dyn TextProvider> {
        Some(self)
    }

    fn decisions(&self) -> Option<&dyn DecideProvider> {
        Some(self)
    }

    fn counts(&self) -> Option<&dyn CountProvider> {
        Some(self)
    }

    fn reports(&self) -> Option<&dyn JobProvider<ReportCall>> {
        Some(&self.reports)
    }

    async fn list_models(&self, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        let listed = async {
            let response = self.http.get(&self.models, Timeouts::brief(timeout)).await?;
            if response.status != 200 {
                return Err(refusal::from_response(response, self.http.settings()).await);
            }
            listing::read(&response.whole(listing::LIMIT).await?)
        };
        tokio::time::timeout(timeout, listed)
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("timed out listing the models")))
    }
}
