//! Request and response bodies. Each model has its own schema; this module uses the names that the
//! models have in common. Models ignore unknown fields.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_upstream::{
    GenerationOutput, GenerationState, ImageCall, ImageTask, OutputItem, UpstreamError, VideoCall, VideoTask,
};

use crate::http::{BaseUrl, escape};
use crate::media;

/// Substrings of the names of models whose durations have a unit, such as `8s`.
const WITH_UNIT: &[&str] = &["veo", "luma"];
/// Substrings of the names of models whose reference images are in `image_urls`.
const PLAIN_REFERENCES: &[&str] = &["veo"];

/// Paths of one request on the server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handle {
    pub(super) status: String,
    pub(super) response: String,
    pub(super) cancel: String,
}

/// Response to a submitted request.
#[derive(Deserialize)]
pub(super) struct Accepted {
    request_id: String,
    status_url: Option<String>,
    response_url: Option<String>,
    cancel_url: Option<String>,
}

impl Accepted {
    /// Returns the request's paths. Uses the reported URLs that are on the same server; otherwise,
    /// derives the paths from the first two segments of the model's name.
    pub(super) fn handle(&self, base: &BaseUrl, model: &str) -> Result<Handle, UpstreamError> {
        if self.request_id.is_empty() {
            return Err(UpstreamError::protocol("the response has an empty `request_id`"));
        }
        let app: Vec<&str> = model.trim_matches('/').split('/').take(2).collect();
        let app = escape(&app.join("/"), "/");
        let path = base.path_of(&format!("/{app}/requests/{}", escape(&self.request_id, "")));
        let own_path_or = |url: &Option<String>, rest: &str| {
            let own = url.as_deref().and_then(|url| base.own_path(url));
            own.unwrap_or_else(|| format!("{path}{rest}"))
        };
        Ok(Handle {
            status: own_path_or(&self.status_url, "/status"),
            response: own_path_or(&self.response_url, ""),
            cancel: own_path_or(&self.cancel_url, "/cancel"),
        })
    }
}

/// Response to a status request.
#[derive(Deserialize)]
pub(super) struct QueueStatus {
    status: String,
    queue_position: Option<u32>,
}

impl QueueStatus {
    /// Converts the status; `None` if the result must be read.
    pub(super) fn state(&self) -> Result<Option<GenerationState>, UpstreamError> {
        Ok(match self.status.as_str() {
            "IN_QUEUE" => Some(GenerationState::Waiting {
                ahead: self.queue_position,
            }),
            "IN_PROGRESS" => Some(GenerationState::Running { percent: None }),
            // The result of a failed request contains the error.
            "COMPLETED" | "FAILED" => None,
            "CANCELED" | "CANCELLED" => Some(GenerationState::Cancelled),
            _ => return Err(UpstreamError::protocol("the request has an unknown status")),
        })
    }
}

/// The result of a request. Its fields depend on the model.
#[derive(Deserialize)]
pub(super) struct Output {
    #[serde(default)]
    images: Vec<File>,
    image: Option<File>,
    #[serde(default)]
    videos: Vec<File>,
    video: Option<File>,
    #[serde(default)]
    has_nsfw_concepts: Vec<bool>,
}

#[derive(Deserialize)]
struct File {
    url: String,
}

impl Output {
    /// Returns the outputs, without those that the model's safety check has blacked out. If none
    /// are left, the request was blocked.
    pub(super) fn state(self, base: &BaseUrl) -> Result<GenerationState, UpstreamError> {
        let single = self.image.into_iter().chain(self.video);
        let files: Vec<File> = self.images.into_iter().chain(self.videos).chain(single).collect();
        if files.is_empty() {
            return Err(UpstreamError::protocol("the request completed without output"));
        }
        let flags = self.has_nsfw_concepts.into_iter().chain(std::iter::repeat(false));
        let shown = files.iter().zip(flags).filter(|(_, is_flagged)| !is_flagged);
        let items = shown.map(|(file, _)| {
            Ok(OutputItem {
                content: media::content_at(base, &file.url)?,
                revised_prompt: None,
            })
        });
        let items: Vec<OutputItem> = items.collect::<Result<_, UpstreamError>>()?;
        Ok(match items.is_empty() {
            true => GenerationState::Blocked,
            false => GenerationState::Completed(GenerationOutput { items, usage: None }),
        })
    }
}

/// Returns the path of a model: its name, percent-encoded except for the slashes.
pub(super) fn model_path(model: &str) -> String {
    format!("/{}", escape(model.trim_matches('/'), "/"))
}

/// Encodes an image request.
pub(super) fn image_request(call: &ImageCall) -> Value {
    let mut fields = media::fields(&call.prompt, &call.negative_prompt, call.seed);
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("num_images", json!(call.count));
    if let Some(size) = call.size {
        add("image_size", json!({"width": size.width, "height": size.height}));
    }
    let words = [
        ("aspect_ratio", &call.aspect_ratio),
        ("resolution", &call.resolution),
        ("quality", &call.quality),
    ];
    for (name, word) in words {
        if let Some(word) = word {
            add(name, json!(**word));
        }
    }
    if let Some(format) = call.format {
        add("output_format", json!(format.as_str()));
    }
    let is_list = call.images.len() > 1 || is_named(&call.upstream_model, &["edit", "multi"]);
    match &call.images[..] {
        [] => {}
        [image] if !is_list || call.task != ImageTask::Edit => drop(add("image_url", media::data_url(image))),
        images => drop(add("image_urls", images.iter().map(media::data_url).collect())),
    }
    Value::Object(fields)
}

/// Encodes a video request.
pub(super) fn video_request(call: &VideoCall) -> Value {
    let mut fields = media::fields(&call.prompt, &call.negative_prompt, call.seed);
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    let model = &call.upstream_model;
    let unit = if is_named(model, WITH_UNIT) { "s" } else { "" };
    add("duration", json!(format!("{}{unit}", call.duration.as_secs())));
    add("aspect_ratio", json!(&*call.aspect_ratio));
    add("resolution", json!(&*call.resolution));
    add("generate_audio", json!(call.audio));
    if let Some(image) = &call.image {
        add("image_url", media::data_url(image));
    }
    if !call.references.is_empty() {
        let name = match is_named(model, PLAIN_REFERENCES) {
            true => "image_urls",
            false => "reference_image_urls",
        };
        add(name, call.references.iter().map(media::data_url).collect());
    }
    if let Some(video) = call.video.as_ref().filter(|_| call.task == VideoTask::Extend) {
        add("video_url", media::data_url(video));
    }
    Value::Object(fields)
}

/// Returns the only video task of an endpoint, if its path names one. Many models have one endpoint
/// for each task.
pub(super) fn only_task(model: &str) -> Option<VideoTask> {
    let tasks = [
        ("extend", VideoTask::Extend),
        ("image-to-video", VideoTask::FromImage),
        ("reference-to-video", VideoTask::FromReferences),
        ("text-to-video", VideoTask::FromText),
    ];
    let named = tasks.into_iter().find(|(word, _)| model.contains(word));
    named.map(|(_, task)| task)
}

fn is_named(model: &str, words: &[&str]) -> bool {
    words.iter().any(|word| model.contains(word))
}
