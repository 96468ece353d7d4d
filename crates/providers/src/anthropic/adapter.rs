//! The adapter of Anthropic's Messages API: text, token counts, decisions and batches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::SecretString;
use tollgate_formats::anthropic_messages::{
    MessagesHead, Purpose, StreamDecoder, Version, check_compatible, decode_response, encode_request,
    has_foreign_seal, inspect_response, splice_request, validate, version_for,
};
use tollgate_formats::counting;
use tollgate_formats::reasoning_envelope::origin_of;
use tollgate_formats::to_common::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Abilities, Error, Format, RequestId};
use tollgate_upstream::{
    BatchProvider, CallContext, CountProvider, DecideProvider, DecisionWay, Draw, LabelCall, LabelDraws,
    ListedModel, MediaKind, Outline, Payload, Provider, TextAnswer, TextCall, TextProvider, TextReply,
    UpstreamError,
};

use super::batches::BatchServer;
use super::{listing, stream};
use crate::conversion::{self, not_in_format};
use crate::decisions::TextLabels;
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
};
use crate::{counted, refusal};

const PATH: &str = "/messages";
const COUNT_PATH: &str = "/messages/count_tokens";

/// A provider that uses the Messages format.
#[derive(Debug)]
pub struct Anthropic {
    id: Arc<str>,
    pub(super) batches: BatchServer,
    /// Origin of this provider's reasoning signatures. Reasoning with another origin is dropped.
    origin: String,
    pub(super) http: Arc<HttpClient>,
    pub(super) base: BaseUrl,
    messages: Versions,
    counts: Versions,
    models: Endpoint,
    decisions: TextLabels,
}

/// A path of the API, with one endpoint for each version of the format.
#[derive(Debug)]
pub(super) struct Versions {
    path: &'static str,
    older: Endpoint,
    newer: Endpoint,
}

impl Versions {
    pub(super) fn new(
        base: &BaseUrl,
        path: &'static str,
        credentials: &[Credential],
    ) -> Result<Self, EndpointError> {
        Ok(Self {
            path,
            older: endpoint(base, path, Version::V2023_06_01, credentials)?,
            newer: endpoint(base, path, Version::V2026_10_21, credentials)?,
        })
    }

    pub(super) fn of(&self, version: Version) -> &Endpoint {
        match version {
            Version::V2023_06_01 => &self.older,
            Version::V2026_10_21 => &self.newer,
        }
    }
}

fn endpoint(
    base: &BaseUrl,
    path: &str,
    version: Version,
    credentials: &[Credential],
) -> Result<Endpoint, EndpointError> {
    let version = SecretString::from(version.as_str());
    let version = Credential::header("anthropic-version", &version)?;
    Endpoint::new(base, path, &[&[version], credentials].concat())
}

