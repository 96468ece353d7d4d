//! Speech: sends the call as JSON and streams the audio.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use tollgate_upstream::{
    AudioContent, CallContext, ContentStream, SpeechAnswer, SpeechCall, SpeechProvider, UpstreamError,
};

use super::adapter::OpenAiCompatible;
use crate::http::{
    BaseUrl, BodyChunks, Credential, Endpoint, EndpointError, RequestBody, Response, Timeouts,
};
use crate::refusal;

/// Endpoint of speech and its path.
#[derive(Debug)]
pub(super) struct SpeechEndpoint {
    path: &'static str,
    endpoint: Endpoint,
}

impl SpeechEndpoint {
    pub(super) fn new(
        path: &'static str,
        base: &BaseUrl,
        credentials: &[Credential],
    ) -> Result<Self, EndpointError> {
        let any = Credential::header("accept", &SecretString::from("*/*"))?;
        let headers = [&[any], credentials].concat();
        let endpoint = Endpoint::new(base, path, &headers)?;
        Ok(Self { path, endpoint })
    }
}

/// Encodes the call.
fn encode(call: &SpeechCall) -> Bytes {
    let mut body = Map::new();
    body.insert("model".to_owned(), (*call.upstream_model).into());
    body.insert("input".to_owned(), (*call.input).into());
    let voice = match call.has_own_voice {
        true => json!({"id": &*call.voice}),
        false => (*call.voice).into(),
    };
    body.insert("voice".to_owned(), voice);
    body.insert("response_format".to_owned(), call.format.as_str().into());
    if let Some(instructions) = &call.instructions {
        body.insert("instructions".to_owned(), (**instructions).into());
    }
    if let Some(speed) = call.speed {
        body.insert("speed".to_owned(), speed.into());
    }
    Bytes::from(Value::Object(body).to_string())
}

/// Whether a response with this media type is audio. Every type that is not text counts, because
/// servers declare many audio types.
fn is_audio(media_type: &str) -> bool {
    let is_text =
        media_type.starts_with("text/") || media_type.ends_with("json") || media_type.ends_with("xml");
    !is_text
}

/// Converts the chunks to a stream, which ends after its first error.
fn streamed(chunks: BodyChunks) -> ContentStream {
    Box::pin(stream::unfold(Some(chunks), |chunks| async move {
        let mut chunks = chunks?;
        let next = std::future::poll_fn(|cx| chunks.poll_next(cx)).await?;
        let continues = next.is_ok();
        Some((next, continues.then_some(chunks)))
    }))
}

/// Reads a response with a `content-length` as a whole; streams others.
async fn audio(response: Response, limit: usize) -> Result<AudioContent, UpstreamError> {
    match response.header("content-length") {
        Some(_) => response.whole(limit).await.map(AudioContent::Whole),
        None => Ok(AudioContent::Stream(streamed(response.chunks()?))),
    }
}

#[async_trait]
impl SpeechProvider for OpenAiCompatible {
    async fn speak(&self, ctx: &CallContext, call: &SpeechCall) -> Result<SpeechAnswer, UpstreamError> {
        let Some(SpeechEndpoint { path, endpoint }) = &self.speech else {
            return Err(UpstreamError::connect("the provider does not support speech"));
        };
        let body = RequestBody::from(encode(call));
        let model = &call.upstream_model;
        let response = self.post(endpoint, path, model, body, Timeouts::of(ctx)).await?;
        let settings = self.http.settings();
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, settings).await);
        }
        if !is_audio(response.media_type()) {
            let is_json = response.media_type().ends_with("json");
            let text = response.read_prefix(settings).await;
            return Err(match is_json {
                true => refusal::from_object(&text),
                false => UpstreamError::protocol("the response is text instead of audio"),
            });
        }
        Ok(SpeechAnswer {
            audio: audio(response, settings.body_limit).await?,
            usage: None,
        })
    }
}
