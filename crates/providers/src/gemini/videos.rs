//! Videos by Veo. `:predictLongRunning` starts an operation, which is polled until it is done
//! (ai.google.dev/gemini-api/docs/video,
//! cloud.google.com/vertex-ai/generative-ai/docs/model-reference/veo-video-generation). The Gemini
//! API stores the video at a separate URL; Vertex AI returns it in the operation.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, Content, ContentStream, GenerationOutput, GenerationState, JobProvider, OutputItem,
    Submitted, UpstreamError, UpstreamErrorKind, VideoCall, VideoTask,
};

use super::adapter::Gemini;
use super::surface::Surface;
use crate::http::escape;
use crate::media::{self, BODY_LIMIT, MAX_STATUS_BYTES, encoded, from_handle, to_handle};
use crate::refusal;

/// Delay before the first poll of a video.
const POLL_AFTER: Duration = Duration::from_secs(10);
/// Error kinds by code of an operation's error (google.rpc.Code).
const ERROR_KINDS: &[(u64, UpstreamErrorKind)] = &[
    (3, UpstreamErrorKind::Rejected),
    (7, UpstreamErrorKind::Credentials),
    (8, UpstreamErrorKind::RateLimited),
    (16, UpstreamErrorKind::Credentials),
];

#[derive(Serialize, Deserialize)]
struct Handle {
    model: String,
    operation: String,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(default)]
    name: String,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    response: Outcome,
}

/// The videos and the number of withheld videos. The Gemini API returns this object in the member
/// `generateVideoResponse`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Outcome {
    generate_video_response: Option<Box<Outcome>>,
    generated_samples: Vec<Sample>,
    videos: Vec<GeneratedVideo>,
    rai_media_filtered_count: u32,
}

#[derive(Deserialize)]
struct Sample {
    video: GeneratedVideo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeneratedVideo {
    uri: Option<String>,
    bytes_base64_encoded: Option<String>,
}

/// Whether the model on Vertex AI can extend a video by the requested duration. Only some models
/// support extensions, by exactly seven seconds
/// (cloud.google.com/vertex-ai/generative-ai/docs/video/extend-a-veo-video).
fn extends(call: &VideoCall) -> bool {
    const BY: Duration = Duration::from_secs(7);
    let models = ["veo-3.1-", "veo-2.0-generate-exp", "veo-2.0-generate-preview"];
    call.duration == BY && models.iter().any(|model| call.upstream_model.starts_with(model))
}

fn body_of(surface: &Surface, call: &VideoCall) -> Value {
    let mut instance = json!({"prompt": call.prompt});
    if let Some(image) = &call.image {
        instance["image"] = encoded(image);
    }
    if !call.references.is_empty() {
        let reference = |source| json!({"image": encoded(source), "referenceType": "asset"});
        instance["referenceImages"] = call.references.iter().map(reference).collect();
    }
    if let Some(video) = &call.video {
        instance["video"] = encoded(video);
    }
    let mut parameters = json!({
        "aspectRatio": &*call.aspect_ratio,
        "resolution": &*call.resolution,
        "sampleCount": 1,
    });
    if call.task != VideoTask::Extend {
        parameters["durationSeconds"] = json!(call.duration.as_secs());
    }
    if let Some(negative) = media::non_empty(&call.negative_prompt) {
        parameters["negativePrompt"] = json!(negative);
    }
    if let Some(seed) = call.seed {
        parameters["seed"] = json!(seed);
    }
    // The Gemini API always generates audio and rejects the parameter; Veo 2 never generates audio.
    let has_choice = matches!(surface, Surface::Vertex { .. }) && !call.upstream_model.contains("veo-2");
    if has_choice {
        parameters["generateAudio"] = json!(call.audio);
    }
    json!({"instances": [instance], "parameters": parameters})
}

impl Outcome {
    fn videos(self) -> (Vec<GeneratedVideo>, u32) {
        let inner = self.generate_video_response.map(|inner| *inner);
        let Outcome {
            generated_samples,
            videos,
            rai_media_filtered_count,
            ..
        } = inner.unwrap_or(Outcome {
            generate_video_response: None,
            ..self
        });
        let videos = generated_samples
            .into_iter()
            .map(|sample| sample.video)
            .chain(videos);
        (videos.collect(), rai_media_filtered_count)
    }
}

impl Gemini {
    fn video_state(&self, operation: Operation) -> Result<GenerationState, UpstreamError> {
        if !operation.done {
            return Ok(GenerationState::Running { percent: None });
        }
        if !operation.error.is_null() {
            return Ok(GenerationState::Failed(failed(&operation.error)));
        }
        let (videos, withheld) = operation.response.videos();
        if videos.is_empty() {
            return match withheld {
                0 => Err(UpstreamError::protocol("the operation completed without output")),
                _ => Ok(GenerationState::Blocked),
            };
        }
        let items = videos.iter().map(|video| {
            Ok(OutputItem {
                content: self.video_content(video)?,
                revised_prompt: None,
            })
        });
        Ok(GenerationState::Completed(GenerationOutput {
            items: items.collect::<Result<_, UpstreamError>>()?,
            usage: None,
        }))
    }

