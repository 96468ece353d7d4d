//! The adapter of Bedrock's runtime and control planes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::{ExposeSecret, SecretString};
use tollgate_formats::bedrock_converse::{
    Family, StreamDecoder, check_compatible, decode_response, encode_request, is_about_reasoning,
};
use tollgate_formats::counting;
use tollgate_formats::reasoning_envelope::origin_of;
use tollgate_formats::to_common::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_types::clock::SystemClock;
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::{GenerateRequest, Part, ResponseFormat};
use tollgate_types::{Abilities, Clock, Error, Format, Retry};
use tollgate_upstream::{
    CallContext, CountProvider, DecideProvider, DecisionWay, Draw, ErrorText, LabelCall, LabelDraws,
    ListedModel, MediaKind, Provider, TextCall, TextProvider, TextReply, UpstreamCause, UpstreamError,
    UpstreamErrorKind,
};

use super::credentials::{AccessKeys, Credentials};
use super::sign::{self, Scope, SignedRequest};
use super::{listing, stream};
use crate::conversion;
use crate::decisions::TextLabels;
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
    escape,
};
use crate::{counted, refusal};

/// Service name in the signatures of both planes.
const SERVICE: &str = "bedrock";
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "application/vnd.amazon.eventstream";

/// A provider for Bedrock in one region.
#[derive(Debug)]
pub struct Bedrock {
    id: Arc<str>,
    /// Origin of this provider's reasoning signatures. Reasoning with another origin is dropped.
    origin: String,
    http: Arc<HttpClient>,
    clock: SystemClock,
    region: String,
    /// Keys that sign requests; `None` if requests contain a Bedrock API key.
    keys: Option<AccessKeys>,
    /// Plane for model calls.
    runtime: Plane,
    /// Plane for the model list.
    control: Plane,
    decisions: TextLabels,
}

/// A plane of the Bedrock API: runtime or control.
#[derive(Debug)]
struct Plane {
    base: BaseUrl,
    endpoint: Endpoint,
}

impl Bedrock {
    /// Builds the provider of the configuration block `id`. `address` is the base URL of both
    /// planes; `None` for the URLs of AWS in the region.
    pub fn new(
        id: Arc<str>,
        region: &str,
        address: Option<&str>,
        error_text: Option<ErrorText>,
        credentials: Credentials,
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let (bearer, keys) = match credentials {
            Credentials::ApiKey(key) => (vec![Credential::bearer(&key)?], None),
            Credentials::Keys(keys) => (Vec::new(), Some(keys)),
        };
        let plane = |host: &str| {
            let usual = format!("https://{host}.{region}.{}", domain(region));
            let base = BaseUrl::parse(address.unwrap_or(&usual))?.with_error_text(error_text);
            if base.is_secure() {
                http.check_tls()?;
            }
            let endpoint = Endpoint::new(&base, "", &bearer)?;
            Ok(Plane { base, endpoint })
        };
        let (runtime, control) = (plane("bedrock-runtime")?, plane("bedrock")?);
        Ok(Self {
            origin: origin_of(&id),
            id,
            http,
            clock: SystemClock::default(),
            region: region.to_owned(),
            keys,
            runtime,
            control,
            decisions: TextLabels::new(&[StateMediaKind::Image], 0),
        })
    }

