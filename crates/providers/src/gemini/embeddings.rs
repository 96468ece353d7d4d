//! Embeddings. The Gemini API accepts all texts in one `:batchEmbedContents`, and Vertex AI in one
//! `:predict`. Newer models of Vertex AI accept one text in `:embedContent`.

use async_trait::async_trait;
use tollgate_formats::DecodeError;
use tollgate_formats::embeddings::decode_request;
use tollgate_formats::gemini::{
    EMBED_FIELDS, decode_embed_content, decode_embeddings, decode_predictions, encode_embed_content_request,
    encode_embed_request, encode_predict_request,
};
use tollgate_types::embed::{EmbedRequest, EmbedResponse};
use tollgate_upstream::{CallContext, EmbedAnswer, EmbedCall, EmbedPayload, EmbedProvider, UpstreamError};

use super::adapter::Gemini;
use super::surface::Surface;
use crate::conversion::not_in_format;

/// Action of a service, and the functions that encode its request and decode its response.
type Shape = (
    &'static str,
    fn(&EmbedRequest) -> Result<Vec<u8>, DecodeError>,
    fn(&[u8]) -> Result<EmbedResponse, DecodeError>,
);

fn shape(surface: &Surface, model: &str) -> Shape {
    let name = model.rsplit('/').next().unwrap_or(model);
    // Google's clients also distinguish these models by name.
    let is_newer = name.starts_with("gemini-") && name != "gemini-embedding-001";
    match (surface, is_newer) {
        (Surface::Gemini, _) => ("batchEmbedContents", encode_embed_request, decode_embeddings),
        (Surface::Vertex { .. }, false) => ("predict", encode_predict_request, decode_predictions),
        (Surface::Vertex { .. }, true) => {
            ("embedContent", encode_embed_content_request, decode_embed_content)
        }
    }
}

#[async_trait]
impl EmbedProvider for Gemini {
    async fn embed(&self, ctx: &CallContext, call: &EmbedCall) -> Result<EmbedAnswer, UpstreamError> {
        let (action, encode, decode) = shape(&self.surface, &call.upstream_model);
        let mut request = decode_request(&call.body).map_err(|error| not_in_format(&error))?;
        request.model = call.upstream_model.to_string();
        let body = encode(&request).map_err(|error| not_in_format(&error))?;
        let path = self.surface.path_of(&call.upstream_model, action);
        let response = self.post(ctx, &path, body.into()).await?;
        let body = response.whole(self.http.settings().body_limit).await?;
        let answer = decode(&body).map_err(|_| {
            UpstreamError::protocol(format!(
                "the response has no valid vectors ({} bytes)",
                body.len()
            ))
        })?;
        if answer.vectors.len() != request.inputs.len() {
            let (received, asked) = (answer.vectors.len(), request.inputs.len());
            return Err(UpstreamError::protocol(format!(
                "received {received} vectors for {asked} inputs"
            )));
        }
        let numbers: usize = answer.vectors.iter().map(Vec::len).sum();
        Ok(EmbedAnswer {
            usage: answer.usage,
            output_bytes: 4 * numbers as u64,
            payload: EmbedPayload::Common(Box::new(answer)),
        })
    }

    fn allowed_fields(&self) -> &'static [&'static str] {
        EMBED_FIELDS
    }

    fn dropped_fields(&self) -> &'static [&'static str] {
        &["user"]
    }
}
