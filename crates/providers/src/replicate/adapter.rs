//! The adapter of Replicate's predictions.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, GenerationState, ImageCall, ImageTask, ListedModel, Submitted, UpstreamError, VideoCall,
    VideoTask,
};

use super::wire::{Prediction, accepts_images, image_request, prediction_path, video_request};
use crate::http::escape;
use crate::media::{
    self, BODY_LIMIT, MAX_STATUS_BYTES, QueueAdapter, Request, Server, from_handle, to_handle,
};

/// Delay before the first poll of a prediction.
const POLL_AFTER: Duration = Duration::from_secs(2);

/// The adapter; it has no state.
#[derive(Debug)]
pub(crate) struct Replicate;

#[derive(Serialize, Deserialize)]
struct Handle {
    id: String,
}

async fn submit_job(
    server: &Server,
    ctx: &CallContext,
    model: &str,
    input: Value,
    key: &str,
) -> Result<Submitted, UpstreamError> {
    let (path, version) = prediction_path(model);
    let mut body = json!({"input": input});
    if let Some(version) = version {
        body["version"] = json!(version);
    }
    let path = server.path(&path);
    let request = Request::json(&path, &body).with_key(key);
    let Prediction { id, .. } = server.read(ctx, request, MAX_STATUS_BYTES).await?;
    if id.is_empty() {
        return Err(UpstreamError::protocol("the prediction has no id"));
    }
    Ok(Submitted::Accepted {
        handle: to_handle(&Handle { id })?,
        poll_after: POLL_AFTER,
    })
}

fn prediction(server: &Server, handle: &[u8], rest: &str) -> Result<String, UpstreamError> {
    let Handle { id } = from_handle(handle)?;
    Ok(server.path(&format!("/predictions/{}{rest}", escape(&id, ""))))
}

#[async_trait]
impl QueueAdapter for Replicate {
    fn check_images(&self, call: &ImageCall) -> Result<(), Error> {
        media::reject_unsupported(&[
            ("variation_of", call.task == ImageTask::Vary),
            // The models on Replicate repaint the white part of a mask, not the transparent one.
            ("mask", call.mask.is_some()),
            ("image", !accepts_images(call)),
            ("image_set", call.set),
        ])
    }

    fn check_video(&self, call: &VideoCall) -> Result<(), Error> {
        media::reject_unsupported(&[
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
        submit_job(server, ctx, &call.upstream_model, image_request(call), key).await
    }

    async fn submit_video(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        submit_job(server, ctx, &call.upstream_model, video_request(call), key).await
    }

    async fn poll(
        &self,
        server: &Server,
        ctx: &CallContext,
        handle: &[u8],
    ) -> Result<GenerationState, UpstreamError> {
        let path = prediction(server, handle, "")?;
        let found = server.read_if_found::<Prediction>(ctx, Request::get(&path), BODY_LIMIT);
        let found = found.await?;
        found.map_or(Ok(GenerationState::Lost), |prediction| {
            prediction.state(server.base())
        })
    }

    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let path = prediction(server, handle, "/cancel")?;
        server.send_command(ctx, Request::post(&path)).await
    }

    /// Checks that the server is reachable and returns an empty list: Replicate has too many models
    /// to list. The settings contain their names.
    async fn models(&self, server: &Server, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        server.check_reachable("/account", timeout).await?;
        Ok(Vec::new())
    }
}
