//! Tests of successful responses.

use serde_json::{Value, json};
use tollgate_testkit::upstream::{Answer, End, Gate, Reply, Usage as Reported, UsagePosition};
use tollgate_types::{Unit, Usage};
use tollgate_upstream::ChunkKind;

use super::{ask, call, chat, chat_with_usage, context, started};

#[tokio::test]
async fn a_whole_answer_carries_the_public_model_and_its_usage() {
    let (upstream, provider) = started().await;
    upstream.push(Reply::answer(Answer::words(3).reasoning(2).cached_tokens(1)));
    let collected = ask(&*provider, &context(), &chat(false)).await.unwrap();
    let body: Value = serde_json::from_str(&collected.raw_events[0]).unwrap();
    assert_eq!(body["model"], "maker/public");
    assert_eq!(collected.text(), "w1 w2 w3");
    let used = upstream.served()[0].used;
    let expected = Usage::ZERO
        .with(Unit::Input, used.prompt - used.cached)
        .with(Unit::CacheRead, used.cached)
        .with(Unit::Output, used.completion - used.reasoning)
        .with(Unit::Reasoning, used.reasoning);
    assert_eq!(collected.usage, Some(expected));
    assert_eq!(collected.output_bytes, ("w1 w2 w3".len() + "r1 r2 ".len()) as u64);
}

#[tokio::test]
async fn a_stream_comes_event_by_event() {
    let (upstream, provider) = started().await;
    upstream.push(Reply::words(3));
    let collected = ask(&*provider, &context(), &chat_with_usage()).await.unwrap();
    use ChunkKind::{Content, End, Finish, Preamble, Usage};
    let kinds = [Preamble, Content, Content, Content, Finish, Usage, End];
    assert_eq!(collected.kinds, kinds);
    assert_eq!(collected.text(), "w1 w2 w3");
    assert_eq!(collected.raw_events.last().unwrap(), "[DONE]");
    assert!(
        collected.raw_events[..6]
            .iter()
            .all(|data| data.contains("\"model\":\"maker/public\""))
    );
    assert!(collected.raw_events[5].contains("\"completion_tokens\":3"));
    assert_eq!(collected.usage.unwrap().total_output(), 3);
    assert_eq!(collected.output_bytes, 8);
}

#[tokio::test]
async fn usage_is_always_requested_and_hidden_unless_requested() {
    for place in [
        UsagePosition::WhenRequested,
        UsagePosition::Always,
        UsagePosition::WithFinish,
        UsagePosition::EveryChunk,
        UsagePosition::Twice,
    ] {
        let (upstream, provider) = started().await;
        let reply = Reply::answer(Answer::words(4).usage_position(place));
        upstream.push(reply.clone());
        upstream.push(reply);
        let hidden = ask(&*provider, &context(), &chat(true)).await.unwrap();
        let shown = ask(&*provider, &context(), &chat_with_usage()).await.unwrap();
        for collected in [&hidden, &shown] {
            assert_eq!(collected.usage.unwrap().total_output(), 4, "{place:?}");
            assert_eq!(collected.text(), "w1 w2 w3 w4");
        }
        assert!(
            !hidden.raw_events.concat().contains("usage"),
            "{place:?} {:?}",
            hidden.raw_events
        );
        assert!(
            shown.raw_events.concat().contains("\"completion_tokens\":4"),
            "{place:?}"
        );
        let asked = upstream.requests();
        assert!(asked.iter().all(|request| {
            request.json().unwrap().pointer("/stream_options/include_usage") == Some(&json!(true))
        }));
    }
}

