//! Draws and what is remembered; each provider against a server that speaks its wire.

mod labels;
mod questions;
mod servers;

use std::cell::RefCell;

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

#[tokio::test]
async fn answers_are_drawn_until_there_are_enough() {
    for (number, at_once, honoured, expected) in [
        (1, 1, 1, &[(1, 40)][..]),
        (3, 1, 1, &[(1, 40), (1, 41), (1, 42)]),
        (5, 4, 4, &[(4, 40), (1, 41)]),
        // Of four, one comes.
        (5, 4, 1, &[(4, 40), (1, 41), (3, 42), (2, 43), (1, 44)]),
        (2, 0, 1, &[(1, 40), (1, 41)]),
        (0, 4, 4, &[]),
    ] {
        let asked = RefCell::new(Vec::new());
        let ask = |size: u32, seed| {
            asked.borrow_mut().push((size, seed));
            async move {
                Ok((0..size.min(honoured))
                    .map(|place| [Some(0), Some(1), None][place as usize % 3])
                    .collect())
            }
        };
        let draws = draw(&call(), number, at_once, ask).await.unwrap();
        assert_eq!(draws.counts.iter().sum::<u32>() + draws.others, number);
        assert_eq!(*asked.borrow(), expected, "{number} {at_once} {honoured}");
    }
    let nothing = draw(&call(), 2, 1, |_, _| async { Ok(Vec::new()) }).await;
    assert!(nothing.is_err(), "it does not go on for ever");
    let failing = draw(&call(), 2, 1, |_, _| async {
        Err(UpstreamError::timeout("late"))
    })
    .await;
    assert_eq!(failing.unwrap_err().cause, UpstreamCause::Timeout);
    // More than were asked for are not counted.
    let many = draw(&call(), 2, 1, |_, _| async { Ok(vec![Some(1); 9]) })
        .await
        .unwrap();
    assert_eq!(many.counts, [0, 2]);
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
        assert_eq!(answered(text, &call().labels), expected, "{text}");
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
async fn what_a_deployment_lacks_is_remembered_and_nothing_else() {
    type Attempt = Result<Option<u8>, UpstreamError>;
    type Case = (Means, fn() -> Attempt, fn() -> Attempt, bool);
    let never: fn() -> Attempt = || panic!("it is not asked");
    let cases: [Case; 14] = [
        (Means::Logprobs, || Ok(Some(1)), never, false),
        (Means::Logprobs, || Ok(None), never, true),
        (
            Means::Logprobs,
            || Err(refused(400, Some("top_logprobs"))),
            never,
            true,
        ),
        (Means::Logprobs, || Err(refused(404, None)), never, false),
        (Means::Logprobs, || Err(refused(500, None)), never, false),
        (Means::Logprobs, || Err(refused(429, None)), never, false),
        (Means::Logprobs, || Err(refused(400, None)), || Ok(Some(1)), false),
        (
            Means::Logprobs,
            || Err(refused(400, None)),
            || Err(refused(400, None)),
            true,
        ),
        (
            Means::Logprobs,
            || Err(refused(400, None)),
            || Err(refused(500, None)),
            false,
        ),
        (Means::Completion, || Err(refused(404, None)), never, true),
        (
            Means::TokenIds,
            || Err(refused(400, Some("logprob_token_ids"))),
            never,
            true,
        ),
        (Means::Questions, || Err(refused(501, None)), never, true),
        (Means::Questions, || Err(refused(400, Some("model"))), never, true),
        (
            Means::Questions,
            || Err(refused(400, Some("questions"))),
            || Ok(Some(1)),
            false,
        ),
    ];
    for (place, (means, attempt, probe, lacks)) in cases.into_iter().enumerate() {
        let memory = Memory::default();
        let (attempt, is_answered) = (attempt(), matches!(attempt(), Ok(Some(_))));
        let settled = settled(&memory, "m", means, attempt, async { probe() }).await;
        assert_eq!(memory.may_have("m", means), !lacks, "{place}");
        assert!(memory.may_have("another", means));
        assert_eq!(matches!(settled, Ok(None)), lacks, "{place}");
        assert_eq!(matches!(settled, Ok(Some(1))), is_answered, "{place}");
    }
}

#[test]
fn fewer_tokens_are_asked_for_once_fewer_came() {
    let memory = Memory::default();
    assert_eq!(memory.most("m", 20), 20);
    memory.told_fewer("m", 5);
    assert_eq!(
        (memory.most("m", 20), memory.most("m", 3), memory.most("n", 20)),
        (5, 3, 20)
    );
}
