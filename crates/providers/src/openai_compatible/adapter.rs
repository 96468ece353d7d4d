//! The adapter: one provider of the format, as its preset and its configuration say.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_formats::DecodeError;
use tollgate_formats::openai_chat::{ChatHead, RequestEdits, inspect_response, splice_request, validate};
use tollgate_types::Format;
use tollgate_upstream::{
    CallContext, EmbedProvider, ListedModel, Outline, Payload, Provider, TextAnswer, TextCall, TextProvider,
    TextReply, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::embeddings::EmbeddingsEndpoint;
use super::presets::Preset;
use super::{errors, listing, stream};
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts,
};

/// A provider that speaks chat completions.
#[derive(Debug)]
pub struct OpenAiCompatible {
    pub(super) id: Arc<str>,
    preset: &'static Preset,
    pub(super) http: Arc<HttpClient>,
    chat: Endpoint,
    pub(super) embeddings: Option<EmbeddingsEndpoint>,
    models: Endpoint,
}

impl OpenAiCompatible {
    /// The provider of the configuration block `id`, at this address, with these credentials on every request.
    pub fn new(
        id: Arc<str>,
        preset: &'static Preset,
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        if base.is_secure() {
            http.check_tls()?;
        }
        let embeddings = preset.embeddings.as_ref();
        let embeddings = embeddings.map(|row| EmbeddingsEndpoint::new(row, base, credentials));
        Ok(Self {
            id,
            preset,
            http,
            embeddings: embeddings.transpose()?,
            chat: Endpoint::new(base, preset.chat_path, credentials)?,
            models: Endpoint::new(base, "/models", credentials)?,
        })
    }

    /// The bytes for the upstream, and how many answers they ask for.
    fn prepare(&self, call: &TextCall) -> Result<(RequestBody, u32), UpstreamError> {
        match call.format {
            Format::ChatCompletions => {}
        }
        let known = call
            .outline
            .as_ref()
            .and_then(|outline| outline.get::<ChatHead<'static>>());
        let looked_again;
        let head = match known {
            Some(head) => head,
            None => {
                looked_again = validate(&call.body).map_err(|error| not_in_format(&error))?;
                &looked_again
            }
        };
        if self.preset.counts_one_answer && head.n > 1 {
            let detail = "its usage counts one answer only, and several were asked for";
            let rejected = UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Protocol, detail);
            return Err(UpstreamError {
                param: Some("n".to_owned()),
                ..rejected
            });
        }
        let edits = RequestEdits {
            model: &call.upstream_model,
            clamp_output: call.clamp_output,
            cap_name: self.preset.cap_name,
            remove: self.preset.drops,
            add: &[],
            vendor_fields: self.preset.vendor_fields,
            developer_as_system: self.preset.developer_as_system,
        };
        let pieces = splice_request(&call.body, head, &edits);
        Ok((RequestBody::from(pieces), head.n))
    }

    async fn whole(&self, ctx: &CallContext, response: Response) -> Result<TextReply, UpstreamError> {
        let is_html = response.media_type() == "text/html";
        let body = response.whole(self.http.settings().body_limit).await?;
        let head = inspect_response(&body).map_err(|_| {
            let what = match (body.is_empty(), is_html) {
                (true, _) => "the answer is empty",
                (_, true) => "the answer is a web page",
                _ => "the answer is not a JSON object",
            };
            UpstreamError::protocol(format!("{what} ({} bytes)", body.len()))
        })?;
        if head.is_error {
            return Err(errors::from_object(&body));
        }
        if head.choices == 0 {
            return Err(UpstreamError::protocol("the answer has no choices"));
        }
        if head.report.implausible {
            tracing::warn!(
                request.id = %ctx.request, provider = %self.id,
                "usage report makes no sense, wholly or in part"
            );
        }
        Ok(TextReply::Whole(TextAnswer {
            payload: Payload::Raw(Format::ChatCompletions, body),
            usage: head.report.usage,
            output_bytes: head.output_bytes,
            outline: Some(Outline::new(head)),
        }))
    }
}

/// A body that no room has validated.
pub(super) fn not_in_format(error: &DecodeError) -> UpstreamError {
    let detail = format!("the request is not in the format: {}", error.code.as_str());
    let rejected = UpstreamError::new(UpstreamErrorKind::Rejected, UpstreamCause::Protocol, detail);
    UpstreamError {
        param: error.param.clone(),
        ..rejected
    }
}

#[async_trait]
impl TextProvider for OpenAiCompatible {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let (body, choices) = self.prepare(call)?;
        let timeouts = Timeouts {
            headers: ctx.header_timeout,
            idle: ctx.idle_timeout,
        };
        let response = self.http.post(&self.chat, body, timeouts).await?;
        if !(200..300).contains(&response.status) {
            return Err(errors::from_response(response, self.http.settings()).await);
        }
        if !call.stream {
            return self.whole(ctx, response).await;
        }
        if response.media_type() == "text/event-stream" {
            return stream::open(response, call, choices).map(TextReply::Stream);
        }
        // A JSON body says what is wrong; anything else is not what was asked for.
        let media_type = response.media_type().to_owned();
        let body = response.beginning(self.http.settings()).await;
        match inspect_response(&body) {
            Ok(head) if head.is_error => Err(errors::from_object(&body)),
            _ => Err(UpstreamError::protocol(format!(
                "asked for a stream, got {} bytes of another type ({} bytes long)",
                body.len(),
                media_type.len(),
            ))),
        }
    }

    fn allowed_fields(&self) -> &'static [&'static str] {
        self.preset.vendor_fields
    }

    fn dropped_fields(&self) -> &'static [&'static str] {
        self.preset.drops
    }
}

#[async_trait]
impl Provider for OpenAiCompatible {
    fn id(&self) -> &str {
        &self.id
    }

    fn text(&self) -> Option<&dyn TextProvider> {
        Some(self)
    }

    fn embeddings(&self) -> Option<&dyn EmbedProvider> {
        self.embeddings.as_ref().map(|_| self as &dyn EmbedProvider)
    }

    async fn list_models(&self, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        let listed = async {
            let response = self.http.get(&self.models, Timeouts::brief(timeout)).await?;
            if response.status != 200 {
                return Err(errors::from_response(response, self.http.settings()).await);
            }
            listing::read(&response.whole(listing::LIMIT).await?)
        };
        tokio::time::timeout(timeout, listed)
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("no list of models in time")))
    }
}
