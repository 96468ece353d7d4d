//! Items and responses of voice sessions.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};

use super::client::{CHUNK, Reply, SECOND, Session, error_of, message, speech};
use super::{PRICES, VOICE};
use crate::scene::Scene;

/// Events of a spoken answer, in their order.
const SPOKEN: [&str; 13] = [
    "response.created",
    "rate_limits.updated",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
];

/// Returns the audio tokens of this much output: one per 50 ms.
fn audio_tokens(audio: &[u8]) -> i64 {
    i64::try_from(audio.len().div_ceil(SECOND / 20)).unwrap()
}

/// Returns the only item of a response's output.
pub fn only_item(reply: &Reply) -> &Value {
    let output = reply.response["output"].as_array().unwrap();
    assert_eq!(output.len(), 1, "{}", reply.response);
    &output[0]
}

#[tokio::test]
async fn a_text_is_answered_with_speech_and_charged_by_its_tokens() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let mut session = Session::voice(&scene).await;
        let text = "Hello there, how are you today?";
        session
            .send(&json!({"type": "conversation.item.create", "item": message(text)}))
            .await;
        let added = session.event().await;
        assert_eq!(added["type"], "conversation.item.added", "{added}");
        assert_eq!(added["previous_item_id"], Value::Null, "{added}");
        let done = session.event().await;
        assert_eq!(done["type"], "conversation.item.done", "{done}");
        assert_eq!(
            done["item"]["content"],
            json!([{"type": "input_text", "text": text}])
        );

        let reply = session.respond(json!({})).await.completed();
        assert_eq!(reply.types(), SPOKEN);
        assert_eq!(reply.transcript, text);
        assert!(
            reply.audio.len() >= SECOND * 3 / 10,
            "{} bytes",
            reply.audio.len()
        );
        let item = only_item(&reply);
        assert_eq!(
            item["content"],
            json!([{"type": "output_audio", "transcript": text}])
        );
        assert_eq!(
            (&item["role"], &item["status"]),
            (&json!("assistant"), &json!("completed"))
        );
        let answer = &reply.events[3];
        assert_eq!(answer["previous_item_id"], done["item"]["id"], "{answer}");
        for event in &reply.events[4..10] {
            assert_eq!(event["item_id"], item["id"], "{event}");
            assert_eq!(event["response_id"], reply.response["id"], "{event}");
        }

        let usage = &reply.response["usage"];
        let audio = audio_tokens(&reply.audio);
        assert_eq!(
            *usage,
            json!({
                "total_tokens": 12 + audio, "input_tokens": 6, "output_tokens": 6 + audio,
                "input_token_details": {
                    "text_tokens": 6, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 0,
                    "cached_tokens_details": {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0}
                },
                "output_token_details": {"text_tokens": 6, "audio_tokens": audio},
                "cost": usage["cost"],
            })
        );
        let cost = 6 * PRICES.input + 6 * PRICES.output + audio * PRICES.output_audio;
        assert_eq!(nanos(&usage["cost"]), cost);
        assert_ne!(reply.request_id(), session.request_id);
        let row = scene.row(reply.request_id()).await;
        assert_eq!(nanos(&row["cost"]), cost, "{row}");
        assert_eq!(
            (
                &row["endpoint"],
                &row["model"],
                &row["outcome"],
                &row["estimated"]
            ),
            (&json!("/v1/realtime"), &json!(VOICE), &json!("ok"), &json!(false)),
            "{row}"
        );
        session.close().await;
        let check = scene.finish().await;
        assert_eq!((check.usage_rows, check.revenue), (1, cost));
    }
}

