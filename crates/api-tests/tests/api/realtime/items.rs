//! Items of the conversation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::client::{SECOND, Session, error_of, message, speech};
use super::conversation::only_item;
use crate::scene::Scene;

#[tokio::test]
async fn items_are_placed_retrieved_and_deleted() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let named = |id: &str, text: &str| {
        let mut item = message(text);
        item["id"] = json!(id);
        item
    };
    for (id, previous, expected) in [
        ("b", None, Value::Null),
        ("d", None, json!("b")),
        ("a", Some("root"), Value::Null),
        ("c", Some("b"), json!("b")),
    ] {
        let mut event = json!({"type": "conversation.item.create", "item": named(id, id)});
        if let Some(previous) = previous {
            event["previous_item_id"] = json!(previous);
        }
        session.send(&event).await;
        for kind in ["conversation.item.added", "conversation.item.done"] {
            let event = session.event().await;
            assert_eq!(
                (&event["type"], &event["previous_item_id"]),
                (&json!(kind), &expected),
                "{id}"
            );
            assert_eq!(event["item"]["id"], id);
        }
    }
    for (id, previous, code, param) in [
        ("b", None, "item_create_duplicate_item_id", "item.id"),
        ("e", Some("z"), "item_create_invalid_item_id", "previous_item_id"),
    ] {
        let event = json!({"type": "conversation.item.create", "event_id": id, "item": named(id, "x"),
            "previous_item_id": previous});
        session.send(&event).await;
        let refused = session.event().await;
        assert_eq!(error_of(&refused), (code, Some(param), Some(id)));
    }
    let item = session.retrieve(&json!("c")).await;
    assert_eq!(
        (&item["object"], &item["status"], &item["content"][0]["text"]),
        (&json!("realtime.item"), &json!("completed"), &json!("c"))
    );
    session
        .send(&json!({"type": "conversation.item.delete", "item_id": "d"}))
        .await;
    let deleted = session.event().await;
    assert_eq!(
        (&deleted["type"], &deleted["item_id"]),
        (&json!("conversation.item.deleted"), &json!("d"))
    );
    for verb in ["retrieve", "delete", "truncate"] {
        let mut event =
            json!({"type": format!("conversation.item.{verb}"), "event_id": verb, "item_id": "d"});
        if verb == "truncate" {
            event["content_index"] = json!(0);
            event["audio_end_ms"] = json!(0);
        }
        session.send(&event).await;
        let refused = session.event().await;
        let code = format!("item_{verb}_invalid_item_id");
        assert_eq!(error_of(&refused), (&*code, Some("item_id"), Some(verb)));
    }
    // The last message is answered: the deleted one is gone.
    let reply = session
        .respond(json!({"output_modalities": ["text"]}))
        .await
        .completed();
    assert_eq!(only_item(&reply)["content"][0]["text"], "c");
    assert_eq!(reply.response["usage"]["input_tokens"], 3, "{}", reply.response);
    scene.finish().await;
}

#[tokio::test]
async fn an_answer_is_cut_after_the_words_that_were_played() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let user = session.write("one two three four five six seven eight").await;
    let reply = session.respond(json!({})).await.completed();
    let id = only_item(&reply)["id"].clone();
    let length_ms = reply.audio.len() * 1_000 / SECOND;
    let truncate = |id: &Value, ms: usize| json!({"type": "conversation.item.truncate", "item_id": id, "content_index": 0, "audio_end_ms": ms});
    let mut transcripts = Vec::new();
    for (ms, expected) in [
        (length_ms * 10, length_ms),
        (length_ms / 2, length_ms / 2),
        (length_ms, length_ms),
        (0, 0),
    ] {
        session.send(&truncate(&id, ms)).await;
        let truncated = session.until("conversation.item.truncated").await;
        assert_eq!(
            (
                &truncated["item_id"],
                &truncated["content_index"],
                &truncated["audio_end_ms"]
            ),
            (&id, &json!(0), &json!(expected))
        );
        let item = session.retrieve(&id).await;
        transcripts.push(item["content"][0]["transcript"].as_str().unwrap().to_owned());
    }
    let [beyond, half, longer, nothing] = &transcripts[..] else {
        panic!("{transcripts:?}")
    };
    let text = "one two three four five six seven eight";
    assert_eq!((beyond.as_str(), nothing.as_str()), (text, ""));
    assert!(
        text.starts_with(half) && !half.is_empty() && half.len() < text.len(),
        "{half}"
    );
    assert_eq!(longer, text, "a later position replaces an earlier one");
    session.send(&truncate(&user["id"], 0)).await;
    let refused = session.event().await;
    assert_eq!(
        error_of(&refused),
        ("item_truncate_invalid_item_id", Some("item_id"), None)
    );
    scene.finish().await;
}