    fn video_content(&self, video: &GeneratedVideo) -> Result<Content, UpstreamError> {
        match (&video.bytes_base64_encoded, &video.uri) {
            (Some(text), _) => Ok(Content::Bytes(media::decoded(text)?)),
            (None, Some(uri)) => media::content_at(self.access.base(), uri),
            (None, None) => Err(UpstreamError::protocol("a video has neither bytes nor a URL")),
        }
    }
}

fn failed(error: &Value) -> UpstreamError {
    let code = error["code"].as_u64();
    let known_kind = ERROR_KINDS.iter().find(|(known, _)| Some(*known) == code);
    let failure = refusal::from_failure(&json!({"error": error}));
    match known_kind {
        Some((_, kind)) if failure.kind == UpstreamErrorKind::Unavailable => UpstreamError {
            kind: *kind,
            ..failure
        },
        _ => failure,
    }
}

#[async_trait]
impl JobProvider<VideoCall> for Gemini {
    fn check(&self, call: &VideoCall) -> Result<(), Error> {
        let extends = matches!(self.surface, Surface::Vertex { .. }) && extends(call);
        media::reject_unsupported(&[
            ("extend_from", call.task == VideoTask::Extend && !extends),
            ("duration", media::seconds(call.duration).is_none()),
        ])
    }

    /// Submits the call without the idempotency key, which the service does not support.
    async fn submit(
        &self,
        ctx: &CallContext,
        call: &VideoCall,
        _key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let model = &call.upstream_model;
        let path = self.surface.path_of(model, "predictLongRunning");
        let body = body_of(&self.surface, call).to_string();
        let response = self.post(ctx, &path, body.into()).await;
        let response = response.map_err(media::with_unknown_retry)?;
        let operation: Operation = parsed(&response.whole(MAX_STATUS_BYTES).await?)?;
        if operation.name.is_empty() {
            return Err(UpstreamError::protocol("the operation has no name"));
        }
        let handle = Handle {
            model: model.to_string(),
            operation: operation.name,
        };
        Ok(Submitted::Accepted {
            handle: to_handle(&handle)?,
            poll_after: POLL_AFTER,
        })
    }

    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<GenerationState, UpstreamError> {
        let Handle { model, operation } = from_handle(handle)?;
        let response = match &self.surface {
            Surface::Gemini => {
                let path = self
                    .access
                    .base()
                    .path_of(&format!("/{}", escape(&operation, "/")));
                self.access.get_once(&self.http, ctx, &path).await?
            }
            Surface::Vertex { .. } => {
                let path = self.surface.path_of(&model, "fetchPredictOperation");
                let body = json!({"operationName": operation}).to_string();
                self.send(ctx, &path, body.into()).await?
            }
        };
        match response.status {
            200..=299 => self.video_state(parsed(&response.whole(BODY_LIMIT).await?)?),
            404 | 410 => Ok(GenerationState::Lost),
            _ => Err(refusal::from_response(response, self.http.settings()).await),
        }
    }

    /// Does nothing, because the API cannot cancel an operation. The provider generates the video,
    /// and the gateway does not fetch it.
    async fn cancel(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<(), UpstreamError> {
        Ok(())
    }

    async fn fetch(&self, ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        media::follow_redirects(self.access.base(), &self.http, own, |path| async move {
            self.access.get_once(&self.http, ctx, &path).await
        })
        .await
    }
}

fn parsed<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, UpstreamError> {
    serde_json::from_slice(body).map_err(|_| {
        UpstreamError::protocol(format!(
            "the response has an unexpected shape ({} bytes)",
            body.len()
        ))
    })
}
