//! Tests of labels at every provider: by token ids, by top tokens and by sampled answers.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::upstream::{DecisionFault, FakeUpstream, Reply};
use tollgate_types::decide::{DecisionSource, State, StateMediaKind};
use tollgate_upstream::{
    DecideProvider, DecisionWay, Draw, LabelCall, LabelDraws, UpstreamCause, UpstreamErrorKind,
};

use super::servers::{
    MODEL, THREE, asked, context, context_with_long_timeout, near, provider, read, shares, sources, state,
    three, way,
};
use DecisionSource::{Logits, Native, Sampled, TopLogprobs};

#[tokio::test]
async fn ways_are_listed_best_first() {
    let upstream = FakeUpstream::start().await;
    for (preset, expected) in [
        ("openai", &[Native, TopLogprobs, Sampled][..]),
        ("azure-openai", &[TopLogprobs, Sampled]),
        ("openrouter", &[Native, TopLogprobs, Sampled]),
        ("groq", &[Sampled]),
        ("llama.cpp", &[Native, TopLogprobs, Sampled]),
        ("vllm", &[Logits, TopLogprobs, Sampled]),
        ("sglang", &[Logits, TopLogprobs, Sampled]),
        ("gemini", &[Native, TopLogprobs, Sampled]),
        ("anthropic", &[Sampled]),
        ("bedrock", &[Sampled]),
        ("openai-responses", &[Sampled]),
    ] {
        let provider = provider(preset, &upstream);
        assert_eq!(
            sources(provider.decisions().unwrap(), &State::default()),
            expected,
            "{preset}"
        );
    }
    assert_eq!(upstream.request_count(), 0);
}

#[tokio::test]
async fn label_readings_match_true_probabilities() {
    for (preset, source, max) in [
        ("vllm", Logits, None),
        ("sglang", Logits, None),
        ("llama.cpp", TopLogprobs, Some(512)),
        ("openai", TopLogprobs, Some(20)),
        ("fireworks", TopLogprobs, Some(5)),
        ("openai-compatible", TopLogprobs, Some(20)),
        ("gemini", TopLogprobs, Some(20)),
    ] {
        let upstream = FakeUpstream::start().await;
        let provider = provider(preset, &upstream);
        let decisions = provider.decisions().unwrap();
        let call = three();
        if let (DecisionWay::TopLogprobs { max: found }, Some(max)) = (way(decisions, &call, source), max) {
            assert_eq!(found, max, "{preset}");
        }
        let reading = read(decisions, source, &call).await.unwrap().unwrap();
        let few = max == Some(5);
        // The five tokens are four spellings of the two most probable labels, and one of the third.
        let expected = if few {
            [THREE[0], THREE[1], 0.7 * THREE[2]]
        } else {
            THREE
        };
        assert!(near(&shares(&reading), &expected, 1e-9), "{preset}: {reading:?}");
        match max {
            None => assert_eq!(reading.rest, None, "{preset}"),
            Some(_) => assert!(
                reading.rest.is_some_and(|rest| rest.exp() < 0.1),
                "{preset}: {reading:?}"
            ),
        }
    }
}

/// The label follows the end of the question directly, so no provider may append text.
#[tokio::test]
async fn questions_are_sent_verbatim() {
    for (preset, source) in [
        ("vllm", Logits),
        ("sglang", Logits),
        ("llama.cpp", TopLogprobs),
        ("openai", TopLogprobs),
    ] {
        let upstream = FakeUpstream::start().await;
        let provider = provider(preset, &upstream);
        let call = three();
        let call = LabelCall {
            question: format!("{}\nAnswer:", call.question).into(),
            ..call
        };
        let decisions = provider.decisions().unwrap();
        read(decisions, source, &call).await.unwrap().unwrap();
        let bodies: Vec<Value> = upstream.requests().iter().filter_map(|one| one.json()).collect();
        let shown = |body: &Value| {
            let paths = ["/text", "/prompt", "/messages/0/content"];
            let mut found = paths.iter().filter_map(|place| body.pointer(place)?.as_str());
            found
                .find(|text| text.contains(&*call.question))
                .map(str::to_owned)
        };
        let texts: Vec<String> = bodies.iter().filter_map(shown).collect();
        assert!(!texts.is_empty(), "{preset}: {bodies:?}");
        for text in texts {
            assert_eq!(text.matches("Answer:").count(), 1, "{preset}: {text}");
        }
        let sent = format!("{}\n\n{}", call.state.text, call.question);
        if preset == "sglang" {
            assert_eq!(bodies.last().unwrap()["text"], sent.as_str());
        }
    }
}

