//! Images: JSON for generations from a prompt, a form for edits and variations of images. The
//! response contains the images or their URLs, so no polling is needed.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Error, Usage};
use tollgate_upstream::{
    CallContext, Content, ContentStream, GenerationOutput, GenerationState, ImageCall, ImageTask,
    JobProvider, OutputItem, Submitted, UpstreamError,
};

use super::presets::{ImageBytes, ImageSizeFields, Images};
use crate::http::{BaseUrl, Credential, EndpointError, HttpClient};
use crate::media::{self, BODY_LIMIT, Form, Request, Server};
use crate::refusal;

/// Endpoint of the images and its differences from OpenAI's.
#[derive(Debug)]
pub(super) struct ImagesEndpoint {
    row: &'static Images,
    server: Server,
}

impl ImagesEndpoint {
    pub(super) fn new(
        row: &'static Images,
        base: &BaseUrl,
        credentials: &[Credential],
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let server = Server::new(base, credentials, http)?;
        Ok(Self { row, server })
    }

    /// Converts a path below the base URL of a model to one below the root.
    fn path(&self, model: &str, path: &str) -> String {
        self.server.base().for_model(model).path_of(path)
    }

    fn takes(&self, field: &str) -> bool {
        self.row.takes.contains(&field)
    }

    /// Whether the model is an older one (`dall-e-…`) of a provider that also has newer ones.
    fn is_older(&self, model: &str) -> bool {
        self.row.bytes == ImageBytes::RequestFromOldModels && model.starts_with("dall-e")
    }

    /// Returns the request fields except files.
    fn fields(&self, call: &ImageCall) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        let model = &*call.upstream_model;
        add("model", json!(model));
        if call.task != ImageTask::Vary {
            add("prompt", json!(call.prompt));
        }
        add("n", json!(call.count));
        match (self.row.size, call.size) {
            (ImageSizeFields::Joined, Some(size)) => {
                add("size", json!(format!("{}x{}", size.width, size.height)));
            }
            (ImageSizeFields::Apart, Some(size)) => {
                add("width", json!(size.width));
                add("height", json!(size.height));
            }
            (ImageSizeFields::Ratio, _) => {
                let stated = call.aspect_ratio.as_deref().map(str::to_owned);
                if let Some(ratio) = stated.or_else(|| call.size.map(media::ratio)) {
                    add("aspect_ratio", json!(ratio));
                }
                if let Some(step) = &call.resolution {
                    add("resolution", json!(**step));
                }
            }
            (_, None) => {}
        }
        let is_older = self.is_older(model);
        match self.row.bytes {
            ImageBytes::Request(name) => drop(add("response_format", json!(name))),
            ImageBytes::RequestFromOldModels if is_older => drop(add("response_format", json!("b64_json"))),
            ImageBytes::RequestFromOldModels => {}
        }
        if let Some(format) = call.format.filter(|_| self.takes("output_format") && !is_older) {
            add("output_format", json!(format.as_str()));
        }
        if let Some(quality) = call.quality.as_deref().filter(|_| self.takes("quality")) {
            add("quality", json!(quality));
        }
        let negative = media::non_empty(&call.negative_prompt);
        if let Some(negative) = negative.filter(|_| self.takes("negative_prompt")) {
            add("negative_prompt", json!(negative));
        }
        if let Some(seed) = call.seed.filter(|_| self.takes("seed")) {
            add("seed", json!(seed));
        }
        fields
    }

    fn form(&self, call: &ImageCall) -> Result<Form, UpstreamError> {
        let mut form = Form::new()?;
        for (name, value) in self.fields(call) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            form.text(&name, &text);
        }
        let name = if call.images.len() > 1 { "image[]" } else { "image" };
        for (number, image) in call.images.iter().enumerate() {
            form.file(
                name,
                &format!("image-{number}.{}", extension(&image.mime_type)),
                image,
            );
        }
        if let Some(mask) = &call.mask {
            form.file("mask", &format!("mask.{}", extension(&mask.mime_type)), mask);
        }
        Ok(form)
    }

    fn made(&self, body: &Bytes, prompt: &str) -> Result<GenerationOutput, UpstreamError> {
        let no_images = |what: &str| UpstreamError::protocol(format!("{what} ({} bytes)", body.len()));
        let answer: Answer =
            serde_json::from_slice(body).map_err(|_| no_images("the response is not an image list"))?;
        if answer.error.is_some() {
            return Err(refusal::from_object(body));
        }
        if answer.data.is_empty() {
            return Err(no_images("the response has no images"));
        }
        let items = answer.data.into_iter().map(|item| {
            Ok(OutputItem {
                content: self.content(&item)?,
                revised_prompt: item
                    .revised_prompt
                    .filter(|revised| !revised.is_empty() && revised != prompt),
            })
        });
        Ok(GenerationOutput {
            items: items.collect::<Result<_, UpstreamError>>()?,
            usage: answer.usage.and_then(|usage| usage.checked_usage()),
        })
    }

    fn content(&self, item: &Item) -> Result<Content, UpstreamError> {
        match (&item.b64_json, &item.url) {
            (Some(text), _) if !text.is_empty() => Ok(Content::Bytes(media::decoded(text)?)),
            (_, Some(url)) => media::content_at(self.server.base(), url),
            _ => Err(UpstreamError::protocol("an image has neither bytes nor a URL")),
        }
    }
}

