//! Speech of a provider of the format: the call as JSON, and sound as it comes.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use tollgate_upstream::{
    CallContext, ContentStream, Sound, SpeechCall, SpeechProvider, Spoken, UpstreamError,
};

use super::adapter::OpenAiCompatible;
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, Pieces, RequestBody, Response, Timeouts};
use crate::refusal;

/// Where the speech is.
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

/// The call as the format has it.
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

/// Sound is whatever is not said to be text.
fn is_sound(media_type: &str) -> bool {
    let is_text =
        media_type.starts_with("text/") || media_type.ends_with("json") || media_type.ends_with("xml");
    !is_text
}

/// The pieces as they come.
fn streamed(pieces: Pieces) -> ContentStream {
    Box::pin(stream::unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces?;
        let next = std::future::poll_fn(|cx| pieces.poll_next(cx)).await?;
        let goes_on = next.is_ok();
        Some((next, goes_on.then_some(pieces)))
    }))
}

/// An answer whose length is known is there as a whole when it begins to come.
async fn sound(response: Response, limit: usize) -> Result<Sound, UpstreamError> {
    match response.header("content-length") {
        Some(_) => response.whole(limit).await.map(Sound::Whole),
        None => Ok(Sound::Stream(streamed(response.pieces()?))),
    }
}

#[async_trait]
impl SpeechProvider for OpenAiCompatible {
    async fn speak(&self, ctx: &CallContext, call: &SpeechCall) -> Result<Spoken, UpstreamError> {
        let Some(SpeechEndpoint { path, endpoint }) = &self.speech else {
            return Err(UpstreamError::connect("the provider does not speak"));
        };
        let body = RequestBody::from(encode(call));
        let model = &call.upstream_model;
        let response = self.post(endpoint, path, model, body, Timeouts::of(ctx)).await?;
        let settings = self.http.settings();
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, settings).await);
        }
        if !is_sound(response.media_type()) {
            let is_json = response.media_type().ends_with("json");
            let said = response.beginning(settings).await;
            return Err(match is_json {
                true => refusal::from_object(&said),
                false => UpstreamError::protocol("the answer is text instead of sound"),
            });
        }
        Ok(Spoken {
            sound: sound(response, settings.body_limit).await?,
            usage: None,
        })
    }
}
