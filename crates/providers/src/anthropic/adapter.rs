//! The adapter.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::SecretString;
use tollgate_formats::anthropic_messages::{
    MessagesHead, Purpose, StreamDecoder, Version, carry, decode_response, encode_request, has_foreign_seal,
    inspect_response, splice_request, validate, version_for,
};
use tollgate_formats::counting;
use tollgate_formats::hub::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_formats::seal::origin_of;
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Error, Format, RequestId};
use tollgate_upstream::{
    BatchProvider, CallContext, CountProvider, DecideProvider, DecisionWay, LabelCall, LabelDraws,
    ListedModel, MediaKind, Outline, Payload, Provider, TextAnswer, TextCall, TextProvider, TextReply,
    UpstreamError,
};

use super::batches::BatchServer;
use super::{listing, stream};
use crate::crossing::{self, not_in_format};
use crate::deciding::ByText;
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
};
use crate::{counted, refusal};

const PATH: &str = "/messages";
const COUNT_PATH: &str = "/messages/count_tokens";

/// A provider that speaks the format of messages.
#[derive(Debug)]
pub struct Anthropic {
    id: Arc<str>,
    pub(super) batches: BatchServer,
    /// Marks the reasoning that comes from here.
    origin: String,
    pub(super) http: Arc<HttpClient>,
    pub(super) base: BaseUrl,
    messages: Versions,
    counts: Versions,
    models: Endpoint,
    deciding: ByText,
}

/// One path, by version of the format.
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
            batches: BatchServer::new(base, credentials, http.clone())?,
            http,
            base: base.clone(),
            messages: Versions::new(base, PATH, credentials)?,
            counts: Versions::new(base, COUNT_PATH, credentials)?,
            models: endpoint(base, "/models", Version::V2023_06_01, credentials)?,
            deciding: ByText::new(&[StateMediaKind::Image], 0),
        })
    }

    /// Sends a body to one of the paths, and answers when the response headers are there.
    async fn post(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        to: &Versions,
        version: Version,
        body: Bytes,
    ) -> Result<Response, UpstreamError> {
        let timeouts = Timeouts::of(ctx);
        let (endpoint, body) = (to.of(version), RequestBody::from(body));
        match self.previews(&call.previews, to.path)? {
            None => self.http.post(endpoint, body, timeouts).await,
            Some(variant) => self.http.post_variant(endpoint, variant, body, timeouts).await,
        }
    }

    /// The previews that the caller asks for, as a header.
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

    /// The bytes for the upstream, and the version that they are in.
    pub(super) fn prepare(&self, call: &TextCall) -> Result<(Bytes, Version), UpstreamError> {
        if !call.is_in(Format::Messages) {
            let mut request = crossing::common_form(call)?;
            drop_foreign_reasoning(&mut request, &self.origin);
            let body = encode_request(&request, call.output_cap);
            return Ok((Bytes::from(body), version_for(&request)));
        }
        let known = call
            .outline
            .as_ref()
            .and_then(|outline| outline.get::<MessagesHead<'static>>());
        let looked_again;
        let head = match known {
            Some(head) => head,
            None => {
                looked_again = validate(&call.body, Version::default(), Purpose::Generate)
                    .map_err(|error| not_in_format(&error))?;
                &looked_again
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

    /// The answer that a body is.
    pub(super) fn read_whole(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        body: Bytes,
    ) -> Result<TextReply, UpstreamError> {
        let no_answer = |what: &str| UpstreamError::protocol(format!("{what} ({} bytes)", body.len()));
        let head = inspect_response(&body, &self.origin)
            .map_err(|_| no_answer("the answer is not a JSON object"))?;
        if head.is_error {
            return Err(refusal::from_object(&body));
        }
        if !head.has_content {
            return Err(no_answer("the answer has no content"));
        }
        if !crossing::relays(ctx, call, Format::Messages) {
            let answer = decode_response(&body, seconds(ctx.request))
                .map_err(|_| no_answer("the answer cannot be read"))?;
            return Ok(crossing::whole(
                answer,
                &self.origin,
                head.usage,
                head.output_bytes,
            ));
        }
        Ok(TextReply::Whole(TextAnswer {
            payload: Payload::Raw(Format::Messages, body),
            usage: head.usage,
            output_bytes: head.output_bytes,
            outline: Some(Outline::new(head)),
        }))
    }
}

/// When the request came, which its id tells (UUIDv7): the format has no time in its answers.
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
                match crossing::relays(ctx, call, Format::Messages) {
                    true => events,
                    false => crossing::stream(events, StreamDecoder::new(seconds(ctx.request)), &self.origin),
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
        format == Format::Messages
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        // It would fetch documents, too; but what one costs depends on its bytes, and a hold is taken before.
        match kind {
            MediaKind::Document => Some(&["application/pdf", "text/plain"]),
            _ => None,
        }
    }

    fn forces(&self, format: &ResponseFormat) -> bool {
        *format != ResponseFormat::JsonObject
    }

    fn leaves_out_reasoning(&self, call: &TextCall) -> bool {
        let head = call
            .outline
            .as_ref()
            .and_then(Outline::get::<MessagesHead<'static>>);
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
            .unwrap_or_else(|_| Err(UpstreamError::timeout("no list of models in time")))
    }
}
