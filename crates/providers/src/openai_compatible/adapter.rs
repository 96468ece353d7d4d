//! The adapter of one provider. The preset and the configuration describe how the provider differs
//! from OpenAI.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_formats::openai_chat::{
    ChatHead, RequestEdits, StreamDecoder, check_compatible, decode_response, encode_request,
    inspect_response, splice_request, validate,
};
use tollgate_formats::reasoning_envelope::origin_of;
use tollgate_formats::to_common::{drop_foreign_reasoning, has_foreign_reasoning};
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Abilities, Error, Format};
use tollgate_upstream::{
    BatchProvider, CallContext, CountProvider, DecideProvider, EmbedProvider, ImageCall, JobProvider,
    ListedModel, LiveTranscriptionProvider, MediaKind, ModerationProvider, Outline, Payload, Provider,
    RealtimeProvider, RejectedPart, ReportCall, SpeechProvider, TextAnswer, TextCall, TextProvider,
    TextReply, TranscribeProvider, UpstreamError, VideoCall,
};

use super::batches::BatchServer;
use super::counts::has_counts;
use super::decisions::DecisionsEndpoint;
use super::embeddings::EmbeddingsEndpoint;
use super::images::ImagesEndpoint;
use super::live_transcription::LiveTranscriptionEndpoint;
use super::presets::Preset;
use super::realtime::RealtimeEndpoint;
use super::speech::SpeechEndpoint;
use super::transcriptions::TranscriptionsEndpoint;
use super::videos::VideosEndpoint;
use super::{listing, stream};
use crate::conversion::{self, not_in_format};
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, RequestBody, Response, Timeouts, Variant,
};
use crate::moderations::Moderations;
use crate::openai_responses::ReportsEndpoint;
use crate::refusal::{self, STREAM_OPTIONS};

/// Image types that models accept.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A provider that speaks chat completions.
#[derive(Debug)]
pub struct OpenAiCompatible {
    pub(super) id: Arc<str>,
    /// Origin of this provider's reasoning signatures. In converted requests, reasoning with
    /// another origin or without a signature is dropped.
    origin: String,
    pub(super) preset: &'static Preset,
    pub(super) http: Arc<HttpClient>,
    /// The base URL, if it contains the placeholder `{model}`.
    by_model: Option<BaseUrl>,
    pub(super) chat: Endpoint,
    pub(super) completions: Option<Endpoint>,
    pub(super) embeddings: Option<EmbeddingsEndpoint>,
    moderations: Option<Moderations>,
    images: Option<ImagesEndpoint>,
    videos: Option<VideosEndpoint>,
    reports: Option<ReportsEndpoint>,
    pub(super) speech: Option<SpeechEndpoint>,
    pub(super) transcriptions: Option<TranscriptionsEndpoint>,
    live_transcriptions: Option<LiveTranscriptionEndpoint>,
    realtime: Option<RealtimeEndpoint>,
    pub(super) decisions: DecisionsEndpoint,
    models: Endpoint,
    pub(super) batches: Option<BatchServer>,
    /// Whether each of several choices needs its own call.
    needs_call_per_answer: bool,
    /// Whether the server has rejected `stream_options` and accepted the same request without that
    /// field. Requests in which the caller set the field do not count.
    rejects_stream_options: AtomicBool,
}