impl Anthropic {
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
            batches: BatchServer::new(base, credentials, http.clone())?,
            http,
            base: base.clone(),
            messages: Versions::new(base, PATH, credentials)?,
            counts: Versions::new(base, COUNT_PATH, credentials)?,
            models: endpoint(base, "/models", Version::V2023_06_01, credentials)?,
            decisions: TextLabels::new(&[StateMediaKind::Image], 0),
        })
    }

    /// Posts a body to one of the paths. Returns when the response headers arrive; error statuses
    /// are responses too.
    async fn post(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        to: &Versions,
        version: Version,
        body: Bytes,
    ) -> Result<Response, UpstreamError> {
        let timeouts = Timeouts::of(ctx).resending();
        let (endpoint, body) = (to.of(version), RequestBody::from(body));
        match self.previews(&call.previews, to.path)? {
            None => self.http.post(endpoint, body, timeouts).await,
            Some(variant) => self.http.post_variant(endpoint, variant, body, timeouts).await,
        }
    }

    /// Returns the path with the header of the previews (beta features) that the caller requests;
    /// `None` if `names` is empty.
    pub(super) fn previews(&self, names: &[&str], path: &str) -> Result<Option<Variant>, UpstreamError> {
        if names.is_empty() {
            return Ok(None);
        }
        let names = SecretString::from(names.join(","));
        let variant = Variant::new(&self.base, path).and_then(|mut variant| {
            variant.insert("anthropic-beta", &names)?;
            Ok(variant)
        });
        let unsendable = |error: EndpointError| UpstreamError::connect(error.to_string());
        variant.map(Some).map_err(unsendable)
    }

    /// Returns the body for the upstream and its format version.
    pub(super) fn prepare(&self, call: &TextCall) -> Result<(Bytes, Version), UpstreamError> {
        if !call.is_in(Format::Messages) {
            let mut request = conversion::common_form(call)?;
            drop_foreign_reasoning(&mut request, &self.origin);
            let body = encode_request(&request, &call.abilities, call.output_cap);
            return Ok((Bytes::from(body), version_for(&request)));
        }
        let known = call
            .outline
            .as_ref()
            .and_then(|outline| outline.get::<MessagesHead<'static>>());
        let validated;
        let head = match known {
            Some(head) => head,
            None => {
                validated = validate(&call.body, Version::default(), Purpose::Generate)
                    .map_err(|error| not_in_format(&error))?;
                &validated
            }
        };
        let body = splice_request(
            &call.body,
            head,
            &call.upstream_model,
            &self.origin,
            call.clamp_output,
        );
        Ok((body, head.version))
    }

    async fn whole(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        response: Response,
    ) -> Result<TextReply, UpstreamError> {
        let body = response.whole(self.http.settings().body_limit).await?;
        self.read_whole(ctx, call, body)
    }

    /// Converts a complete response. Returns an error if the body is an error object or has no
    /// content.
    pub(super) fn read_whole(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        body: Bytes,
    ) -> Result<TextReply, UpstreamError> {
        let invalid_answer = |what: &str| UpstreamError::protocol(format!("{what} ({} bytes)", body.len()));
        let head = inspect_response(&body, &self.origin)
            .map_err(|_| invalid_answer("the response is not a JSON object"))?;
        if head.is_error {
            return Err(refusal::from_object_of(self.models.error_texts(), &body));
        }
        if !head.has_content {
            return Err(invalid_answer("the response has no content").reporting(head.usage));
        }
        if !conversion::relays(ctx, call, Format::Messages) {
            let answer = decode_response(&body, seconds(ctx.request))
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
            payload: Payload::Raw(Format::Messages, body),
            usage: head.usage,
            output_bytes: head.output_bytes,
            outline: Some(Outline::new(head)),
        }))
    }
}

/// Returns the time of the request in Unix seconds, from its UUIDv7. Responses in this format
/// contain no time.
fn seconds(request: RequestId) -> i64 {
    i64::try_from((request.as_u128() >> 80) / 1_000).unwrap_or(0)
}

#[async_trait]
impl TextProvider for Anthropic {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let (body, version) = self.prepare(call)?;
        let response = self.post(ctx, call, &self.messages, version, body).await?;
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        if !call.stream {
            return self.whole(ctx, call, response).await;
        }
        if response.media_type() == "text/event-stream" {
            let events = stream::open(response, call, &self.origin)?;
            return Ok(TextReply::Stream(
                match conversion::relays(ctx, call, Format::Messages) {
                    true => events,
                    false => {
                        conversion::stream(events, StreamDecoder::new(seconds(ctx.request)), &self.origin)
                    }
                },
            ));
        }
        // Instead of a stream, the server may have returned an error object.
        let body = response.read_prefix(self.http.settings()).await;
        match inspect_response(&body, &self.origin) {
            Ok(head) if head.is_error => Err(refusal::from_object_of(self.models.error_texts(), &body)),
            _ => Err(UpstreamError::protocol(format!(
                "expected a stream, received {} bytes of another type",
                body.len()
            ))),
        }
    }

    fn requires_cap(&self) -> bool {
        true
    }

    fn takes(&self, format: Format) -> bool {
        format == Format::Messages
    }

    fn takes_system_turns(&self, abilities: &Abilities) -> bool {
        abilities.system_turns != Some(false)
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        // Anthropic can fetch documents itself. However, the cost of a document depends on its
        // size, and the gateway places the hold before Anthropic would fetch the document.
        match kind {
            MediaKind::Document => Some(&["application/pdf", "text/plain"]),
            _ => None,
        }
    }

    fn enforces_schema(&self, format: &ResponseFormat) -> bool {
        *format != ResponseFormat::JsonObject
    }

    fn drops_reasoning(&self, call: &TextCall) -> bool {
        let head = call
            .outline
            .as_ref()
            .and_then(Outline::get::<MessagesHead<'static>>);
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
impl CountProvider for Anthropic {
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError> {
        let (body, version) = self.prepare(call)?;
        let body = counting::messages(&body).map_err(|error| not_in_format(&error))?;
        let response = self.post(ctx, call, &self.counts, version, body).await?;
        counted::tokens(response, &self.http, "input_tokens").await
    }
}

#[async_trait]
impl DecideProvider for Anthropic {
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
impl Provider for Anthropic {
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

    fn batches(&self) -> Option<&dyn BatchProvider> {
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
            .unwrap_or_else(|_| Err(UpstreamError::timeout("timed out listing the models")))
    }
}
