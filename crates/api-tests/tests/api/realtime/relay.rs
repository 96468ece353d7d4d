//! Sessions of a provider's realtime model.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};

use super::client::{Handshake, Reply, SECOND, Session, error_of, message, silence, speech};
use crate::scene::{Scene, credits};

const MODEL: &str = "sim/realtime";
/// Prices of [`MODEL`], in nano-credits per token.
const INPUT: i64 = 100;
const OUTPUT: i64 = 400;
const INPUT_AUDIO: i64 = 1_000;
const CACHED_AUDIO: i64 = 100;
const OUTPUT_AUDIO: i64 = 2_000;
const QUESTION: &str = "Good morning, what can you tell me about lighthouses?";
/// A policy whose classifier reads answers.
const CLASSIFIER: &str = r#"
[policy.classifier]
url = "UPSTREAM/moderations"
api_key_env = "PROVIDER_KEY"
model = "judge-1"
apply = "output"
"#;
/// A reply of about five seconds.
const LONG: &str = "One two three four five six seven eight nine ten, eleven twelve thirteen fourteen. ";

async fn open(scene: &Scene) -> Session {
    Session::open(Handshake::new(scene, &format!("?model={MODEL}"))).await
}

async fn detecting(scene: &Scene) -> Session {
    let mut session = open(scene).await;
    session.update(json!({"turn_detection": "server_vad"})).await;
    session
}

/// Returns the cost of a response's usage, from its token counts.
fn cost(reply: &Reply) -> i64 {
    let usage = &reply.response["usage"];
    let count = |path: &str| usage.pointer(path).and_then(Value::as_i64).unwrap();
    let cached = count("/input_token_details/cached_tokens_details/audio_tokens");
    count("/input_token_details/text_tokens") * INPUT
        + (count("/input_token_details/audio_tokens") - cached) * INPUT_AUDIO
        + cached * CACHED_AUDIO
        + count("/output_token_details/text_tokens") * OUTPUT
        + count("/output_token_details/audio_tokens") * OUTPUT_AUDIO
}

/// Asserts that a response has one usage row with the cost of its usage. Returns the cost.
async fn charged(scene: &Scene, reply: &Reply) -> i64 {
    let cost = cost(reply);
    assert_eq!(
        nanos(&reply.response["usage"]["cost"]),
        cost,
        "{}",
        reply.response
    );
    let row = scene.row(reply.request_id()).await;
    assert_eq!(
        (
            nanos(&row["cost"]),
            &row["endpoint"],
            &row["model"],
            &row["estimated"]
        ),
        (cost, &json!("/v1/realtime"), &json!(MODEL), &json!(false)),
        "{row}"
    );
    cost
}

#[tokio::test]
async fn every_response_is_charged_by_the_providers_usage() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let mut session = open(&scene).await;
        let first = session.ask("Hello there, how are you today?").await.completed();
        assert_eq!(first.transcript, "Hello there, how are you today?");
        assert!(first.audio.len() > SECOND / 2, "{} bytes", first.audio.len());
        let second = session.ask("Good night.").await.completed();
        assert_eq!(second.transcript, "Good night.");
        let cached = second
            .response
            .pointer("/usage/input_token_details/cached_tokens_details/audio_tokens");
        assert!(cached.and_then(Value::as_i64).unwrap() > 0, "{}", second.response);
        let total = charged(&scene, &first).await + charged(&scene, &second).await;
        session.close().await;
        let check = scene.finish().await;
        assert_eq!((check.usage_rows, check.revenue), (2, total));
    }
}

