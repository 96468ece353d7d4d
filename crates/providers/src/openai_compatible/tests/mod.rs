//! Tests of the adapter against a scripted upstream on loopback.

mod answers;
mod audio;
mod faults;
mod images;
mod live_transcription;
mod presets;
mod realtime;
mod refusals;
mod requests;
mod secrets;
mod videos;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use tollgate_formats::openai_chat::splice_response;
use tollgate_testkit::upstream::FakeUpstream;
use tollgate_types::{Format, RequestId, Usage};
use tollgate_upstream::{
    CallContext, ChunkKind, Payload, Permit, Provider, TextCall, TextChunk, TextReply, UpstreamError,
};

use crate::http::{HttpClient, HttpSettings};
use crate::registry::{self, ProviderConfig};

const KEY: &str = "sk-upstream-0123456789abcdef";
/// Maximum number of chunks to read from one stream.
const MAX_CHUNKS: usize = 5_000;

/// Returns small limits, so that endless responses end soon.
fn settings() -> HttpSettings {
    HttpSettings {
        body_limit: 4 << 20,
        error_body_timeout: Duration::from_millis(300),
        ..HttpSettings::default()
    }
}

fn provider_at(preset: &str, base_url: &str) -> Arc<dyn Provider> {
    let config = ProviderConfig {
        preset: Some(preset.to_owned()),
        base_url: Some(base_url.to_owned()),
        api_key: Some(SecretString::from(KEY)),
        error_text: Some(tollgate_upstream::ErrorText::Hide),
        ..ProviderConfig::named("main")
    };
    registry::build(&config, &HttpClient::new(settings())).unwrap()
}

async fn started() -> (FakeUpstream, Arc<dyn Provider>) {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    (upstream, provider)
}

fn context() -> CallContext {
    CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        inspected: false,
    }
}

/// Returns a context with header and idle timeouts of 300 ms.
fn context_with_short_timeout() -> CallContext {
    CallContext {
        header_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_millis(300),
        ..context()
    }
}

fn call(body: &Value) -> TextCall {
    let flag = |place: &str| body.pointer(place).and_then(Value::as_bool).unwrap_or(false);
    TextCall {
        upstream_model: "upstream-model".into(),
        stream: flag("/stream"),
        include_usage: flag("/stream_options/include_usage"),
        output_cap: 4_096,
        ..TextCall::new(
            Format::ChatCompletions,
            "maker/public".into(),
            Bytes::from(body.to_string()),
        )
    }
}

fn chat(stream: bool) -> TextCall {
    let messages = json!([{"role": "user", "content": "tell me"}]);
    call(&json!({"model": "maker/public", "messages": messages, "stream": stream}))
}

fn chat_with_usage() -> TextCall {
    let messages = json!([{"role": "user", "content": "tell me"}]);
    let options = json!({"include_usage": true});
    call(&json!({"model": "maker/public", "messages": messages, "stream": true, "stream_options": options}))
}

/// Chunks and usage of one call.
#[derive(Debug, Default)]
struct Collected {
    kinds: Vec<ChunkKind>,
    /// The complete response, or the data of the events that the caller receives.
    raw_events: Vec<String>,
    usage: Option<Usage>,
    output_bytes: u64,
    is_endless: bool,
}

impl Collected {
    /// Returns the text of all choices.
    fn text(&self) -> String {
        let values = self
            .raw_events
            .iter()
            .filter_map(|data| serde_json::from_str::<Value>(data).ok());
        values
            .flat_map(|value| value["choices"].as_array().cloned().unwrap_or_default())
            .filter_map(|choice| {
                let text = choice
                    .pointer("/message/content")
                    .or(choice.pointer("/delta/content"));
                text.and_then(Value::as_str).map(str::to_owned)
            })
            .collect()
    }

    fn take(&mut self, chunk: TextChunk) {
        self.kinds.push(chunk.kind);
        self.output_bytes += chunk.output_bytes;
        self.usage = chunk.usage.or(self.usage);
        let Some(payload) = chunk.payload else { return };
        let Payload::Raw(Format::ChatCompletions, bytes) = payload else {
            panic!("the adapter answers in the caller's format");
        };
        let event = std::str::from_utf8(&bytes).unwrap();
        let data = event
            .strip_prefix("data: ")
            .and_then(|rest| rest.strip_suffix("\n\n"));
        self.raw_events.push(data.expect("one whole event").to_owned());
    }
}

async fn ask(
    provider: &dyn Provider,
    ctx: &CallContext,
    call: &TextCall,
) -> Result<Collected, UpstreamError> {
    let mut collected = Collected::default();
    match provider.text().unwrap().generate(ctx, call).await? {
        TextReply::Whole(answer) => {
            let Payload::Raw(Format::ChatCompletions, bytes) = answer.payload else {
                panic!("the adapter answers in the caller's format");
            };
            // The test edits the response as the API crate does.
            let head = answer.outline.as_ref().and_then(|outline| outline.get());
            let sent = splice_response(&bytes, head.unwrap(), &call.public_model, None);
            collected
                .raw_events
                .push(String::from_utf8(sent.to_vec()).unwrap());
            collected.usage = answer.usage;
            collected.output_bytes = answer.output_bytes;
        }
        TextReply::Stream(mut stream) => {
            while let Some(chunk) = stream.next().await {
                collected.take(chunk?);
                if collected.kinds.len() == MAX_CHUNKS {
                    collected.is_endless = true;
                    return Ok(collected);
                }
            }
            assert_eq!(
                collected.kinds.last(),
                Some(&ChunkKind::End),
                "a stream ends properly or with an error"
            );
        }
    }
    Ok(collected)
}
