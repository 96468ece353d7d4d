//! Tests of upstreams with an endpoint for questions, in every request format.

use std::time::Duration;

use serde_json::json;
use tollgate_testkit::upstream::{DecisionFault, FakeUpstream, Reply};
use tollgate_types::decide::{
    ChoiceOption, DecisionSource, Level, Question, QuestionKind, StateMediaKind, Verdict,
};
use tollgate_upstream::{RelayAnswer, RelayCall, UpstreamCause, UpstreamError, UpstreamErrorKind};

use super::servers::{MODEL, context, context_with_long_timeout, near, provider, sources, state};

/// All presets with an endpoint for questions, and their paths.
const PLACES: [(&str, &str); 6] = [
    ("openai", "/v1/decisions"),
    ("openrouter", "/api/alpha/decisions"),
    ("ollama", "/v1/systemone"),
    ("llama.cpp", "/v1/systemone"),
    ("openai-compatible", "/v1/systemone"),
    ("gemini", "/v1/decisions"),
];

const SCRIPT: &str =
    "[[decide refund yes=0.9]] [[decide team tech=0.3 billing=0.7]] [[decide urgency 0=0.1 2=0.9]]";

fn question(id: &str, kind: QuestionKind) -> Question {
    Question {
        id: id.to_owned(),
        param: format!("questions.{id}"),
        instructions: "What is it?".to_owned(),
        kind,
        abstain: false,
    }
}

fn call() -> RelayCall {
    let option = |name: &str| ChoiceOption {
        value: json!(name),
        description: None,
    };
    let level = |label: &str| Level {
        label: label.to_owned(),
        description: None,
    };
    let options = ["billing", "tech", "sales"].map(option).to_vec();
    let levels = ["can wait", "today", "now"].map(level).to_vec();
    RelayCall {
        upstream_model: MODEL.into(),
        state: state(SCRIPT, &[]),
        questions: vec![
            question("refund", QuestionKind::Noul { yes: None, no: None }),
            question("team", QuestionKind::Choice { options }),
            question("urgency", QuestionKind::Score { levels }),
        ],
    }
}

async fn relayed(preset: &str, upstream: &FakeUpstream) -> Result<Option<RelayAnswer>, UpstreamError> {
    let provider = provider(preset, upstream);
    provider
        .decisions()
        .unwrap()
        .relay(&context_with_long_timeout(), &call())
        .await
}

#[tokio::test]
async fn native_answers_match_true_probabilities() {
    for (preset, path) in PLACES {
        let upstream = FakeUpstream::start().await;
        let answer = relayed(preset, &upstream).await.unwrap().unwrap();
        let numbers: Vec<Vec<f64>> = answer
            .decisions
            .iter()
            .map(|decision| match &decision.verdict {
                Verdict::Noul(yes) => vec![*yes],
                Verdict::Choice(all) | Verdict::Score(all) => all.clone(),
                other => panic!("{preset}: {other:?}"),
            })
            .collect();
        assert!(near(&numbers[0], &[0.9], 1e-6), "{preset}: {numbers:?}");
        assert!(near(&numbers[1], &[0.7, 0.3, 0.0], 1e-6), "{preset}: {numbers:?}");
        assert!(near(&numbers[2], &[0.1, 0.0, 0.9], 1e-6), "{preset}: {numbers:?}");
        for decision in &answer.decisions {
            assert_eq!(decision.method.as_ref().unwrap().source, DecisionSource::Native);
        }
        assert!(
            answer.usage.is_some_and(|usage| usage.total_input() > 0),
            "{preset}"
        );
        let requests = upstream.requests();
        assert_eq!((requests.len(), requests[0].path.as_str()), (1, path), "{preset}");
        assert_eq!(requests[0].json().unwrap()["model"], MODEL);
    }
}

#[tokio::test]
async fn single_questions_may_be_refused() {
    for (preset, _) in PLACES {
        let upstream = FakeUpstream::start().await;
        let call = RelayCall {
            state: state("[[decide team refuse]] [[decide * yes=0.2]]", &[]),
            ..call()
        };
        let provider = provider(preset, &upstream);
        let answer = provider
            .decisions()
            .unwrap()
            .relay(&context_with_long_timeout(), &call)
            .await
            .unwrap()
            .unwrap();
        assert!(
            matches!(answer.decisions[0].verdict, Verdict::Noul(_)),
            "{preset}"
        );
        assert!(
            matches!(answer.decisions[1].verdict, Verdict::Refused),
            "{preset}"
        );
    }
}