#[tokio::test]
async fn token_id_servers_report_every_label() {
    for preset in ["vllm", "sglang"] {
        let upstream = FakeUpstream::start().await;
        let provider = provider(preset, &upstream);
        let decisions = provider.decisions().unwrap();
        let labels = decisions
            .labels(&context_with_long_timeout(), MODEL, 255)
            .await
            .unwrap();
        assert_eq!(labels.len(), 255);
        assert!(
            labels
                .iter()
                .all(|label| label.len() == 2 && !label.contains('Q')),
            "{labels:?}"
        );
        let options: Vec<String> = (0..255).map(|place| format!("option {place}")).collect();
        let weights: String = (0..255)
            .map(|place| format!("'option {place}'={} ", place + 1))
            .collect();
        let call = asked(&format!("[[decide * {}]]", weights.trim()), &labels, &options);
        let reading = read(decisions, Logits, &call).await.unwrap().unwrap();
        let expected: Vec<f64> = (1..=255).map(|weight| f64::from(weight) / 32_640.0).collect();
        assert!(near(&shares(&reading), &expected, 1e-9), "{preset}");
        let requests = upstream.requests();
        let ends: Vec<&str> = requests
            .iter()
            .filter_map(|one| one.path.rsplit('/').next())
            .collect();
        let how = if preset == "vllm" {
            "completions"
        } else {
            "generate"
        };
        assert_eq!(
            ends,
            ["tokenize", how, how, how, how],
            "510 spellings, 128 at once"
        );
        for request in &requests[1..] {
            let body = request.json().unwrap();
            let named = body
                .get("logprob_token_ids")
                .or(body.get("token_ids_logprob"))
                .unwrap();
            assert!(named.as_array().unwrap().len() <= 128);
        }
    }
}

#[tokio::test]
async fn other_servers_use_letters_as_labels() {
    let upstream = FakeUpstream::start().await;
    for preset in ["openai", "gemini", "anthropic"] {
        let provider = provider(preset, &upstream);
        let labels = provider
            .decisions()
            .unwrap()
            .labels(&context_with_long_timeout(), MODEL, 255)
            .await
            .unwrap();
        assert_eq!((labels.len(), labels[25].as_str()), (26, "Z"), "{preset}");
    }
    assert_eq!(upstream.request_count(), 0);
}

/// After one failed attempt, only the other methods are reported.
#[tokio::test]
async fn missing_logprobs_are_requested_once() {
    use DecisionFault::*;
    for (preset, source, fault, left) in [
        ("vllm", Logits, IgnoresTokenIds, &[TopLogprobs, Sampled][..]),
        ("vllm", Logits, NoEndpoint, &[TopLogprobs, Sampled]),
        ("vllm", Logits, RefusesLogprobs, &[TopLogprobs, Sampled]),
        ("vllm", Logits, RefusesSilently, &[TopLogprobs, Sampled]),
        ("vllm", TopLogprobs, DropsLogprobs, &[Logits, Sampled]),
        ("sglang", Logits, IgnoresTokenIds, &[TopLogprobs, Sampled]),
        ("sglang", Logits, NoEndpoint, &[TopLogprobs, Sampled]),
        (
            "llama.cpp",
            TopLogprobs,
            NoEndpoint,
            &[Native, TopLogprobs, Sampled],
        ),
        (
            "llama.cpp",
            TopLogprobs,
            DropsLogprobs,
            &[Native, TopLogprobs, Sampled],
        ),
        ("openai", TopLogprobs, DropsLogprobs, &[Native, Sampled]),
        ("openai", TopLogprobs, RefusesLogprobs, &[Native, Sampled]),
        ("openai", TopLogprobs, RefusesSilently, &[Native, Sampled]),
        ("openai", TopLogprobs, FewerLogprobs(1), &[Native, Sampled]),
        ("gemini", TopLogprobs, DropsLogprobs, &[Native, Sampled]),
        ("gemini", TopLogprobs, RefusesLogprobs, &[Native, Sampled]),
        ("gemini", TopLogprobs, RefusesSilently, &[Native, Sampled]),
    ] {
        let upstream = FakeUpstream::start().await;
        upstream.set_decision_fault(Some(fault));
        let provider = provider(preset, &upstream);
        let decisions = provider.decisions().unwrap();
        let call = three();
        let reading = read(decisions, source, &call).await.unwrap();
        assert_eq!(reading, None, "{preset} {fault:?}");
        assert_eq!(sources(decisions, &call.state), left, "{preset} {fault:?}");
        if preset == "llama.cpp" {
            // The remaining method is chat completions, which report fewer tokens.
            assert_eq!(
                way(decisions, &call, TopLogprobs),
                DecisionWay::TopLogprobs { max: 20 }
            );
        }
        let labels = decisions
            .labels(&context_with_long_timeout(), MODEL, 255)
            .await
            .unwrap();
        if left[0] != Logits {
            assert_eq!(labels.len(), 26, "{preset} {fault:?}");
        }
    }
}

