//! Films by Veo: an operation is begun by `:predictLongRunning` and asked for until it is done
//! (ai.google.dev/gemini-api/docs/video,
//! cloud.google.com/vertex-ai/generative-ai/docs/model-reference/veo-video-generation). The Gemini API keeps the film
//! at an address of its own, Vertex AI tells it with the operation.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, Content, ContentStream, Made, Maker, Piece, State, Submitted, UpstreamError,
    UpstreamErrorKind, VideoCall, VideoTask,
};

use super::adapter::Gemini;
use super::surface::Surface;
use crate::http::escape;
use crate::media::{self, BODY_LIMIT, NEWS_LIMIT, encoded, from_handle, to_handle};
use crate::refusal;

/// When a film is first asked for.
const POLL_AFTER: Duration = Duration::from_secs(10);
/// What the codes of an operation's error mean (google.rpc.Code).
const MEANINGS: &[(u64, UpstreamErrorKind)] = &[
    (3, UpstreamErrorKind::Rejected),
    (7, UpstreamErrorKind::Credentials),
    (8, UpstreamErrorKind::RateLimited),
    (16, UpstreamErrorKind::Credentials),
];

#[derive(Serialize, Deserialize)]
struct Handle {
    model: String,
    operation: String,
}

#[derive(Deserialize)]
struct Operation {
    #[serde(default)]
    name: String,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    response: Outcome,
}

/// The films, and how many are withheld: in a member of its own at the Gemini API.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Outcome {
    generate_video_response: Option<Box<Outcome>>,
    generated_samples: Vec<Sample>,
    videos: Vec<Film>,
    rai_media_filtered_count: u32,
}

#[derive(Deserialize)]
struct Sample {
    video: Film,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Film {
    uri: Option<String>,
    bytes_base64_encoded: Option<String>,
}

/// A request.
/// Whether Vertex goes on with a film in this way: some models do, by seven seconds and no others
/// (cloud.google.com/vertex-ai/generative-ai/docs/video/extend-a-veo-video).
fn extends(call: &VideoCall) -> bool {
    const BY: Duration = Duration::from_secs(7);
    let models = ["veo-3.1-", "veo-2.0-generate-exp", "veo-2.0-generate-preview"];
    call.duration == BY && models.iter().any(|model| call.upstream_model.starts_with(model))
}

fn body_of(surface: &Surface, call: &VideoCall) -> Value {
    let mut instance = json!({"prompt": call.prompt});
    if let Some(image) = &call.image {
        instance["image"] = encoded(image);
    }
    if !call.references.is_empty() {
        let reference = |source| json!({"image": encoded(source), "referenceType": "asset"});
        instance["referenceImages"] = call.references.iter().map(reference).collect();
    }
    if let Some(video) = &call.video {
        instance["video"] = encoded(video);
    }
    let mut parameters = json!({
        "aspectRatio": &*call.aspect_ratio,
        "resolution": &*call.resolution,
        "sampleCount": 1,
    });
    if call.task != VideoTask::Extend {
        parameters["durationSeconds"] = json!(call.duration.as_secs());
    }
    if let Some(negative) = media::positive(&call.negative_prompt) {
        parameters["negativePrompt"] = json!(negative);
    }
    if let Some(seed) = call.seed {
        parameters["seed"] = json!(seed);
    }
    // The Gemini API's have sound always and refuse to be asked; Veo 2 has none anywhere.
    let has_choice = matches!(surface, Surface::Vertex { .. }) && !call.upstream_model.contains("veo-2");
    if has_choice {
        parameters["generateAudio"] = json!(call.audio);
    }
    json!({"instances": [instance], "parameters": parameters})
}

impl Outcome {
    fn films(self) -> (Vec<Film>, u32) {
        let inner = self.generate_video_response.map(|inner| *inner);
        let Outcome {
            generated_samples,
            videos,
            rai_media_filtered_count,
            ..
        } = inner.unwrap_or(Outcome {
            generate_video_response: None,
            ..self
        });
        let films = generated_samples
            .into_iter()
            .map(|sample| sample.video)
            .chain(videos);
        (films.collect(), rai_media_filtered_count)
    }
}

impl Gemini {
    fn film_state(&self, operation: Operation) -> Result<State, UpstreamError> {
        if !operation.done {
            return Ok(State::Running { percent: None });
        }
        if !operation.error.is_null() {
            return Ok(State::Failed(failed(&operation.error)));
        }
        let (films, withheld) = operation.response.films();
        if films.is_empty() {
            return match withheld {
                0 => Err(UpstreamError::protocol(
                    "an operation that is done and has made nothing",
                )),
                _ => Ok(State::Blocked),
            };
        }
        let pieces = films.iter().map(|film| {
            Ok(Piece {
                content: self.film_content(film)?,
                revised_prompt: None,
            })
        });
        Ok(State::Made(Made {
            pieces: pieces.collect::<Result<_, UpstreamError>>()?,
            usage: None,
        }))
    }

