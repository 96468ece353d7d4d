//! The adapter: one provider of the format, as its preset and its configuration say.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_formats::hub::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_formats::openai_chat::{
    ChatHead, RequestEdits, StreamDecoder, carry, decode_response, encode_request, inspect_response,
    splice_request, validate,
};
use tollgate_formats::seal::origin_of;
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Error, Format};
use tollgate_upstream::{
    BatchProvider, CallContext, DecideProvider, EmbedProvider, ImageCall, ListedModel, Maker, MediaKind,
    ModerationProvider, Outline, Payload, Provider, SpeechProvider, TextAnswer, TextCall, TextProvider,
    TextReply, TranscribeProvider, UpstreamCause, UpstreamError, UpstreamErrorKind, VideoCall,
};

use super::batches::BatchServer;
use super::decisions::DecisionsEndpoint;
use super::embeddings::EmbeddingsEndpoint;
use super::images::ImageMaker;
use super::presets::Preset;
use super::speech::SpeechEndpoint;
use super::transcriptions::TranscriptionsEndpoint;
use super::videos::VideoMaker;
use super::{listing, stream};
use crate::crossing::{self, not_in_format};
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
};
use crate::moderations::Moderations;
use crate::refusal;

/// Pictures that models take.
const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A provider that speaks chat completions.
#[derive(Debug)]
pub struct OpenAiCompatible {
    pub(super) id: Arc<str>,
    /// Marks the reasoning that comes from here.
    origin: String,
    pub(super) preset: &'static Preset,
    pub(super) http: Arc<HttpClient>,
    /// The address, when it differs from model to model.
    by_model: Option<BaseUrl>,
    pub(super) chat: Endpoint,
    pub(super) completions: Option<Endpoint>,
    pub(super) embeddings: Option<EmbeddingsEndpoint>,
    moderations: Option<Moderations>,
    images: Option<ImageMaker>,
    videos: Option<VideoMaker>,
    pub(super) speech: Option<SpeechEndpoint>,
    pub(super) transcriptions: Option<TranscriptionsEndpoint>,
    pub(super) decisions: DecisionsEndpoint,
    models: Endpoint,
    pub(super) batches: Option<BatchServer>,
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
        let listed_at = match base.names_model() {
            true => base.before_model(),
            false => base.clone(),
        };
        let completions = preset.completions.as_ref();
        let completions = completions.map(|row| Endpoint::new(base, row.path, credentials));
        let embeddings = preset.embeddings.as_ref();
        let embeddings = embeddings.map(|row| EmbeddingsEndpoint::new(row, base, credentials));
        let batches = preset.batches.as_ref();
        let batches = batches.map(|row| BatchServer::new(row, base, credentials, http.clone()));
        let moderations = preset.moderations_path;
        let moderations = moderations.map(|path| Moderations::new(base, path, credentials, http.clone()));
        let images = preset.images.as_ref();
        let images = images.map(|row| ImageMaker::new(row, base, credentials, http.clone()));
        let videos = preset.videos.as_ref();
        let videos = videos.map(|row| VideoMaker::new(row, base, credentials, http.clone()));
        let audio = preset.audio.as_ref();
        let speech = audio.and_then(|row| row.speech_path);
        let speech = speech.map(|path| SpeechEndpoint::new(path, base, credentials));
        let transcriptions = audio.and_then(|row| row.transcriptions_path);
        let transcriptions = transcriptions.map(|path| TranscriptionsEndpoint::new(path, base, credentials));
        Ok(Self {
            origin: origin_of(&id),
            id,
            preset,
            http,
            images: images.transpose()?,
            videos: videos.transpose()?,
            completions: completions.transpose()?,
            embeddings: embeddings.transpose()?,
            moderations: moderations.transpose()?,
            speech: speech.transpose()?,
            transcriptions: transcriptions.transpose()?,
            decisions: DecisionsEndpoint::new(&preset.decisions, base, credentials)?,
            chat: Endpoint::new(base, preset.chat_path, credentials)?,
            models: Endpoint::new(&listed_at, "/models", credentials)?,
            by_model: base.names_model().then(|| base.clone()),
            batches: batches.transpose()?,
        })
    }

    /// What is sent, and where.
    pub(super) fn prepare(&self, call: &TextCall) -> Result<Prepared<'_>, UpstreamError> {
        if let Some(prepared) = self.prepare_completion(call)? {
            return Ok(prepared);
        }
        let (body, choices) = match call.is_in(Format::ChatCompletions) {
            true => self.prepare_chat(call)?,
            false => self.prepare_crossing(call)?,
        };
        Ok(Prepared {
            endpoint: &self.chat,
            path: self.preset.chat_path,
            format: Format::ChatCompletions,
            body,
            choices,
        })
    }

    /// Sends a request to an endpoint, or to that of its model where each has its own.
    pub(super) async fn post(
        &self,
        endpoint: &Endpoint,
        path: &str,
        model: &str,
        body: RequestBody,
        timeouts: Timeouts,
    ) -> Result<Response, UpstreamError> {
        let Some(base) = &self.by_model else {
            return self.http.post(endpoint, body, timeouts).await;
        };
        let variant = Variant::new(&base.for_model(model), path)
            .map_err(|error| UpstreamError::connect(error.to_string()))?;
        self.http.post_variant(endpoint, variant, body, timeouts).await
    }

    /// The bytes for the upstream, and how many answers they ask for.
    fn prepare_chat(&self, call: &TextCall) -> Result<(RequestBody, u32), UpstreamError> {
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
        let pieces = splice_request(&call.body, head, &self.edits(call));
        Ok((RequestBody::from(pieces), head.n))
    }

    /// The same for a call in another format, or with media that were fetched: it is written in this one first.
    fn prepare_crossing(&self, call: &TextCall) -> Result<(RequestBody, u32), UpstreamError> {
        let mut request = crossing::common_form(call)?;
        drop_foreign_reasoning(&mut request, &self.origin);
        let body = bytes::Bytes::from(encode_request(&request, self.preset.cap_name));
        let head = validate(&body).map_err(|error| not_in_format(&error))?;
        let pieces = splice_request(&body, &head, &self.edits(call));
        Ok((RequestBody::from(pieces), head.n))
    }

    fn edits<'e>(&self, call: &'e TextCall) -> RequestEdits<'e> {
        RequestEdits {
            model: &call.upstream_model,
            clamp_output: call.clamp_output,
            cap_name: self.preset.cap_name,
            remove: self.preset.drops,
            add: &[],
            vendor_fields: self.preset.vendor_fields,
            developer_as_system: self.preset.developer_as_system,
        }
    }

    async fn whole(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        format: Format,
        response: Response,
    ) -> Result<TextReply, UpstreamError> {
        let is_html = response.media_type() == "text/html";
        let body = response.whole(self.http.settings().body_limit).await?;
        self.read_whole(ctx, call, format, body, is_html)
    }

    /// The answer that a body is.
    pub(super) fn read_whole(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        format: Format,
        body: bytes::Bytes,
        is_html: bool,
    ) -> Result<TextReply, UpstreamError> {
        let head = inspect_response(&body).map_err(|_| {
            let what = match (body.is_empty(), is_html) {
                (true, _) => "the answer is empty",
                (_, true) => "the answer is a web page",
                _ => "the answer is not a JSON object",
            };
            UpstreamError::protocol(format!("{what} ({} bytes)", body.len()))
        })?;
        if head.is_error {
            return Err(refusal::from_object(&body));
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
        if !crossing::relays(ctx, call, format) {
            let answer =
                decode_response(&body).map_err(|_| UpstreamError::protocol("the answer cannot be read"))?;
            return Ok(crossing::whole(
                answer,
                &self.origin,
                head.report.usage,
                head.output_bytes,
            ));
        }
        Ok(TextReply::Whole(TextAnswer {
            payload: Payload::Raw(format, body),
            usage: head.report.usage,
            output_bytes: head.output_bytes,
            outline: Some(Outline::new(head)),
        }))
    }
}