#[tokio::test]
async fn a_committed_recording_is_transcribed_exactly_and_answered() {
    let scene = Scene::start().await;
    let audio = speech(&scene, "good morning").await;
    let mut session = Session::voice(&scene).await;
    session.append(&audio).await;
    let item_id = session.commit().await;
    assert_eq!(
        session.pending().await,
        Vec::<Value>::new(),
        "a commit starts nothing"
    );
    let reply = session.respond(json!({})).await.completed();
    let heard = &reply.events[0];
    assert_eq!(
        heard["type"],
        "conversation.item.input_audio_transcription.completed"
    );
    assert_eq!(
        (&heard["item_id"], &heard["content_index"]),
        (&item_id, &json!(0))
    );
    assert_eq!(heard["transcript"], "good morning");
    assert_eq!(heard["usage"]["type"], "duration", "{heard}");
    let seconds = heard["usage"]["seconds"].as_f64().unwrap();
    assert!(
        (seconds - audio.len() as f64 / SECOND as f64).abs() < 0.001,
        "{heard}"
    );
    assert_eq!(reply.types()[1..], SPOKEN);
    assert_eq!(reply.transcript, "good morning");
    let input = i64::try_from(audio.len().div_ceil(CHUNK)).unwrap();
    let details = &reply.response["usage"]["input_token_details"];
    assert_eq!(details["audio_tokens"], input, "{}", reply.response);
    let cost = 2 * PRICES.input
        + 2 * PRICES.output
        + input * PRICES.input_audio
        + audio_tokens(&reply.audio) * PRICES.output_audio;
    assert_eq!(
        nanos(&reply.response["usage"]["cost"]),
        cost,
        "{}",
        reply.response
    );
    assert_eq!(nanos(&scene.row(reply.request_id()).await["cost"]), cost);

    let item = session.retrieve(&item_id).await;
    assert_eq!(item["content"][0]["transcript"], "good morning", "{item}");
    // The audio is charged once.
    let again = session.respond(json!({})).await.completed();
    let details = &again.response["usage"]["input_token_details"];
    assert_eq!(details["audio_tokens"], 0, "{}", again.response);
    assert_eq!(again.types(), SPOKEN);
    scene.finish().await;
}

#[tokio::test]
async fn text_responses_have_no_audio() {
    let scene = Scene::start().await;
    let mut session = Session::voice_with(&scene, json!({"output_modalities": ["text"]})).await;
    let reply = session.ask("one two three").await.completed();
    assert_eq!(
        reply.types(),
        [
            "response.created",
            "rate_limits.updated",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
    );
    let texts = reply
        .events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta");
    let text: String = texts.map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "one two three");
    let content = &only_item(&reply)["content"];
    assert_eq!(
        *content,
        json!([{"type": "output_text", "text": "one two three"}])
    );
    assert_eq!(
        nanos(&reply.response["usage"]["cost"]),
        3 * (PRICES.input + PRICES.output)
    );
    let spoken = session
        .respond(json!({"output_modalities": ["audio"]}))
        .await
        .completed();
    assert_eq!(spoken.types(), SPOKEN);
    scene.finish().await;
}

