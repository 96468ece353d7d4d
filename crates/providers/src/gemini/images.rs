//! Images. Imagen uses `:predict`; other models generate content that contains images
//! (ai.google.dev/gemini-api/docs/imagen and …/image-generation). The response contains the images.

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_formats::gemini::inspect_response;
use tollgate_types::Error;
use tollgate_upstream::{
    CallContext, Content, ContentStream, GenerationOutput, GenerationState, ImageCall, ImageTask,
    JobProvider, OutputItem, Submitted, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::adapter::{Gemini, blocked};
use crate::media::{self, BODY_LIMIT, encoded};
use crate::refusal;

/// Maximum number of images of one request to Imagen.
const MAX_IMAGEN_OUTPUTS: u32 = 4;
/// Finish reasons of responses whose image is withheld.
const BLOCKED_FINISH_REASONS: &[&str] = &[
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

/// Returns the fields of the aspect ratio and of the resolution, the latter under `step_name`. The
/// API does not accept sizes in pixels.
fn shape_of(call: &ImageCall, step_name: &str) -> Map<String, Value> {
    let mut shape = Map::new();
    let stated = call.aspect_ratio.as_deref().map(str::to_owned);
    if let Some(ratio) = stated.or_else(|| call.size.map(media::ratio)) {
        shape.insert("aspectRatio".to_owned(), json!(ratio));
    }
    if let Some(step) = &call.resolution {
        shape.insert(step_name.to_owned(), json!(step.to_uppercase()));
    }
    shape
}

fn imagen_request(call: &ImageCall) -> Value {
    let mut parameters = shape_of(call, "sampleImageSize");
    parameters.insert("sampleCount".to_owned(), json!(call.count));
    json!({"instances": [{"prompt": call.prompt}], "parameters": parameters})
}

fn content_request(call: &ImageCall) -> Value {
    let images = call.images.iter().map(|image| {
        let Value::Object(mut fields) = encoded(image) else {
            return Value::Null;
        };
        let data = fields.remove("bytesBase64Encoded");
        json!({"inlineData": {"mimeType": &*image.mime_type, "data": data}})
    });
    let text = Some(json!({"text": call.prompt})).filter(|_| !call.prompt.is_empty());
    let parts: Vec<Value> = images.chain(text).collect();
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
    /// The rewritten prompt, if the response contains it.
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
    /// Whether the part is an intermediate image of the model's thinking, not a result.
    #[serde(default)]
    thought: bool,
}

#[derive(Deserialize)]
struct Inline {
    data: String,
}

fn withheld() -> UpstreamError {
    let detail = "the provider withheld the images";
    UpstreamError::new(UpstreamErrorKind::ContentBlocked, UpstreamCause::Status, detail)
}

/// Parses Imagen's response, which omits withheld images. The response gives the reason only if the
/// request sets the corresponding parameter. A response without images is an error.
fn read_predictions(body: &Bytes) -> Result<GenerationOutput, UpstreamError> {
    let answer: Predictions = serde_json::from_slice(body).map_err(|_| no_images(body))?;
    let items = answer.predictions.into_iter().filter_map(|prediction| {
        let text = prediction.bytes_base64_encoded?;
        Some(media::decoded(&text).map(|bytes| OutputItem {
            content: Content::Bytes(bytes),
            revised_prompt: prediction.prompt,
        }))
    });
    let items: Vec<OutputItem> = items.collect::<Result<_, UpstreamError>>()?;
    match items.is_empty() {
        true => Err(withheld()),
        false => Ok(GenerationOutput { items, usage: None }),
    }
}

fn no_images(body: &Bytes) -> UpstreamError {
    UpstreamError::protocol(format!("the response has no images ({} bytes)", body.len()))
}

impl Gemini {
    fn read_candidates(&self, body: &Bytes) -> Result<GenerationOutput, UpstreamError> {
        let head = inspect_response(body, &self.origin).map_err(|_| no_images(body))?;
        if head.is_error {
            return Err(refusal::from_object(body));
        }
        if head.candidates == 0 && head.is_blocked {
            return Err(blocked());
        }
        let answer: Answer = serde_json::from_slice(body).map_err(|_| no_images(body))?;
        let ends = answer
            .candidates
            .iter()
            .filter_map(|candidate| candidate.finish_reason.as_deref());
        let is_withheld = ends.into_iter().any(|end| BLOCKED_FINISH_REASONS.contains(&end));
        let parts = answer
            .candidates
            .into_iter()
            .flat_map(|candidate| candidate.content.parts);
        let images = parts
            .filter(|part| !part.thought)
            .filter_map(|part| part.inline_data);
        let items = images.map(|image| {
            Ok(OutputItem {
                content: Content::Bytes(media::decoded(&image.data)?),
                revised_prompt: None,
            })
        });
        let items: Vec<OutputItem> = items.collect::<Result<_, UpstreamError>>()?;
        match (items.is_empty(), is_withheld) {
            (false, _) => Ok(GenerationOutput {
                items,
                usage: head.usage,
            }),
            (true, true) => Err(withheld()),
            (true, false) => Err(no_images(body)),
        }
    }
}

#[async_trait]
impl JobProvider<ImageCall> for Gemini {
    fn max_outputs(&self, upstream_model: &str) -> u32 {
        match is_imagen(upstream_model) {
            true => MAX_IMAGEN_OUTPUTS,
            false => 1,
        }
    }

    fn check(&self, call: &ImageCall) -> Result<(), Error> {
        media::reject_unsupported(&[
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
                media::non_empty(&call.negative_prompt).is_some(),
            ),
        ])
    }

    /// Submits the call without the idempotency key, which the service does not support.
    async fn submit(
        &self,
        ctx: &CallContext,
        call: &ImageCall,
        _key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let is_imagen = is_imagen(&call.upstream_model);
        let (action, body) = match is_imagen {
            true => ("predict", imagen_request(call)),
            false => ("generateContent", content_request(call)),
        };
        let path = self.surface.path_of(&call.upstream_model, action);
        let response = self.post(ctx, &path, body.to_string().into()).await;
        let response = response.map_err(media::with_unknown_retry)?;
        let body = response.whole(BODY_LIMIT).await?;
        Ok(Submitted::Completed(match is_imagen {
            true => read_predictions(&body)?,
            false => self.read_candidates(&body)?,
        }))
    }

    async fn poll(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<GenerationState, UpstreamError> {
        Ok(GenerationState::Lost)
    }

    async fn cancel(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<(), UpstreamError> {
        Ok(())
    }

    async fn fetch(&self, _ctx: &CallContext, _own: &str) -> Result<ContentStream, UpstreamError> {
        Err(UpstreamError::connect(
            "cannot download images: the response contains them",
        ))
    }
}
