//! The adapter.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use tollgate_types::{Error, Retry};
use tollgate_upstream::{
    CallContext, ImageCall, ImageTask, ListedModel, Source, State, Submitted, UpstreamCause, UpstreamError,
    UpstreamErrorKind, VideoCall, VideoTask,
};

use super::progress::{Heard, heard};
use super::wire::{History, Line, Queued, Uploaded};
use super::workflow::{Values, Workflow};
use crate::http::escape;
use crate::media::{self, Asked, Form, NEWS_LIMIT, Queue, Server, from_handle, to_handle};

/// When a graph is first asked for.
const POLL_AFTER: Duration = Duration::from_secs(1);
/// The most pictures of a graph that can be told how many.
const MOST_AT_ONCE: u32 = 4;

/// A server of ComfyUI with workflows that are models.
#[derive(Debug)]
pub(crate) struct ComfyUi {
    workflows: BTreeMap<String, Workflow>,
}

#[derive(Serialize, Deserialize)]
struct Handle {
    id: String,
    /// As whom it was queued: whoever listens says so.
    #[serde(default)]
    client: String,
}

impl ComfyUi {
    /// Models by name.
    pub(crate) fn new(workflows: BTreeMap<String, Workflow>) -> Self {
        Self { workflows }
    }

    fn workflow(&self, model: &str) -> Result<&Workflow, UpstreamError> {
        let known = self.workflows.get(model);
        known.ok_or_else(|| UpstreamError::connect("no workflow is called like the model"))
    }

    /// Whether the model has this slot; of one that is not there nothing is refused, since it cannot be asked.
    fn lacks(&self, model: &str, slot: &str) -> bool {
        self.workflows
            .get(model)
            .is_some_and(|workflow| !workflow.has(slot))
    }

