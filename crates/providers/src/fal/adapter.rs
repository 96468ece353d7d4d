//! The adapter of fal's queue.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{
    CallContext, GenerationState, ImageCall, ImageTask, ListedModel, Submitted, UpstreamError, VideoCall,
    VideoTask,
};

use super::wire::{
    Accepted, Handle, Output, QueueStatus, image_request, model_path, only_task, video_request,
};
use crate::media::{
    self, BODY_LIMIT, MAX_STATUS_BYTES, QueueAdapter, Request, Server, from_handle, to_handle,
};

/// Delay before the first poll of a request.
const POLL_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of outputs of a request. Most models have this limit.
const MAX_OUTPUTS: u32 = 4;

/// The adapter; it has no state.
#[derive(Debug)]
pub(crate) struct Fal;

async fn submit_job(
    server: &Server,
    ctx: &CallContext,
    model: &str,
    body: &Value,
    key: &str,
) -> Result<Submitted, UpstreamError> {
    let path = server.path(&model_path(model));
    let request = Request::json(&path, body).with_key(key);
    let accepted: Accepted = server.read(ctx, request, MAX_STATUS_BYTES).await?;
    Ok(Submitted::Accepted {
        handle: to_handle(&accepted.handle(server.base(), model)?)?,
        poll_after: POLL_AFTER,
    })
}

/// Requests the result of a completed request. The response has the HTTP status that the model
/// returned.
async fn result(
    server: &Server,
    ctx: &CallContext,
    handle: &Handle,
) -> Result<GenerationState, UpstreamError> {
    let response = server.send(ctx, Request::get(&handle.response)).await?;
    match response.status {
        200..=299 => {
            let body = response.whole(BODY_LIMIT).await?;
            let output: Output = serde_json::from_slice(&body)
                .map_err(|_| UpstreamError::protocol("the result has an unexpected shape"))?;
            output.state(server.base())
        }
        404 | 410 => Ok(GenerationState::Lost),
        400 | 413 | 422 | 500 => Ok(GenerationState::Failed(server.refused(response).await)),
        // An error of the queue, not of the result.
        _ => Err(server.refused(response).await),
    }
}

/// Returns the parameter of the gateway's API that selects this task; `None` for text to video.
fn param_of(task: VideoTask) -> Option<&'static str> {
    match task {
        VideoTask::FromText => None,
        VideoTask::FromImage => Some("image"),
        VideoTask::FromReferences => Some("reference_images"),
        VideoTask::Extend => Some("extend_from"),
    }
}

#[async_trait]
impl QueueAdapter for Fal {
    fn max_outputs(&self, _model: &str) -> u32 {
        MAX_OUTPUTS
    }

    fn check_images(&self, call: &ImageCall) -> Result<(), Error> {
        media::reject_unsupported(&[
            ("variation_of", call.task == ImageTask::Vary),
            // The models on fal repaint the white part of a mask, not the transparent one.
            ("mask", call.mask.is_some()),
            ("image_set", call.set),
        ])
    }

    fn check_video(&self, call: &VideoCall) -> Result<(), Error> {
        let only = only_task(&call.upstream_model);
        if call.task == VideoTask::FromText
            && let Some(needed) = only.and_then(param_of)
        {
            let message = format!("This model requires '{needed}'.");
            return Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param(needed));
        }
        let is_other = match only {
            Some(task) => call.task != task,
            None => call.task == VideoTask::Extend,
        };
        media::reject_unsupported(&[
            (param_of(call.task).unwrap_or_default(), is_other),
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
        submit_job(server, ctx, &call.upstream_model, &image_request(call), key).await
    }

    async fn submit_video(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        submit_job(server, ctx, &call.upstream_model, &video_request(call), key).await
    }

    async fn poll(
        &self,
        server: &Server,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState, UpstreamError> {
        let handle: Handle = from_handle(handle)?;
        let status = server.read_if_found::<QueueStatus>(ctx, Request::get(&handle.status), MAX_STATUS_BYTES);
        let Some(status) = status.await? else {
            return Ok(GenerationState::Lost);
        };
        match status.state()? {
            Some(state) => Ok(state),
            None => result(server, ctx, &handle).await,
        }
    }

    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let Handle { cancel, .. } = from_handle(handle)?;
        let response = server.send(ctx, Request::put(&cancel)).await?;
        match response.status {
            // The cancellation was accepted, or the request has already ended or is unknown.
            200..=299 | 400 | 404 => Ok(()),
            _ => Err(server.refused(response).await),
        }
    }

    /// Returns an empty list, because the queue API lists no models. The settings contain their
    /// names.
    async fn models(&self, _server: &Server, _timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        Ok(Vec::new())
    }
}
