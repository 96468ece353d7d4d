//! Parses a line of a batch: a request to one endpoint, validated and priced as if it were sent
//! there.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::anthropic_messages::{Betas, Version};
use tollgate_pipeline::{CallRequest, Pipeline, ProviderBatches, Routed};
use tollgate_storage::Job;
use tollgate_types::{Credits, Error, ErrorCode, Prices, Scope};

use crate::admission::{admit, line_bound};
use crate::{chat_completions, embeddings, messages};

/// Maximum length of a `custom_id`, in characters.
const MAX_CUSTOM_ID_CHARS: usize = 512;

/// Endpoint of the requests of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Endpoint {
    /// The Chat Completions API.
    #[serde(rename = "/v1/chat/completions")]
    Chat,
    /// The Embeddings API.
    #[serde(rename = "/v1/embeddings")]
    Embeddings,
    /// The Messages API, which has its own batch endpoint.
    #[serde(rename = "/v1/messages")]
    Messages,
}

impl Endpoint {
    /// Returns the path of the endpoint.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Endpoint::Chat => "/v1/chat/completions",
            Endpoint::Embeddings => "/v1/embeddings",
            Endpoint::Messages => "/v1/messages",
        }
    }

    /// Returns the scope that a key needs for requests to the endpoint.
    pub(super) const fn scope(self) -> Scope {
        match self {
            Endpoint::Chat | Endpoint::Messages => Scope::Text,
            Endpoint::Embeddings => Scope::Embeddings,
        }
    }

    /// Parses the path of an endpoint that file batches support.
    pub(super) fn parse(path: &str) -> Option<Self> {
        [Endpoint::Chat, Endpoint::Embeddings]
            .into_iter()
            .find(|endpoint| endpoint.as_str() == path)
    }
}

/// Options for parsing the lines of a batch.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) endpoint: Endpoint,
    /// For messages: version and beta features, which come from headers in single requests.
    pub(super) version: Version,
    pub(super) betas: Betas,
}

impl Reading {
    /// Returns the word for a request in error messages, as the caller sent it.
    pub(super) fn unit(&self) -> &'static str {
        match self.endpoint {
            Endpoint::Messages => "request",
            Endpoint::Chat | Endpoint::Embeddings => "line",
        }
    }
}

impl From<Endpoint> for Reading {
    fn from(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            version: Version::default(),
            betas: Betas::default(),
        }
    }
}

/// An error of a line or of the whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fault {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) param: Option<String>,
    /// Line of the file, starting at 1.
    pub(super) line: Option<u32>,
}

impl Fault {
    /// Creates an error without a line number.
    pub(super) fn new(code: &str, message: impl Into<String>, param: Option<&str>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            param: param.map(str::to_owned),
            line: None,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let param = error.param.map(|param| format!("body.{param}"));
        Fault::new(error.code.as_str(), error.message, param.as_deref())
    }
}

/// A line before validation.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct EncodedRequest<'l> {
    custom_id: Option<String>,
    method: Option<String>,
    url: Option<String>,
    #[serde(borrow)]
    body: Option<&'l RawValue>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

/// A validated line whose body is not parsed yet.
pub(super) struct NamedRequest {
    /// Id of the request, unique in its batch.
    pub(super) custom_id: String,
    body: Bytes,
}

/// A validated and routed call.
pub(super) enum Call {
    Chat(Box<(Routed, CallRequest)>),
    Messages(Box<(Routed, CallRequest)>),
    Embeddings(Box<embeddings::service::Prepared>),
}

