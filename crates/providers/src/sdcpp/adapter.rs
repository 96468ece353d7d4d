//! The adapter.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, ImageCall, ListedModel, State, Submitted, UpstreamError, VideoCall, VideoTask,
};

use super::wire::{Accepted, News, of_film, of_pictures};
use crate::http::escape;
use crate::media::{self, Asked, BODY_LIMIT, NEWS_LIMIT, Queue, Server, from_handle, to_handle};

/// When a job is first asked for.
const POLL_AFTER: Duration = Duration::from_secs(1);
/// The most pictures of a job; what a server allows besides is its own setting.
const MOST_AT_ONCE: u32 = 8;

/// A server of stable-diffusion.cpp.
#[derive(Debug)]
pub(crate) struct StableDiffusionCpp;

#[derive(Serialize, Deserialize)]
struct Handle {
    id: String,
}

async fn submitted(
    server: &Server,
    ctx: &CallContext,
    path: &str,
    body: &Value,
    key: &str,
) -> Result<Submitted, UpstreamError> {
    let path = server.path(path);
    let asked = Asked::json(&path, body).with_key(key);
    let Accepted { id } = server.read(ctx, asked, NEWS_LIMIT).await?;
    if id.is_empty() {
        return Err(UpstreamError::protocol("a job without an id"));
    }
    Ok(Submitted::Accepted {
        handle: to_handle(&Handle { id })?,
        poll_after: POLL_AFTER,
    })
}

/// The path of a job. The server tells one, too, which is the same.
fn job(server: &Server, handle: &[u8], rest: &str) -> Result<String, UpstreamError> {
    let Handle { id } = from_handle(handle)?;
    Ok(server.path(&format!("/sdcpp/v1/jobs/{}{rest}", escape(&id, ""))))
}

#[async_trait]
impl Queue for StableDiffusionCpp {
    fn most_at_once(&self, _model: &str) -> u32 {
        MOST_AT_ONCE
    }

    fn check_pictures(&self, call: &ImageCall) -> Result<(), Error> {
        let is_unsized = call.size.is_none();
        media::refuse_sent(&[
            // It makes white again, and not what is transparent.
            ("mask", call.mask.is_some()),
            ("image_set", call.set),
            ("aspect_ratio", call.aspect_ratio.is_some() && is_unsized),
            ("resolution", call.resolution.is_some() && is_unsized),
            ("quality", call.quality.is_some()),
        ])
    }

    fn check_film(&self, call: &VideoCall) -> Result<(), Error> {
        media::refuse_sent(&[
            ("reference_images", call.task == VideoTask::FromReferences),
            ("extend_from", call.task == VideoTask::Extend),
            ("duration", media::seconds(call.duration).is_none()),
        ])
    }

    async fn submit_pictures(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        submitted(server, ctx, "/sdcpp/v1/img_gen", &of_pictures(call), key).await
    }

    async fn submit_film(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        submitted(server, ctx, "/sdcpp/v1/vid_gen", &of_film(call), key).await
    }

    async fn poll(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
        let path = job(server, handle, "")?;
        let news = server.read_if_there::<News>(ctx, Asked::get(&path), BODY_LIMIT);
        news.await?.map_or(Ok(State::Lost), News::state)
    }

    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let path = job(server, handle, "/cancel")?;
        server.tell(ctx, Asked::post(&path)).await
    }

    /// Which model it has does not matter: its name is that of the settings.
    async fn models(&self, server: &Server, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        server.is_there("/sdcpp/v1/capabilities", timeout).await?;
        Ok(Vec::new())
    }
}
