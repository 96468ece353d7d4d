//! Tests of realtime conversations against a scripted server on loopback.

use tollgate_testkit::upstream::{LiveFault, LiveReceived};
use tollgate_types::HoldId;
use tollgate_upstream::{
    ItemKey, REALTIME_RATE, RealtimeCall, RealtimeEvent, RealtimeFinish, RealtimeInput, RealtimeItem,
    RealtimeLink, RealtimePlace, RealtimeRequest, RealtimeRole, RealtimeSettings, RealtimeTool,
    RealtimeToolChoice,
};

use super::*;

/// Bytes of a millisecond of audio.
const BYTES_PER_MS: usize = 2 * REALTIME_RATE as usize / 1_000;

fn held() -> CallContext {
    CallContext {
        permit: Permit::Hold(HoldId::from_u128(9)),
        ..context_with_long_timeout()
    }
}

fn settings() -> RealtimeSettings {
    RealtimeSettings {
        instructions: "Be brief.".into(),
        is_spoken: true,
        voice: Some("Kore".into()),
        speed: 1.0,
        tools: Vec::new(),
        tool_choice: RealtimeToolChoice::Auto,
        parallel_tool_calls: None,
        temperature: Some(0.5),
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

fn recording(ms: usize) -> RealtimeItem {
    let samples = (0..ms * BYTES_PER_MS).map(|at| u8::try_from(at % 251).unwrap());
    RealtimeItem::Recording(samples.collect())
}

fn output(call_id: &str) -> RealtimeItem {
    RealtimeItem::FunctionOutput {
        call_id: call_id.into(),
        output: "{\"degrees\":4}".into(),
    }
}

/// A conversation with the scripted server.
struct Scene {
    upstream: FakeUpstream,
    link: Box<dyn RealtimeLink>,
}

impl Scene {
    async fn open(settings: &RealtimeSettings) -> Self {
        let (upstream, provider) = started().await;
        Self::connect(upstream, &*provider, settings).await
    }

    async fn connect(upstream: FakeUpstream, provider: &dyn Provider, settings: &RealtimeSettings) -> Self {
        let call = RealtimeCall {
            upstream_model: "gemini-live".into(),
        };
        let realtime = provider.realtime().unwrap();
        assert!(!realtime.has_outside_responses() && !realtime.has_editable_items());
        let mut link = realtime.open(&context_with_long_timeout(), &call).await.unwrap();
        link.configure(settings).await.unwrap();
        Self { upstream, link }
    }

    async fn create(&mut self, item: RealtimeItem) -> ItemKey {
        self.link.create(RealtimePlace::Last, &item).await.unwrap()
    }

    async fn respond(&mut self, max_output_tokens: u64) {
        let request = RealtimeRequest {
            max_output_tokens,
            outside: None,
        };
        self.link.respond(&held(), &request).await.unwrap();
    }

    /// Returns the rest of the running response.
    async fn rest(&mut self) -> Said {
        let mut said = Said::default();
        while said.finish.is_none() && said.failure.is_none() {
            said.take(self.link.next().await.unwrap());
        }
        said
    }

    /// Returns the answer to one more item.
    async fn ask(&mut self, item: RealtimeItem) -> Said {
        self.create(item).await;
        self.respond(4_096).await;
        self.rest().await
    }

    /// Reads the running response up to its first audio.
    async fn first_audio(&mut self) -> Said {
        let mut said = Said::default();
        while said.audio.is_empty() {
            said.take(self.link.next().await.unwrap());
        }
        said
    }

    /// Returns the messages of a connection, audio as its duration in milliseconds.
    fn messages(&self, connection: u64) -> Vec<Value> {
        let received = self.upstream.live_messages().into_iter();
        let own = received.filter(|received| received.connection == connection);
        own.map(|LiveReceived { mut message, .. }| {
            if let Some(data) = message["realtimeInput"]["audio"]["data"].as_str() {
                let ms = data.len() / 4 * 3 / BYTES_PER_MS;
                message["realtimeInput"]["audio"] = json!(ms);
            }
            message
        })
        .collect()
    }
}

fn turns(turns: &Value, is_complete: bool) -> Value {
    json!({"clientContent": {"turns": turns, "turnComplete": is_complete}})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "parts": [{"text": text}]})
}