impl NamedRequest {
    /// Parses a line except its body.
    pub(super) fn read(text: &[u8], endpoint: Endpoint) -> Result<Self, Fault> {
        let unreadable = |message: String| Fault::new(ErrorCode::InvalidJson.as_str(), message, None);
        // Serde would accept an array of the four fields as well.
        if text.trim_ascii_start().starts_with(b"[") {
            return Err(unreadable(
                "The line must be a JSON object, not an array.".to_owned(),
            ));
        }
        let written: EncodedRequest<'_> = serde_json::from_slice(text)
            .map_err(|error| unreadable(format!("The line is not a valid JSON object: {error}.")))?;
        let missing = |param: &str| {
            let code = ErrorCode::MissingRequiredParameter.as_str();
            Fault::new(code, format!("'{param}' is missing."), Some(param))
        };
        let invalid = |param: &str, what: &str| {
            let code = ErrorCode::InvalidParameter.as_str();
            Fault::new(code, format!("'{param}' {what}."), Some(param))
        };
        if let Some(unknown) = written.others.keys().next() {
            let view: String = unknown.chars().take(60).collect();
            let message =
                format!("Unknown parameter '{view}'. Use only 'custom_id', 'method', 'url' and 'body'.");
            let code = ErrorCode::UnknownParameter.as_str();
            return Err(Fault::new(code, message, Some(&view)));
        }
        let custom_id = written.custom_id.ok_or_else(|| missing("custom_id"))?;
        if custom_id.is_empty() || custom_id.chars().count() > MAX_CUSTOM_ID_CHARS {
            return Err(invalid("custom_id", "must have 1 to 512 characters"));
        }
        if written.method.ok_or_else(|| missing("method"))? != "POST" {
            return Err(invalid("method", "must be 'POST'"));
        }
        if written.url.ok_or_else(|| missing("url"))? != endpoint.as_str() {
            let message = format!(
                "'url' must be the endpoint of the batch, '{}'.",
                endpoint.as_str()
            );
            return Err(Fault::new("mismatched_endpoint", message, Some("url")));
        }
        let body = written.body.ok_or_else(|| missing("body"))?;
        Ok(Self {
            custom_id,
            body: Bytes::copy_from_slice(body.get().as_bytes()),
        })
    }

    /// Validates and routes the request, and returns the call to make.
    pub(super) fn prepare(
        &self,
        pipeline: &Pipeline,
        ctx: &RequestContext,
        caller: &Caller,
        reading: &Reading,
    ) -> Result<Call, Error> {
        let (caller, body) = (caller.clone(), self.body.clone());
        Ok(match reading.endpoint {
            Endpoint::Chat => {
                let call = chat_completions::service::prepare(pipeline, ctx, caller, body)?;
                check_text(&call)?;
                Call::Chat(Box::new(call))
            }
            Endpoint::Messages => {
                let (version, betas) = (reading.version, reading.betas.clone());
                let call = messages::service::prepare(pipeline, ctx, caller, version, betas, body)?;
                check_text(&call)?;
                Call::Messages(Box::new(call))
            }
            Endpoint::Embeddings => {
                let path = embeddings::service::ENDPOINT;
                let prepared = embeddings::service::prepare(pipeline, ctx, caller, path, body)?;
                Call::Embeddings(Box::new(prepared))
            }
        })
    }
}

/// Rejects options that batches do not support: streaming, and media that must be fetched.
fn check_text((routed, request): &(Routed, CallRequest)) -> Result<(), Error> {
    if request.call.stream {
        let message = "Batches do not support streaming. Remove 'stream'.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("stream"));
    }
    let common = request.call.common.as_deref();
    if common.is_some_and(|common| routed.must_fetch(common)) {
        let message = "Batches do not load media from URLs or file ids. Send the media inline.";
        return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("messages"));
    }
    Ok(())
}

impl Call {
    /// Returns the route of the call.
    pub(super) fn routed(&self) -> &Routed {
        match self {
            Call::Chat(call) | Call::Messages(call) => &call.0,
            Call::Embeddings(prepared) => &prepared.routed,
        }
    }

    /// Returns the maximum cost as a batch line and the estimated number of tokens.
    pub(super) fn bound(&mut self, pipeline: &Pipeline) -> Result<(Credits, u64), Error> {
        let (amount, demand) = match self {
            Call::Chat(call) | Call::Messages(call) => {
                let (routed, request) = &mut **call;
                (line_bound(pipeline, routed, request)?, request.demand)
            }
            Call::Embeddings(prepared) => {
                let (routed, request) = (&mut prepared.routed, &mut prepared.request);
                (line_bound(pipeline, routed, request)?, request.demand)
            }
        };
        let output = demand.max_tokens.unwrap_or_default().saturating_mul(demand.n);
        Ok((amount, demand.input_estimate().saturating_add(output)))
    }