impl OpenAiCompatible {
    /// Builds the provider of the configuration block `id`. Every request carries the credentials.
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
        let images = images.map(|row| ImagesEndpoint::new(row, base, credentials, http.clone()));
        let videos = preset.videos.as_ref();
        let videos = videos.map(|row| VideosEndpoint::new(row, base, credentials, http.clone()));
        let reports = preset.reports_source;
        let reports = reports.map(|_| ReportsEndpoint::new(base, credentials, http.clone()));
        let audio = preset.audio.as_ref();
        let speech = audio.and_then(|row| row.speech_path);
        let speech = speech.map(|path| SpeechEndpoint::new(path, base, credentials));
        let transcriptions = audio.and_then(|row| row.transcriptions_path);
        let transcriptions = transcriptions.map(|path| TranscriptionsEndpoint::new(path, base, credentials));
        // The path of a model's own endpoint would name the model twice.
        let live = preset.live_transcription.as_ref();
        let live = live.filter(|_| !base.names_model());
        let live = live.map(|row| LiveTranscriptionEndpoint::new(row, base, credentials, http.clone()));
        let realtime = preset.realtime.as_ref().filter(|_| !base.names_model());
        let realtime = realtime.map(|row| RealtimeEndpoint::new(row, base, credentials, http.clone()));
        Ok(Self {
            origin: origin_of(&id),
            id,
            preset,
            http,
            images: images.transpose()?,
            videos: videos.transpose()?,
            reports: reports.transpose()?,
            completions: completions.transpose()?,
            embeddings: embeddings.transpose()?,
            moderations: moderations.transpose()?,
            speech: speech.transpose()?,
            transcriptions: transcriptions.transpose()?,
            live_transcriptions: live.transpose()?,
            realtime: realtime.transpose()?,
            decisions: DecisionsEndpoint::new(&preset.decisions, base, credentials)?,
            chat: Endpoint::new(base, preset.chat_path, credentials)?,
            models: Endpoint::new(&listed_at, "/models", credentials)?,
            by_model: base.names_model().then(|| base.clone()),
            batches: batches.transpose()?,
            needs_call_per_answer: preset.needs_call_per_answer,
            rejects_stream_options: AtomicBool::new(false),
        })
    }

    /// Overrides the preset's `needs_call_per_answer`, if given.
    pub fn with_separate_answers(mut self, separate: Option<bool>) -> Self {
        self.needs_call_per_answer = separate.unwrap_or(self.needs_call_per_answer);
        self
    }

    /// Chooses the endpoint and encodes the request without the fields `removed`; see
    /// [`removed`](Self::removed).
    pub(super) fn prepare(&self, call: &TextCall, removed: &[&str]) -> Result<Prepared<'_>, UpstreamError> {
        if let Some(prepared) = self.prepare_completion(call, removed)? {
            return Ok(prepared);
        }
        let (body, choices) = match call.is_in(Format::ChatCompletions) {
            true => self.prepare_chat(call, removed)?,
            false => self.prepare_converted(call, removed)?,
        };
        Ok(Prepared {
            endpoint: &self.chat,
            path: self.preset.chat_path,
            format: Format::ChatCompletions,
            body,
            choices,
        })
    }

    /// Posts a body to an endpoint, or to the model's own endpoint if each model has one.
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

    /// Returns the body for the upstream and the number of requested choices.
    fn prepare_chat(&self, call: &TextCall, removed: &[&str]) -> Result<(RequestBody, u32), UpstreamError> {
        let known = call
            .outline
            .as_ref()
            .and_then(|outline| outline.get::<ChatHead<'static>>());
        let validated;
        let head = match known {
            Some(head) => head,
            None => {
                validated = validate(&call.body).map_err(|error| not_in_format(&error))?;
                &validated
            }
        };
        let without_n;
        let mut edits = self.edits(call, removed);
        if call.is_single {
            without_n = [removed, &["n"]].concat();
            edits.remove = &without_n;
        }
        let chunks = splice_request(&call.body, head, &edits);
        let choices = if call.is_single { 1 } else { head.n };
        Ok((RequestBody::from(chunks), choices))
    }

    /// Like [`prepare_chat`](Self::prepare_chat), but converts the request first. Used for calls in
    /// another format or with fetched media.
    fn prepare_converted(
        &self,
        call: &TextCall,
        removed: &[&str],
    ) -> Result<(RequestBody, u32), UpstreamError> {
        let mut request = conversion::common_form(call)?;
        drop_foreign_reasoning(&mut request, &self.origin);
        if call.is_single {
            request.n = 1;
        }
        let body = bytes::Bytes::from(encode_request(&request, self.preset.cap_name));
        let head = validate(&body).map_err(|error| not_in_format(&error))?;
        let chunks = splice_request(&body, &head, &self.edits(call, removed));
        Ok((RequestBody::from(chunks), head.n))
    }

    /// Returns the fields to remove from requests: those of the preset, and `stream_options` if the
    /// server rejects it.
    pub(super) fn removed(&self) -> Cow<'static, [&'static str]> {
        match self.rejects_stream_options.load(Ordering::Relaxed) {
            true => Cow::Owned([self.preset.drops, &[STREAM_OPTIONS]].concat()),
            false => Cow::Borrowed(self.preset.drops),
        }
    }

    fn edits<'e>(&self, call: &'e TextCall, removed: &'e [&'e str]) -> RequestEdits<'e> {
        RequestEdits {
            model: &call.upstream_model,
            clamp_output: call.clamp_output,
            cap_name: self.preset.cap_name,
            remove: removed,
            add: &[],
            vendor_fields: self.preset.vendor_fields,
            developer_as_system: self.preset.developer_as_system,
        }
    }

    /// Sends a request. If the server rejects `stream_options` of a streamed request, sends the
    /// request once more without that field. If the server then reports no usage, the gateway
    /// estimates the usage.
    async fn send(&self, ctx: &CallContext, call: &TextCall) -> Result<Sent, UpstreamError> {
        let removed = self.removed();
        let error = match self.send_without(ctx, call, &removed).await {
            Err(error) if error.rejected == Some(RejectedPart::StreamOptions) && call.stream => error,
            sent => return sent,
        };
        if removed.contains(&STREAM_OPTIONS) {
            return Err(error);
        }
        let removed = [&*removed, &[STREAM_OPTIONS]].concat();
        let sent = self.send_without(ctx, call, &removed).await?;
        // The server may have rejected only an option that this caller sent.
        let is_callers = memchr::memmem::find(&call.body, STREAM_OPTIONS.as_bytes()).is_some()
            || call
                .common
                .as_ref()
                .is_some_and(|common| common.extra.contains_key(STREAM_OPTIONS));
        if !is_callers && !self.rejects_stream_options.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                request.id = %ctx.request, provider = %self.id, %error,
                "the server rejects `stream_options`; the gateway estimates the usage of streams \
                 without a usage report"
            );
        }
        Ok(sent)
    }

    async fn send_without(
        &self,
        ctx: &CallContext,
        call: &TextCall,
        removed: &[&str],
    ) -> Result<Sent, UpstreamError> {
        let Prepared {
            endpoint,
            path,
            format,
            body,
            choices,
        } = self.prepare(call, removed)?;
        let timeouts = Timeouts::of(ctx).resending();
        let response = self
            .post(endpoint, path, &call.upstream_model, body, timeouts)
            .await?;
        match (200..300).contains(&response.status) {
            true => Ok(Sent {
                response,
                format,
                choices,
            }),
            false => Err(refusal::from_response(response, self.http.settings()).await),
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

    /// Decodes a complete response.
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
                (true, _) => "the response is empty",
                (_, true) => "the response is an HTML page",
                _ => "the response is not a JSON object",
            };
            UpstreamError::protocol(format!("{what} ({} bytes)", body.len()))
        })?;
        if head.is_error {
            return Err(refusal::from_object_of(self.chat.error_texts(), &body));
        }
        if head.choices == 0 {
            return Err(UpstreamError::protocol("the response has no choices").reporting(head.report.usage));
        }
        if head.report.implausible {
            tracing::warn!(
                request.id = %ctx.request, provider = %self.id,
                "the usage report is implausible, fully or in part"
            );
        }
        if !conversion::relays(ctx, call, format) {
            let answer = decode_response(&body)
                .map_err(|_| UpstreamError::protocol("the response cannot be parsed"))?;
            let mut reply = conversion::whole(answer, &self.origin, head.report.usage, head.output_bytes);
            if let (TextReply::Whole(answer), true) = (&mut reply, head.capped == head.choices) {
                answer.capped_answers = head.choices;
            }
            return Ok(reply);
        }
        Ok(TextReply::Whole(TextAnswer {
            payload: Payload::Raw(format, body),
            usage: head.report.usage,
            output_bytes: head.output_bytes,
            capped_answers: if head.capped == head.choices {
                head.choices
            } else {
                0
            },
            outline: Some(Outline::new(head)),
        }))
    }
}

