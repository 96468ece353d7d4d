//! Videos: the gateway submits a job, polls it, and downloads its video from the provider.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, Content, ContentStream, GenerationOutput, GenerationState, JobProvider, OutputItem,
    Submitted, UpstreamError, VideoCall, VideoTask,
};

use super::images::extension;
use super::presets::Videos;
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient, escape};
use crate::media::{self, Form, MAX_STATUS_BYTES, Request, Server, from_handle, to_handle};
use crate::refusal;

/// Delay before the first poll of a video.
const POLL_AFTER: Duration = Duration::from_secs(5);

/// Endpoint of the videos and its differences from OpenAI's.
#[derive(Debug)]
pub(super) struct VideosEndpoint {
    row: &'static Videos,
    server: Server,
}

/// Paths of one video.
#[derive(Serialize, Deserialize)]
struct Handle {
    job: String,
    content: String,
}

/// A video object of the API.
#[derive(Deserialize)]
struct VideoJob {
    #[serde(default)]
    id: String,
    status: String,
    progress: Option<f64>,
    #[serde(default)]
    error: Value,
}

impl VideosEndpoint {
    pub(super) fn new(
        row: &'static Videos,
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let server = Server::new(base, credentials, http)?;
        Ok(Self { row, server })
    }

    fn path(&self, model: &str, rest: &str) -> String {
        let path = format!("{}{rest}", self.row.path);
        self.server.base().for_model(model).path_of(&path)
    }

    fn takes(&self, field: &str) -> bool {
        self.row.takes.contains(&field)
    }

    /// Returns the request fields except files. The format represents seconds as text.
    fn fields(&self, call: &VideoCall) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        add("model", json!(&*call.upstream_model));
        add("prompt", json!(call.prompt));
        add("seconds", json!(call.duration.as_secs().to_string()));
        add("size", json!(format!("{}x{}", call.size.width, call.size.height)));
        let negative = media::non_empty(&call.negative_prompt);
        if let Some(negative) = negative.filter(|_| self.takes("negative_prompt")) {
            add("negative_prompt", json!(negative));
        }
        if let Some(seed) = call.seed.filter(|_| self.takes("seed")) {
            add("seed", json!(seed));
        }
        if let Some(name) = self.row.audio_field {
            add(name, json!(call.audio));
        }
        fields
    }

    fn form(&self, call: &VideoCall) -> Result<Form, UpstreamError> {
        let mut form = Form::new()?;
        for (name, value) in self.fields(call) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            form.text(&name, &text);
        }
        if let Some(image) = &call.image {
            let file_name = format!("input.{}", extension(&image.mime_type));
            form.file("input_reference", &file_name, image);
        }
        Ok(form)
    }
}

/// Converts the status of a video.
fn state(video: VideoJob, content: String) -> Result<GenerationState, UpstreamError> {
    Ok(match video.status.as_str() {
        "queued" => GenerationState::Waiting { ahead: None },
        "in_progress" => GenerationState::Running {
            percent: video.progress.map(|done| done.clamp(0.0, 100.0) as u8),
        },
        "completed" => GenerationState::Completed(GenerationOutput {
            items: vec![OutputItem {
                content: Content::Upstream(content),
                revised_prompt: None,
            }],
            usage: None,
        }),
        "failed" => GenerationState::Failed(refusal::from_failure(&json!({"error": video.error}))),
        "cancelled" => GenerationState::Cancelled,
        "expired" => GenerationState::Lost,
        _ => return Err(UpstreamError::protocol("a video has an unknown status")),
    })
}

#[async_trait]
impl JobProvider<VideoCall> for VideosEndpoint {
    fn check(&self, call: &VideoCall) -> Result<(), Error> {
        let has_negative = media::non_empty(&call.negative_prompt).is_some();
        media::reject_unsupported(&[
            ("reference_images", call.task == VideoTask::FromReferences),
            ("extend_from", call.task == VideoTask::Extend),
            ("duration", media::seconds(call.duration).is_none()),
            ("negative_prompt", has_negative && !self.takes("negative_prompt")),
        ])
    }

    async fn submit(
        &self,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let path = self.path(&call.upstream_model, "");
        let request = match call.image.is_some() || self.row.only_forms {
            true => Request::form(&path, self.form(call)?),
            false => Request::json(&path, &Value::Object(self.fields(call))),
        };
        let video: VideoJob = self
            .server
            .read(ctx, request.with_key(key), MAX_STATUS_BYTES)
            .await?;
        if video.id.is_empty() {
            return Err(UpstreamError::protocol("a video has no id"));
        }
        let id = escape(&video.id, "");
        let handle = Handle {
            job: self.path(&call.upstream_model, &format!("/{id}")),
            content: self.path(&call.upstream_model, &format!("/{id}/content")),
        };
        Ok(Submitted::Accepted {
            handle: to_handle(&handle)?,
            poll_after: POLL_AFTER,
        })
    }

    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<GenerationState, UpstreamError> {
        let Handle { job, content } = from_handle(handle)?;
        let video = self
            .server
            .read_if_found(ctx, Request::get(&job), MAX_STATUS_BYTES)
            .await?;
        video.map_or(Ok(GenerationState::Lost), |video| state(video, content))
    }

    async fn cancel(&self, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let Handle { job, .. } = from_handle(handle)?;
        self.server.send_command(ctx, Request::delete(&job)).await
    }

    async fn fetch(&self, ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        self.server.download(ctx, own).await
    }
}
