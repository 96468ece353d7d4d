//! The adapter: submits, polls and cancels workflows.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use tollgate_types::{Error, Retry};
use tollgate_upstream::{
    CallContext, GenerationState, ImageCall, ImageTask, ListedModel, Source, Submitted, UpstreamCause,
    UpstreamError, UpstreamErrorKind, VideoCall, VideoTask,
};

use super::progress::{ProgressEvent, progress_event};
use super::wire::{History, QueueStatus, QueuedGraph, Uploaded};
use super::workflow::{Values, Workflow};
use crate::http::escape;
use crate::media::{self, Form, MAX_STATUS_BYTES, QueueAdapter, Request, Server, from_handle, to_handle};

/// Delay before the first poll of a graph.
const POLL_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of images of a graph whose output count is a parameter.
const MAX_OUTPUTS: u32 = 4;

/// A ComfyUI server whose models are the operator's workflows.
#[derive(Debug)]
pub(crate) struct ComfyUi {
    workflows: BTreeMap<String, Workflow>,
}

#[derive(Serialize, Deserialize)]
struct Handle {
    id: String,
    /// Client id under which the graph was queued, for the progress WebSocket; empty if the stored
    /// handle has none.
    #[serde(default)]
    client: String,
}

impl ComfyUi {
    /// Builds the adapter from the workflows, whose names are the model names.
    pub(crate) fn new(workflows: BTreeMap<String, Workflow>) -> Self {
        Self { workflows }
    }

    fn workflow(&self, model: &str) -> Result<&Workflow, UpstreamError> {
        let known = self.workflows.get(model);
        known.ok_or_else(|| UpstreamError::connect("no workflow has the name of the model"))
    }

    /// Whether the model exists and its workflow does not have the slot. False for an unknown
    /// model, which the submission rejects.
    fn lacks(&self, model: &str, slot: &str) -> bool {
        self.workflows
            .get(model)
            .is_some_and(|workflow| !workflow.has(slot))
    }

    async fn submit_job(
        &self,
        server: &Server,
        ctx: &CallContext,
        input: WorkflowInput<'_>,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let workflow = self.workflow(input.model)?;
        let mut values = input.values;
        // ComfyUI does not execute an identical graph again, so each request without a seed
        // receives a different one.
        values.entry("seed").or_insert_with(|| json!(seed_of(key)));
        for (slot, source) in input.files {
            let upload = upload(server, ctx, slot, source, key)
                .await
                .map_err(upload_error)?;
            values.insert(slot, upload.input());
        }
        let body = json!({"prompt": workflow.filled(&values), "client_id": key});
        let path = server.path("/prompt");
        let request = Request::json(&path, &body).with_key(key);
        let queued: Result<QueuedGraph, UpstreamError> = server.read(ctx, request, MAX_STATUS_BYTES).await;
        let QueuedGraph { prompt_id: id } = queued.map_err(graph_error)?;
        if id.is_empty() {
            return Err(UpstreamError::protocol("the response has an empty `prompt_id`"));
        }
        Ok(Submitted::Accepted {
            handle: to_handle(&Handle {
                id,
                client: key.to_owned(),
            })?,
            poll_after: POLL_AFTER,
        })
    }
}

/// Values and files for the slots of a workflow.
struct WorkflowInput<'a> {
    model: &'a str,
    values: Values,
    files: Vec<(&'static str, &'a Source)>,
}

/// Derives a seed of 48 bits from the key. Every node accepts a seed of this size.
fn seed_of(key: &str) -> u64 {
    let digest = Sha256::digest(key);
    let bytes = digest.iter().take(6);
    bytes.fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
}

async fn upload(
    server: &Server,
    ctx: &CallContext,
    slot: &str,
    source: &Source,
    key: &str,
) -> Result<Uploaded, UpstreamError> {
    let extension = source.mime_type.split('/').nth(1).unwrap_or("png");
    let name = format!("tollgate-{key}-{slot}.{extension}");
    let fits = |letter: &char| letter.is_ascii_alphanumeric() || "-._".contains(*letter);
    let name: String = name.chars().filter(fits).collect();
    let mut form = Form::new()?;
    form.file("image", &name, source);
    form.text("overwrite", "true");
    let path = server.path("/upload/image");
    server
        .read(ctx, Request::form(&path, form), MAX_STATUS_BYTES)
        .await
}

/// Marks an upload error without an HTTP status as safe to retry, because the graph was not
/// submitted yet.
fn upload_error(error: UpstreamError) -> UpstreamError {
    match error.cause {
        UpstreamCause::Status => error,
        _ => UpstreamError {
            cause: UpstreamCause::Connect,
            retry: Retry::Safe,
            ..error
        },
    }
}

/// Converts the rejection of a graph to an error for the operator: the operator wrote the graph,
/// not the caller.
fn graph_error(error: UpstreamError) -> UpstreamError {
    match error.kind {
        UpstreamErrorKind::Rejected => UpstreamError {
            kind: UpstreamErrorKind::Unavailable,
            param: None,
            ..error
        },
        _ => error,
    }
}

async fn queue_status(server: &Server, ctx: &CallContext) -> Result<QueueStatus, UpstreamError> {
    let path = server.path("/queue");
    server.read(ctx, Request::get(&path), MAX_STATUS_BYTES).await
}