/// Returns the file name extension of a media type. Some servers use the file name instead of the
/// media type.
pub(super) fn extension(mime_type: &str) -> &'static str {
    match mime_type {
        "image/jpeg" => "jpg",
        "image/webp" => "webp",
        "image/gif" => "gif",
        _ => "png",
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Vec<Item>,
    usage: Option<Tokens>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Item {
    b64_json: Option<String>,
    url: Option<String>,
    revised_prompt: Option<String>,
}

/// Usage of a response. Some providers count text and image tokens separately; this struct ignores
/// the difference.
#[derive(Deserialize)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Tokens {
    fn checked_usage(&self) -> Option<Usage> {
        let (input, output) = (self.input_tokens?, self.output_tokens?);
        (input.max(output) <= MAX_QUANTITY).then(|| Usage::tokens(input, output))
    }
}

#[async_trait]
impl JobProvider<ImageCall> for ImagesEndpoint {
    fn max_outputs(&self, upstream_model: &str) -> u32 {
        match self.is_older(upstream_model) && upstream_model.starts_with("dall-e-3") {
            true => 1,
            false => self.row.max_outputs,
        }
    }

    fn is_idempotent(&self) -> bool {
        self.row.is_idempotent
    }

    fn check(&self, call: &ImageCall) -> Result<(), Error> {
        let is_edit = matches!(call.task, ImageTask::Edit | ImageTask::Inpaint);
        let is_unsized = call.size.is_none() && self.row.size != ImageSizeFields::Ratio;
        let has_negative = media::non_empty(&call.negative_prompt).is_some();
        media::reject_unsupported(&[
            (
                "variation_of",
                call.task == ImageTask::Vary && self.row.variations.is_none(),
            ),
            ("image", is_edit && self.row.edits.is_none()),
            ("mask", call.mask.is_some() && !self.row.masks),
            ("image_set", call.set),
            ("aspect_ratio", call.aspect_ratio.is_some() && is_unsized),
            ("resolution", call.resolution.is_some() && is_unsized),
            ("quality", call.quality.is_some() && !self.takes("quality")),
            ("negative_prompt", has_negative && !self.takes("negative_prompt")),
        ])
    }

    async fn submit(
        &self,
        ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let lacking = || UpstreamError::connect("the provider has no endpoint for this task");
        let path = match call.task {
            ImageTask::Generate => self.row.path,
            ImageTask::Edit | ImageTask::Inpaint => self.row.edits.ok_or_else(lacking)?,
            ImageTask::Vary => self.row.variations.ok_or_else(lacking)?,
        };
        let path = self.path(&call.upstream_model, path);
        let request = match call.task {
            ImageTask::Generate => Request::json(&path, &Value::Object(self.fields(call))),
            _ => Request::form(&path, self.form(call)?),
        };
        let response = self.server.send_checked(ctx, request.with_key(key)).await?;
        let body = response.whole(BODY_LIMIT).await?;
        Ok(Submitted::Completed(self.made(&body, &call.prompt)?))
    }

    async fn poll(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<GenerationState, UpstreamError> {
        Ok(GenerationState::Lost)
    }

    async fn cancel(&self, _ctx: &CallContext, _handle: &[u8]) -> Result<(), UpstreamError> {
        Ok(())
    }

    async fn fetch(&self, ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        self.server.download(ctx, own).await
    }
}