    async fn submitted(
        &self,
        server: &Server,
        ctx: &CallContext,
        order: Order<'_>,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let workflow = self.workflow(order.model)?;
        let mut values = order.values;
        // A graph that is the same again is not worked out again.
        values.entry("seed").or_insert_with(|| json!(seed_of(key)));
        for (slot, source) in order.files {
            let uploaded = uploaded(server, ctx, slot, source, key).await.map_err(unsent)?;
            values.insert(slot, uploaded.input());
        }
        let body = json!({"prompt": workflow.filled(&values), "client_id": key});
        let path = server.path("/prompt");
        let asked = Asked::json(&path, &body).with_key(key);
        let queued: Result<Queued, UpstreamError> = server.read(ctx, asked, NEWS_LIMIT).await;
        let Queued { prompt_id: id } = queued.map_err(of_graph)?;
        if id.is_empty() {
            return Err(UpstreamError::protocol("a graph without an id"));
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

/// What is put into a workflow.
struct Order<'a> {
    model: &'a str,
    values: Values,
    files: Vec<(&'static str, &'a Source)>,
}

/// A seed that follows from the key, small enough for every node.
fn seed_of(key: &str) -> u64 {
    let digest = Sha256::digest(key);
    let bytes = digest.iter().take(6);
    bytes.fold(0, |seed, byte| (seed << 8) | u64::from(*byte))
}

async fn uploaded(
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
    server.read(ctx, Asked::form(&path, form), NEWS_LIMIT).await
}

/// An upload that failed: the graph itself was not sent.
fn unsent(error: UpstreamError) -> UpstreamError {
    match error.cause {
        UpstreamCause::Status => error,
        _ => UpstreamError {
            cause: UpstreamCause::Connect,
            retry: Retry::Safe,
            ..error
        },
    }
}

/// A graph that is refused is the operator's: the caller has written none of it.
fn of_graph(error: UpstreamError) -> UpstreamError {
    match error.kind {
        UpstreamErrorKind::Rejected => UpstreamError {
            kind: UpstreamErrorKind::Unavailable,
            param: None,
            ..error
        },
        _ => error,
    }
}

async fn line(server: &Server, ctx: &CallContext) -> Result<Line, UpstreamError> {
    let path = server.path("/queue");
    server.read(ctx, Asked::get(&path), NEWS_LIMIT).await
}

/// What the history has of it; `None` while it is not done.
async fn done(server: &Server, ctx: &CallContext, id: &str) -> Result<Option<State>, UpstreamError> {
    let path = server.path(&format!("/history/{}", escape(id, "")));
    let mut history: History = server.read(ctx, Asked::get(&path), NEWS_LIMIT).await?;
    history.remove(id).map(|entry| entry.state(server)).transpose()
}

#[async_trait]
impl Queue for ComfyUi {
    fn most_at_once(&self, model: &str) -> u32 {
        match self.lacks(model, "count") {
            true => 1,
            false => MOST_AT_ONCE,
        }
    }

    fn check_pictures(&self, call: &ImageCall) -> Result<(), Error> {
        let lacks = |slot: &str| self.lacks(&call.upstream_model, slot);
        let has_negative = media::positive(&call.negative_prompt).is_some();
        let is_unsized = call.size.is_none();
        media::refuse_sent(&[
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

    fn check_film(&self, call: &VideoCall) -> Result<(), Error> {
        let lacks = |slot: &str| self.lacks(&call.upstream_model, slot);
        let has_negative = media::positive(&call.negative_prompt).is_some();
        media::refuse_sent(&[
            ("negative_prompt", has_negative && lacks("negative_prompt")),
            ("image", call.image.is_some() && lacks("image")),
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
        let mut values = Values::from([("prompt", json!(call.prompt)), ("count", json!(call.count))]);
        if let Some(negative) = media::positive(&call.negative_prompt) {
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
        let order = Order {
            model: &call.upstream_model,
            values,
            files: images.take(1).chain(masks).collect(),
        };
        self.submitted(server, ctx, order, key).await
    }

    async fn submit_film(
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
        if let Some(negative) = media::positive(&call.negative_prompt) {
            values.insert("negative_prompt", json!(negative));
        }
        if let Some(seed) = call.seed {
            values.insert("seed", json!(seed));
        }
        let order = Order {
            model: &call.upstream_model,
            values,
            files: call.image.iter().map(|image| ("image", image)).collect(),
        };
        self.submitted(server, ctx, order, key).await
    }

    async fn poll(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
        let Handle { id, client } = from_handle(handle)?;
        if let Some(state) = done(server, ctx, &id).await? {
            return Ok(state);
        }
        match line(server, ctx).await?.state(&id) {
            Some(State::Running { .. }) if !client.is_empty() => match heard(server, &client, &id).await {
                Some(Heard::Percent(percent)) => {
                    return Ok(State::Running {
                        percent: Some(percent),
                    });
                }
                None => return Ok(State::Running { percent: None }),
                // It says so before the history has it.
                Some(Heard::Ended) => {
                    if let Some(state) = line(server, ctx).await?.state(&id) {
                        return Ok(state);
                    }
                }
            },
            Some(state) => return Ok(state),
            None => {}
        }
        // It may have been done between the two questions.
        Ok(done(server, ctx, &id).await?.unwrap_or(State::Lost))
    }

    async fn cancel(&self, server: &Server, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let Handle { id, .. } = from_handle(handle)?;
        let path = server.path("/queue");
        let body = json!({"delete": [id]});
        server.tell(ctx, Asked::json(&path, &body)).await?;
        // Older servers stop whatever runs, so it is asked of what is ours alone.
        if !line(server, ctx).await?.runs(&id) {
            return Ok(());
        }
        let path = server.path("/interrupt");
        let body = json!({"prompt_id": id});
        server.tell(ctx, Asked::json(&path, &body)).await
    }

    /// What it has are the operator's workflows, which are named in the settings.
    async fn models(&self, server: &Server, timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        server.is_there("/queue", timeout).await?;
        Ok(Vec::new())
    }
}