#[tokio::test]
async fn the_events_of_a_response_are_those_of_any_voice_model() {
    let scene = Scene::start().await;
    let mut types = Vec::new();
    for model in [MODEL, super::VOICE] {
        let mut session = Session::open(Handshake::new(&scene, &format!("?model={model}"))).await;
        let reply = session.ask("Hello.").await.completed();
        let item = &reply.response["output"][0];
        assert_eq!(
            item["content"],
            json!([{"type": "output_audio", "transcript": "Hello."}])
        );
        types.push(reply.types().into_iter().map(str::to_owned).collect::<Vec<_>>());
        session.close().await;
    }
    assert_eq!(types[0], types[1]);
    scene.finish().await;
}

#[tokio::test]
async fn turns_are_heard_exactly_and_answered_without_a_commit() {
    let scene = Scene::start().await;
    let turn = [speech(&scene, QUESTION).await, silence(800)].concat();
    let mut session = detecting(&scene).await;
    for _ in 0..2 {
        session.append(&turn).await;
        session.until("input_audio_buffer.speech_started").await;
        session.until("input_audio_buffer.committed").await;
        let reply = session.reply().await.completed();
        assert_eq!(reply.transcript, QUESTION);
        charged(&scene, &reply).await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn telephone_audio_is_converted_in_both_directions() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    session
        .update(json!({"audio": {"input": {"format": {"type": "audio/pcmu"}}, "output": {"format": {"type": "audio/pcma"}}}}))
        .await;
    // A loud tone of 100 Hz.
    let tone = [[0x10; 40], [0x90; 40]].concat().repeat(100);
    session.append_chunks(&tone, 800).await;
    session.commit().await;
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(reply.transcript, "[simulated transcription of 1.0 s of audio]");
    let seconds = reply.response["usage"]["output_token_details"]["audio_tokens"]
        .as_u64()
        .unwrap()
        / 20;
    let expected = usize::try_from(seconds * 8_000).unwrap();
    assert!(
        (expected..expected + 9_000).contains(&reply.audio.len()),
        "{} bytes for {seconds} s",
        reply.audio.len()
    );
    scene.finish().await;
}

#[tokio::test]
async fn an_interrupted_answer_is_cut_for_the_model_and_charged_by_its_usage() {
    let scene = Scene::start().await;
    let turn = [speech(&scene, QUESTION).await, silence(800)].concat();
    let mut session = detecting(&scene).await;
    session.write(&LONG.repeat(6)).await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    session.append(&turn).await;
    session.until("input_audio_buffer.speech_started").await;
    let reply = session.reply().await;
    assert_eq!(
        reply.response["status_details"],
        json!({"type": "cancelled", "reason": "turn_detected"})
    );
    charged(&scene, &reply).await;
    let item = session.retrieve(&reply.response["output"][0]["id"]).await;
    let heard = item["content"][0]["transcript"].as_str().unwrap();
    assert!(LONG.repeat(6).starts_with(heard), "{heard:?}");
    assert_eq!(session.reply().await.completed().transcript, QUESTION);

    // The model reads the answer only as far as the client says that it was heard.
    session
        .send(
            &json!({"type": "conversation.item.truncate", "item_id": item["id"], "content_index": 0,
            "audio_end_ms": 0}),
        )
        .await;
    session.until("conversation.item.truncated").await;
    let before = session.ask("Again?").await.completed();
    session
        .send(&json!({"type": "conversation.item.delete", "item_id": item["id"]}))
        .await;
    session.until("conversation.item.deleted").await;
    let after = session.ask("Again?").await.completed();
    assert_eq!((&*before.transcript, &*after.transcript), ("Again?", "Again?"));
    scene.finish().await;
}

#[tokio::test]
async fn a_cancelled_response_ends_with_the_usage_of_the_provider() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    session.write(&LONG.repeat(20)).await;
    session.send(&json!({"type": "response.create"})).await;
    session.until("response.output_audio.delta").await;
    session.send(&json!({"type": "response.cancel"})).await;
    let reply = session.reply().await;
    assert_eq!(reply.response["status"], "cancelled");
    assert!(charged(&scene, &reply).await > 0);
    assert_eq!(session.ask("And now?").await.completed().transcript, "And now?");
    scene.finish().await;
}

