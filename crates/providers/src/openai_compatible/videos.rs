//! Films of a provider of the format: one is submitted, asked for until it is there, and fetched from the provider.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, Content, ContentStream, Made, Maker, Piece, State, Submitted, UpstreamError, VideoCall,
    VideoTask,
};

use super::images::extension;
use super::presets::Videos;
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient, escape};
use crate::media::{self, Asked, Form, NEWS_LIMIT, Server, from_handle, to_handle};
use crate::refusal;

/// When a film is first asked for.
const POLL_AFTER: Duration = Duration::from_secs(5);

/// Where the films are made, and how they differ.
#[derive(Debug)]
pub(super) struct VideoMaker {
    row: &'static Videos,
    server: Server,
}

/// The paths of one film.
#[derive(Serialize, Deserialize)]
struct Handle {
    job: String,
    content: String,
}

/// What is told of a film.
#[derive(Deserialize)]
struct News {
    #[serde(default)]
    id: String,
    status: String,
    progress: Option<f64>,
    #[serde(default)]
    error: Value,
}

impl VideoMaker {
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

    /// The fields of a request that are no files. Seconds are a text in this format.
    fn fields(&self, call: &VideoCall) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        add("model", json!(&*call.upstream_model));
        add("prompt", json!(call.prompt));
        add("seconds", json!(call.duration.as_secs().to_string()));
        add("size", json!(format!("{}x{}", call.size.width, call.size.height)));
        let negative = media::positive(&call.negative_prompt);
        if let Some(negative) = negative.filter(|_| self.takes("negative_prompt")) {
            add("negative_prompt", json!(negative));
        }
        if let Some(seed) = call.seed.filter(|_| self.takes("seed")) {
            add("seed", json!(seed));
        }
        if let Some(name) = self.row.sound {
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

/// How it goes, by what is told.
fn state(news: News, content: String) -> Result<State, UpstreamError> {
    Ok(match news.status.as_str() {
        "queued" => State::Waiting { ahead: None },
        "in_progress" => State::Running {
            percent: news.progress.map(|done| done.clamp(0.0, 100.0) as u8),
        },
        "completed" => State::Made(Made {
            pieces: vec![Piece {
                content: Content::Own(content),
                revised_prompt: None,
            }],
            usage: None,
        }),
        "failed" => State::Failed(refusal::from_failure(&json!({"error": news.error}))),
        "cancelled" => State::Cancelled,
        "expired" => State::Lost,
        _ => return Err(UpstreamError::protocol("a film in a state that nobody knows")),
    })
}

#[async_trait]
impl Maker<VideoCall> for VideoMaker {
    fn check(&self, call: &VideoCall) -> Result<(), Error> {
        let has_negative = media::positive(&call.negative_prompt).is_some();
        media::refuse_sent(&[
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
        let asked = match call.image.is_some() || self.row.only_forms {
            true => Asked::form(&path, self.form(call)?),
            false => Asked::json(&path, &Value::Object(self.fields(call))),
        };
        let news: News = self.server.read(ctx, asked.with_key(key), NEWS_LIMIT).await?;
        if news.id.is_empty() {
            return Err(UpstreamError::protocol("a film without an id"));
        }
        let id = escape(&news.id, "");
        let handle = Handle {
            job: self.path(&call.upstream_model, &format!("/{id}")),
            content: self.path(&call.upstream_model, &format!("/{id}/content")),
        };
        Ok(Submitted::Accepted {
            handle: to_handle(&handle)?,
            poll_after: POLL_AFTER,
        })
    }

    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
        let Handle { job, content } = from_handle(handle)?;
        let news = self
            .server
            .read_if_there(ctx, Asked::get(&job), NEWS_LIMIT)
            .await?;
        news.map_or(Ok(State::Lost), |news| state(news, content))
    }

    async fn cancel(&self, ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let Handle { job, .. } = from_handle(handle)?;
        self.server.tell(ctx, Asked::delete(&job)).await
    }

    async fn fetch(&self, ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        self.server.download(ctx, own).await
    }
}
