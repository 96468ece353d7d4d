//! Embeddings: all texts of a call in one `:batchEmbedContents`.

use async_trait::async_trait;
use tollgate_formats::embeddings::decode_request;
use tollgate_formats::gemini::{EMBED_FIELDS, decode_embeddings, encode_embed_request};
use tollgate_upstream::{CallContext, EmbedAnswer, EmbedCall, EmbedPayload, EmbedProvider, UpstreamError};

use super::access::path_of;
use super::adapter::Gemini;
use crate::crossing::not_in_format;

#[async_trait]
impl EmbedProvider for Gemini {
    async fn embed(&self, ctx: &CallContext, call: &EmbedCall) -> Result<EmbedAnswer, UpstreamError> {
        let mut request = decode_request(&call.body).map_err(|error| not_in_format(&error))?;
        request.model = call.upstream_model.to_string();
        let body = encode_embed_request(&request).map_err(|error| not_in_format(&error))?;
        let path = path_of(&call.upstream_model, "batchEmbedContents");
        let response = self.post(ctx, &path, body.into()).await?;
        let body = response.whole(self.http.settings().body_limit).await?;
        let answer = decode_embeddings(&body).map_err(|_| {
            UpstreamError::protocol(format!("the answer has no vectors ({} bytes)", body.len()))
        })?;
        if answer.vectors.len() != request.inputs.len() {
            let (came, asked) = (answer.vectors.len(), request.inputs.len());
            return Err(UpstreamError::protocol(format!(
                "{came} vectors came for {asked} inputs"
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
