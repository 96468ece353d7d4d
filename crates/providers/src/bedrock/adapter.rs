//! The adapter.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};
use tollgate_formats::bedrock_converse::{
    Family, StreamDecoder, carry, decode_response, encode_request, is_about_reasoning,
};
use tollgate_formats::counting;
use tollgate_formats::hub::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_formats::seal::origin_of;
use tollgate_types::clock::SystemClock;
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::{GenerateRequest, Part, ResponseFormat};
use tollgate_types::{Clock, Error, Format, Retry};
use tollgate_upstream::{
    CallContext, CountProvider, DecideProvider, DecisionWay, LabelCall, LabelDraws, ListedModel, MediaKind,
    Provider, TextCall, TextProvider, TextReply, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::credentials::{AccessKeys, Credentials};
use super::sign::{self, Scope, Signed};
use super::{listing, stream};
use crate::crossing;
use crate::deciding::ByText;
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
    escape,
};
use crate::{counted, refusal};

/// The name under which both planes are signed for.
const SERVICE: &str = "bedrock";
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "application/vnd.amazon.eventstream";

/// Bedrock in one region.
#[derive(Debug)]
pub struct Bedrock {
    id: Arc<str>,
    /// Marks the reasoning that comes from here.
    origin: String,
    http: Arc<HttpClient>,
    clock: SystemClock,
    region: String,
    /// Signs requests; nothing when a key of Bedrock's own is sent with them.
    keys: Option<AccessKeys>,
    /// Where models are called.
    runtime: Place,
    /// Where they are listed.
    control: Place,
    deciding: ByText,
}

/// One of the two planes.
#[derive(Debug)]
struct Place {
    base: BaseUrl,
    endpoint: Endpoint,
}

impl Bedrock {
    /// The provider of the configuration block `id` in this region. Without an address it is where the region has it.
    pub fn new(
        id: Arc<str>,
        region: &str,
        address: Option<&str>,
        credentials: Credentials,
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let (bearer, keys) = match credentials {
            Credentials::ApiKey(key) => (vec![Credential::bearer(&key)?], None),
            Credentials::Keys(keys) => (Vec::new(), Some(keys)),
        };
        let place = |host: &str| {
            let usual = format!("https://{host}.{region}.{}", domain(region));
            let base = BaseUrl::parse(address.unwrap_or(&usual))?;
            if base.is_secure() {
                http.check_tls()?;
            }
            let endpoint = Endpoint::new(&base, "", &bearer)?;
            Ok(Place { base, endpoint })
        };
        let (runtime, control) = (place("bedrock-runtime")?, place("bedrock")?);
        Ok(Self {
            origin: origin_of(&id),
            id,
            http,
            clock: SystemClock::default(),
            region: region.to_owned(),
            keys,
            runtime,
            control,
            deciding: ByText::new(&[StateMediaKind::Image], 0),
        })
    }

    /// The request in the upstream's format.
    fn prepare(&self, call: &TextCall) -> Result<Bytes, UpstreamError> {
        let mut request = crossing::common_form(call)?;
        drop_foreign_reasoning(&mut request, &self.origin);
        if is_about_reasoning(&request) && Family::of(&request.model) == Family::Unknown {
            let detail = "how to reason is asked of a model whose name does not tell its maker";
            return Err(UpstreamError {
                param: Some("reasoning_effort".to_owned()),
                ..UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Protocol, detail)
            });
        }
        Ok(Bytes::from(encode_request(&request, call.output_cap)))
    }

    /// Has a model do something with a body, and answers when the response headers are there.
    async fn post(
        &self,
        ctx: &CallContext,
        model: &str,
        operation: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Response, UpstreamError> {
        let path = format!("/model/{}/{operation}", escape(model, ""));
        let variant = self.variant(&self.runtime, "POST", &path, accept, &body);
        let variant = variant.map_err(|error| no_request(&error))?;
        let (endpoint, body) = (&self.runtime.endpoint, RequestBody::from(body));
        let sent = self.http.post_variant(endpoint, variant, body, Timeouts::of(ctx));
        let response = sent.await?;
        if !(200..300).contains(&response.status) {
            return Err(refused(response, &self.http).await);
        }
        Ok(response)
    }

    /// Where a request goes and what it carries, its signature included.
    fn variant(
        &self,
        place: &Place,
        method: &str,
        path: &str,
        accept: &str,
        body: &[u8],
    ) -> Result<Variant, EndpointError> {
        let mut variant = Variant::new(&place.base, path)?;
        variant.insert("accept", &SecretString::from(accept))?;
        let Some(keys) = &self.keys else {
            return Ok(variant);
        };
        let time = sign::date(self.clock.now());
        let token = keys.session_token.as_ref();
        let mut headers = vec![
            ("content-type", "application/json"),
            ("host", place.base.host()),
            ("x-amz-date", &time),
        ];
        headers.extend(token.map(|token| ("x-amz-security-token", token.expose_secret().trim())));
        let signed = Signed {
            method,
            path: variant.path(),
            headers: &headers,
            body,
        };
        let scope = Scope {
            region: &self.region,
            service: SERVICE,
            time: &time,
        };
        let authorization = SecretString::from(sign::authorization(&signed, &scope, keys));
        variant.insert("authorization", &authorization)?;
        variant.insert("x-amz-date", &SecretString::from(time))?;
        if let Some(token) = token {
            variant.insert("x-amz-security-token", token)?;
        }
        Ok(variant)
    }

    async fn whole(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        response: Response,
    ) -> Result<TextReply, UpstreamError> {
        let body = response.whole(self.http.settings().body_limit).await?;
        let no_answer = |what: &str| UpstreamError::protocol(format!("{what} ({} bytes)", body.len()));
        let answer = decode_response(
            &body,
            &ctx.request.to_string(),
            self.seconds(),
            &call.public_model,
        )
        .map_err(|_| no_answer("the answer cannot be read"))?;
        let output_bytes = output_bytes(&answer);
        let has_content = answer
            .choices
            .iter()
            .any(|choice| !choice.parts.is_empty() || !choice.tool_calls.is_empty());
        if !has_content {
            return Err(no_answer("the answer has no content"));
        }
        let usage = answer.usage;
        Ok(crossing::whole(answer, &self.origin, usage, output_bytes))
    }

    fn seconds(&self) -> i64 {
        self.clock.now().as_seconds()
    }
}