fn model(text: &str) -> Value {
    json!({"role": "model", "parts": [{"text": text}]})
}

fn input(name: &str, value: Value) -> Value {
    json!({"realtimeInput": {name: value}})
}

/// The output of one response.
#[derive(Debug, Default)]
struct Said {
    text: String,
    transcript: String,
    audio: Vec<u8>,
    calls: Vec<(String, String, String)>,
    items: Vec<ItemKey>,
    events: usize,
    finish: Option<RealtimeFinish>,
    usage: Option<Usage>,
    failure: Option<UpstreamError>,
}

impl Said {
    fn take(&mut self, event: RealtimeEvent) {
        self.events += 1;
        let is_start = matches!(event, RealtimeEvent::Started);
        assert_eq!(is_start, self.events == 1, "{event:?}");
        match event {
            RealtimeEvent::Started => {}
            RealtimeEvent::Item(key) => self.items.push(key),
            RealtimeEvent::Text(delta) => self.text.push_str(&delta),
            RealtimeEvent::Transcript(delta) => self.transcript.push_str(&delta),
            RealtimeEvent::Audio(audio) => self.audio.extend_from_slice(&audio),
            RealtimeEvent::CallStarted { call_id, name, .. } => {
                self.calls.push((call_id, name, String::new()));
            }
            RealtimeEvent::CallArguments { index, delta } => {
                self.calls[index as usize].2.push_str(&delta);
            }
            RealtimeEvent::Ended { finish, usage } => {
                (self.finish, self.usage) = (Some(finish), usage);
            }
            RealtimeEvent::Failed(error) => self.failure = Some(error),
        }
    }
}