#[tokio::test]
async fn plausible_usage_is_accepted() {
    let fixed = |prompt, completion| Reported::Fixed { prompt, completion };
    let raw = |text: &str| Reported::Raw(text.to_owned());
    let cases = [
        (Reported::Missing, None),
        (Reported::Null, None),
        (fixed(0, 0), Some(Usage::ZERO)),
        (fixed(7, 9), Some(Usage::tokens(7, 9))),
        (raw(r#"{"prompt_tokens":-5,"completion_tokens":-7}"#), None),
        (raw(r#"{"prompt_tokens":"12","completion_tokens":"34"}"#), None),
        (raw(r#"[1,2]"#), None),
        (
            raw(r#"{"prompt_tokens":18446744073709551615,"completion_tokens":99999999999999999999999999}"#),
            None,
        ),
    ];
    for (reported, expected) in cases {
        for stream in [false, true] {
            let (upstream, provider) = started().await;
            let answer = Answer::words(2)
                .usage(reported.clone())
                .usage_position(UsagePosition::Always);
            upstream.push(Reply::answer(answer));
            let collected = ask(&*provider, &context(), &chat(stream)).await.unwrap();
            assert_eq!(collected.usage, expected, "{reported:?} streamed: {stream}");
            assert_eq!(collected.text(), "w1 w2");
        }
    }
}

#[tokio::test]
async fn several_choices_and_tool_calls_pass_through() {
    let (upstream, provider) = started().await;
    let answer = Answer::calling("look_up", &json!({"city": "Bonn"}));
    upstream.push(Reply::answer(answer.clone()).without_done());
    upstream.push(Reply::answer(answer));
    let tools = json!([{"type": "function", "function": {"name": "look_up"}}]);
    let messages = json!([{"role": "user", "content": "weather?"}]);
    let body = json!({"model": "maker/public", "messages": messages, "tools": tools, "n": 2, "stream": true});
    let streamed = ask(&*provider, &context(), &call(&body)).await.unwrap();
    assert_eq!(
        streamed
            .raw_events
            .concat()
            .matches("\"name\":\"look_up\"")
            .count(),
        2
    );
    let mut body = body;
    body["stream"] = json!(false);
    let whole = ask(&*provider, &context(), &call(&body)).await.unwrap();
    assert_eq!(whole.raw_events[0].matches("\"name\":\"look_up\"").count(), 2);
    assert_eq!(whole.output_bytes, 2 * r#"{"city":"Bonn"}"#.len() as u64);
    assert_eq!(streamed.output_bytes, whole.output_bytes);
}

#[tokio::test]
async fn a_connection_is_used_again_after_whole_and_streamed_answers() {
    let (upstream, provider) = started().await;
    for stream in [false, true, true, false] {
        ask(&*provider, &context(), &chat(stream)).await.unwrap();
    }
    assert_eq!(upstream.connection_count(), 1);
    assert_eq!(upstream.request_count(), 4);
}

#[tokio::test]
async fn dropping_a_stream_ends_the_call() {
    let (upstream, provider) = started().await;
    let gate = Gate::default();
    upstream.push(Reply::words(10).hold_event(3, &gate));
    let reply = provider
        .text()
        .unwrap()
        .generate(&context(), &chat(true))
        .await
        .unwrap();
    drop(reply);
    upstream
        .wait_until("the client is gone", |upstream| {
            upstream
                .served()
                .first()
                .is_some_and(|served| served.end == End::ClientGone)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn it_works_from_every_thread() {
    let (upstream, provider) = started().await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..48 {
        let provider = provider.clone();
        calls.spawn(async move {
            ask(&*provider, &context(), &chat(number % 2 == 0))
                .await
                .unwrap()
                .text()
        });
    }
    for text in calls.join_all().await {
        assert_eq!(text, "You said: tell me");
    }
    assert_eq!(upstream.request_count(), 48);
}

#[tokio::test]
async fn models_are_listed() {
    let (upstream, provider) = started().await;
    upstream.set_models(["one", "two/three"]);
    let models = provider
        .list_models(std::time::Duration::from_secs(20))
        .await
        .unwrap();
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["one", "two/three"]);
    assert_eq!(upstream.requests()[0].path, "/v1/models");
    upstream.push_for_models(Reply::error(401, "invalid_api_key", "No."));
    let error = provider
        .list_models(std::time::Duration::from_secs(20))
        .await
        .unwrap_err();
    assert_eq!(error.kind, tollgate_upstream::UpstreamErrorKind::Credentials);
    upstream.push_for_models(Reply::hang());
    let error = provider
        .list_models(std::time::Duration::from_millis(200))
        .await
        .unwrap_err();
    assert_eq!(error.cause, tollgate_upstream::UpstreamCause::Timeout);
}
