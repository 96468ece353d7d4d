//! The adapter.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{
    CallContext, ImageCall, ImageTask, ListedModel, State, Submitted, UpstreamError, VideoCall, VideoTask,
};

use super::wire::{Accepted, Handle, News, Output, model_path, of_film, of_pictures, only_task};
use crate::media::{self, Asked, BODY_LIMIT, NEWS_LIMIT, Queue, Server, from_handle, to_handle};

/// When a request is first asked for.
const POLL_AFTER: Duration = Duration::from_secs(2);
/// What most models make at once.
const MOST_AT_ONCE: u32 = 4;

/// fal.
#[derive(Debug)]
pub(crate) struct Fal;

async fn submitted(
    server: &Server,
    ctx: &CallContext,
    model: &str,
    body: &Value,
    key: &str,
) -> Result<Submitted, UpstreamError> {
    let path = server.path(&model_path(model));
    let asked = Asked::json(&path, body).with_key(key);
    let accepted: Accepted = server.read(ctx, asked, NEWS_LIMIT).await?;
    Ok(Submitted::Accepted {
        handle: to_handle(&accepted.handle(server.base(), model)?)?,
        poll_after: POLL_AFTER,
    })
}

/// The status of a result is the status with which the model itself has answered.
async fn result(server: &Server, ctx: &CallContext, handle: &Handle) -> Result<State, UpstreamError> {
    let response = server.send(ctx, Asked::get(&handle.response)).await?;
    match response.status {
        200..=299 => {
            let body = response.whole(BODY_LIMIT).await?;
            let output: Output = serde_json::from_slice(&body)
                .map_err(|_| UpstreamError::protocol("a result that is not as agreed"))?;
            output.state(server.base())
        }
        404 | 410 => Ok(State::Lost),
        400 | 413 | 422 | 500 => Ok(State::Failed(server.refused(response).await)),
        // The queue's own trouble, and nothing about the result.
        _ => Err(server.refused(response).await),
    }
}

/// The field that makes it this task.
fn param_of(task: VideoTask) -> Option<&'static str> {
    match task {
        VideoTask::FromText => None,
        VideoTask::FromImage => Some("image"),
        VideoTask::FromReferences => Some("reference_images"),
        VideoTask::Extend => Some("extend_from"),
    }
}

#[async_trait]
impl Queue for Fal {
    fn most_at_once(&self, _model: &str) -> u32 {
        MOST_AT_ONCE
    }

    fn check_pictures(&self, call: &ImageCall) -> Result<(), Error> {
        media::refuse_sent(&[
            ("variation_of", call.task == ImageTask::Vary),
            // Its models make white again, and not what is transparent.
            ("mask", call.mask.is_some()),
            ("image_set", call.set),
        ])
    }

    fn check_film(&self, call: &VideoCall) -> Result<(), Error> {
        let only = only_task(&call.upstream_model);
        if call.task == VideoTask::FromText
            && let Some(needed) = only.and_then(param_of)
        {
            let message = format!("This model needs '{needed}'.");
            return Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param(needed));
        }
        let is_other = match only {
            Some(task) => call.task != task,
            None => call.task == VideoTask::Extend,
        };
        media::refuse_sent(&[
            (param_of(call.task).unwrap_or_default(), is_other),
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
        submitted(server, ctx, &call.upstream_model, &of_pictures(call), key).await
    }

    async fn submit_film(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        submitted(server, ctx, &call.upstream_model, &of_film(call), key).await
    }

    async fn poll(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
        let handle: Handle = from_handle(handle)?;
        let news = server.read_if_there::<News>(ctx, Asked::get(&handle.status), NEWS_LIMIT);
        let Some(news) = news.await? else {
            return Ok(State::Lost);
        };
        match news.state()? {
            Some(state) => Ok(state),
            None => result(server, ctx, &handle).await,
        }
    }

    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let Handle { cancel, .. } = from_handle(handle)?;
        let response = server.send(ctx, Asked::put(&cancel)).await?;
        match response.status {
            // It is done, or there is none.
            200..=299 | 400 | 404 => Ok(()),
            _ => Err(server.refused(response).await),
        }
    }

    /// Its models are named in the settings: the queue has no list of them.
    async fn models(&self, _server: &Server, _timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        Ok(Vec::new())
    }
}
