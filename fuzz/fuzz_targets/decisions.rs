//! Typed decisions: a parsed request survives encoding for an upstream and parsing there; every
//! medium has its marker; and invalid responses of an upstream yield errors.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_formats::decisions::{Shape, StatePart, answers, ask, check_compatible, read, state_parts};
use tollgate_types::decide::Verdict;

const SHAPES: [Shape; 4] = [Shape::SystemOne, Shape::OpenAi, Shape::Google, Shape::OpenRouter];

const QUESTIONS: &[u8] = br#"{"model":"m","state":"s","questions":{
    "n":{"type":"noul","instructions":"?","abstain":true},
    "c":{"type":"choice","instructions":"?","options":["a",true,"true"]},
    "s":{"type":"score","instructions":"?","levels":["l","h"]},
    "t":{"type":"tool","instructions":"?","tools":[{"type":"function","name":"f",
        "parameters":{"type":"object","properties":{"b":{"type":"boolean"}}}}]}}}"#;

fuzz_target!(|data: &[u8]| {
    let known = read(QUESTIONS).expect("the questions are well formed");
    for shape in SHAPES {
        let Ok((decisions, _)) = answers(shape, data, &known.questions) else {
            continue;
        };
        assert_eq!(decisions.len(), known.questions.len());
        for decision in &decisions {
            if let Verdict::Choice(all) | Verdict::Score(all) = &decision.verdict {
                assert!(all.iter().all(|probability| (0.0..=1.0).contains(probability)));
                assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
    let Ok(asked) = read(data) else {
        return;
    };
    let (mut text, mut media) = (String::new(), 0);
    for part in state_parts(&asked.state) {
        match part {
            StatePart::Text(part) => text.push_str(part),
            StatePart::Medium(medium) => {
                assert!(text.ends_with(']'), "{} has its marker", medium.param);
                media += 1;
            }
        }
    }
    assert_eq!((text, media), (asked.state.text.clone(), asked.state.media.len()));
    for shape in SHAPES {
        if check_compatible(shape, &asked.state, &asked.questions).is_err() {
            continue;
        }
        let again =
            read(&ask(shape, "up", &asked.state, &asked.questions)).expect("the questions are well formed");
        assert_eq!(again.state.media.len(), asked.state.media.len());
        let ids = |questions: &[tollgate_types::decide::Question]| -> Vec<String> {
            questions.iter().map(|question| question.id.clone()).collect()
        };
        assert_eq!(ids(&again.questions), ids(&asked.questions));
    }
});