    /// Encodes the request for Converse.
    fn prepare(&self, call: &TextCall) -> Result<Bytes, UpstreamError> {
        let mut request = conversion::common_form(call)?;
        drop_foreign_reasoning(&mut request, &self.origin);
        if is_about_reasoning(&request) && Family::of(&request.model) == Family::Unknown {
            let detail = "cannot encode the reasoning parameters: the model name contains no known vendor";
            return Err(UpstreamError {
                param: Some("reasoning_effort".to_owned()),
                ..UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Protocol, detail)
            });
        }
        Ok(Bytes::from(encode_request(
            &request,
            &call.abilities,
            call.output_cap,
        )))
    }

    /// Posts a body to an operation of a model. Returns as soon as the response headers arrive.
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
        let variant = variant.map_err(|error| invalid_request(&error))?;
        let (endpoint, body) = (&self.runtime.endpoint, RequestBody::from(body));
        let sent = self.http.post_variant(endpoint, variant, body, Timeouts::of(ctx));
        let response = sent.await?;
        if !(200..300).contains(&response.status) {
            return Err(refused(response, &self.http).await);
        }
        Ok(response)
    }

    /// Returns the path and headers of a request, including the signature if access keys are used.
    fn variant(
        &self,
        plane: &Plane,
        method: &str,
        path: &str,
        accept: &str,
        body: &[u8],
    ) -> Result<Variant, EndpointError> {
        let mut variant = Variant::new(&plane.base, path)?;
        variant.insert("accept", &SecretString::from(accept))?;
        let Some(keys) = &self.keys else {
            return Ok(variant);
        };
        let time = sign::date(self.clock.now());
        let token = keys.session_token.as_ref();
        let mut headers = vec![
            ("content-type", "application/json"),
            ("host", plane.base.host()),
            ("x-amz-date", &time),
        ];
        headers.extend(token.map(|token| ("x-amz-security-token", token.expose_secret().trim())));
        let signed = SignedRequest {
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
        let invalid_answer = |what: &str| UpstreamError::protocol(format!("{what} ({} bytes)", body.len()));
        let answer = decode_response(
            &body,
            &ctx.request.to_string(),
            self.seconds(),
            &call.public_model,
        )
        .map_err(|_| invalid_answer("the response cannot be parsed"))?;
        let output_bytes = output_bytes(&answer);
        let has_content = answer
            .choices
            .iter()
            .any(|choice| !choice.parts.is_empty() || !choice.tool_calls.is_empty());
        let usage = answer.usage;
        // A response with usage is complete even if it is empty, for example because a stop
        // sequence matched first.
        if !has_content && usage.is_none() {
            return Err(invalid_answer("the response has no content"));
        }
        Ok(conversion::whole(answer, &self.origin, usage, output_bytes))
    }

    fn seconds(&self) -> i64 {
        self.clock.now().as_seconds()
    }
}

/// Returns the domain of a region's endpoints. Regions in China have a separate domain.
fn domain(region: &str) -> &'static str {
    match region.starts_with("cn-") {
        true => "amazonaws.com.cn",
        false => "amazonaws.com",
    }
}

/// Returns the size of text, reasoning and tool arguments, in bytes.
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

/// Returns the model of an inference profile for an Anthropic model; other names unchanged.
/// CountTokens accepts models but no profiles, and only Anthropic's models
/// (docs.aws.amazon.com/bedrock/latest/userguide/count-tokens.html).
fn foundation_model(model: &str) -> &str {
    model.find("anthropic.").map_or(model, |at| &model[at..])
}

/// Converts an error response, by its status and the name of its exception.
async fn refused(response: Response, http: &HttpClient) -> UpstreamError {
    let named = response.header("x-amzn-errortype").unwrap_or_default();
    let exceeds_quota = named.starts_with("ServiceQuotaExceededException");
    let mut error = refusal::from_response(response, http.settings()).await;
    if exceeds_quota {
        error.kind = UpstreamErrorKind::RateLimited;
    }
    if error.status == Some(408) {
        // The model may already have generated output when the request timed out.
        error.retry = Retry::Unknown;
    }
    error
}

fn invalid_request(error: &EndpointError) -> UpstreamError {
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
        let body = response.read_prefix(self.http.settings()).await;
        Err(UpstreamError::protocol(format!(
            "expected a stream, received {} bytes of another type",
            body.len()
        )))
    }

    fn requires_cap(&self) -> bool {
        true
    }

    fn takes(&self, _format: Format) -> bool {
        false
    }

    fn enforces_schema(&self, format: &ResponseFormat) -> bool {
        *format != ResponseFormat::JsonObject
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        match kind {
            MediaKind::Image => Some(&["image/png", "image/jpeg", "image/gif", "image/webp"]),
            MediaKind::Document => Some(&["application/pdf", "text/plain"]),
            _ => None,
        }
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
impl CountProvider for Bedrock {
    async fn count(&self, ctx: &CallContext, call: &TextCall) -> Result<u64, UpstreamError> {
        let body =
            counting::converse(&self.prepare(call)?).map_err(|error| conversion::not_in_format(&error))?;
        let model = foundation_model(&call.upstream_model);
        let response = self.post(ctx, model, "count-tokens", JSON, body).await?;
        counted::tokens(response, &self.http, "inputTokens").await
    }
}

#[async_trait]
impl DecideProvider for Bedrock {
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
            let variant = variant.map_err(|error| invalid_request(&error))?;
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
            .unwrap_or_else(|_| Err(UpstreamError::timeout("timed out listing the models")))
    }
}
