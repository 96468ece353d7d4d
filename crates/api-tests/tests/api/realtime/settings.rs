//! Keys, dialects and settings of sessions.

use serde_json::{Value, json};

use super::VOICE;
use super::client::{Handshake, Session, error_of, message, silence};
use super::conversation::only_item;
use crate::scene::Scene;

#[tokio::test]
async fn a_session_begins_with_the_documented_defaults() {
    let scene = Scene::start().await;
    let handshake = Handshake::new(&scene, &format!("?model={VOICE}"));
    let mut session = handshake.open().await.unwrap();
    let created = session.event().await;
    assert_eq!(created["type"], "session.created");
    let shown = &created["session"];
    assert!(shown["id"].as_str().unwrap().starts_with("rtsess_"), "{shown}");
    assert_eq!(
        (&shown["type"], &shown["object"], &shown["model"]),
        (&json!("realtime"), &json!("realtime.session"), &json!(VOICE))
    );
    assert_eq!(shown["output_modalities"], json!(["audio"]));
    let pcm = json!({"type": "audio/pcm", "rate": 24_000});
    let audio = &shown["audio"];
    assert_eq!(
        (&audio["input"]["format"], &audio["output"]["format"]),
        (&pcm, &pcm)
    );
    assert_eq!(audio["input"]["turn_detection"], Value::Null);
    assert_eq!(audio["input"]["noise_reduction"], Value::Null);
    assert_eq!(audio["input"]["transcription"]["model"], "sim/transcribe");
    assert_eq!(
        (&audio["output"]["voice"], audio["output"]["speed"].as_f64()),
        (&json!("alloy"), Some(1.0))
    );
    assert_eq!(
        (&shown["tools"], &shown["max_output_tokens"], &shown["truncation"]),
        (&json!([]), &json!("inf"), &json!("auto"))
    );
    let updated = session
        .update(json!({"turn_detection": "server_vad", "voice": "ash"}))
        .await;
    assert_eq!(
        updated["audio"]["input"]["turn_detection"],
        json!({"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500,
            "idle_timeout_ms": null, "create_response": true, "interrupt_response": true})
    );
    // The voice is fixed after the first audio.
    let _ = session.ask("Hello there").await.completed();
    session
        .send(&json!({"type": "session.update", "session": {"voice": "echo"}}))
        .await;
    let refused = session.event().await;
    assert_eq!(error_of(&refused).0, "invalid_parameter", "{refused}");
    scene.finish().await;
}

