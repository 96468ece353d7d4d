//! What is sent and what comes back. Each model has a schema of its own; the names here are those that most of them
//! share, and a model leaves alone what it does not know.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_upstream::{ImageCall, ImageTask, Made, Piece, State, UpstreamError, VideoCall, VideoTask};

use crate::http::{BaseUrl, escape};
use crate::media;

/// Models whose lengths are written with their unit.
const WITH_UNIT: &[&str] = &["veo", "luma"];
/// Models whose references are a list of pictures like any other.
const PLAIN_REFERENCES: &[&str] = &["veo"];

/// The paths of one request.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handle {
    pub(super) status: String,
    pub(super) response: String,
    pub(super) cancel: String,
}

/// A request that was taken.
#[derive(Deserialize)]
pub(super) struct Accepted {
    request_id: String,
    status_url: Option<String>,
    response_url: Option<String>,
    cancel_url: Option<String>,
}

impl Accepted {
    /// Its paths: those that were told, as far as they are at the same server, else those that follow from the name
    /// of the model, of which the queue counts the first two parts alone.
    pub(super) fn handle(&self, base: &BaseUrl, model: &str) -> Result<Handle, UpstreamError> {
        if self.request_id.is_empty() {
            return Err(UpstreamError::protocol("a request without an id"));
        }
        let app: Vec<&str> = model.trim_matches('/').split('/').take(2).collect();
        let app = escape(&app.join("/"), "/");
        let path = base.path_of(&format!("/{app}/requests/{}", escape(&self.request_id, "")));
        let told = |url: &Option<String>, rest: &str| {
            let own = url.as_deref().and_then(|url| base.own_path(url));
            own.unwrap_or_else(|| format!("{path}{rest}"))
        };
        Ok(Handle {
            status: told(&self.status_url, "/status"),
            response: told(&self.response_url, ""),
            cancel: told(&self.cancel_url, "/cancel"),
        })
    }
}

/// How it goes with a request.
#[derive(Deserialize)]
pub(super) struct News {
    status: String,
    queue_position: Option<u32>,
}

impl News {
    /// What that means; `None` when there is a result to be looked at.
    pub(super) fn state(&self) -> Result<Option<State>, UpstreamError> {
        Ok(match self.status.as_str() {
            "IN_QUEUE" => Some(State::Waiting {
                ahead: self.queue_position,
            }),
            "IN_PROGRESS" => Some(State::Running { percent: None }),
            // Failures are told by the result.
            "COMPLETED" | "FAILED" => None,
            "CANCELED" | "CANCELLED" => Some(State::Cancelled),
            _ => return Err(UpstreamError::protocol("a request in a state that nobody knows")),
        })
    }
}

/// A result: what it has depends on the model.
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
    /// What was made, without what the model's own check has blackened.
    pub(super) fn state(self, base: &BaseUrl) -> Result<State, UpstreamError> {
        let single = self.image.into_iter().chain(self.video);
        let files: Vec<File> = self.images.into_iter().chain(self.videos).chain(single).collect();
        if files.is_empty() {
            return Err(UpstreamError::protocol(
                "a request that is done and has made nothing",
            ));
        }
        let flags = self.has_nsfw_concepts.into_iter().chain(std::iter::repeat(false));
        let shown = files.iter().zip(flags).filter(|(_, is_flagged)| !is_flagged);
        let pieces = shown.map(|(file, _)| {
            Ok(Piece {
                content: media::place(base, &file.url)?,
                revised_prompt: None,
            })
        });
        let pieces: Vec<Piece> = pieces.collect::<Result<_, UpstreamError>>()?;
        Ok(match pieces.is_empty() {
            true => State::Blocked,
            false => State::Made(Made { pieces, usage: None }),
        })
    }
}

/// The path of a model: its name, whose parts stay apart.
pub(super) fn model_path(model: &str) -> String {
    format!("/{}", escape(model.trim_matches('/'), "/"))
}

/// A request for pictures.
pub(super) fn of_pictures(call: &ImageCall) -> Value {
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

/// A request for a film.
pub(super) fn of_film(call: &VideoCall) -> Value {
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

/// All that an endpoint makes films of, where its path says so: many models have one for each task.
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