/// Regions in China have a domain of their own.
fn domain(region: &str) -> &'static str {
    match region.starts_with("cn-") {
        true => "amazonaws.com.cn",
        false => "amazonaws.com",
    }
}

/// Bytes of text, reasoning and arguments of tools.
fn output_bytes(answer: &tollgate_types::generate::GenerateResponse) -> u64 {
    let mut bytes = 0;
    for choice in &answer.choices {
        for part in &choice.parts {
            bytes += match part {
                Part::Text(text) | Part::Refusal(text) => text.len(),
                Part::Reasoning(reasoning) => reasoning.text.as_ref().map_or(0, String::len),
                _ => 0,
            };
        }
        bytes += choice
            .tool_calls
            .iter()
            .map(|call| call.arguments.len())
            .sum::<usize>();
    }
    bytes as u64
}

/// The model behind an inference profile: counts know no profiles (docs.aws.amazon.com/bedrock/latest/userguide/count-tokens.html),
/// and only models of this maker.
fn foundation_model(model: &str) -> &str {
    model.find("anthropic.").map_or(model, |at| &model[at..])
}

/// What a refusal means beyond its status, by the name of its exception.
async fn refused(response: Response, http: &HttpClient) -> UpstreamError {
    let named = response.header("x-amzn-errortype").unwrap_or_default();
    let exceeds_quota = named.starts_with("ServiceQuotaExceededException");
    let mut error = refusal::from_response(response, http.settings()).await;
    if exceeds_quota {
        error.kind = UpstreamErrorKind::RateLimited;
    }
    if error.status == Some(408) {
        // The model was at work when its time was up.
        error.retry = Retry::Unknown;
    }
    error
}

fn no_request(error: &EndpointError) -> UpstreamError {
    UpstreamError::connect(error.to_string())
}

#[async_trait]
impl TextProvider for Bedrock {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let body = self.prepare(call)?;
        let (operation, accept) = match call.stream {
            true => ("converse-stream", EVENT_STREAM),
            false => ("converse", JSON),
        };
        let response = self
            .post(ctx, &call.upstream_model, operation, accept, body)
            .await?;
        if !call.stream {
            return self.whole(ctx, call, response).await;
        }
        if response.media_type() == EVENT_STREAM {
            let decoder = StreamDecoder::new(&ctx.request.to_string(), self.seconds(), &call.public_model);
            return Ok(TextReply::Stream(stream::open(response, decoder, &self.origin)?));
        }
        let body = response.beginning(self.http.settings()).await;
        Err(UpstreamError::protocol(format!(
            "asked for a stream, got {} bytes of another type",
            body.len()
        )))
    }

    fn takes(&self, _format: Format) -> bool {
        false
    }

    fn forces(&self, format: &ResponseFormat) -> bool {
        *format != ResponseFormat::JsonObject
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        match kind {
            MediaKind::Image => Some(&["image/png", "image/jpeg", "image/gif", "image/webp"]),
            MediaKind::Document => Some(&["application/pdf", "text/plain"]),
            _ => None,
        }
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
impl CountProvider for Bedrock {
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError> {
        let body =
            counting::converse(&self.prepare(call)?).map_err(|error| crossing::not_in_format(&error))?;
        let model = foundation_model(&call.upstream_model);
        let response = self.post(ctx, model, "count-tokens", JSON, body).await?;
        counted::tokens(response, &self.http, "inputTokens").await
    }
}

#[async_trait]
impl DecideProvider for Bedrock {
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
impl Provider for Bedrock {
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
            let variant = self.variant(&self.control, "GET", "/foundation-models", JSON, b"");
            let variant = variant.map_err(|error| no_request(&error))?;
            let timeouts = Timeouts::brief(timeout);
            let response = self
                .http
                .get_variant(&self.control.endpoint, variant, timeouts)
                .await?;
            if response.status != 200 {
                return Err(refused(response, &self.http).await);
            }
            listing::read(&response.whole(listing::LIMIT).await?)
        };
        tokio::time::timeout(timeout, listed)
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("no list of models in time")))
    }
}
