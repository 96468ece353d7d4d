//! The adapter of stable-diffusion.cpp's jobs.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, GenerationState, ImageCall, ListedModel, Submitted, UpstreamError, VideoCall, VideoTask,
};

use super::wire::{Accepted, JobStatus, image_request, video_request};
use crate::http::escape;
use crate::media::{
    self, BODY_LIMIT, MAX_STATUS_BYTES, QueueAdapter, Request, Server, from_handle, to_handle,
};

/// Delay before the first poll of a job.
const POLL_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of images of a job. A server may have a lower limit.
const MAX_OUTPUTS: u32 = 8;

/// A stable-diffusion.cpp server.
#[derive(Debug)]
pub(crate) struct StableDiffusionCpp;

#[derive(Serialize, Deserialize)]
struct Handle {
    id: String,
}

async fn submit_job(
    server: &Server,
    ctx: &CallContext,
    path: &str,
    body: &Value,
    key: &str,
) -> Result<Submitted, UpstreamError> {
    let path = server.path(path);
    let request = Request::json(&path, body).with_key(key);
    let Accepted { id } = server.read(ctx, request, MAX_STATUS_BYTES).await?;
    if id.is_empty() {
        return Err(UpstreamError::protocol("the job has no id"));
    }
    Ok(Submitted::Accepted {
        handle: to_handle(&Handle { id })?,
        poll_after: POLL_AFTER,
    })
}

/// Returns the path of a job. The server reports the same path.
fn job(server: &Server, handle: &[u8], rest: &str) -> Result<String, UpstreamError> {
    let Handle { id } = from_handle(handle)?;
    Ok(server.path(&format!("/sdcpp/v1/jobs/{}{rest}", escape(&id, ""))))
}

#[async_trait]
impl QueueAdapter for StableDiffusionCpp {
    fn max_outputs(&self, _model: &str) -> u32 {
        MAX_OUTPUTS
    }

    fn check_images(&self, call: &ImageCall) -> Result<(), Error> {
        let is_unsized = call.size.is_none();
        media::reject_unsupported(&[
            // The server repaints the white part of a mask, not the transparent one.
            ("mask", call.mask.is_some()),
            ("image_set", call.set),
            ("aspect_ratio", call.aspect_ratio.is_some() && is_unsized),
            ("resolution", call.resolution.is_some() && is_unsized),
            ("quality", call.quality.is_some()),
        ])
    }

    fn check_video(&self, call: &VideoCall) -> Result<(), Error> {
        media::reject_unsupported(&[
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
        submit_job(server, ctx, "/sdcpp/v1/img_gen", &image_request(call), key).await
    }

    async fn submit_video(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        submit_job(server, ctx, "/sdcpp/v1/vid_gen", &video_request(call), key).await
    }

    async fn poll(
        &self,
        server: &Server,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState, UpstreamError> {
        let path = job(server, handle, "")?;
        let status = server.read_if_found::<JobStatus>(ctx, Request::get(&path), BODY_LIMIT);
        status.await?.map_or(Ok(GenerationState::Lost), JobStatus::state)
    }

    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let path = job(server, handle, "/cancel")?;
        server.send_command(ctx, Request::post(&path)).await
    }

    /// Checks that the server is reachable and returns an empty list: the server has one model,
    /// whose name is in the settings.
    async fn models(&self, server: &Server, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        server.check_reachable("/sdcpp/v1/capabilities", timeout).await?;
        Ok(Vec::new())
    }
}