#[tokio::test]
async fn functions_are_called_and_their_output_is_read() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    let tools = json!([{"type": "function", "name": "weather", "description": "Weather of a town",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}}]);
    session.update(json!({"tools": tools})).await;
    let reply = session.ask("[[sim tool=weather]] How is it?").await.completed();
    let call = &reply.response["output"][0];
    assert_eq!(
        (&call["type"], &call["name"]),
        (&json!("function_call"), &json!("weather")),
        "{call}"
    );
    session
        .create_item(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}))
        .await;
    let next = session.respond(json!({})).await.completed();
    assert!(!next.transcript.is_empty(), "{}", next.response);
    charged(&scene, &reply).await;
    charged(&scene, &next).await;
    scene.finish().await;
}

#[tokio::test]
async fn responses_outside_the_conversation_leave_it_unchanged() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    let item = session.write("In the conversation").await;
    let aside = json!({"conversation": "none", "input": [message("Outside")], "output_modalities": ["text"]});
    let outside = session.respond(aside).await.completed();
    assert_eq!(outside.response["output"][0]["content"][0]["text"], "Outside");
    assert_eq!(outside.response["conversation_id"], Value::Null);
    let reference = json!({"conversation": "none", "input": [{"type": "item_reference", "id": item["id"]}],
        "output_modalities": ["text"]});
    let referring = session.respond(reference).await.completed();
    assert_eq!(
        referring.response["output"][0]["content"][0]["text"],
        "In the conversation"
    );
    let inside = session.respond(json!({})).await.completed();
    assert_eq!(inside.transcript, "In the conversation");
    for reply in [&outside, &referring, &inside] {
        charged(&scene, reply).await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_words_of_the_speaker_are_transcribed_and_charged_on_request() {
    let scene = Scene::start().await;
    let audio = speech(&scene, QUESTION).await;
    let mut session = open(&scene).await;
    // Clients name models of OpenAI, which the catalog of this gateway does not have.
    let updated = session
        .update(json!({"audio": {"input": {"transcription": {"model": "gpt-4o-mini-transcribe"}}}}))
        .await;
    assert_eq!(
        updated["audio"]["input"]["transcription"]["model"],
        "sim/transcribe"
    );
    session.append(&audio).await;
    let item = session.commit().await;
    let done = session
        .until("conversation.item.input_audio_transcription.completed")
        .await;
    assert_eq!((&done["item_id"], &done["transcript"]), (&item, &json!(QUESTION)));
    let row = scene.row(&session.request_id.clone()).await;
    assert_eq!(row["model"], "sim/transcribe", "{row}");
    assert_eq!(nanos(&row["cost"]), nanos(&done["usage"]["cost"]), "{row} {done}");
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(reply.transcript, QUESTION);
    charged(&scene, &reply).await;
    scene.finish().await;
}

#[tokio::test]
async fn a_failed_response_is_free_and_the_session_continues() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    let reply = session.ask("[[sim error=upstream_error]]").await;
    assert_eq!(reply.response["status"], "failed", "{}", reply.response);
    assert_eq!(
        reply.response["status_details"]["error"]["code"],
        "upstream_error"
    );
    assert_eq!(nanos(&scene.row(reply.request_id()).await["cost"]), 0);
    assert_eq!(
        session.ask("Still here?").await.completed().transcript,
        "Still here?"
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_lost_connection_fails_the_response_and_closes_the_session() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    session
        .write("[[sim cut=6]] These words are cut off in the middle.")
        .await;
    session.send(&json!({"type": "response.create"})).await;
    let (code, events) = session.closed().await;
    assert_eq!(code, 1011, "{events:?}");
    let done = events.iter().find(|event| event["type"] == "response.done");
    let response = &done.unwrap_or_else(|| panic!("{events:?}"))["response"];
    assert_eq!(response["status"], "failed", "{response}");
    let last = events.last().unwrap();
    assert_eq!(error_of(last).0, "upstream_error", "{last}");
    let row = scene.row(response["request_id"].as_str().unwrap()).await;
    assert_eq!(nanos(&row["cost"]), nanos(&response["usage"]["cost"]), "{row}");
    scene.finish().await;
}

#[tokio::test]
async fn a_response_without_credits_reaches_no_provider() {
    let scene = Scene::start().await;
    let account = scene.gateway.account().await;
    scene.gateway.grant(&account, &credits(1_000_000)).await;
    let key = scene.gateway.key(&account).await.secret;
    let mut session = Session::open(Handshake::with_key(&scene, &format!("?model={MODEL}"), &key)).await;
    session.write("Hello.").await;
    session
        .send(&json!({"type": "response.create", "event_id": "one"}))
        .await;
    let refused = session.event().await;
    assert_eq!(error_of(&refused), ("insufficient_credits", None, Some("one")));
    let paid = json!({"max_output_tokens": 64, "output_modalities": ["text"]});
    let reply = session.respond(paid).await.completed();
    assert_eq!(reply.response["output"][0]["content"][0]["text"], "Hello.");
    scene.finish().await;
}

#[tokio::test]
async fn the_model_of_the_catalog_is_the_only_name_that_the_client_sees() {
    let scene = Scene::start().await;
    let mut session = open(&scene).await;
    let updated = session.update(json!({"instructions": "Be polite."})).await;
    assert_eq!(updated["model"], MODEL, "{updated}");
    let reply = session.ask("Hello.").await.completed();
    for event in &reply.events {
        let text = event.to_string();
        assert!(!text.contains("\"sim\"") && !text.contains("sim_"), "{text}");
    }
    scene.finish().await;
}

/// Returns whether a response ended because of the content policy.
fn is_filtered(reply: &Reply) -> bool {
    let response = &reply.response;
    response["status"] == "incomplete" && response["status_details"]["reason"] == "content_filter"
}

#[tokio::test]
async fn a_forbidden_answer_ends_and_is_charged() {
    let rules = "[policy.rules.coming-out]\napply = \"output\"\nwords = [\"violent\"]\n";
    for (policy, is_withheld) in [(rules, true), (CLASSIFIER, false)] {
        let scene = crate::policy::scene(policy).await;
        let mut session = open(&scene).await;
        let mut total = 0;
        for end in [". And so the story of the lighthouse ends.", ""] {
            let question = format!("This sentence is harmless. But this one is violent{end}");
            let reply = session.ask(&question).await;
            assert!(is_filtered(&reply), "{}", reply.response);
            assert!(question.starts_with(&reply.transcript), "{}", reply.transcript);
            let has_word = reply.transcript.contains("violent");
            assert!(!(has_word && is_withheld), "{}", reply.transcript);
            assert!(!reply.transcript.contains("lighthouse"), "{}", reply.transcript);
            total += charged(&scene, &reply).await;
        }
        let reply = session.ask("All is calm. It will be so.").await.completed();
        assert_eq!(reply.transcript, "All is calm. It will be so.");
        total += charged(&scene, &reply).await;
        session.close().await;
        let check = scene.finish().await;
        assert_eq!((check.usage_rows, check.revenue), (3, total));
    }
}

#[tokio::test]
async fn each_sentence_of_an_answer_is_classified_once() {
    let scene = crate::policy::scene(CLASSIFIER).await;
    let mut session = open(&scene).await;
    let answer = "The sun rises. The lamp goes out. The keeper sleeps";
    let reply = session.ask(answer).await.completed();
    assert_eq!(reply.transcript, answer);
    let requests = scene.upstream.requests();
    let texts: Vec<Value> = requests
        .iter()
        .map(|request| request.json().unwrap()["input"][0].clone())
        .collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(texts[2], answer);
    session.close().await;
    scene.finish().await;
}