/// Returns the state of a graph from the history; `None` if the history does not contain the graph.
async fn history_state(
    server: &Server,
    ctx: &CallContext,
    id: &str,
) -> Result<Option<GenerationState>, UpstreamError> {
    let path = server.path(&format!("/history/{}", escape(id, "")));
    let mut history: History = server.read(ctx, Request::get(&path), MAX_STATUS_BYTES).await?;
    history.remove(id).map(|entry| entry.state(server)).transpose()
}

#[async_trait]
impl QueueAdapter for ComfyUi {
    fn max_outputs(&self, model: &str) -> u32 {
        match self.lacks(model, "count") {
            true => 1,
            false => MAX_OUTPUTS,
        }
    }

    fn check_images(&self, call: &ImageCall) -> Result<(), Error> {
        let lacks = |slot: &str| self.lacks(&call.upstream_model, slot);
        let has_negative = media::non_empty(&call.negative_prompt).is_some();
        let is_unsized = call.size.is_none();
        media::reject_unsupported(&[
            ("prompt", !call.prompt.is_empty() && lacks("prompt")),
            ("negative_prompt", has_negative && lacks("negative_prompt")),
            ("variation_of", call.task == ImageTask::Vary && lacks("image")),
            (
                "image",
                call.images.len() > 1 || !call.images.is_empty() && lacks("image"),
            ),
            ("mask", call.mask.is_some() && lacks("mask")),
            ("image_set", call.set),
            (
                "aspect_ratio",
                call.aspect_ratio.is_some() && (is_unsized || lacks("width")),
            ),
            (
                "resolution",
                call.resolution.is_some() && (is_unsized || lacks("width")),
            ),
            ("quality", call.quality.is_some()),
        ])
    }

    fn check_video(&self, call: &VideoCall) -> Result<(), Error> {
        let lacks = |slot: &str| self.lacks(&call.upstream_model, slot);
        let has_negative = media::non_empty(&call.negative_prompt).is_some();
        media::reject_unsupported(&[
            ("negative_prompt", has_negative && lacks("negative_prompt")),
            ("image", call.image.is_some() && lacks("image")),
            ("reference_images", call.task == VideoTask::FromReferences),
            ("extend_from", call.task == VideoTask::Extend),
            ("duration", media::seconds(call.duration).is_none()),
        ])
    }

    async fn submit_images(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let mut values = Values::from([("prompt", json!(call.prompt)), ("count", json!(call.count))]);
        if let Some(negative) = media::non_empty(&call.negative_prompt) {
            values.insert("negative_prompt", json!(negative));
        }
        if let Some(size) = call.size {
            values.extend([("width", json!(size.width)), ("height", json!(size.height))]);
        }
        if let Some(seed) = call.seed {
            values.insert("seed", json!(seed));
        }
        let images = call.images.iter().map(|image| ("image", image));
        let masks = call.mask.iter().map(|mask| ("mask", mask));
        let input = WorkflowInput {
            model: &call.upstream_model,
            values,
            files: images.take(1).chain(masks).collect(),
        };
        self.submit_job(server, ctx, input, key).await
    }

    async fn submit_video(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let mut values = Values::from([
            ("prompt", json!(call.prompt)),
            ("count", json!(1)),
            ("seconds", json!(call.duration.as_secs())),
            ("width", json!(call.size.width)),
            ("height", json!(call.size.height)),
        ]);
        if let Some(negative) = media::non_empty(&call.negative_prompt) {
            values.insert("negative_prompt", json!(negative));
        }
        if let Some(seed) = call.seed {
            values.insert("seed", json!(seed));
        }
        let input = WorkflowInput {
            model: &call.upstream_model,
            values,
            files: call.image.iter().map(|image| ("image", image)).collect(),
        };
        self.submit_job(server, ctx, input, key).await
    }

    async fn poll(
        &self,
        server: &Server,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState, UpstreamError> {
        let Handle { id, client } = from_handle(handle)?;
        if let Some(state) = history_state(server, ctx, &id).await? {
            return Ok(state);
        }
        match queue_status(server, ctx).await?.state(&id) {
            Some(GenerationState::Running { .. }) if !client.is_empty() => {
                match progress_event(server, &client, &id).await {
                    Some(ProgressEvent::Percent(percent)) => {
                        return Ok(GenerationState::Running {
                            percent: Some(percent),
                        });
                    }
                    None => return Ok(GenerationState::Running { percent: None }),
                    // The server announces the end before the history contains the graph.
                    Some(ProgressEvent::Ended) => {
                        if let Some(state) = queue_status(server, ctx).await?.state(&id) {
                            return Ok(state);
                        }
                    }
                }
            }
            Some(state) => return Ok(state),
            None => {}
        }
        // The graph may have ended between the two requests.
        Ok(history_state(server, ctx, &id)
            .await?
            .unwrap_or(GenerationState::Lost))
    }

    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let Handle { id, .. } = from_handle(handle)?;
        let path = server.path("/queue");
        let body = json!({"delete": [id]});
        server.send_command(ctx, Request::json(&path, &body)).await?;
        // Older servers interrupt any running graph, so interrupt only if this graph is running.
        if !queue_status(server, ctx).await?.is_running(&id) {
            return Ok(());
        }
        let path = server.path("/interrupt");
        let body = json!({"prompt_id": id});
        server.send_command(ctx, Request::json(&path, &body)).await
    }

    /// Checks that the server is reachable and returns an empty list: the models are the workflows
    /// in the settings.
    async fn models(&self, server: &Server, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        server.check_reachable("/queue", timeout).await?;
        Ok(Vec::new())
    }
}