#[tokio::test]
async fn a_text_is_answered_in_speech() {
    let mut scene = Scene::open(&settings()).await;
    let answer = scene.ask(said("Good morning, harbour.")).await;
    assert_eq!(answer.transcript, "Good morning, harbour.");
    assert_eq!(
        (answer.audio.len(), answer.items.len()),
        (1_000 * BYTES_PER_MS, 1)
    );
    assert_eq!(answer.finish, Some(RealtimeFinish::Completed));
    let usage = Usage::tokens(6, 0).with(Unit::OutputAudio, 25);
    assert_eq!(answer.usage, Some(usage));

    let [setup, content] = &scene.messages(1)[..] else {
        panic!("two messages: {:?}", scene.messages(1));
    };
    let expected = json!({"setup": {
        "model": "models/gemini-live",
        "generationConfig": {"responseModalities": ["AUDIO"], "maxOutputTokens": 4096, "temperature": 0.5,
            "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}},
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "realtimeInputConfig": {"automaticActivityDetection": {"disabled": true}},
        "inputAudioTranscription": {}, "outputAudioTranscription": {},
        "sessionResumption": {}, "contextWindowCompression": {"slidingWindow": {}},
    }});
    assert_eq!(setup, &expected);
    assert_eq!(content, &turns(&json!([user("Good morning, harbour.")]), true));

    // The connection serves the next responses, and receives only what is new.
    let answer = scene.ask(said("And now?")).await;
    assert_eq!(answer.transcript, "And now?");
    assert_eq!(scene.messages(1).len(), 3);
    let handshakes = scene.upstream.requests();
    assert_eq!(handshakes.len(), 1);
    assert_eq!(
        handshakes[0].path,
        "/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent"
    );
    assert_eq!(handshakes[0].header("x-goog-api-key"), Some(KEY));
}

#[tokio::test]
async fn a_text_is_answered_in_writing() {
    let mut scene = Scene::open(&written()).await;
    let answer = scene.ask(said("Good morning, harbour.")).await;
    assert_eq!(
        (&*answer.text, &*answer.transcript, answer.audio.len()),
        ("Good morning, harbour.", "", 0)
    );
    let usage = Usage::tokens(6, 3);
    assert_eq!(answer.usage, Some(usage));
    let setup = &scene.messages(1)[0]["setup"];
    assert_eq!(setup["generationConfig"]["responseModalities"], json!(["TEXT"]));
    assert!(
        setup["generationConfig"]["speechConfig"].is_null() && setup["outputAudioTranscription"].is_null()
    );
}

#[tokio::test]
async fn speech_is_one_activity_and_nothing_is_sent_before_the_response() {
    let mut scene = Scene::open(&settings()).await;
    scene.create(said("Listen.")).await;
    scene.create(recording(1_500)).await;
    scene.create(said("Did you hear it?")).await;
    assert_eq!(scene.messages(1), Vec::<Value>::new());
    scene.respond(4_096).await;
    let answer = scene.rest().await;
    assert_eq!(answer.transcript, "1500 ms of speech");
    let (audio, text) = (
        answer.usage.unwrap().get(Unit::InputAudio),
        &scene.messages(1)[1..],
    );
    assert_eq!(audio, 37);
    assert_eq!(
        text,
        [
            input("activityStart", json!({})),
            input("text", json!("Listen.")),
            input("audio", json!(1_000)),
            input("audio", json!(500)),
            input("text", json!("Did you hear it?")),
            input("activityEnd", json!({})),
        ]
    );
}

fn with_function() -> RealtimeSettings {
    RealtimeSettings {
        tools: vec![RealtimeTool {
            name: "weather".into(),
            description: Some("Returns the weather.".into()),
            parameters: Some("{\"type\":\"object\"}".into()),
        }],
        ..settings()
    }
}

#[tokio::test]
async fn functions_are_called_and_their_outputs_start_the_response() {
    for ends in [false, true] {
        let mut scene = Scene::open(&with_function()).await;
        let calls = vec![("weather", json!({"city": "Kiel"})), ("weather", json!({}))];
        scene.upstream.push_for_live(LiveFault::Call(calls));
        if ends {
            scene.upstream.push_for_live(LiveFault::EndAfterCalls);
        }
        let called = scene.ask(said("Is it cold?")).await;
        assert_eq!(called.finish, Some(RealtimeFinish::Completed));
        assert_eq!((called.items.len(), called.usage), (2, Some(Usage::tokens(3, 2))));
        let [first, second] = &called.calls[..] else {
            panic!("two calls");
        };
        assert_eq!((&*first.1, &*first.2), ("weather", r#"{"city":"Kiel"}"#));
        scene.create(output(&first.0)).await;
        scene.create(output(&second.0)).await;
        assert_eq!(scene.messages(1).len(), 2, "the outputs wait for the response");
        scene.respond(4_096).await;
        let answer = scene.rest().await;
        assert_eq!(answer.transcript, r#"{"degrees":4}"#);
        let response = |id: &str| json!({"id": id, "name": "weather", "response": {"degrees": 4}});
        let expected =
            json!({"toolResponse": {"functionResponses": [response(&first.0), response(&second.0)]}});
        assert_eq!(scene.messages(1)[2], expected);
        let tools = &scene.messages(1)[0]["setup"]["tools"];
        let declared = json!([{"functionDeclarations": [{"name": "weather", "description": "Returns the weather.",
            "parametersJsonSchema": {"type": "object"}}]}]);
        assert_eq!(tools, &declared);
    }
}

#[tokio::test]
async fn outputs_with_other_items_are_replayed() {
    let mut scene = Scene::open(&with_function()).await;
    scene
        .upstream
        .push_for_live(LiveFault::Call(vec![("weather", json!({"city": "Kiel"}))]));
    let called = scene.ask(said("Is it cold?")).await;
    let id = &called.calls[0].0;
    scene.create(output(id)).await;
    let answer = scene.ask(said("Hurry up.")).await;
    assert_eq!(answer.transcript, "Hurry up.");
    let call = json!({"functionCall": {"id": id, "name": "weather", "args": {"city": "Kiel"}}});
    let result = json!({"functionResponse": {"id": id, "name": "weather", "response": {"degrees": 4}}});
    let expected = json!([
        user("Is it cold?"),
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [result, {"text": "Hurry up."}]},
    ]);
    assert_eq!(scene.messages(2)[1], turns(&expected, true));
}

#[tokio::test]
async fn a_cancelled_response_is_interrupted_and_the_user_continues() {
    let mut scene = Scene::open(&settings()).await;
    scene.upstream.push_for_live(LiveFault::WaitForInterruption);
    scene.create(said("Tell me everything.")).await;
    scene.respond(4_096).await;
    let heard = scene.first_audio().await;
    scene.link.cancel().await.unwrap();
    scene.link.cancel().await.unwrap();
    let RealtimeEvent::Ended { finish, usage } = scene.link.next().await.unwrap() else {
        panic!("the end of the response");
    };
    let expected = Usage::tokens(6, 0).with(Unit::OutputAudio, 5);
    assert_eq!((finish, usage), (RealtimeFinish::Cancelled, Some(expected)));
    assert_eq!(heard.audio.len(), 200 * BYTES_PER_MS);
    // The interruption has started the activity.
    let answer = scene.ask(recording(100)).await;
    assert_eq!(answer.transcript, "100 ms of speech");
    assert_eq!(
        scene.messages(1)[2..],
        [
            input("activityStart", json!({})),
            input("audio", json!(100)),
            input("activityEnd", json!({})),
        ]
    );
    scene.link.cancel().await.unwrap();
    assert_eq!(scene.ask(said("Still there?")).await.transcript, "Still there?");
    assert_eq!(scene.messages(2), Vec::<Value>::new(), "one connection is enough");
}

#[tokio::test]
async fn output_ends_at_its_limit() {
    let mut scene = Scene::open(&settings()).await;
    scene.create(said("Tell me everything.")).await;
    // The tone of a second has 25 tokens.
    scene.respond(12).await;
    let answer = scene.rest().await;
    assert_eq!(answer.finish, Some(RealtimeFinish::MaxTokens));
    assert_eq!(answer.audio.len(), 12 * 40 * BYTES_PER_MS);
    let setup = &scene.messages(1)[0]["setup"];
    assert_eq!(setup["generationConfig"]["maxOutputTokens"], 4_096);
    assert_eq!(
        scene.ask(said("Continue.")).await.finish,
        Some(RealtimeFinish::Completed)
    );
    assert_eq!(scene.messages(2), Vec::<Value>::new());
    // A higher limit needs another connection.
    scene.create(said("More.")).await;
    scene.respond(9_000).await;
    assert_eq!(scene.rest().await.transcript, "More.");
    let setup = &scene.messages(2)[0]["setup"];
    assert_eq!(setup["generationConfig"]["maxOutputTokens"], 9_000);
}

#[tokio::test]
async fn other_settings_continue_the_conversation_on_another_connection() {
    let mut scene = Scene::open(&settings()).await;
    scene.ask(said("One.")).await;
    scene.link.configure(&settings()).await.unwrap();
    scene.ask(said("Two.")).await;
    scene.link.configure(&written()).await.unwrap();
    let answer = scene.ask(said("Three.")).await;
    assert_eq!(answer.text, "Three.");
    // The server has the conversation: two texts with their answers, and the new one.
    assert_eq!(answer.usage.unwrap().get(Unit::Input), 6);
    let [setup, content] = &scene.messages(2)[..] else {
        panic!("{:?}", scene.messages(2));
    };
    assert_eq!(
        setup["setup"]["sessionResumption"],
        json!({"handle": "handle-1-2"})
    );
    assert_eq!(content, &turns(&json!([user("Three.")]), true));
}

#[tokio::test]
async fn without_a_handle_the_conversation_is_replayed() {
    for refused in [false, true] {
        let mut scene = Scene::open(&settings()).await;
        scene.upstream.push_for_live(match refused {
            true => LiveFault::RefuseHandle,
            false => LiveFault::NoHandle,
        });
        let answer = scene.ask(recording(200)).await;
        // Half of the answer was heard.
        scene.link.truncate(answer.items[0], 500).await.unwrap();
        scene.link.configure(&written()).await.unwrap();
        scene.ask(said("Two.")).await;
        let connection = if refused { 3 } else { 2 };
        let expected = json!([user("200 ms of speech"), model("200 ms"), user("Two.")]);
        assert_eq!(scene.messages(connection)[1], turns(&expected, true));

        // With new speech, the history precedes it.
        scene.upstream.push_for_live(LiveFault::NoHandle);
        scene.ask(said("Three.")).await;
        scene.link.configure(&settings()).await.unwrap();
        let answer = scene.ask(recording(100)).await;
        assert_eq!(answer.transcript, "100 ms of speech");
        let messages = scene.messages(connection + 1);
        let history = json!({"initialHistoryInClientContent": true});
        assert_eq!(messages[0]["setup"]["historyConfig"], history);
        let expected = json!([
            user("200 ms of speech"),
            model("200 ms"),
            user("Two."),
            model("Two."),
            user("Three."),
            model("Three."),
        ]);
        assert_eq!(messages[1], turns(&expected, true));
        assert_eq!(messages[2], input("activityStart", json!({})));
        // The replay starts no answer.
        assert_eq!(scene.upstream.live_answers(), 4);
    }
}

#[tokio::test]
async fn a_connection_that_ends_between_responses_is_replaced() {
    let faults = [LiveFault::GoAway, LiveFault::CloseAfter("turnComplete", 1011)];
    for fault in faults {
        let mut scene = Scene::open(&settings()).await;
        scene.upstream.push_for_live(fault.clone());
        scene.ask(said("One.")).await;
        if fault != LiveFault::GoAway {
            tokio::select! {
                event = scene.link.next() => panic!("{event:?}"),
                () = scene.upstream.wait_until("the connection ends", |upstream| upstream.live_ended() == 1) => {}
            }
        }
        assert_eq!(scene.ask(said("Two.")).await.transcript, "Two.", "{fault:?}");
        let setup = &scene.messages(2)[0]["setup"];
        assert_eq!(
            setup["sessionResumption"],
            json!({"handle": "handle-1-1"}),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_connection_that_ends_during_a_response_is_an_error() {
    let faults = [
        LiveFault::CloseAfter("modelTurn", 1011),
        LiveFault::CloseAfter("outputTranscription", 1000),
        LiveFault::Garbage,
    ];
    for fault in faults {
        let mut scene = Scene::open(&settings()).await;
        scene.upstream.push_for_live(fault.clone());
        scene.create(said("One.")).await;
        scene.respond(4_096).await;
        let error = loop {
            match scene.link.next().await {
                Ok(RealtimeEvent::Ended { .. }) => panic!("{fault:?}"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(
            (error.kind, error.cause),
            (UpstreamErrorKind::Unavailable, UpstreamCause::Protocol),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_connection_may_end_before_its_settings() {
    let (upstream, provider) = started().await;
    upstream.push_for_live(LiveFault::CloseUnused);
    let mut scene = Scene::connect(upstream, &*provider, &settings()).await;
    assert_eq!(scene.ask(said("One.")).await.transcript, "One.");
    assert_eq!(scene.messages(2).len(), 2);
    // After the settings, the end is an error of the response.
    let (upstream, provider) = started().await;
    upstream.push_for_live(LiveFault::CloseAfter("setupComplete", 1011));
    let mut scene = Scene::connect(upstream, &*provider, &settings()).await;
    scene.create(said("One.")).await;
    scene.respond(4_096).await;
    assert!(scene.link.next().await.is_err());
}

#[tokio::test]
async fn an_answer_without_usage_has_none() {
    let mut scene = Scene::open(&settings()).await;
    scene.upstream.push_for_live(LiveFault::NoUsage);
    let answer = scene.ask(said("One.")).await;
    assert_eq!(
        (answer.finish, answer.usage),
        (Some(RealtimeFinish::Completed), None)
    );
    assert!(scene.ask(said("Two.")).await.usage.is_some());
}

#[tokio::test]
async fn a_turn_may_end_without_an_answer() {
    let mut scene = Scene::open(&settings()).await;
    for (reason, expected) in [
        ("PROHIBITED_INPUT_CONTENT", Some(RealtimeFinish::ContentFilter)),
        ("NEED_MORE_INPUT", Some(RealtimeFinish::Completed)),
        ("MALFORMED_FUNCTION_CALL", None),
    ] {
        scene.upstream.push_for_live(LiveFault::EndTurn(reason));
        scene.create(said("One.")).await;
        scene.respond(4_096).await;
        match scene.link.next().await.unwrap() {
            RealtimeEvent::Ended { finish, usage } => {
                assert_eq!((Some(finish), usage.is_some()), (expected, true), "{reason}");
            }
            RealtimeEvent::Failed(error) => {
                assert_eq!((expected, error.reported.is_some()), (None, true), "{reason}");
            }
            event => panic!("{event:?}"),
        }
    }
}

#[tokio::test]
async fn unsupported_requests_are_refused_without_a_message() {
    let mut scene = Scene::open(&settings()).await;
    let refused = [
        RealtimeSettings {
            tool_choice: RealtimeToolChoice::Required,
            ..with_function()
        },
        RealtimeSettings {
            speed: 1.2,
            ..settings()
        },
        RealtimeSettings {
            parallel_tool_calls: Some(false),
            ..settings()
        },
    ];
    for (settings, param) in refused
        .iter()
        .zip(["tool_choice", "speed", "parallel_tool_calls"])
    {
        let error = scene.link.configure(settings).await.unwrap_err();
        assert_eq!(
            (error.kind, error.param.as_deref()),
            (UpstreamErrorKind::Unsupported, Some(param))
        );
    }
    let first = scene.create(said("One.")).await;
    let second = scene.create(said("Two.")).await;
    let place = RealtimePlace::After(first);
    assert!(scene.link.create(place, &said("x")).await.is_err());
    assert!(scene.link.create(RealtimePlace::First, &said("x")).await.is_err());
    // An item that was not sent can be removed.
    scene.link.delete(second).await.unwrap();
    let outside = RealtimeRequest {
        max_output_tokens: 10,
        outside: Some(vec![RealtimeInput::Reference(first)]),
    };
    assert!(scene.link.respond(&held(), &outside).await.is_err());
    let free = context_with_long_timeout();
    assert!(
        scene
            .link
            .respond(&free, &RealtimeRequest::default())
            .await
            .is_err()
    );
    assert_eq!(scene.messages(1), Vec::<Value>::new());
    scene.respond(4_096).await;
    assert_eq!(scene.rest().await.transcript, "One.");
    assert!(scene.link.delete(first).await.is_err());
}

#[tokio::test]
async fn no_function_is_declared_if_none_may_be_called() {
    let settings = RealtimeSettings {
        tool_choice: RealtimeToolChoice::None,
        ..with_function()
    };
    let mut scene = Scene::open(&settings).await;
    scene.ask(said("One.")).await;
    assert!(scene.messages(1)[0]["setup"]["tools"].is_null());
}

#[tokio::test]
async fn a_refused_handshake_has_the_error_of_its_status() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key("another key");
    let provider = provider("main", &upstream.base_url());
    let call = RealtimeCall {
        upstream_model: "gemini-live".into(),
    };
    let opened = provider
        .realtime()
        .unwrap()
        .open(&context_with_long_timeout(), &call)
        .await;
    let Err(error) = opened else {
        panic!("the key is refused");
    };
    assert_eq!(
        (error.kind, error.status),
        (UpstreamErrorKind::Credentials, Some(401))
    );
}