    fn film_content(&self, film: &Film) -> Result<Content, UpstreamError> {
        match (&film.bytes_base64_encoded, &film.uri) {
            (Some(text), _) => Ok(Content::Bytes(media::decoded(text)?)),
            (None, Some(uri)) => media::place(self.access.base(), uri),
            (None, None) => Err(UpstreamError::protocol(
                "a film with neither bytes nor an address",
            )),
        }
    }
}

fn failed(error: &Value) -> UpstreamError {
    let code = error["code"].as_u64();
    let meaning = MEANINGS.iter().find(|(known, _)| Some(*known) == code);
    let failure = refusal::from_failure(&json!({"error": error}));
    match meaning {
        Some((_, kind)) if failure.kind == UpstreamErrorKind::Unavailable => UpstreamError {
            kind: *kind,
            ..failure
        },
        _ => failure,
    }
}

#[async_trait]
impl Maker<VideoCall> for Gemini {
    fn check(&self, call: &VideoCall) -> Result<(), Error> {
        let extends = matches!(self.surface, Surface::Vertex { .. }) && extends(call);
        media::refuse_sent(&[
            ("extend_from", call.task == VideoTask::Extend && !extends),
            ("duration", media::seconds(call.duration).is_none()),
        ])
    }

    /// The service knows no keys.
    async fn submit(
        &self,
        ctx: &CallContext,
        call: &VideoCall,
        _key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let model = &call.upstream_model;
        let path = self.surface.path_of(model, "predictLongRunning");
        let body = body_of(&self.surface, call).to_string();
        let response = self.post(ctx, &path, body.into()).await;
        let response = response.map_err(media::uncertain)?;
        let operation: Operation = parsed(&response.whole(NEWS_LIMIT).await?)?;
        if operation.name.is_empty() {
            return Err(UpstreamError::protocol("an operation without a name"));
        }
        let handle = Handle {
            model: model.to_string(),
            operation: operation.name,
        };
        Ok(Submitted::Accepted {
            handle: to_handle(&handle)?,
            poll_after: POLL_AFTER,
        })
    }

    async fn poll(&self, ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
        let Handle { model, operation } = from_handle(handle)?;
        let response = match &self.surface {
            Surface::Gemini => {
                let path = self
                    .access
                    .base()
                    .path_of(&format!("/{}", escape(&operation, "/")));
                self.access.look(&self.http, ctx, &path).await?
            }
            Surface::Vertex { .. } => {
                let path = self.surface.path_of(&model, "fetchPredictOperation");
                let body = json!({"operationName": operation}).to_string();
                self.send(ctx, &path, body.into()).await?
            }
        };
        match response.status {
            200..=299 => self.film_state(parsed(&response.whole(BODY_LIMIT).await?)?),
            404 | 410 => Ok(State::Lost),
            _ => Err(refusal::from_response(response, self.http.settings()).await),
        }
    }

    /// There is no way to say so: the film is made, and left where it is.
    async fn cancel(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<(), UpstreamError> {
        Ok(())
    }

    async fn fetch(&self, ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        media::followed(self.access.base(), &self.http, own, |path| async move {
            self.access.look(&self.http, ctx, &path).await
        })
        .await
    }
}

fn parsed<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, UpstreamError> {
    serde_json::from_slice(body)
        .map_err(|_| UpstreamError::protocol(format!("the answer is not as agreed ({} bytes)", body.len())))
}