/// What is sent, and where.
pub(super) struct Prepared<'p> {
    pub(super) endpoint: &'p Endpoint,
    /// Its path under the base.
    pub(super) path: &'static str,
    /// What the endpoint speaks.
    pub(super) format: Format,
    pub(super) body: RequestBody,
    /// How many answers it asks for.
    pub(super) choices: u32,
}

#[async_trait]
impl TextProvider for OpenAiCompatible {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let Prepared {
            endpoint,
            path,
            format,
            body,
            choices,
        } = self.prepare(call)?;
        let timeouts = Timeouts::of(ctx);
        let response = self
            .post(endpoint, path, &call.upstream_model, body, timeouts)
            .await?;
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        if !call.stream {
            return self.whole(ctx, call, format, response).await;
        }
        if response.media_type() == "text/event-stream" {
            let events = stream::open(response, call, format, choices)?;
            return Ok(TextReply::Stream(match crossing::relays(ctx, call, format) {
                true => events,
                false => crossing::stream(events, StreamDecoder::new(), &self.origin),
            }));
        }
        // A JSON body says what is wrong; anything else is not what was asked for.
        let media_type = response.media_type().to_owned();
        let body = response.beginning(self.http.settings()).await;
        match inspect_response(&body) {
            Ok(head) if head.is_error => Err(refusal::from_object(&body)),
            _ => Err(UpstreamError::protocol(format!(
                "asked for a stream, got {} bytes of another type ({} bytes long)",
                body.len(),
                media_type.len(),
            ))),
        }
    }

    fn takes(&self, format: Format) -> bool {
        match format {
            Format::ChatCompletions => true,
            Format::Completions => self.completions.is_some(),
            _ => false,
        }
    }

    fn lacking_fields(&self, format: Format) -> &'static [&'static str] {
        match (format, &self.preset.completions) {
            (Format::Completions, Some(row)) => row.lacks,
            _ => &[],
        }
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        match kind {
            MediaKind::Image if self.preset.inline_pictures => Some(PICTURES),
            // The format has no address for them.
            MediaKind::Document => Some(&["application/pdf"]),
            _ => None,
        }
    }

    fn forces(&self, format: &ResponseFormat) -> bool {
        self.preset.forces_schema || !matches!(format, ResponseFormat::JsonSchema { .. })
    }

    fn carry(&self, request: &GenerateRequest) -> Result<Vec<String>, Error> {
        let mut ignored = carry(request)?;
        if has_foreign_reasoning(request, &self.origin) {
            ignored.push("reasoning".to_owned());
        }
        if request.user.is_some() && self.preset.drops.contains(&"user") {
            ignored.push("user".to_owned());
        }
        let drops = |name: &&String| self.preset.drops.contains(&name.as_str()) && *name != "stream_options";
        ignored.extend(request.extra.keys().filter(drops).cloned());
        Ok(ignored)
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

    fn decisions(&self) -> Option<&dyn DecideProvider> {
        Some(self)
    }

    fn moderations(&self) -> Option<&dyn ModerationProvider> {
        self.moderations
            .as_ref()
            .map(|moderations| moderations as &dyn ModerationProvider)
    }

    fn images(&self) -> Option<&dyn Maker<ImageCall>> {
        self.images.as_ref().map(|maker| maker as &dyn Maker<ImageCall>)
    }

    fn videos(&self) -> Option<&dyn Maker<VideoCall>> {
        self.videos.as_ref().map(|maker| maker as &dyn Maker<VideoCall>)
    }

    fn speech(&self) -> Option<&dyn SpeechProvider> {
        self.speech.as_ref().map(|_| self as &dyn SpeechProvider)
    }

    fn transcriptions(&self) -> Option<&dyn TranscribeProvider> {
        self.transcriptions
            .as_ref()
            .map(|_| self as &dyn TranscribeProvider)
    }

    fn batches(&self) -> Option<&dyn BatchProvider> {
        self.batches.as_ref().map(|_| self as &dyn BatchProvider)
    }

    async fn list_models(&self, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        let listed = async {
            let response = self.http.get(&self.models, Timeouts::brief(timeout)).await?;
            if response.status != 200 {
                return Err(refusal::from_response(response, self.http.settings()).await);
            }
            let listed = listing::read(&response.whole(listing::LIMIT).await?)?;
            // Models that have an address each go by names of the operator's, which no list has.
            Ok(if self.by_model.is_some() {
                Vec::new()
            } else {
                listed
            })
        };
        tokio::time::timeout(timeout, listed)
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("no list of models in time")))
    }
}