#[tokio::test]
async fn a_session_is_changed_as_a_whole_or_not_at_all() {
    let scene = Scene::start().await;
    let mut session = Session::voice_with(&scene, json!({"instructions": "first"})).await;
    let many: Vec<Value> = (0..129)
        .map(|number| json!({"type": "function", "name": format!("f{number}")}))
        .collect();
    for (wrong, code, param) in [
        (json!({"foo": 1}), "unknown_parameter", "session.foo"),
        (
            json!({"audio": {"output": {"speed": 1.6}}}),
            "invalid_parameter",
            "session.audio.output.speed",
        ),
        (
            json!({"output_modalities": ["audio", "text"]}),
            "invalid_parameter",
            "session.output_modalities",
        ),
        (
            json!({"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 2}}}}),
            "invalid_parameter",
            "session.audio.input.turn_detection.threshold",
        ),
        (
            json!({"max_output_tokens": 4_097}),
            "invalid_parameter",
            "session.max_output_tokens",
        ),
        (
            json!({"truncation": "none"}),
            "invalid_parameter",
            "session.truncation",
        ),
        (
            json!({"type": "transcription"}),
            "invalid_parameter",
            "session.type",
        ),
        (json!({"model": "sim/chat"}), "invalid_parameter", "session.model"),
        (json!({"tools": many}), "invalid_parameter", "session.tools"),
        (
            json!({"tools": [{"type": "mcp", "server_label": "x"}]}),
            "unsupported_parameter",
            "session.tools[0].type",
        ),
        (
            json!({"prompt": {"id": "p"}}),
            "unsupported_parameter",
            "session.prompt",
        ),
        (
            json!({"instructions": "x".repeat(65_537)}),
            "invalid_parameter",
            "session.instructions",
        ),
        (
            json!({"audio": {"output": {"voice": ""}}}),
            "invalid_parameter",
            "session.audio.output.voice",
        ),
    ] {
        let mut change = json!({"instructions": "second", "max_output_tokens": 50});
        for (name, value) in wrong.as_object().unwrap() {
            change[name] = value.clone();
        }
        session
            .send(&json!({"type": "session.update", "event_id": "mine", "session": change}))
            .await;
        let refused = session.event().await;
        assert_eq!(error_of(&refused), (code, Some(param), Some("mine")), "{wrong}");
        let current = session.update(json!({})).await;
        assert_eq!(
            (&current["instructions"], &current["max_output_tokens"]),
            (&json!("first"), &json!("inf")),
            "{wrong}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_beta_dialect_has_its_own_event_names() {
    let scene = Scene::start().await;
    let query = format!("?model={VOICE}");
    let key = &scene.key.secret;
    let protocols = format!("realtime, openai-insecure-api-key.{key}, openai-beta.realtime-v1");
    for handshake in [
        Handshake::new(&scene, &query).header("openai-beta", "realtime=v1"),
        Handshake::anonymous(&scene, &query).header("sec-websocket-protocol", protocols),
    ] {
        let mut session = Session::open(handshake).await;
        let conversation = session.event().await;
        assert_eq!(conversation["type"], "conversation.created");
        session.send(&json!({"type": "session.update", "session": {
            "modalities": ["audio", "text"], "input_audio_format": "pcm16", "output_audio_format": "pcm16",
            "max_response_output_tokens": 100, "turn_detection": null, "instructions": "Be kind."
        }})).await;
        let updated = session.until("session.updated").await["session"].clone();
        assert_eq!(
            (
                &updated["output_audio_format"],
                &updated["max_response_output_tokens"]
            ),
            (&json!("pcm16"), &json!(100)),
            "{updated}"
        );
        session
            .send(&json!({"type": "conversation.item.create", "item": message("Hello there")}))
            .await;
        session.until("conversation.item.created").await;
        let reply = session
            .respond(json!({"modalities": ["audio", "text"]}))
            .await
            .completed();
        assert_eq!(
            reply.types(),
            [
                "response.created",
                "rate_limits.updated",
                "response.output_item.added",
                "conversation.item.created",
                "response.content_part.added",
                "response.audio_transcript.delta",
                "response.audio.delta",
                "response.audio.done",
                "response.audio_transcript.done",
                "response.content_part.done",
                "response.output_item.done",
                "response.done",
            ]
        );
        assert_eq!(reply.transcript, "Hello there");
        let content = &only_item(&reply)["content"];
        assert_eq!(*content, json!([{"type": "audio", "transcript": "Hello there"}]));
        session.close().await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn keys_are_taken_from_every_header_and_the_subprotocol_is_confirmed() {
    let scene = Scene::start().await;
    let (query, key) = ("?model=sim%2Fvoice", scene.key.secret.clone());
    let protocols = format!("realtime, openai-insecure-api-key.{key}");
    let handshakes = [
        Handshake::anonymous(&scene, query).header("x-api-key", &key),
        Handshake::anonymous(&scene, query).header("sec-websocket-protocol", protocols),
        Handshake::new(&scene, query).header("sec-websocket-protocol", "realtime"),
    ];
    for (handshake, protocol) in handshakes
        .into_iter()
        .zip([None, Some("realtime"), Some("realtime")])
    {
        let mut session = Session::open(handshake).await;
        assert_eq!(session.protocol.as_deref(), protocol);
        assert!(session.request_id.starts_with("req_"));
        let _ = session.ask("Hi there").await.completed();
        session.close().await;
    }
    assert!(!scene.gateway.log().contains(&key), "the log contains the key");
    scene.finish().await;
}

#[tokio::test]
async fn an_idle_session_costs_nothing_and_opens_without_credits() {
    let scene = Scene::start().await;
    let poor = scene.gateway.account().await;
    let key = scene.gateway.key(&poor).await.secret;
    let query = format!("?model={VOICE}");
    let mut session = Session::open(Handshake::with_key(&scene, &query, &key)).await;
    session.write("Hello").await;
    session.append(&silence(500)).await;
    session.commit().await;
    session.close().await;
    let rows = scene.gateway.usage(&key, "?limit=1").await;
    assert_eq!(rows["data"], json!([]));
    scene.finish().await;
}