#[tokio::test]
async fn the_model_reads_only_what_was_heard_of_its_answer() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let reply = session
        .ask("one two three four five six seven eight")
        .await
        .completed();
    let id = only_item(&reply)["id"].clone();
    session.send(&json!({"type": "conversation.item.truncate", "item_id": id, "content_index": 0, "audio_end_ms": 0}))
        .await;
    session.until("conversation.item.truncated").await;
    let reply = session
        .respond(json!({"output_modalities": ["text"]}))
        .await
        .completed();
    assert_eq!(reply.response["usage"]["input_tokens"], 8, "{}", reply.response);
    scene.finish().await;
}

#[tokio::test]
async fn recordings_of_items_are_transcribed_like_committed_ones() {
    let scene = Scene::start().await;
    let audio = STANDARD.encode(speech(&scene, "good morning").await);
    let mut session = Session::voice(&scene).await;
    let content = json!([{"type": "input_audio", "audio": audio}]);
    let item = session
        .create_item(json!({"type": "message", "role": "user", "content": content}))
        .await;
    assert_eq!(item["content"][0]["transcript"], Value::Null, "{item}");
    let reply = session.respond(json!({})).await.completed();
    assert_eq!(
        reply.events[0]["transcript"], "good morning",
        "{}",
        reply.events[0]
    );
    assert_eq!(reply.transcript, "good morning");
    scene.finish().await;
}

/// A text of three sentences, which takes some seconds to speak.
const SENTENCES: &str = "One two three four five six seven eight nine ten. Eleven twelve thirteen. Fourteen.";

/// Requests an answer of [`SENTENCES`] and reads its first audio. Returns the id of its item.
async fn begin_to_speak(session: &mut Session) -> Value {
    session.write(SENTENCES).await;
    session.send(&json!({"type": "response.create"})).await;
    let id = session.until("response.output_item.added").await["item"]["id"].clone();
    session.until("response.output_audio.delta").await;
    id
}

#[tokio::test]
async fn an_answer_may_be_deleted_while_it_is_spoken() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let id = begin_to_speak(&mut session).await;
    session
        .send(&json!({"type": "conversation.item.delete", "item_id": id}))
        .await;
    session.until("conversation.item.deleted").await;
    let _ = session.reply().await.completed();
    session
        .send(&json!({"type": "conversation.item.retrieve", "item_id": id}))
        .await;
    assert_eq!(
        error_of(&session.event().await).0,
        "item_retrieve_invalid_item_id"
    );
    let _ = session.ask("still here").await.completed();
    scene.finish().await;
}

#[tokio::test]
async fn an_answer_may_be_cut_while_it_is_spoken() {
    let scene = Scene::start().await;
    let mut session = Session::voice(&scene).await;
    let id = begin_to_speak(&mut session).await;
    session
        .send(&json!({"type": "conversation.item.truncate", "item_id": id, "content_index": 0, "audio_end_ms": 50}))
        .await;
    let truncated = session.until("conversation.item.truncated").await;
    assert_eq!(truncated["audio_end_ms"], 50, "{truncated}");
    session.send(&json!({"type": "response.cancel"})).await;
    let reply = session.reply().await;
    assert_eq!(reply.response["status"], "cancelled", "{}", reply.response);
    let item = session.retrieve(&id).await;
    assert_eq!(item["content"][0]["transcript"], "", "{item}");
    scene.finish().await;
}
