//! Tests of draws and of recorded capabilities. Each provider runs against a server that implements
//! the provider's API.

mod labels;
mod questions;
mod servers;

use serde_json::Map;
use tollgate_types::Usage;
use tollgate_types::generate::Reasoning;
use tollgate_upstream::UpstreamCause;

use super::*;

fn call() -> LabelCall {
    LabelCall {
        upstream_model: "m".into(),
        state: State::default().into(),
        question: "?".into(),
        labels: ["A".to_owned(), "B".to_owned()].into(),
        seed: 40,
    }
}

fn choice(text: &str, finish: FinishReason) -> Choice {
    Choice {
        index: 0,
        parts: vec![
            Part::Reasoning(Reasoning {
                text: Some("B".to_owned()),
                ..Reasoning::default()
            }),
            Part::Text(text.to_owned()),
        ],
        tool_calls: Vec::new(),
        finish,
        stop_sequence: None,
        logprobs: None,
        extra: Map::new(),
    }
}

#[test]
fn answers_of_a_request_are_counted() {
    use FinishReason::{Length, Stop};
    // Answers, maximum number of answers to read, expected counts, other answers, unfinished
    // answers.
    for (answers, asked, counts, others, unfinished) in [
        (&[("A", Stop)][..], 1, [1, 0], 0, 0),
        (&[("A", Stop), ("b", Length), ("no", Stop)], 3, [1, 1], 1, 0),
        (&[("B", Stop), ("B", Stop)], 1, [0, 1], 0, 0),
        (&[("B", Stop)], 8, [0, 1], 0, 0),
        // Reasoning, which is never counted, used all tokens; or the model returned an empty text.
        (&[("", Length)], 1, [0, 0], 1, 1),
        (&[(" <think>A", Length)], 1, [0, 0], 1, 1),
        (&[("", Stop)], 1, [0, 0], 1, 0),
        (&[("Well, A is", Length)], 1, [0, 0], 1, 0),
    ] {
        let response = GenerateResponse {
            id: String::new(),
            created: 0,
            model: String::new(),
            choices: answers
                .iter()
                .map(|(text, finish)| choice(text, *finish))
                .collect(),
            usage: Some(Usage::tokens(7, 3)),
            extra: Map::new(),
        };
        let draws = count_answers(&response, &call(), asked).unwrap();
        let expected = LabelDraws {
            counts: counts.to_vec(),
            others,
            unfinished,
            usage: response.usage,
        };
        assert_eq!(draws, expected, "{answers:?}");
        let empty = GenerateResponse {
            choices: Vec::new(),
            ..response
        };
        assert!(count_answers(&empty, &call(), asked).is_err());
    }
}

#[test]
fn answers_are_labels_in_json_or_alone() {
    for (text, expected) in [
        (r#"{"answer":"B"}"#, Some(1)),
        (" {\"answer\": \" b \"}\n", Some(1)),
        ("A", Some(0)),
        ("a\n", Some(0)),
        ("A.", None),
        (r#"{"answer":"C"}"#, None),
        (r#"{"answer":7}"#, None),
        ("", None),
        ("I think it is A", None),
    ] {
        assert_eq!(answered_label(text, &call().labels), expected, "{text}");
    }
}

fn refused(status: u16, param: Option<&str>) -> UpstreamError {
    let kind = match status {
        400 => UpstreamErrorKind::Rejected,
        _ => UpstreamErrorKind::Unavailable,
    };
    UpstreamError {
        status: Some(status),
        param: param.map(str::to_owned),
        ..UpstreamError::new(kind, UpstreamCause::Status, "")
    }
}

#[tokio::test]
async fn only_missing_capabilities_are_remembered() {
    type Attempt = Result<Option<u8>, UpstreamError>;
    type Case = (Capability, fn() -> Attempt, fn() -> Attempt, bool);
    let never: fn() -> Attempt = || panic!("it is not asked");
    let cases: [Case; 14] = [
        (Capability::Logprobs, || Ok(Some(1)), never, false),
        (Capability::Logprobs, || Ok(None), never, true),
        (
            Capability::Logprobs,
            || Err(refused(400, Some("top_logprobs"))),
            never,
            true,
        ),
        (Capability::Logprobs, || Err(refused(404, None)), never, false),
        (Capability::Logprobs, || Err(refused(500, None)), never, false),
        (Capability::Logprobs, || Err(refused(429, None)), never, false),
        (
            Capability::Logprobs,
            || Err(refused(400, None)),
            || Ok(Some(1)),
            false,
        ),
        (
            Capability::Logprobs,
            || Err(refused(400, None)),
            || Err(refused(400, None)),
            true,
        ),
        (
            Capability::Logprobs,
            || Err(refused(400, None)),
            || Err(refused(500, None)),
            false,
        ),
        (Capability::Completion, || Err(refused(404, None)), never, true),
        (
            Capability::TokenIds,
            || Err(refused(400, Some("logprob_token_ids"))),
            never,
            true,
        ),
        (Capability::Questions, || Err(refused(501, None)), never, true),
        (
            Capability::Questions,
            || Err(refused(400, Some("model"))),
            never,
            true,
        ),
        (
            Capability::Questions,
            || Err(refused(400, Some("questions"))),
            || Ok(Some(1)),
            false,
        ),
    ];
    for (index, (capability, attempt, probe, lacks)) in cases.into_iter().enumerate() {
        let memory = Memory::default();
        let (attempt, is_answered) = (attempt(), matches!(attempt(), Ok(Some(_))));
        let attempt_outcome = attempt_outcome(&memory, "m", capability, attempt, async { probe() }).await;
        assert_eq!(memory.may_have("m", capability), !lacks, "{index}");
        assert!(memory.may_have("another", capability));
        assert_eq!(matches!(attempt_outcome, Ok(None)), lacks, "{index}");
        assert_eq!(matches!(attempt_outcome, Ok(Some(1))), is_answered, "{index}");
    }
}

#[test]
fn top_logprobs_requests_shrink_to_the_received_count() {
    let memory = Memory::default();
    assert_eq!(memory.max("m", 20), 20);
    memory.set_max_logprobs("m", 5);
    assert_eq!(
        (memory.max("m", 20), memory.max("m", 3), memory.max("n", 20)),
        (5, 3, 20)
    );
}
