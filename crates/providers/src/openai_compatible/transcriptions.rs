//! Transcripts: sends the recording in a form and parses the JSON response. The gateway writes the
//! caller's format itself, and requests timestamps only if that format needs them.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::SecretString;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Error, ErrorCode, RequestId, Unit, Usage};
use tollgate_upstream::{
    CallContext, Segment, TranscribeProvider, Transcript, TranscriptionCall, UpstreamError, Word,
};

use super::adapter::OpenAiCompatible;
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, RequestBody, Timeouts, Variant};
use crate::refusal;

/// Maximum duration of a recording, in seconds. Longer reported durations are ignored.
const MAX_DURATION_SECONDS: f64 = 7.0 * 24.0 * 3_600.0;

/// Endpoints for transcription and for translation to English.
#[derive(Debug)]
pub(super) struct TranscriptionsEndpoint {
    base: BaseUrl,
    transcriptions: (&'static str, Endpoint),
    translations: (&'static str, Endpoint),
}

/// Path of translations below the base URL.
const TRANSLATIONS_PATH: &str = "/audio/translations";

impl TranscriptionsEndpoint {
    pub(super) fn new(
        path: &'static str,
        base: &BaseUrl,
        credentials: &[Credential],
    ) -> Result<Self, EndpointError> {
        let at = |path: &'static str| Ok((path, Endpoint::new(base, path, credentials)?));
        Ok(Self {
            base: base.clone(),
            transcriptions: at(path)?,
            translations: at(TRANSLATIONS_PATH)?,
        })
    }

    /// Returns the endpoint of a call, and a variant with the model's path and the form's media
    /// type.
    fn of(&self, call: &TranscriptionCall, form: &Form) -> Result<(&Endpoint, Variant), EndpointError> {
        let (path, endpoint) = match call.translate {
            true => &self.translations,
            false => &self.transcriptions,
        };
        let mut variant = Variant::new(&self.base.for_model(&call.upstream_model), path)?;
        variant.insert("content-type", &SecretString::from(form.media_type()))?;
        Ok((endpoint, variant))
    }
}

/// A multipart form (RFC 7578). The recording is not copied.
struct Form {
    boundary: String,
    chunks: Vec<Bytes>,
}

impl Form {
    /// Creates an empty form. The boundary is derived from the request id, which a caller cannot
    /// know in advance, so no value can contain it.
    fn new(request: RequestId) -> Self {
        let digest = Sha256::digest(request.as_u128().to_be_bytes());
        let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self {
            boundary: format!("tollgate-{digits}"),
            chunks: Vec::new(),
        }
    }

    fn media_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    fn text(&mut self, name: &str, value: &str) {
        let boundary = &self.boundary;
        let part =
            format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        self.chunks.push(part.into());
    }

    fn file(&mut self, name: &str, filename: &str, media_type: &str, content: Bytes) {
        let (boundary, filename) = (&self.boundary, escaped(filename));
        let head = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{filename}\"\r\n\
             content-type: {media_type}\r\n\r\n"
        );
        self.chunks.push(head.into());
        self.chunks.push(content);
        self.chunks.push(Bytes::from_static(b"\r\n"));
    }

    fn end(mut self) -> RequestBody {
        self.chunks.push(format!("--{}--\r\n", self.boundary).into());
        RequestBody::from(self.chunks)
    }
}

/// Escapes a file name for a form (WHATWG HTML, section 4.10.21.8).
fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

fn form(request: RequestId, call: &TranscriptionCall) -> Form {
    let mut form = Form::new(request);
    form.text("model", &call.upstream_model);
    let is_timed = call.format.is_timed();
    form.text("response_format", if is_timed { "verbose_json" } else { "json" });
    for (name, value) in [("language", &call.language), ("prompt", &call.prompt)] {
        if let Some(value) = value {
            form.text(name, value);
        }
    }
    if let Some(temperature) = call.temperature {
        form.text("temperature", &temperature.to_string());
    }
    let asked = call.timestamps;
    for (name, is_asked) in [("segment", asked.segments), ("word", asked.words)] {
        if is_timed && is_asked && !call.translate {
            form.text("timestamp_granularities[]", name);
        }
    }
    let audio = &call.audio;
    form.file("file", &call.filename, &audio.mime_type, audio.bytes.clone());
    form
}

#[async_trait]
impl TranscribeProvider for OpenAiCompatible {
    fn check(&self, call: &TranscriptionCall) -> Result<(), Error> {
        // OpenAI's transcription models named `gpt-…` return only text.
        let is_untimed = call.upstream_model.starts_with("gpt-");
        if call.translate && is_untimed {
            let message = "This model does not support translation. Use another transcription model.";
            return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
        }
        if call.format.is_timed() && is_untimed {
            let message = "This model returns no timestamps. Set 'response_format' to 'json' or 'text'.";
            return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("response_format"));
        }
        Ok(())
    }