#[tokio::test]
async fn servers_without_a_tokenizer_use_letters() {
    for preset in ["vllm", "sglang", "llama.cpp"] {
        for reply in [
            Some(Reply::body(200, "application/json", r#"{"tokens":[1,2,3]}"#)),
            Some(Reply::body(200, "application/json", r#"{"count":3}"#)),
            None,
        ] {
            let upstream = FakeUpstream::start().await;
            match reply {
                Some(reply) => upstream.push_for_decisions(reply),
                None => upstream.set_decision_fault(Some(DecisionFault::NoEndpoint)),
            }
            let provider = provider(preset, &upstream);
            let decisions = provider.decisions().unwrap();
            let labels = decisions
                .labels(&context_with_long_timeout(), MODEL, 255)
                .await
                .unwrap();
            assert_eq!(labels.len(), 26, "{preset}");
            let found = sources(decisions, &State::default());
            assert!(
                !found.contains(&Logits) && found.contains(&TopLogprobs),
                "{preset}: {found:?}"
            );
        }
    }
}

#[tokio::test]
async fn fewer_top_logprobs_than_requested_are_accepted() {
    for preset in ["openai", "gemini"] {
        let upstream = FakeUpstream::start().await;
        upstream.set_decision_fault(Some(DecisionFault::FewerLogprobs(4)));
        let provider = provider(preset, &upstream);
        let decisions = provider.decisions().unwrap();
        let call = three();
        let reading = read(decisions, TopLogprobs, &call).await.unwrap().unwrap();
        assert!(
            near(&shares(&reading), &[THREE[0], THREE[1], 0.0], 1e-9),
            "{preset}: {reading:?}"
        );
        // The least probable of the four tokens, a spelling of the first label, bounds the third
        // label.
        assert!(reading.logprobs[2].is_none());
        assert!(
            (reading.rest.unwrap().exp() - 0.3 * THREE[0]).abs() < 1e-9,
            "{preset}: {reading:?}"
        );
        assert_eq!(
            way(decisions, &call, TopLogprobs),
            DecisionWay::TopLogprobs { max: 4 }
        );
    }
}

#[tokio::test]
async fn invalid_logprobs_are_refused() {
    for (preset, source) in [
        ("vllm", Logits),
        ("sglang", Logits),
        ("llama.cpp", TopLogprobs),
        ("openai", TopLogprobs),
        ("gemini", TopLogprobs),
    ] {
        for fault in [DecisionFault::PositiveLogprob, DecisionFault::NotANumber] {
            let upstream = FakeUpstream::start().await;
            upstream.set_decision_fault(Some(fault));
            let provider = provider(preset, &upstream);
            let decisions = provider.decisions().unwrap();
            let error = read(decisions, source, &three()).await.unwrap_err();
            assert_eq!(
                error.cause,
                UpstreamCause::Protocol,
                "{preset} {fault:?}: {error}"
            );
            upstream.set_decision_fault(None);
            let reading = read(decisions, source, &three()).await.unwrap().unwrap();
            assert!(near(&shares(&reading), &THREE, 1e-9), "{preset} {fault:?}");
        }
    }
}

#[tokio::test]
async fn failures_do_not_disable_a_capability() {
    for (preset, source) in [
        ("vllm", Logits),
        ("sglang", Logits),
        ("llama.cpp", TopLogprobs),
        ("openai", TopLogprobs),
        ("gemini", TopLogprobs),
        ("openai", Sampled),
        ("anthropic", Sampled),
        ("bedrock", Sampled),
        ("openai-responses", Sampled),
    ] {
        for (reply, kind, timeout_ms) in [
            (
                Reply::error(500, "server_error", "no"),
                UpstreamErrorKind::Unavailable,
                20_000,
            ),
            (
                Reply::error(429, "rate_limit_exceeded", "no"),
                UpstreamErrorKind::RateLimited,
                20_000,
            ),
            (
                Reply::error(400, "invalid_value", "no"),
                UpstreamErrorKind::Rejected,
                20_000,
            ),
            (Reply::reset(), UpstreamErrorKind::Unavailable, 20_000),
            (Reply::hang(), UpstreamErrorKind::Unavailable, 200),
        ] {
            let upstream = FakeUpstream::start().await;
            upstream.push_for_decisions(reply);
            let provider = provider(preset, &upstream);
            let decisions = provider.decisions().unwrap();
            let (call, before) = (three(), sources(decisions, &State::default()));
            let ctx = context(Duration::from_millis(timeout_ms));
            let error = match source {
                Sampled => decisions.draw_labels(&ctx, &call, ONE).await.unwrap_err(),
                _ => decisions
                    .read_labels(&ctx, way(decisions, &call, source), &call)
                    .await
                    .unwrap_err(),
            };
            assert_eq!(error.kind, kind, "{preset} {source:?}: {error}");
            assert_eq!(
                sources(decisions, &State::default()),
                before,
                "{preset} {source:?}"
            );
        }
    }
}

/// One answer of at most 16 tokens, which are enough for a label.
const ONE: Draw = Draw {
    answers: 1,
    max_tokens: 16,
};

/// Samples `number` answers. Each request samples as many as the provider allows.
async fn draw_all(decisions: &dyn DecideProvider, call: &LabelCall, number: u32) -> LabelDraws {
    let ways = decisions.decision_ways(&call.upstream_model, &call.state);
    let Some(DecisionWay::Sampled { max_answers }) = ways.last().copied() else {
        panic!("no way to draw among {ways:?}");
    };
    let mut all = LabelDraws {
        counts: vec![0; call.labels.len()],
        ..LabelDraws::default()
    };
    let mut call = call.clone();
    while all.answers() < number {
        let answers = max_answers.min(number - all.answers());
        let drawn = decisions
            .draw_labels(&context_with_long_timeout(), &call, Draw { answers, ..ONE })
            .await
            .unwrap()
            .unwrap();
        assert_eq!(drawn.answers(), answers);
        assert!(
            drawn.usage.is_some_and(|usage| usage.total_output() > 0),
            "{drawn:?}"
        );
        all.others += drawn.others;
        for (sum, count) in all.counts.iter_mut().zip(drawn.counts) {
            *sum += count;
        }
        call.seed += 1;
    }
    all
}

#[tokio::test]
async fn every_provider_counts_sampled_answers() {
    const DRAWS: u32 = 300;
    for (preset, requests) in [
        ("openai", 38),
        ("vllm", 19),
        ("openai-compatible", 300),
        ("deepseek", 300),
        ("gemini", 300),
        ("anthropic", 300),
        ("bedrock", 300),
        ("openai-responses", 300),
    ] {
        let upstream = FakeUpstream::start().await;
        let provider = provider(preset, &upstream);
        let decisions = provider.decisions().unwrap();
        let draws = draw_all(decisions, &three(), DRAWS).await;
        assert_eq!(draws.counts.iter().sum::<u32>() + draws.others, DRAWS, "{preset}");
        let found: Vec<f64> = draws
            .counts
            .iter()
            .map(|count| f64::from(*count) / f64::from(DRAWS))
            .collect();
        assert!(near(&found, &THREE, 0.09), "{preset}: {draws:?}");
        assert!(draws.others > 0, "{preset}: a tenth is no label");
        assert_eq!(upstream.request_count(), requests, "{preset}");
        let body = String::from_utf8(upstream.requests()[0].body.to_vec()).unwrap();
        let names_labels = body.contains(r#""enum":["A","B","C"]"#) || body.contains(r#"\"enum\":[\"A\""#);
        assert_eq!(names_labels, preset != "deepseek", "{preset}: {body}");
    }
}

#[tokio::test]
async fn fields_are_sent_under_the_providers_names() {
    for (preset, has, has_not) in [
        (
            "openai",
            &["max_completion_tokens", "seed"][..],
            &["max_tokens"][..],
        ),
        (
            "mistral",
            &["max_tokens", "random_seed"],
            &["seed", "max_completion_tokens"],
        ),
        (
            "deepseek",
            &["max_tokens"],
            &["seed", "random_seed", "response_format"],
        ),
        (
            "vllm",
            &["max_tokens", "chat_template_kwargs"],
            &["reasoning_effort"],
        ),
        (
            "ollama",
            &["max_tokens", "reasoning_effort"],
            &["chat_template_kwargs", "n"],
        ),
    ] {
        let upstream = FakeUpstream::start().await;
        let provider = provider(preset, &upstream);
        provider
            .decisions()
            .unwrap()
            .draw_labels(&context_with_long_timeout(), &three(), ONE)
            .await
            .unwrap();
        let body = upstream.requests()[0].json().unwrap();
        let members = body.as_object().unwrap();
        assert!(
            has.iter().all(|name| members.contains_key(*name)),
            "{preset}: {body}"
        );
        assert!(
            !has_not.iter().any(|name| members.contains_key(*name)),
            "{preset}: {body}"
        );
        assert_eq!(body["temperature"], 1, "{preset}");
    }
}

fn with_media(kinds: &[StateMediaKind]) -> LabelCall {
    let text = "[[decide * one=0.3 two=0.6 three=0.1 mass=0.9]] a [image 1] b [audio 1] c [video 1] d";
    LabelCall {
        state: state(text, kinds),
        ..three()
    }
}

#[tokio::test]
async fn media_are_sent_where_supported() {
    use StateMediaKind::{Audio, Image, Video};
    let upstream = FakeUpstream::start().await;
    for (preset, kinds, expected) in [
        (
            "vllm",
            &StateMediaKind::ALL[..],
            &[Logits, TopLogprobs, Sampled][..],
        ),
        ("sglang", &[Image], &[TopLogprobs, Sampled]),
        ("llama.cpp", &[Image], &[Native, TopLogprobs, Sampled]),
        ("anthropic", &[Image], &[Sampled]),
        ("anthropic", &[Audio], &[]),
        ("bedrock", &[Image, Video], &[]),
        ("openai-responses", &[Image], &[Sampled]),
        ("gemini", &StateMediaKind::ALL, &[Native, TopLogprobs, Sampled]),
    ] {
        let provider = provider(preset, &upstream);
        let decisions = provider.decisions().unwrap();
        let call = with_media(kinds);
        assert_eq!(sources(decisions, &call.state), expected, "{preset} {kinds:?}");
        if expected.contains(&TopLogprobs) {
            // Completions support no media, so chat completions are used.
            assert_eq!(
                way(decisions, &call, TopLogprobs),
                DecisionWay::TopLogprobs { max: 20 }
            );
            let reading = read(decisions, TopLogprobs, &call).await.unwrap().unwrap();
            assert!(near(&shares(&reading), &THREE, 1e-9), "{preset}");
        }
    }
}

#[tokio::test]
async fn media_replace_their_markers() {
    let upstream = FakeUpstream::start().await;
    let chat = |part: &Value| match part["type"].as_str().unwrap() {
        "text" => part["text"].as_str().unwrap().chars().last().unwrap().to_string(),
        kind => format!("{kind} {}", part[kind]),
    };
    let google = |part: &Value| match part.get("inlineData") {
        None => part["text"].as_str().unwrap().chars().last().unwrap().to_string(),
        Some(data) => data["mimeType"].as_str().unwrap().to_owned(),
    };
    let call = with_media(&StateMediaKind::ALL);
    for (preset, place, show, expected) in [
        (
            "openai",
            "/messages/0/content",
            &chat as &dyn Fn(&Value) -> String,
            &[
                "]",
                r#"image_url {"url":"data:image/png;base64,iVBORw0KGgo="}"#,
                "]",
                r#"input_audio {"data":"SUQz","format":"mp3"}"#,
                "]",
                r#"video_url {"url":"data:video/mp4;base64,AAAA"}"#,
                "d",
                ".",
            ][..],
        ),
        (
            "gemini",
            "/contents/0/parts",
            &google,
            &["]", "image/png", "]", "audio/mp3", "]", "video/mp4", "d", "."],
        ),
    ] {
        let provider = provider(preset, &upstream);
        provider
            .decisions()
            .unwrap()
            .draw_labels(&context_with_long_timeout(), &call, ONE)
            .await
            .unwrap();
        let body = upstream.requests().last().unwrap().json().unwrap();
        let parts = body.pointer(place).and_then(Value::as_array).unwrap();
        let shown: Vec<String> = parts.iter().map(show).collect();
        assert_eq!(shown, expected, "{preset}: {}", json!(parts));
    }
}
