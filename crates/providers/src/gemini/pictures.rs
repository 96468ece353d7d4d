//! Pictures: by Imagen with `:predict`, by all other models as generated content that is a picture
//! (ai.google.dev/gemini-api/docs/imagen and …/image-generation). They come with the answer.

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_formats::gemini::inspect_response;
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, Content, ContentStream, ImageCall, ImageTask, Made, Maker, Piece, State, Submitted,
    UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::adapter::{Gemini, blocked};
use crate::media::{self, BODY_LIMIT, encoded};
use crate::refusal;

/// The most pictures of one request to Imagen.
const MOST_OF_IMAGEN: u32 = 4;
/// How an answer ends whose picture is withheld.
const WITHHELD: &[&str] = &[
    "SAFETY",
    "PROHIBITED_CONTENT",
    "BLOCKLIST",
    "RECITATION",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
];

fn is_imagen(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.starts_with("imagen")
}

/// The ratio and step of a size, under these names. Pixels cannot be said.
fn shape_of(call: &ImageCall, step_name: &str) -> Map<String, Value> {
    let mut shape = Map::new();
    let told = call.aspect_ratio.as_deref().map(str::to_owned);
    if let Some(ratio) = told.or_else(|| call.size.map(media::ratio)) {
        shape.insert("aspectRatio".to_owned(), json!(ratio));
    }
    if let Some(step) = &call.resolution {
        shape.insert(step_name.to_owned(), json!(step.to_uppercase()));
    }
    shape
}

fn of_imagen(call: &ImageCall) -> Value {
    let mut parameters = shape_of(call, "sampleImageSize");
    parameters.insert("sampleCount".to_owned(), json!(call.count));
    json!({"instances": [{"prompt": call.prompt}], "parameters": parameters})
}

fn of_content(call: &ImageCall) -> Value {
    let pictures = call.images.iter().map(|image| {
        let Value::Object(mut fields) = encoded(image) else {
            return Value::Null;
        };
        let data = fields.remove("bytesBase64Encoded");
        json!({"inlineData": {"mimeType": &*image.mime_type, "data": data}})
    });
    let text = Some(json!({"text": call.prompt})).filter(|_| !call.prompt.is_empty());
    let parts: Vec<Value> = pictures.chain(text).collect();
    let mut config = json!({"responseModalities": ["IMAGE"], "imageConfig": shape_of(call, "imageSize")});
    if let Some(seed) = call.seed {
        config["seed"] = json!(seed);
    }
    json!({"contents": [{"role": "user", "parts": parts}], "generationConfig": config})
}

#[derive(Deserialize)]
struct Predictions {
    #[serde(default)]
    predictions: Vec<Prediction>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prediction {
    bytes_base64_encoded: Option<String>,
    /// The prompt that was used, where it is another one.
    prompt: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Parts,
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Parts {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    inline_data: Option<Inline>,
    /// Sketches on the way are no result.
    #[serde(default)]
    thought: bool,
}

#[derive(Deserialize)]
struct Inline {
    data: String,
}

fn withheld() -> UpstreamError {
    let detail = "what was made is withheld";
    UpstreamError::new(UpstreamErrorKind::ContentBlocked, UpstreamCause::Status, detail)
}

/// What Imagen leaves out is left out without a word, unless it is asked for one.
fn of_predictions(body: &Bytes) -> Result<Made, UpstreamError> {
    let answer: Predictions = serde_json::from_slice(body).map_err(|_| no_pictures(body))?;
    let pieces = answer.predictions.into_iter().filter_map(|prediction| {
        let text = prediction.bytes_base64_encoded?;
        Some(media::decoded(&text).map(|bytes| Piece {
            content: Content::Bytes(bytes),
            revised_prompt: prediction.prompt,
        }))
    });
    let pieces: Vec<Piece> = pieces.collect::<Result<_, UpstreamError>>()?;
    match pieces.is_empty() {
        true => Err(withheld()),
        false => Ok(Made { pieces, usage: None }),
    }
}

fn no_pictures(body: &Bytes) -> UpstreamError {
    UpstreamError::protocol(format!("the answer has no pictures ({} bytes)", body.len()))
}

impl Gemini {
    fn of_candidates(&self, body: &Bytes) -> Result<Made, UpstreamError> {
        let head = inspect_response(body, &self.origin).map_err(|_| no_pictures(body))?;
        if head.is_error {
            return Err(refusal::from_object(body));
        }
        if head.candidates == 0 && head.is_blocked {
            return Err(blocked());
        }
        let answer: Answer = serde_json::from_slice(body).map_err(|_| no_pictures(body))?;
        let ends = answer
            .candidates
            .iter()
            .filter_map(|candidate| candidate.finish_reason.as_deref());
        let is_withheld = ends.into_iter().any(|end| WITHHELD.contains(&end));
        let parts = answer
            .candidates
            .into_iter()
            .flat_map(|candidate| candidate.content.parts);
        let pictures = parts
            .filter(|part| !part.thought)
            .filter_map(|part| part.inline_data);
        let pieces = pictures.map(|picture| {
            Ok(Piece {
                content: Content::Bytes(media::decoded(&picture.data)?),
                revised_prompt: None,
            })
        });
        let pieces: Vec<Piece> = pieces.collect::<Result<_, UpstreamError>>()?;
        match (pieces.is_empty(), is_withheld) {
            (false, _) => Ok(Made {
                pieces,
                usage: head.usage,
            }),
            (true, true) => Err(withheld()),
            (true, false) => Err(no_pictures(body)),
        }
    }
}

#[async_trait]
impl Maker<ImageCall> for Gemini {
    fn most_at_once(&self, upstream_model: &str) -> u32 {
        match is_imagen(upstream_model) {
            true => MOST_OF_IMAGEN,
            false => 1,
        }
    }

    fn check(&self, call: &ImageCall) -> Result<(), Error> {
        media::refuse_sent(&[
            ("variation_of", call.task == ImageTask::Vary),
            (
                "image",
                !call.images.is_empty() && is_imagen(&call.upstream_model),
            ),
            ("mask", call.mask.is_some()),
            ("image_set", call.set),
            ("quality", call.quality.is_some()),
            (
                "negative_prompt",
                media::positive(&call.negative_prompt).is_some(),
            ),
        ])
    }

    /// The service knows no keys.
    async fn submit(
        &self,
        ctx: &CallContext,
        call: &ImageCall,
        _key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let is_imagen = is_imagen(&call.upstream_model);
        let (action, body) = match is_imagen {
            true => ("predict", of_imagen(call)),
            false => ("generateContent", of_content(call)),
        };
        let path = self.surface.path_of(&call.upstream_model, action);
        let response = self.post(ctx, &path, body.to_string().into()).await;
        let response = response.map_err(media::uncertain)?;
        let body = response.whole(BODY_LIMIT).await?;
        Ok(Submitted::Made(match is_imagen {
            true => of_predictions(&body)?,
            false => self.of_candidates(&body)?,
        }))
    }

    async fn poll(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<State, UpstreamError> {
        Ok(State::Lost)
    }

    async fn cancel(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<(), UpstreamError> {
        Ok(())
    }

    async fn fetch(&self, _ctx: &CallContext, _own: &str) -> Result<ContentStream, UpstreamError> {
        Err(UpstreamError::connect("pictures come with the answer"))
    }
}
