//! A line of a batch: a request to one endpoint, checked as it would be there, and priced.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::anthropic_messages::{Betas, Version};
use tollgate_pipeline::{BatchAt, CallRequest, Pipeline, Routed};
use tollgate_storage::Job;
use tollgate_types::{Credits, Error, ErrorCode, Prices};

use crate::admission::{admit, line_bound};
use crate::{chat_completions, embeddings, messages};

/// The longest name of a request, in characters.
const MOST_NAME: usize = 512;

/// Where the requests of a batch go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Endpoint {
    /// Chat completions.
    #[serde(rename = "/v1/chat/completions")]
    Chat,
    /// Embeddings.
    #[serde(rename = "/v1/embeddings")]
    Embeddings,
    /// Messages, whose batches have a shape of their own.
    #[serde(rename = "/v1/messages")]
    Messages,
}

impl Endpoint {
    /// The path.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Endpoint::Chat => "/v1/chat/completions",
            Endpoint::Embeddings => "/v1/embeddings",
            Endpoint::Messages => "/v1/messages",
        }
    }

    /// The endpoint at this path, of those that files name.
    pub(super) fn parse(path: &str) -> Option<Self> {
        [Endpoint::Chat, Endpoint::Embeddings]
            .into_iter()
            .find(|endpoint| endpoint.as_str() == path)
    }
}

/// How the lines of a batch are read.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) endpoint: Endpoint,
    /// For messages: what their headers would say, were each of them sent alone.
    pub(super) version: Version,
    pub(super) betas: Betas,
}

impl Reading {
    /// What a request is called that a caller has sent: what it was sent as.
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

/// What is wrong with a line, or with all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fault {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) param: Option<String>,
    /// Which line of the file, from 1.
    pub(super) line: Option<u32>,
}

impl Fault {
    /// A fault of a line.
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

/// A line as it is written.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Written<'l> {
    custom_id: Option<String>,
    method: Option<String>,
    url: Option<String>,
    #[serde(borrow)]
    body: Option<&'l RawValue>,
}

/// A request, without its body.
pub(super) struct Named {
    /// Its name in this batch.
    pub(super) custom_id: String,
    body: Bytes,
}

/// A call that can be made.
pub(super) enum Call {
    Chat(Box<(Routed, CallRequest)>),
    Messages(Box<(Routed, CallRequest)>),
    Embeddings(Box<embeddings::service::Prepared>),
}

impl Named {
    /// Reads a line, as far as it is not the request itself.
    pub(super) fn read(text: &[u8], endpoint: Endpoint) -> Result<Self, Fault> {
        let unreadable = |message: String| Fault::new(ErrorCode::InvalidJson.as_str(), message, None);
        // A list of the four would be read as well.
        if text.trim_ascii_start().starts_with(b"[") {
            return Err(unreadable(
                "The line is a list, and no object of a request.".to_owned(),
            ));
        }
        let written: Written<'_> = serde_json::from_slice(text)
            .map_err(|error| unreadable(format!("The line is no JSON object of a request: {error}.")))?;
        let missing = |param: &str| {
            let code = ErrorCode::MissingRequiredParameter.as_str();
            Fault::new(code, format!("'{param}' is missing."), Some(param))
        };
        let invalid = |param: &str, what: &str| {
            let code = ErrorCode::InvalidParameter.as_str();
            Fault::new(code, format!("'{param}' {what}."), Some(param))
        };
        let custom_id = written.custom_id.ok_or_else(|| missing("custom_id"))?;
        if custom_id.is_empty() || custom_id.chars().count() > MOST_NAME {
            return Err(invalid("custom_id", "has 1 to 512 characters"));
        }
        if written.method.ok_or_else(|| missing("method"))? != "POST" {
            return Err(invalid("method", "is 'POST'"));
        }
        if written.url.ok_or_else(|| missing("url"))? != endpoint.as_str() {
            let message = format!(
                "'url' is that of the batch's endpoint, '{}', on every line.",
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

    /// The call that it asks for, and all that can be refused before it is made.
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

/// Refuses what only makes sense while somebody waits.
fn check_text((routed, request): &(Routed, CallRequest)) -> Result<(), Error> {
    if request.call.stream {
        let message = "The answers of a batch are not streamed: leave 'stream' out.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("stream"));
    }
    let common = request.call.common.as_deref();
    if common.is_some_and(|common| routed.must_fetch(common)) {
        let message =
            "What a request of a batch shows must stand in it: addresses and file ids are not read.";
        return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("messages"));
    }
    Ok(())
}

impl Call {
    /// Where it goes.
    pub(super) fn routed(&self) -> &Routed {
        match self {
            Call::Chat(call) | Call::Messages(call) => &call.0,
            Call::Embeddings(prepared) => &prepared.routed,
        }
    }

    /// The most that it can cost as a line, and the tokens that it may consume, by a likely measure.
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

    /// Puts what a provider has answered in the place of what would be asked.
    pub(super) fn answer_with(&mut self, at: &BatchAt, status: u16, body: Bytes) {
        self.routed_mut().answer_with(at, status, body);
    }

    /// The call at the prices that were agreed as a line under this name for the batches of a provider. It is not made.
    pub(super) async fn write(
        mut self,
        pipeline: &Arc<Pipeline>,
        ctx: &RequestContext,
        job: &Job,
        agreed: Prices,
        (provider, name): (&str, &str),
    ) -> Result<tollgate_upstream::Written, Error> {
        let routed = self.routed_mut();
        if !routed.keep_at(provider) {
            return Err(Error::internal("the provider does not take the request"));
        }
        routed.agree(job.price_version, agreed);
        routed.as_line();
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

    /// Makes the call at the prices that were agreed: the body of its answer.
    pub(super) async fn make(
        mut self,
        pipeline: &Arc<Pipeline>,
        ctx: &RequestContext,
        job: &Job,
        agreed: Prices,
    ) -> Result<Bytes, Error> {
        let routed = self.routed_mut();
        routed.agree(job.price_version, agreed);
        routed.as_line();
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
    fn a_line_is_a_named_request_to_the_endpoint() {
        let read = |text: &str| Named::read(text.as_bytes(), Endpoint::Chat);
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