/// The response to a sent request, with a success status.
struct Sent {
    response: Response,
    /// Format of the endpoint.
    format: Format,
    /// Number of requested choices.
    choices: u32,
}

/// An encoded request and its endpoint.
pub(super) struct Prepared<'p> {
    pub(super) endpoint: &'p Endpoint,
    /// Path below the base URL.
    pub(super) path: &'static str,
    /// Format of the endpoint.
    pub(super) format: Format,
    pub(super) body: RequestBody,
    /// Number of requested choices.
    pub(super) choices: u32,
}

#[async_trait]
impl TextProvider for OpenAiCompatible {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let Sent {
            response,
            format,
            choices,
        } = self.send(ctx, call).await?;
        if !call.stream {
            return self.whole(ctx, call, format, response).await;
        }
        if response.media_type() == "text/event-stream" {
            let events = stream::open(response, call, format, choices)?;
            return Ok(TextReply::Stream(match conversion::relays(ctx, call, format) {
                true => events,
                false => conversion::stream(events, StreamDecoder::new(), &self.origin),
            }));
        }
        // Without a stream, the body is an error object or an invalid response.
        let media_type = response.media_type().to_owned();
        let body = response.read_prefix(self.http.settings()).await;
        match inspect_response(&body) {
            Ok(head) if head.is_error => Err(refusal::from_object_of(self.chat.error_texts(), &body)),
            _ => Err(UpstreamError::protocol(format!(
                "expected a stream, received {} bytes of another type (name of {} bytes)",
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

    fn needs_call_per_answer(&self) -> bool {
        self.needs_call_per_answer
    }

    fn unsupported_fields(&self, format: Format) -> &'static [&'static str] {
        match (format, &self.preset.completions) {
            (Format::Completions, Some(row)) => row.lacks,
            _ => &[],
        }
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        match kind {
            MediaKind::Image if self.preset.inline_images => Some(IMAGE_TYPES),
            // The format supports no URLs for documents.
            MediaKind::Document => Some(&["application/pdf"]),
            _ => None,
        }
    }

    fn enforces_schema(&self, format: &ResponseFormat) -> bool {
        self.preset.forces_schema || !matches!(format, ResponseFormat::JsonSchema { .. })
    }

    fn check_compatible(&self, request: &GenerateRequest, _: &Abilities) -> Result<Vec<String>, Error> {
        let mut ignored = check_compatible(request)?;
        if has_foreign_reasoning(request, &self.origin) {
            ignored.push("reasoning".to_owned());
        }
        if request.user.is_some() && self.preset.drops.contains(&"user") {
            ignored.push("user".to_owned());
        }
        let drops = |name: &&String| self.preset.drops.contains(&name.as_str()) && *name != STREAM_OPTIONS;
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

    fn counts(&self) -> Option<&dyn CountProvider> {
        let server = self.decisions.server();
        has_counts(server.map(|server| server.kind)).then_some(self as &dyn CountProvider)
    }

    fn decisions(&self) -> Option<&dyn DecideProvider> {
        Some(self)
    }

    fn moderations(&self) -> Option<&dyn ModerationProvider> {
        self.moderations
            .as_ref()
            .map(|moderations| moderations as &dyn ModerationProvider)
    }

    fn images(&self) -> Option<&dyn JobProvider<ImageCall>> {
        self.images
            .as_ref()
            .map(|endpoint| endpoint as &dyn JobProvider<ImageCall>)
    }

    fn reports(&self) -> Option<&dyn JobProvider<ReportCall>> {
        self.reports
            .as_ref()
            .map(|endpoint| endpoint as &dyn JobProvider<ReportCall>)
    }

    fn videos(&self) -> Option<&dyn JobProvider<VideoCall>> {
        self.videos
            .as_ref()
            .map(|endpoint| endpoint as &dyn JobProvider<VideoCall>)
    }

    fn speech(&self) -> Option<&dyn SpeechProvider> {
        self.speech.as_ref().map(|_| self as &dyn SpeechProvider)
    }

    fn transcriptions(&self) -> Option<&dyn TranscribeProvider> {
        self.transcriptions
            .as_ref()
            .map(|_| self as &dyn TranscribeProvider)
    }

    fn live_transcriptions(&self) -> Option<&dyn LiveTranscriptionProvider> {
        self.live_transcriptions
            .as_ref()
            .map(|endpoint| endpoint as &dyn LiveTranscriptionProvider)
    }

    fn realtime(&self) -> Option<&dyn RealtimeProvider> {
        self.realtime
            .as_ref()
            .map(|endpoint| endpoint as &dyn RealtimeProvider)
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
            // If each model has its own URL, the operator chose the model names, so no list
            // contains them.
            Ok(if self.by_model.is_some() {
                Vec::new()
            } else {
                listed
            })
        };
        tokio::time::timeout(timeout, listed)
            .await
            .unwrap_or_else(|_| Err(UpstreamError::timeout("timed out listing the models")))
    }
}
