//! Tests of realtime conversations.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, RealtimeFault, RealtimeWire, Reply, refusing_base_url};
use tollgate_types::{HoldId, Unit, Usage};
use tollgate_upstream::{
    CallContext, ItemKey, Permit, RealtimeCall, RealtimeEvent, RealtimeFinish, RealtimeInput, RealtimeItem,
    RealtimeLink, RealtimePlace, RealtimeRequest, RealtimeRole, RealtimeSettings, RealtimeTool,
    RealtimeToolChoice, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::{KEY, context, context_with_short_timeout, provider_at};

/// Bytes of a second of audio.
const SECOND: usize = 48_000;

fn with_hold(ctx: CallContext) -> CallContext {
    CallContext {
        permit: Permit::Hold(HoldId::from_u128(1)),
        ..ctx
    }
}

fn settings() -> RealtimeSettings {
    RealtimeSettings {
        instructions: "Be kind.".into(),
        is_spoken: true,
        voice: Some("marin".into()),
        speed: 1.0,
        tools: Vec::new(),
        tool_choice: RealtimeToolChoice::Auto,
        parallel_tool_calls: None,
        temperature: None,
    }
}

fn written() -> RealtimeSettings {
    RealtimeSettings {
        is_spoken: false,
        ..settings()
    }
}

fn said(text: &str) -> RealtimeItem {
    RealtimeItem::Message {
        role: RealtimeRole::User,
        text: text.into(),
    }
}

fn recording(bytes: usize) -> RealtimeItem {
    RealtimeItem::Recording((0..bytes).map(|place| (place % 251) as u8).collect())
}

fn request() -> RealtimeRequest {
    RealtimeRequest {
        max_output_tokens: 1_000,
        outside: None,
    }
}

async fn open_with(
    preset: &str,
    base_url: &str,
    model: &str,
    ctx: &CallContext,
) -> Result<Box<dyn RealtimeLink>, UpstreamError> {
    let provider = provider_at(preset, base_url);
    let call = RealtimeCall {
        upstream_model: model.into(),
    };
    provider.realtime().unwrap().open(ctx, &call).await
}

async fn opened(upstream: &FakeUpstream) -> Box<dyn RealtimeLink> {
    let opened = open_with("openai", &upstream.base_url(), "gpt-realtime", &context()).await;
    opened.unwrap()
}

/// Opens a conversation with written answers.
async fn started() -> (FakeUpstream, Box<dyn RealtimeLink>) {
    let upstream = FakeUpstream::start().await;
    let mut link = opened(&upstream).await;
    link.configure(&written()).await.unwrap();
    (upstream, link)
}

/// The events of one response.
#[derive(Debug, Default)]
struct Collected {
    /// The first letters of the events, without repetitions.
    order: String,
    text: String,
    transcript: String,
    audio: Vec<u8>,
    items: Vec<ItemKey>,
    /// Id, name and arguments of each call.
    calls: Vec<(String, String, String)>,
    end: Option<(RealtimeFinish, Option<Usage>)>,
    failed: Option<UpstreamError>,
}

impl Collected {
    fn take(&mut self, event: RealtimeEvent) {
        let letter = match &event {
            RealtimeEvent::Started => 'S',
            RealtimeEvent::Item(_) => 'I',
            RealtimeEvent::Text(_) => 'T',
            RealtimeEvent::Transcript(_) => 'W',
            RealtimeEvent::Audio(_) => 'A',
            RealtimeEvent::CallStarted { .. } => 'C',
            RealtimeEvent::CallArguments { .. } => 'J',
            RealtimeEvent::Ended { .. } => 'E',
            RealtimeEvent::Failed(_) => 'F',
        };
        if !self.order.ends_with(letter) {
            self.order.push(letter);
        }
        match event {
            RealtimeEvent::Started => {}
            RealtimeEvent::Item(key) => self.items.push(key),
            RealtimeEvent::Text(text) => self.text.push_str(&text),
            RealtimeEvent::Transcript(words) => self.transcript.push_str(&words),
            RealtimeEvent::Audio(audio) => {
                assert!(audio.len().is_multiple_of(2), "samples are whole");
                self.audio.extend_from_slice(&audio);
            }
            RealtimeEvent::CallStarted { index, call_id, name } => {
                assert_eq!(index as usize, self.calls.len());
                self.calls.push((call_id, name, String::new()));
            }
            RealtimeEvent::CallArguments { index, delta } => {
                self.calls[index as usize].2.push_str(&delta);
            }
            RealtimeEvent::Ended { finish, usage } => self.end = Some((finish, usage)),
            RealtimeEvent::Failed(error) => self.failed = Some(error),
        }
    }

    fn has_ended(&self) -> bool {
        self.end.is_some() || self.failed.is_some()
    }

    fn finish(&self) -> RealtimeFinish {
        self.end.as_ref().unwrap().0
    }

    fn usage(&self) -> Option<Usage> {
        self.end.as_ref().unwrap().1
    }
}

async fn collect(link: &mut dyn RealtimeLink) -> Result<Collected, UpstreamError> {
    let mut collected = Collected::default();
    while !collected.has_ended() {
        collected.take(link.next().await?);
    }
    Ok(collected)
}

async fn respond(link: &mut dyn RealtimeLink) -> Collected {
    link.respond(&with_hold(context()), &request()).await.unwrap();
    collect(link).await.unwrap()
}

async fn ask(link: &mut dyn RealtimeLink, text: &str) -> Collected {
    link.create(RealtimePlace::Last, &said(text)).await.unwrap();
    respond(link).await
}

/// Returns the events of the client of a type.
fn sent(upstream: &FakeUpstream, kind: &str) -> Vec<Value> {
    let events = upstream.realtime_events().into_iter();
    events
        .filter(|received| received.kind() == kind)
        .map(|received| received.event)
        .collect()
}

fn kinds(upstream: &FakeUpstream) -> Vec<String> {
    let events = upstream.realtime_events();
    events.iter().map(|received| received.kind().to_owned()).collect()
}

#[tokio::test]
async fn a_spoken_answer_streams_its_words_and_audio() {
    let upstream = FakeUpstream::start().await;
    upstream.set_realtime_audio(450);
    let mut link = opened(&upstream).await;
    link.configure(&settings()).await.unwrap();
    link.create(RealtimePlace::Last, &recording(SECOND))
        .await
        .unwrap();
    let first = respond(&mut *link).await;
    assert_eq!(first.order, "SIWAE");
    assert_eq!(first.transcript, "You spoke for 1000 ms.");
    assert_eq!(first.audio.len(), SECOND * 45 / 100);
    assert_eq!(first.finish(), RealtimeFinish::Completed);
    let usage = first.usage().unwrap();
    assert_eq!(
        (
            usage.get(Unit::Input),
            usage.get(Unit::InputAudio),
            usage.get(Unit::OutputAudio)
        ),
        (2, 10, 9)
    );
    assert_eq!(usage.total_input(), 12);

    let second = ask(&mut *link, "Hello").await;
    assert_eq!(second.transcript, "You said: Hello");
    let usage = second.usage().unwrap();
    assert_eq!(
        (
            usage.get(Unit::CacheRead),
            usage.get(Unit::CacheReadAudio),
            usage.get(Unit::InputAudio)
        ),
        (2, 10, 0)
    );
    assert_ne!(first.items, second.items);
    let served = upstream.served();
    assert_eq!(served.len(), 2);
    assert_eq!(
        (served[1].used.prompt, served[1].used.completion),
        (usage.total_input(), usage.total_output())
    );
}

#[tokio::test]
async fn turn_detection_is_off_before_anything_else() {
    let (upstream, mut link) = started().await;
    link.create(RealtimePlace::Last, &recording(SECOND))
        .await
        .unwrap();
    link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
    upstream
        .wait_until("the items", |upstream| {
            upstream
                .realtime_events()
                .last()
                .map(|last| last.kind().to_owned())
                == Some("conversation.item.create".to_owned())
        })
        .await;
    assert_eq!(
        upstream.realtime_responses(),
        0,
        "no response starts before a hold"
    );
    assert_eq!(
        kinds(&upstream),
        [
            "session.update",
            "session.update",
            "input_audio_buffer.append",
            "input_audio_buffer.commit",
            "conversation.item.create"
        ]
    );
    for update in sent(&upstream, "session.update") {
        let input = &update["session"]["audio"]["input"];
        assert_eq!(input["turn_detection"], Value::Null);
        assert!(input.as_object().unwrap().contains_key("turn_detection"));
        assert_eq!(input["format"], json!({"type": "audio/pcm", "rate": 24_000}));
    }
    assert_eq!(respond(&mut *link).await.text, "You said: Hi");
    assert_eq!(upstream.realtime_responses(), 1);
}

#[tokio::test]
async fn each_preset_has_its_address_and_credentials() {
    for (preset, wire, prefix, model, path, header, value) in [
        (
            "openai",
            RealtimeWire::OpenAi,
            "/v1",
            "gpt-realtime",
            "/v1/realtime?model=gpt-realtime",
            "authorization",
            format!("Bearer {KEY}"),
        ),
        (
            "azure-openai",
            RealtimeWire::OpenAi,
            "/openai/v1",
            "my deployment",
            "/openai/v1/realtime?model=my%20deployment",
            "api-key",
            KEY.to_owned(),
        ),
        (
            "azure-openai",
            RealtimeWire::OpenAi,
            "/openai/v1?api-version=preview",
            "d",
            "/openai/v1/realtime?model=d&api-version=preview",
            "api-key",
            KEY.to_owned(),
        ),
        (
            "xai",
            RealtimeWire::Xai,
            "/v1",
            "grok-voice-latest",
            "/v1/realtime?model=grok-voice-latest",
            "authorization",
            format!("Bearer {KEY}"),
        ),
        (
            "openai-compatible",
            RealtimeWire::BetaNames,
            "/v1",
            "house/voice",
            "/v1/realtime?model=house%2Fvoice",
            "authorization",
            format!("Bearer {KEY}"),
        ),
    ] {
        let upstream = FakeUpstream::start().await;
        upstream.set_api_key(KEY);
        upstream.set_realtime_wire(wire);
        upstream.set_realtime_audio(100);
        let base = format!("http://{}{prefix}", upstream.address());
        let mut link = open_with(preset, &base, model, &context()).await.unwrap();
        link.configure(&settings()).await.unwrap();
        let answer = ask(&mut *link, "Hi").await;
        assert_eq!(
            (&*answer.order, &*answer.transcript),
            ("SIWAE", "You said: Hi"),
            "{preset}"
        );
        assert_eq!(answer.audio.len(), SECOND / 10, "{preset}");
        let request = upstream.requests().pop().unwrap();
        assert_eq!(request.path, path);
        assert_eq!(request.header(header), Some(&*value), "{preset}");
        assert_eq!(request.header("openai-beta"), None);
        assert_eq!(upstream.realtime_responses(), 1);
    }
    for (preset, base_url) in [
        ("groq", "http://127.0.0.1:9/v1"),
        (
            "azure-openai",
            "http://127.0.0.1:9/openai/deployments/{model}?api-version=1",
        ),
    ] {
        assert!(provider_at(preset, base_url).realtime().is_none(), "{preset}");
    }
    let xai = provider_at("xai", "http://127.0.0.1:9/v1");
    let xai = xai.realtime().unwrap();
    assert!(!xai.has_outside_responses() && !xai.has_editable_items());
}

#[tokio::test]
async fn refused_handshakes_have_the_error_of_their_status() {
    use UpstreamErrorKind::{Credentials, RateLimited, Rejected, Unavailable};
    let upstream = FakeUpstream::start().await;
    for (reply, kind, retry_after) in [
        (Reply::error(401, "invalid_api_key", "No."), Credentials, None),
        (Reply::error(403, "insufficient_quota", "No."), Credentials, None),
        (Reply::error(400, "invalid_value", "No."), Rejected, None),
        (Reply::error(404, "model_not_found", "No."), Unavailable, None),
        (
            Reply::error(429, "rate_limit_exceeded", "Slow down.").header("retry-after", "7"),
            RateLimited,
            Some(Duration::from_secs(7)),
        ),
        (Reply::error(429, "insufficient_quota", "Pay."), Credentials, None),
        (Reply::html(500), Unavailable, None),
        (Reply::body(200, "text/plain", "hello"), Unavailable, None),
    ] {
        let status = format!("{reply:?}");
        upstream.push_for_realtime(RealtimeFault::Refuse(Box::new(reply)));
        let opened = open_with("openai", &upstream.base_url(), "m", &context()).await;
        let error = opened.err().unwrap();
        assert_eq!((error.kind, error.retry_after), (kind, retry_after), "{status}");
        assert!(error.status.is_some(), "{status}");
    }
    let opened = open_with("openai", &upstream.base_url(), "m", &context()).await;
    assert!(opened.is_ok(), "each fault occurs once");

    let opened = open_with("openai", &refusing_base_url(), "m", &context()).await;
    let error = opened.err().unwrap();
    assert_eq!((error.kind, error.cause), (Unavailable, UpstreamCause::Connect));
}

#[tokio::test]
async fn a_conversation_does_not_open_with_a_silent_or_willful_server() {
    use UpstreamCause::{Protocol, Timeout};
    let error_event =
        json!({"type": "error", "error": {"type": "invalid_request_error", "code": "model_not_found"}});
    for (fault, cause) in [
        (RealtimeFault::HangAfter(""), Timeout),
        (RealtimeFault::Omit("session.created"), Timeout),
        (RealtimeFault::Omit("session.updated"), Timeout),
        (RealtimeFault::KeepTurnDetection, Protocol),
        (RealtimeFault::CloseAfter("session.created", 1_011), Protocol),
        (
            RealtimeFault::Before("session.created", "nonsense".to_owned()),
            Protocol,
        ),
        (
            RealtimeFault::Before("session.created", error_event.to_string()),
            Protocol,
        ),
        (
            RealtimeFault::ErrorFor {
                event: "session.update",
                kind: "invalid_request_error",
                code: "invalid_value",
                has_event_id: true,
            },
            Protocol,
        ),
    ] {
        let upstream = FakeUpstream::start().await;
        let shown = format!("{fault:?}");
        upstream.push_for_realtime(fault);
        let ctx = context_with_short_timeout();
        let opened = open_with("openai", &upstream.base_url(), "m", &ctx).await;
        assert_eq!(opened.err().map(|error| error.cause), Some(cause), "{shown}");
        assert_eq!(upstream.realtime_responses(), 0);
    }
}

#[tokio::test]
async fn a_response_needs_a_hold() {
    let (upstream, mut link) = started().await;
    let refused = link.respond(&context(), &request()).await.unwrap_err();
    assert_eq!(refused.cause, UpstreamCause::Connect);
    assert_eq!(ask(&mut *link, "Hi").await.text, "You said: Hi");
    assert_eq!(sent(&upstream, "response.create").len(), 1);
    let params = &sent(&upstream, "response.create")[0]["response"];
    assert_eq!(*params, json!({"max_output_tokens": 1_000}));
}

#[tokio::test]
async fn output_tokens_are_limited_to_the_servers_maximum() {
    let (upstream, mut link) = started().await;
    let request = RealtimeRequest {
        max_output_tokens: 100_000,
        outside: None,
    };
    link.respond(&with_hold(context()), &request).await.unwrap();
    assert!(collect(&mut *link).await.unwrap().end.is_some());
    let params = &sent(&upstream, "response.create")[0]["response"];
    assert_eq!(params["max_output_tokens"], 4_096);
}

#[tokio::test]
async fn recordings_are_appended_or_placed() {
    let (upstream, mut link) = started().await;
    let long = recording(2_000_000);
    let last = link.create(RealtimePlace::Last, &long).await.unwrap();
    let first = link
        .create(RealtimePlace::First, &recording(SECOND))
        .await
        .unwrap();
    let short = link.create(RealtimePlace::Last, &recording(400)).await.unwrap();
    let next = link
        .create(RealtimePlace::After(last), &said("After it."))
        .await
        .unwrap();
    assert_eq!(respond(&mut *link).await.text, "You spoke for 8 ms.");
    let appended = sent(&upstream, "input_audio_buffer.append");
    let mut audio = Vec::new();
    for event in &appended {
        assert!(event.to_string().len() <= 1 << 20);
        audio.extend(STANDARD.decode(event["audio"].as_str().unwrap()).unwrap());
    }
    let RealtimeItem::Recording(bytes) = &long else {
        panic!("a recording");
    };
    assert_eq!((appended.len(), &audio[..]), (3, &bytes[..]));
    let created = sent(&upstream, "conversation.item.create");
    let previous: Vec<&Value> = created.iter().map(|event| &event["previous_item_id"]).collect();
    assert_eq!((previous[0], previous[1]), (&json!("root"), &Value::Null));
    assert!(
        previous[2].as_str().unwrap().starts_with("item_"),
        "the server's id: {previous:?}"
    );
    assert_eq!(created[0]["item"]["content"][0]["type"], "input_audio");
    for key in [last, first, short, next] {
        link.delete(key).await.unwrap();
    }
    assert_eq!(ask(&mut *link, "Alone").await.text, "You said: Alone");
    assert_eq!(sent(&upstream, "conversation.item.delete").len(), 4);
}

#[tokio::test]
async fn ids_are_short_and_calls_keep_their_outputs() {
    let (upstream, mut link) = started().await;
    let call_id: Arc<str> = "call_that_has_an_id_of_another_provider_0123456789".into();
    let call = RealtimeItem::FunctionCall {
        call_id: call_id.clone(),
        name: "weather".into(),
        arguments: "{}".into(),
    };
    let output = RealtimeItem::FunctionOutput {
        call_id,
        output: "sunny".into(),
    };
    let note = RealtimeItem::Message {
        role: RealtimeRole::System,
        text: "Hm.".into(),
    };
    let answer = RealtimeItem::Message {
        role: RealtimeRole::Assistant,
        text: "Yes.".into(),
    };
    for item in [&note, &answer, &call, &output] {
        link.create(RealtimePlace::Last, item).await.unwrap();
    }
    assert_eq!(respond(&mut *link).await.text, "You said: sunny");
    let created = sent(&upstream, "conversation.item.create");
    for event in &created {
        assert!(event["item"]["id"].as_str().unwrap().len() <= 32);
    }
    let sent_id = |place: usize| created[place]["item"]["call_id"].as_str().unwrap();
    assert_eq!(sent_id(2), sent_id(3));
    assert!(sent_id(2).len() <= 32);
}

#[tokio::test]
async fn calls_arrive_in_parts_or_in_one_event() {
    for (preset, wire) in [
        ("openai", RealtimeWire::OpenAi),
        ("openai-compatible", RealtimeWire::BetaNames),
        ("xai", RealtimeWire::Xai),
    ] {
        let upstream = FakeUpstream::start().await;
        upstream.set_realtime_wire(wire);
        let mut link = open_with(preset, &upstream.base_url(), "m", &context())
            .await
            .unwrap();
        link.configure(&written()).await.unwrap();
        let asked = ask(
            &mut *link,
            r#"[[tool=weather:{"city":"Bonn"} tool=time:{"zone":"CET"}]]"#,
        )
        .await;
        assert_eq!(asked.order, "SICJICJE", "{preset}");
        let (names, arguments): (Vec<&str>, Vec<&str>) = asked
            .calls
            .iter()
            .map(|(_, name, arguments)| (&**name, &**arguments))
            .unzip();
        assert_eq!(names, ["weather", "time"]);
        assert_eq!(arguments, [r#"{"city":"Bonn"}"#, r#"{"zone":"CET"}"#]);
        for (call_id, ..) in &asked.calls {
            let output = RealtimeItem::FunctionOutput {
                call_id: call_id.as_str().into(),
                output: "sunny".into(),
            };
            link.create(RealtimePlace::Last, &output).await.unwrap();
        }
        assert_eq!(respond(&mut *link).await.text, "You said: sunny", "{preset}");
        let created = sent(&upstream, "conversation.item.create");
        assert_eq!(
            created.last().unwrap()["item"]["call_id"],
            asked.calls[1].0,
            "{preset}"
        );
    }
}

#[tokio::test]
async fn a_cancelled_response_ends_with_its_usage() {
    let upstream = FakeUpstream::start().await;
    let mut link = opened(&upstream).await;
    link.configure(&settings()).await.unwrap();
    link.cancel().await.unwrap();
    upstream.push_for_realtime(RealtimeFault::WaitForCancel);
    link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
    link.respond(&with_hold(context()), &request()).await.unwrap();
    let mut cut = Collected::default();
    while cut.audio.is_empty() {
        cut.take(link.next().await.unwrap());
    }
    link.cancel().await.unwrap();
    link.cancel().await.unwrap();
    while !cut.has_ended() {
        cut.take(link.next().await.unwrap());
    }
    assert_eq!(cut.finish(), RealtimeFinish::Cancelled);
    assert!(cut.usage().unwrap().get(Unit::OutputAudio) > 0);
    assert_eq!(sent(&upstream, "response.cancel").len(), 1);

    link.truncate(cut.items[0], 10).await.unwrap();
    let whole = ask(&mut *link, "Again").await;
    for heard_ms in [5_000, 300] {
        link.truncate(whole.items[0], heard_ms).await.unwrap();
    }
    assert_eq!(
        ask(&mut *link, "Once more").await.finish(),
        RealtimeFinish::Completed
    );
    let ends: Vec<Value> = sent(&upstream, "conversation.item.truncate")
        .iter()
        .map(|event| event["audio_end_ms"].clone())
        .collect();
    assert_eq!(ends, [json!(10), json!(1_000), json!(300)]);
}

#[tokio::test]
async fn a_cancellation_after_the_end_is_no_failure() {
    let (upstream, mut link) = started().await;
    link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
    link.respond(&with_hold(context()), &request()).await.unwrap();
    upstream
        .wait_until("the answer", |upstream| upstream.realtime_responses() == 1)
        .await;
    link.cancel().await.unwrap();
    assert!(collect(&mut *link).await.unwrap().end.is_some());
    assert_eq!(ask(&mut *link, "Again").await.text, "You said: Again");
}

#[tokio::test]
async fn refused_responses_fail_and_the_connection_remains() {
    use UpstreamErrorKind::{ContentBlocked, ContextLength, Credentials, RateLimited, Rejected, Unavailable};
    let (upstream, mut link) = started().await;
    link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
    for (kind, code, expected) in [
        ("invalid_request_error", "invalid_value", Rejected),
        ("invalid_request_error", "context_length_exceeded", ContextLength),
        ("tokens", "rate_limit_exceeded", RateLimited),
        ("insufficient_quota", "insufficient_quota", Credentials),
        ("invalid_request_error", "content_filter", ContentBlocked),
        (
            "invalid_request_error",
            "conversation_already_has_active_response",
            Unavailable,
        ),
        ("server_error", "server_error", Unavailable),
    ] {
        for has_event_id in [true, false] {
            upstream.push_for_realtime(RealtimeFault::ErrorFor {
                event: "response.create",
                kind,
                code,
                has_event_id,
            });
            let failed = respond(&mut *link).await;
            assert_eq!(failed.order, "F");
            assert_eq!(failed.failed.unwrap().kind, expected, "{code}");
        }
        upstream.push_for_realtime(RealtimeFault::Fail(code));
        let failed = respond(&mut *link).await.failed.unwrap();
        let is_known = expected != Rejected;
        assert_eq!(
            failed.kind,
            if is_known { expected } else { Unavailable },
            "{code}"
        );
        assert!(failed.reported.is_some(), "a failed response has its usage");
    }
    for (reason, finish) in [
        ("max_output_tokens", RealtimeFinish::MaxTokens),
        ("content_filter", RealtimeFinish::ContentFilter),
    ] {
        upstream.push_for_realtime(RealtimeFault::Incomplete(reason));
        assert_eq!(respond(&mut *link).await.finish(), finish);
    }
    assert_eq!(respond(&mut *link).await.finish(), RealtimeFinish::Completed);
}

#[tokio::test]
async fn a_refused_change_fails_the_next_response() {
    for event in [
        "session.update",
        "conversation.item.create",
        "input_audio_buffer.commit",
    ] {
        for is_early in [true, false] {
            let (upstream, mut link) = started().await;
            upstream.push_for_realtime(RealtimeFault::ErrorFor {
                event,
                kind: "invalid_request_error",
                code: "invalid_value",
                has_event_id: true,
            });
            link.configure(&settings()).await.unwrap();
            link.create(RealtimePlace::Last, &recording(SECOND))
                .await
                .unwrap();
            link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
            if is_early {
                // The link can read the error before it requests the response.
                link.create(RealtimePlace::Last, &said("x")).await.unwrap();
                upstream
                    .wait_until("the items", |upstream| {
                        sent(upstream, "conversation.item.create").len() == 2
                    })
                    .await;
                while link.next().now_or_never().is_some() {}
            }
            let failed = respond(&mut *link).await;
            let error = failed.failed.unwrap();
            assert_eq!(error.kind, UpstreamErrorKind::Rejected, "{event}");
            link.configure(&settings()).await.unwrap();
            assert!(respond(&mut *link).await.end.is_some(), "{event}");
            let updates = sent(&upstream, "session.update").len();
            assert_eq!(updates, if event == "session.update" { 4 } else { 3 });
        }
    }
}

#[tokio::test]
async fn the_settings_are_sent_once() {
    let upstream = FakeUpstream::start().await;
    let mut link = opened(&upstream).await;
    let fast = RealtimeSettings {
        speed: 1.5,
        tools: vec![RealtimeTool {
            name: "weather".into(),
            description: None,
            parameters: Some(r#"{"type":"object"}"#.into()),
        }],
        tool_choice: RealtimeToolChoice::Function("weather".into()),
        parallel_tool_calls: Some(false),
        temperature: Some(0.7),
        ..written()
    };
    for settings in [&settings(), &settings(), &fast, &fast, &written()] {
        link.configure(settings).await.unwrap();
    }
    assert_eq!(ask(&mut *link, "Hi").await.text, "You said: Hi");
    let updates = sent(&upstream, "session.update");
    let output = |place: usize| &updates[place]["session"]["audio"]["output"];
    assert_eq!(updates.len(), 4);
    assert_eq!(
        (&output(1)["voice"], &output(1)["speed"]),
        (&json!("marin"), &Value::Null)
    );
    assert_eq!(
        (&output(2)["voice"], &output(2)["speed"]),
        (&Value::Null, &json!(1.5))
    );
    assert_eq!(output(3)["speed"], 1, "the usual speed is restored");
    let session = &updates[2]["session"];
    assert_eq!(
        session["tool_choice"],
        json!({"type": "function", "name": "weather"})
    );
    assert_eq!(
        (&session["parallel_tool_calls"], &session["temperature"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(updates[1]["session"]["output_modalities"], json!(["audio"]));
    assert_eq!(session["output_modalities"], json!(["text"]));
}

#[tokio::test]
async fn responses_outside_the_conversation_read_their_input_alone() {
    let (upstream, mut link) = started().await;
    let first = link
        .create(RealtimePlace::Last, &recording(SECOND))
        .await
        .unwrap();
    link.create(RealtimePlace::Last, &said("Ignore me"))
        .await
        .unwrap();
    let input = vec![
        RealtimeInput::Item(said("Summarize it")),
        RealtimeInput::Reference(first),
    ];
    let request = RealtimeRequest {
        outside: Some(input),
        ..request()
    };
    link.respond(&with_hold(context()), &request).await.unwrap();
    assert_eq!(collect(&mut *link).await.unwrap().text, "You spoke for 1000 ms.");
    let params = &sent(&upstream, "response.create")[0]["response"];
    assert_eq!(params["conversation"], "none");
    assert!(params["input"][1]["id"].as_str().unwrap().starts_with("item_"));
    assert_eq!(respond(&mut *link).await.text, "You said: Ignore me");
}

#[tokio::test]
async fn odd_servers_are_understood() {
    for fault in [
        RealtimeFault::Twice("response.done"),
        RealtimeFault::Twice("response.created"),
        RealtimeFault::Twice("response.output_item.added"),
        RealtimeFault::Omit("response.created"),
        RealtimeFault::Omit("response.output_item.added"),
        RealtimeFault::Before("response.done", r#"{"type":"response.magic","x":[1]}"#.to_owned()),
        RealtimeFault::Before(
            "response.done",
            r#"{"type":"response.done","response":{"id":"resp_of_another"}}"#.to_owned(),
        ),
        RealtimeFault::Before(
            "response.output_audio.delta",
            r#"{"type":"response.output_audio.delta","response_id":"resp_of_another","item_id":"x","delta":"AAAA"}"#
                .to_owned(),
        ),
        RealtimeFault::PingBefore("response.output_audio.delta"),
        RealtimeFault::OtherItemId,
        RealtimeFault::OddAudio,
        RealtimeFault::Unsolicited("conversation.item.create"),
    ] {
        let shown = format!("{fault:?}");
        let upstream = FakeUpstream::start().await;
        upstream.set_realtime_audio(250);
        let mut link = opened(&upstream).await;
        link.configure(&settings()).await.unwrap();
        upstream.push_for_realtime(fault);
        let item = link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
        if shown.starts_with("Unsolicited") {
            let cancelled = upstream.wait_until("the cancellation", |upstream| {
                sent(upstream, "response.cancel").len() == 1
            });
            tokio::select! {
                event = link.next() => panic!("{event:?}"),
                () = cancelled => {}
            }
        }
        let answer = respond(&mut *link).await;
        assert_eq!((&*answer.order, &*answer.transcript), ("SIWAE", "You said: Hi"), "{shown}");
        assert_eq!(answer.audio.len(), SECOND / 4, "{shown}");
        assert!(answer.usage().is_some(), "{shown}");
        link.delete(item).await.unwrap();
        assert_eq!(ask(&mut *link, "Again").await.transcript, "You said: Again", "{shown}");
        if shown.starts_with("Ping") {
            assert_eq!(upstream.realtime_pongs(), 1);
        }
    }
}

#[tokio::test]
async fn a_response_without_usage_has_none() {
    let (upstream, mut link) = started().await;
    upstream.push_for_realtime(RealtimeFault::NoUsage);
    let answer = ask(&mut *link, "Hi").await;
    assert_eq!(
        (answer.finish(), answer.usage()),
        (RealtimeFinish::Completed, None)
    );
}

#[tokio::test]
async fn ends_of_the_connection_are_errors() {
    use UpstreamCause::{Protocol, Timeout};
    let expired =
        json!({"type": "error", "error": {"type": "invalid_request_error", "code": "session_expired"}});
    for (fault, cause, detail) in [
        (
            RealtimeFault::CloseAfter("response.created", 1_000),
            Protocol,
            "1000",
        ),
        (
            RealtimeFault::CloseAfter("response.output_text.delta", 1_001),
            Protocol,
            "1001",
        ),
        (
            RealtimeFault::CloseAfter("response.output_item.done", 1_011),
            Protocol,
            "1011 closed_by_script",
        ),
        (RealtimeFault::HangAfter("response.created"), Timeout, ""),
        (
            RealtimeFault::HangAfter("response.output_text.delta"),
            Timeout,
            "",
        ),
        (
            RealtimeFault::Before("response.done", "{\"type\"".to_owned()),
            Protocol,
            "invalid event",
        ),
        (
            RealtimeFault::Before("response.done", "[]".to_owned()),
            Protocol,
            "invalid event",
        ),
        (
            RealtimeFault::Before("response.done", expired.to_string()),
            Protocol,
            "session_expired",
        ),
    ] {
        let shown = format!("{fault:?}");
        let (upstream, mut link) = started().await;
        upstream.push_for_realtime(fault);
        link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
        let ctx = with_hold(context_with_short_timeout());
        link.respond(&ctx, &request()).await.unwrap();
        let error = collect(&mut *link).await.unwrap_err();
        assert_eq!(
            (error.cause, error.kind),
            (cause, UpstreamErrorKind::Unavailable),
            "{shown}"
        );
        assert!(error.detail.contains(detail), "{shown}: {error}");
        // Every later use of the link has the same error.
        let later = [
            link.next().await.err(),
            link.cancel().await.err(),
            link.configure(&settings()).await.err(),
            link.create(RealtimePlace::Last, &said("x")).await.err(),
            link.respond(&ctx, &request()).await.err(),
        ];
        for later in later {
            assert_eq!(later.unwrap().detail, error.detail, "{shown}");
        }
    }
}

#[tokio::test]
async fn the_end_is_noticed_between_responses() {
    let (upstream, mut link) = started().await;
    upstream.push_for_realtime(RealtimeFault::CloseAfter("conversation.item.done", 1_001));
    link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
    let error = link.next().await.unwrap_err();
    assert_eq!(error.cause, UpstreamCause::Protocol);
    assert!(error.detail.contains("1001"), "{error}");
}

#[tokio::test]
async fn next_can_be_abandoned_at_any_time() {
    let upstream = FakeUpstream::start().await;
    upstream.set_realtime_audio(2_000);
    let mut link = opened(&upstream).await;
    link.configure(&settings()).await.unwrap();
    link.create(RealtimePlace::Last, &said("Hi")).await.unwrap();
    link.respond(&with_hold(context()), &request()).await.unwrap();
    let mut collected = Collected::default();
    while !collected.has_ended() {
        // Each future is dropped after a single poll.
        match link.next().now_or_never() {
            Some(event) => collected.take(event.unwrap()),
            None => tokio::task::yield_now().await,
        }
    }
    assert_eq!(collected.order, "SIWAE");
    assert_eq!(collected.audio.len(), 2 * SECOND);
    assert_eq!(collected.transcript, "You said: Hi");
}
