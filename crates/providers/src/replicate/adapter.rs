//! The adapter.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, ImageCall, ImageTask, ListedModel, State, Submitted, UpstreamError, VideoCall, VideoTask,
};

use super::wire::{Prediction, of_film, of_pictures, place_of, takes_pictures};
use crate::http::escape;
use crate::media::{self, Asked, BODY_LIMIT, NEWS_LIMIT, Queue, Server, from_handle, to_handle};

/// When a prediction is first asked for.
const POLL_AFTER: Duration = Duration::from_secs(2);

/// Replicate.
#[derive(Debug)]
pub(crate) struct Replicate;

#[derive(Serialize, Deserialize)]
struct Handle {
    id: String,
}

async fn submitted(
    server: &Server,
    ctx: &CallContext,
    model: &str,
    input: Value,
    key: &str,
) -> Result<Submitted, UpstreamError> {
    let (path, version) = place_of(model);
    let mut body = json!({"input": input});
    if let Some(version) = version {
        body["version"] = json!(version);
    }
    let path = server.path(&path);
    let asked = Asked::json(&path, &body).with_key(key);
    let Prediction { id, .. } = server.read(ctx, asked, NEWS_LIMIT).await?;
    if id.is_empty() {
        return Err(UpstreamError::protocol("a prediction without an id"));
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
impl Queue for Replicate {
    fn check_pictures(&self, call: &ImageCall) -> Result<(), Error> {
        media::refuse_sent(&[
            ("variation_of", call.task == ImageTask::Vary),
            // Its models make white again, and not what is transparent.
            ("mask", call.mask.is_some()),
            ("image", !takes_pictures(call)),
            ("image_set", call.set),
        ])
    }

    fn check_film(&self, call: &VideoCall) -> Result<(), Error> {
        media::refuse_sent(&[
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
        submitted(server, ctx, &call.upstream_model, of_pictures(call), key).await
    }

    async fn submit_film(
        &self,
        server: &Server,
        ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        submitted(server, ctx, &call.upstream_model, of_film(call), key).await
    }

    async fn poll(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
        let path = prediction(server, handle, "")?;
        let found = server.read_if_there::<Prediction>(ctx, Asked::get(&path), BODY_LIMIT);
        let found = found.await?;
        found.map_or(Ok(State::Lost), |prediction| prediction.state(server.base()))
    }

    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let path = prediction(server, handle, "/cancel")?;
        server.tell(ctx, Asked::post(&path)).await
    }

    /// Its models are named in the settings: there are far too many to list.
    async fn models(&self, server: &Server, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        server.is_there("/account", timeout).await?;
        Ok(Vec::new())
    }
}