#[tokio::test]
async fn a_function_call_ends_the_response_and_its_output_continues() {
    let scene = Scene::start().await;
    let tool = json!({"type": "function", "name": "weather", "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}});
    let mut session = Session::voice_with(&scene, json!({"tools": [tool], "tool_choice": "auto"})).await;
    let reply = session
        .ask(r#"[[sim tool=weather:{"city":"Bonn"}]] How is it?"#)
        .await
        .completed();
    assert_eq!(
        reply.types(),
        [
            "response.created",
            "rate_limits.updated",
            "response.output_item.added",
            "conversation.item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
        ]
    );
    let call = only_item(&reply);
    assert_eq!(
        (&call["type"], &call["name"], &call["arguments"], &call["status"]),
        (
            &json!("function_call"),
            &json!("weather"),
            &json!(r#"{"city":"Bonn"}"#),
            &json!("completed")
        ),
        "{call}"
    );
    let deltas = reply
        .events
        .iter()
        .filter(|event| event["type"] == "response.function_call_arguments.delta");
    let arguments: String = deltas.map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(arguments, r#"{"city":"Bonn"}"#);
    assert_eq!(reply.response["usage"]["output_token_details"]["audio_tokens"], 0);
    session
        .create_item(
            json!({"type": "function_call_output", "call_id": call["call_id"], "output": "It is sunny."}),
        )
        .await;
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(reply.types(), SPOKEN);
    assert_eq!(reply.transcript, "It is sunny.");
    scene.finish().await;
}

#[tokio::test]
async fn responses_outside_the_conversation_leave_it_unchanged() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let item = session.write("first words").await;
    let reply = session
        .respond(
            json!({"conversation": "none", "output_modalities": ["text"], "metadata": {"topic": "a"},
            "input": [message("second words")]}),
        )
        .await
        .completed();
    assert_eq!(
        reply.response["conversation_id"],
        Value::Null,
        "{}",
        reply.response
    );
    assert_eq!(reply.response["metadata"], json!({"topic": "a"}));
    assert_eq!(reply.events[0]["response"]["metadata"], json!({"topic": "a"}));
    assert_eq!(only_item(&reply)["content"][0]["text"], "second words");
    assert!(
        !reply.types().iter().any(|kind| kind.starts_with("conversation.")),
        "{:?}",
        reply.types()
    );
    let outside = only_item(&reply)["id"].clone();
    session
        .send(&json!({"type": "conversation.item.retrieve", "item_id": outside, "event_id": "mine"}))
        .await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("item_retrieve_invalid_item_id", Some("item_id"), Some("mine"))
    );
    // A reference adds an item of the conversation to the input.
    let input = json!([{"type": "item_reference", "id": item["id"]}]);
    let params = json!({"conversation": "none", "output_modalities": ["text"], "input": input});
    let reply = session.respond(params).await.completed();
    assert_eq!(only_item(&reply)["content"][0]["text"], "first words");
    // The next response of the conversation has its own context.
    let reply = session
        .respond(json!({"output_modalities": ["text"]}))
        .await
        .completed();
    assert_eq!(only_item(&reply)["content"][0]["text"], "first words");
    assert_ne!(reply.response["conversation_id"], Value::Null);
    let added = reply
        .events
        .iter()
        .find(|event| event["type"] == "conversation.item.added")
        .unwrap();
    assert_eq!(added["previous_item_id"], item["id"]);
    scene.finish().await;
}

#[tokio::test]
async fn four_responses_outside_the_conversation_run_concurrently_with_one_inside() {
    let scene = Scene::start().await;
    let mut session = Session::voice_with(&scene, json!({"output_modalities": ["text"]})).await;
    session.write("[[sim delay=1500]] inside").await;
    session.send(&json!({"type": "response.create"})).await;
    let outside = |number: usize| {
        json!({"type": "response.create", "event_id": format!("outside {number}"), "response": {
            "conversation": "none", "metadata": {"number": number.to_string()},
            "input": [message(&format!("[[sim delay=1500]] outside {number}"))]
        }})
    };
    for number in 0..5 {
        session.send(&outside(number)).await;
    }
    session
        .send(&json!({"type": "response.create", "event_id": "second"}))
        .await;
    let (mut created, mut refused) = (0, Vec::new());
    while created < 5 || refused.len() < 2 {
        let event = session.event().await;
        match event["type"].as_str().unwrap() {
            "response.created" => created += 1,
            "rate_limits.updated" => {}
            _ => refused.push(event),
        }
    }
    for (event, id) in refused.iter().zip(["outside 4", "second"]) {
        assert_eq!(
            error_of(event),
            ("conversation_already_has_active_response", None, Some(id))
        );
    }
    let mut texts = Vec::new();
    while texts.len() < 5 {
        let done = session.until("response.done").await["response"].clone();
        assert_eq!(done["status"], "completed", "{done}");
        texts.push(
            done["output"][0]["content"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    texts.sort();
    assert_eq!(
        texts,
        ["inside", "outside 0", "outside 1", "outside 2", "outside 3"]
    );
    // Each of them is a separate request.
    assert_eq!(scene.rows().await.len(), 5);
    scene.finish().await;
}

#[tokio::test]
async fn a_response_is_cancelled_by_the_client() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    session
        .send(&json!({"type": "response.cancel", "event_id": "early"}))
        .await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("response_cancel_not_active", None, Some("early"))
    );
    session
        .write(&"One two three four five six seven eight. ".repeat(20))
        .await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    session.send(&json!({"type": "response.cancel"})).await;
    let reply = session.reply().await;
    assert_eq!(
        (&reply.response["status"], &reply.response["status_details"]),
        (
            &json!("cancelled"),
            &json!({"type": "cancelled", "reason": "client_cancelled"})
        )
    );
    let types = reply.types();
    assert_eq!(types[types.len() - 6..], SPOKEN[7..], "it closes what it opened");
    assert_eq!(only_item(&reply)["status"], "incomplete");
    let _ = session.ask("Go on").await.completed();
    scene.finish().await;
}

#[tokio::test]
async fn a_response_ends_at_its_output_limit() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    session.write("[[sim tokens=200]]").await;
    let reply = session
        .respond(json!({"max_output_tokens": 10, "output_modalities": ["text"]}))
        .await;
    assert_eq!(
        (&reply.response["status"], &reply.response["status_details"]),
        (
            &json!("incomplete"),
            &json!({"type": "incomplete", "reason": "max_output_tokens"})
        )
    );
    assert_eq!(reply.response["usage"]["output_tokens"], 10);
    assert_eq!(reply.response["max_output_tokens"], 10);
    let spoken = session.respond(json!({"max_output_tokens": 10})).await;
    assert_eq!(spoken.response["status"], "incomplete", "{}", spoken.response);
    assert!(spoken.audio.len() <= 5 * SECOND, "{} bytes", spoken.audio.len());
    scene.finish().await;
}
