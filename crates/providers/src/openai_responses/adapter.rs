//! The adapter.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_formats::counting;
use tollgate_formats::hub::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_formats::openai_responses::{
    RequestEdits, ResponsesHead, StreamDecoder, carry, decode_response, encode_request, has_foreign_seal,
    inspect_response, splice_request, validate,
};
use tollgate_formats::seal::origin_of;
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::GenerateRequest;
use tollgate_types::{Error, Format};
use tollgate_upstream::{
    CallContext, CountProvider, DecideProvider, DecisionWay, LabelCall, LabelDraws, ListedModel, MediaKind,
    Outline, Payload, Provider, TextAnswer, TextCall, TextProvider, TextReply, UpstreamError,
};

use super::stream;
use crate::crossing::{self, not_in_format};
use crate::deciding::ByText;
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts,
};
use crate::openai_compatible::listing;
use crate::{counted, refusal};

/// A provider that speaks the format of responses.
#[derive(Debug)]
pub struct OpenAiResponses {
    id: Arc<str>,
    /// Marks the reasoning that comes from here.
    origin: String,
    http: Arc<HttpClient>,
    responses: Endpoint,
    counts: Endpoint,
    models: Endpoint,
    deciding: ByText,
}

impl OpenAiResponses {
    /// The provider of the configuration block `id`, at this address, with these credentials on every request.
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
            http,
            responses: Endpoint::new(base, "/responses", credentials)?,
            counts: Endpoint::new(base, "/responses/input_tokens", credentials)?,
            models: Endpoint::new(base, "/models", credentials)?,
            deciding: ByText::new(&[StateMediaKind::Image], 0),
        })
    }

    /// The bytes for the upstream.
    fn prepare(&self, call: &TextCall) -> Result<Bytes, UpstreamError> {
        // A model that does not reason would refuse it.
        let asks_seal = call.reasons && call.format.carries_seals();
        if !call.is_in(Format::Responses) {
            let mut request = crossing::common_form(call)?;
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
        let looked_again;
        let head = match known {
            Some(head) => head,
            None => {
                looked_again = validate(&call.body).map_err(|error| not_in_format(&error))?;
                &looked_again
            }
        };
        let edits = RequestEdits {
            model: &call.upstream_model,
            origin: &self.origin,
            clamp_output: call.clamp_output,
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
        let no_answer = |what: &str| UpstreamError::protocol(format!("{what} ({} bytes)", body.len()));
        let head = inspect_response(&body, &self.origin)
            .map_err(|_| no_answer("the answer is not a JSON object"))?;
        if head.is_error {
            return Err(refusal::from_object(&body));
        }
        if !head.has_output {
            return Err(no_answer("the answer has no output"));
        }
        if !crossing::relays(ctx, call, Format::Responses) {
            let answer = decode_response(&body).map_err(|_| no_answer("the answer cannot be read"))?;
            return Ok(crossing::whole(
                answer,
                &self.origin,
                head.usage,
                head.output_bytes,
            ));
        }
        Ok(TextReply::Whole(TextAnswer {
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
        let timeouts = Timeouts::of(ctx);
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
                match crossing::relays(ctx, call, Format::Responses) {
                    true => events,
                    false => crossing::stream(events, StreamDecoder::default(), &self.origin),
                },
            ));
        }
        // A JSON body says what is wrong; anything else is not what was asked for.
        let body = response.beginning(self.http.settings()).await;
        match inspect_response(&body, &self.origin) {
            Ok(head) if head.is_error => Err(refusal::from_object(&body)),
            _ => Err(UpstreamError::protocol(format!(
                "asked for a stream, got {} bytes of another type",
                body.len()
            ))),
        }
    }

    fn takes(&self, format: Format) -> bool {
        format == Format::Responses
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        // It would fetch documents, too; but what one costs depends on its bytes, and a hold is taken before.
        match kind {
            MediaKind::Document => Some(&["application/pdf"]),
            _ => None,
        }
    }

    fn leaves_out_reasoning(&self, call: &TextCall) -> bool {
        let head = call
            .outline
            .as_ref()
            .and_then(Outline::get::<ResponsesHead<'static>>);
        head.is_some_and(|head| has_foreign_seal(&call.body, head, &self.origin))
    }

    fn carry(&self, request: &GenerateRequest) -> Result<Vec<String>, Error> {
        let mut ignored = carry(request)?;
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
        self.deciding.ways(upstream_model, state)
    }

    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        number: u32,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        self.deciding.draw(self, ctx, call, number).await.map(Some)
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
            .unwrap_or_else(|_| Err(UpstreamError::timeout("no list of models in time")))
    }
}