    async fn transcribe(
        &self,
        ctx: &CallContext,
        call: &TranscriptionCall,
    ) -> Result<Transcript, UpstreamError> {
        let Some(transcriptions) = &self.transcriptions else {
            return Err(UpstreamError::connect(
                "the provider does not support transcription",
            ));
        };
        let form = form(ctx.request, call);
        let (endpoint, variant) = transcriptions
            .of(call, &form)
            .map_err(|error| UpstreamError::connect(error.to_string()))?;
        let timeouts = Timeouts::of(ctx);
        let response = self
            .http
            .post_variant(endpoint, variant, form.end(), timeouts)
            .await?;
        let settings = self.http.settings();
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, settings).await);
        }
        let body = response.whole(settings.body_limit).await?;
        read(&body)
    }
}

/// Parses a transcript in OpenAI's JSON format.
fn read(body: &Bytes) -> Result<Transcript, UpstreamError> {
    let invalid_transcript =
        || UpstreamError::protocol(format!("the response is not a transcript ({} bytes)", body.len()));
    let answer: Value = serde_json::from_slice(body).map_err(|_| invalid_transcript())?;
    if answer.get("error").is_some_and(Value::is_object) {
        return Err(refusal::from_object(body));
    }
    let text = answer
        .get("text")
        .and_then(Value::as_str)
        .ok_or_else(invalid_transcript)?;
    let usage = answer.get("usage").filter(|usage| usage.is_object());
    let items = |name: &str| answer.get(name).and_then(Value::as_array).into_iter().flatten();
    let language = answer.get("language").and_then(Value::as_str);
    Ok(Transcript {
        text: text.to_owned(),
        language: language.map(str::to_owned),
        duration: answer
            .get("duration")
            .or_else(|| usage?.get("seconds"))
            .and_then(seconds),
        segments: items("segments").filter_map(segment).collect(),
        words: items("words").filter_map(word).collect(),
        usage: usage.and_then(tokens),
    })
}

/// Parses a duration in seconds, as a number or a text.
fn seconds(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    (0.0..=MAX_DURATION_SECONDS)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

fn segment(value: &Value) -> Option<Segment> {
    let number = |name: &str| value.get(name).and_then(Value::as_f64);
    let tokens = value
        .get("tokens")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    Some(Segment {
        start: number("start")?,
        end: number("end")?,
        text: value.get("text")?.as_str()?.to_owned(),
        seek: value.get("seek").and_then(Value::as_u64).unwrap_or_default(),
        tokens: tokens
            .filter_map(|token| u32::try_from(token.as_u64()?).ok())
            .collect(),
        temperature: number("temperature").unwrap_or_default(),
        avg_logprob: number("avg_logprob").unwrap_or_default(),
        compression_ratio: number("compression_ratio").unwrap_or_default(),
        no_speech_prob: number("no_speech_prob").unwrap_or_default(),
    })
}

fn word(value: &Value) -> Option<Word> {
    Some(Word {
        word: value.get("word")?.as_str()?.to_owned(),
        start: value.get("start")?.as_f64()?,
        end: value.get("end")?.as_f64()?,
    })
}

/// Returns the token counts of the usage report, if it contains valid ones.
fn tokens(usage: &Value) -> Option<Usage> {
    let count = |value: &Value, name: &str| {
        let count = value.get(name)?.as_u64();
        count.filter(|count| *count <= MAX_QUANTITY)
    };
    let (input, output) = (count(usage, "input_tokens")?, count(usage, "output_tokens")?);
    let details = usage.get("input_token_details").unwrap_or(&Value::Null);
    let audio = count(details, "audio_tokens").unwrap_or_default().min(input);
    Some(Usage::tokens(input - audio, output).with(Unit::InputAudio, audio))
}