    /// Replaces the upstream call with a response from a provider's batch.
    pub(super) fn replay_batch_answer(&mut self, at: &ProviderBatches, status: u16, body: Bytes) {
        self.routed_mut().replay_batch_answer(at, status, body);
    }

    /// Encodes the call as a line with this name for a provider's batch, at the agreed prices. The
    /// call is not made.
    pub(super) async fn write(
        mut self,
        pipeline: &Arc<Pipeline>,
        ctx: &RequestContext,
        job: &Job,
        agreed: Prices,
        (provider, name): (&str, &str),
    ) -> Result<tollgate_upstream::EncodedRequest, Error> {
        let routed = self.routed_mut();
        if !routed.retain_provider(provider) {
            return Err(Error::internal("the provider does not support the request"));
        }
        routed.use_agreed_prices(job.price_version, agreed);
        routed.apply_batch_discount();
        match self {
            Call::Chat(call) | Call::Messages(call) => {
                let (routed, request) = *call;
                let admission = admit(pipeline, ctx, routed, request).await?;
                pipeline.write_line(admission, name).await
            }
            Call::Embeddings(prepared) => {
                let admission = admit(pipeline, ctx, prepared.routed, prepared.request).await?;
                pipeline.write_line(admission, name).await
            }
        }
    }

    fn routed_mut(&mut self) -> &mut Routed {
        match self {
            Call::Chat(call) | Call::Messages(call) => &mut call.0,
            Call::Embeddings(prepared) => &mut prepared.routed,
        }
    }

    /// Makes the call at the agreed prices and returns the body of its response.
    pub(super) async fn make(
        mut self,
        pipeline: &Arc<Pipeline>,
        ctx: &RequestContext,
        job: &Job,
        agreed: Prices,
    ) -> Result<Bytes, Error> {
        let routed = self.routed_mut();
        routed.use_agreed_prices(job.price_version, agreed);
        routed.apply_batch_discount();
        match self {
            Call::Chat(call) => {
                let (routed, request) = *call;
                chat_completions::service::make(pipeline, ctx, routed, request).await
            }
            Call::Messages(call) => {
                let (routed, request) = *call;
                messages::service::make(pipeline, ctx, routed, request).await
            }
            Call::Embeddings(prepared) => embeddings::service::make_body(pipeline, ctx, *prepared).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_need_a_custom_id_and_the_batch_endpoint() {
        let read = |text: &str| NamedRequest::read(text.as_bytes(), Endpoint::Chat);
        let whole = r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}"#;
        let named = read(whole).ok().unwrap();
        assert_eq!(
            (named.custom_id.as_str(), &named.body[..]),
            ("a", &br#"{"model":"m"}"#[..])
        );
        for (text, code, param) in [
            ("", "invalid_json", None),
            ("[1]", "invalid_json", None),
            (r#" ["a","POST","/v1/chat/completions",{}]"#, "invalid_json", None),
            ("5", "invalid_json", None),
            (
                &whole.replace("{\"custom_id\"", "{\"foo\":1,\"custom_id\""),
                "unknown_parameter",
                Some("foo"),
            ),
            ("\u{0}\u{1}", "invalid_json", None),
            ("{}", "missing_required_parameter", Some("custom_id")),
            (r#"{"custom_id":""}"#, "invalid_parameter", Some("custom_id")),
            (
                r#"{"custom_id":"a"}"#,
                "missing_required_parameter",
                Some("method"),
            ),
            (
                r#"{"custom_id":"a","method":"GET"}"#,
                "invalid_parameter",
                Some("method"),
            ),
            (
                r#"{"custom_id":"a","method":"POST"}"#,
                "missing_required_parameter",
                Some("url"),
            ),
            (
                r#"{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{}}"#,
                "mismatched_endpoint",
                Some("url"),
            ),
            (
                r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions"}"#,
                "missing_required_parameter",
                Some("body"),
            ),
        ] {
            let fault = read(text).err().unwrap();
            assert_eq!(
                (fault.code.as_str(), fault.param.as_deref()),
                (code, param),
                "{text}"
            );
            assert!(!fault.message.contains("struct"), "{}", fault.message);
        }
        let long = |length: usize| whole.replace("\"a\"", &format!("\"{}\"", "a".repeat(length)));
        assert!(read(&long(512)).is_ok());
        assert!(read(&long(513)).is_err());
    }
}