#[tokio::test]
async fn deployments_without_questions_are_asked_once() {
    for (preset, _) in PLACES {
        for fault in [
            DecisionFault::NoEndpoint,
            DecisionFault::NoDecisionModel,
            DecisionFault::WrongModel,
            DecisionFault::RefusesSilently,
        ] {
            let upstream = FakeUpstream::start().await;
            upstream.set_decision_fault(Some(fault));
            let provider = provider(preset, &upstream);
            let decisions = provider.decisions().unwrap();
            let call = call();
            assert_eq!(
                sources(decisions, &call.state)[0],
                DecisionSource::Native,
                "{preset}"
            );
            let answer = decisions
                .relay(&context_with_long_timeout(), &call)
                .await
                .unwrap();
            assert!(answer.is_none(), "{preset} {fault:?}");
            assert!(!sources(decisions, &call.state).contains(&DecisionSource::Native));
            let asked = upstream.request_count();
            assert!(
                decisions
                    .relay(&context_with_long_timeout(), &call)
                    .await
                    .unwrap()
                    .is_none()
            );
            assert_eq!(upstream.request_count(), asked, "{preset} {fault:?}");
        }
    }
}

#[tokio::test]
async fn invalid_answers_are_refused() {
    for (preset, _) in PLACES {
        for fault in [
            DecisionFault::FewerAnswers,
            DecisionFault::AnotherQuestion,
            DecisionFault::NoSum,
            DecisionFault::ForgetsOption,
            DecisionFault::NotANumber,
        ] {
            let upstream = FakeUpstream::start().await;
            upstream.set_decision_fault(Some(fault));
            let provider = provider(preset, &upstream);
            let decisions = provider.decisions().unwrap();
            let error = decisions
                .relay(&context_with_long_timeout(), &call())
                .await
                .unwrap_err();
            assert_eq!(
                error.cause,
                UpstreamCause::Protocol,
                "{preset} {fault:?}: {error}"
            );
            assert!(!error.detail.contains("decide"), "{error}");
            assert_eq!(sources(decisions, &call().state)[0], DecisionSource::Native);
            upstream.set_decision_fault(None);
            assert!(
                decisions
                    .relay(&context_with_long_timeout(), &call())
                    .await
                    .unwrap()
                    .is_some()
            );
        }
    }
}

#[tokio::test]
async fn failures_do_not_disable_native_questions() {
    for (preset, _) in PLACES {
        for (reply, kind, requests) in [
            (
                Reply::error(500, "server_error", "no"),
                UpstreamErrorKind::Unavailable,
                1,
            ),
            (
                Reply::error(429, "rate_limit_exceeded", "no"),
                UpstreamErrorKind::RateLimited,
                1,
            ),
            (
                Reply::error(401, "invalid_api_key", "no"),
                UpstreamErrorKind::Credentials,
                1,
            ),
            (Reply::reset(), UpstreamErrorKind::Unavailable, 1),
            (Reply::html(200), UpstreamErrorKind::Unavailable, 1),
            (
                Reply::body(200, "application/json", r#"{"error":{"message":"x"}}"#),
                UpstreamErrorKind::Unavailable,
                1,
            ),
            // The upstream rejects the caller's question but accepts the probe.
            (
                Reply::error(400, "invalid_value", "no"),
                UpstreamErrorKind::Rejected,
                2,
            ),
        ] {
            let upstream = FakeUpstream::start().await;
            upstream.push_for_decisions(reply);
            let provider = provider(preset, &upstream);
            let decisions = provider.decisions().unwrap();
            let error = decisions
                .relay(&context_with_long_timeout(), &call())
                .await
                .unwrap_err();
            assert_eq!(error.kind, kind, "{preset}: {error}");
            assert_eq!(upstream.request_count(), requests, "{preset}: {error}");
            assert_eq!(
                sources(decisions, &call().state)[0],
                DecisionSource::Native,
                "{preset}"
            );
        }
    }
}

#[tokio::test]
async fn silent_upstreams_time_out() {
    let upstream = FakeUpstream::start().await;
    upstream.push_for_decisions(Reply::hang());
    let provider = provider("openai", &upstream);
    let short_timeout = context(Duration::from_millis(300));
    let error = provider
        .decisions()
        .unwrap()
        .relay(&short_timeout, &call())
        .await
        .unwrap_err();
    assert_eq!(error.cause, UpstreamCause::Timeout);
}

#[tokio::test]
async fn questions_are_offered_where_the_media_are_known() {
    let upstream = FakeUpstream::start().await;
    for (preset, kinds, is_native) in [
        ("openai", &[StateMediaKind::Image][..], true),
        ("openai", &[StateMediaKind::Image, StateMediaKind::Audio], false),
        ("openai", &[StateMediaKind::Video], false),
        ("openrouter", &[StateMediaKind::Image], true),
        ("llama.cpp", &[StateMediaKind::Audio], true),
        ("gemini", &StateMediaKind::ALL, true),
        ("vllm", &[], false),
    ] {
        let provider = provider(preset, &upstream);
        let state = state("[image 1] [audio 1] [video 1]", kinds);
        let found = sources(provider.decisions().unwrap(), &state);
        assert_eq!(
            found.contains(&DecisionSource::Native),
            is_native,
            "{preset} {kinds:?}"
        );
    }
}
