//! Tests of every decision method, against scripted true probabilities.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate_types::RequestId;
use tollgate_types::decide::{ANSWERABLE, ChoiceOption, Level, StateMedia};
use tollgate_upstream::{Permit, UpstreamErrorKind};

use super::*;

fn ctx() -> CallContext {
    CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(60),
        inspected: false,
    }
}

fn sim() -> Simulator {
    Simulator::new("sim".into())
}

fn state(text: &str) -> Arc<State> {
    Arc::new(State {
        text: text.to_owned(),
        media: Vec::new(),
    })
}

fn question(id: &str, instructions: &str, kind: QuestionKind) -> Question {
    Question {
        id: id.to_owned(),
        param: format!("questions.{id}"),
        instructions: instructions.to_owned(),
        kind,
        abstain: false,
    }
}

fn noul() -> QuestionKind {
    QuestionKind::Noul { yes: None, no: None }
}

fn choice(names: &[&str]) -> QuestionKind {
    let options = names.iter().map(|name| ChoiceOption {
        value: json!(name),
        description: None,
    });
    QuestionKind::Choice {
        options: options.collect(),
    }
}

fn score(labels: &[&str]) -> QuestionKind {
    let levels = labels.iter().map(|label| Level {
        label: (*label).to_owned(),
        description: None,
    });
    QuestionKind::Score {
        levels: levels.collect(),
    }
}

async fn relayed(text: &str, questions: Vec<Question>) -> Result<RelayAnswer, UpstreamError> {
    let call = RelayCall {
        upstream_model: "decide".into(),
        state: state(text),
        questions,
    };
    Ok(sim().relay(&ctx(), &call).await?.unwrap())
}

/// Returns the probabilities of one verdict.
async fn numbers(text: &str, asked: Question) -> Vec<f64> {
    let answer = relayed(text, vec![asked]).await.unwrap();
    match &answer.decisions[0].verdict {
        Verdict::Noul(yes) => vec![*yes],
        Verdict::Choice(all) | Verdict::Score(all) => all.clone(),
        other => panic!("{other:?}"),
    }
}

fn near(one: &[f64], two: &[f64]) -> bool {
    one.len() == two.len() && one.iter().zip(two).all(|(one, two)| (one - two).abs() < 1e-6)
}

#[tokio::test]
async fn scripted_probabilities_are_answered() {
    let three = &["a", "b", "can wait"];
    for (text, instructions, kind, expected) in [
        ("[[decide q yes=0.9]]", "?", noul(), &[0.9][..]),
        ("[[decide q no=0.9]]", "?", noul(), &[0.1]),
        ("[[decide q true=0.9]]", "?", noul(), &[0.9]),
        ("[[decide * yes=0.9]]", "?", noul(), &[0.9]),
        (
            "[[decide x yes=0.2]] [[decide * yes=0.9]] [[decide q yes=0.3]]",
            "?",
            noul(),
            &[0.3],
        ),
        ("[[decide q yes=0.2]]", "[[decide q yes=0.4]]", noul(), &[0.4]),
        ("[[decide q yes=0.2]]", "[[decide * yes=0.4]]", noul(), &[0.4]),
        ("[[decide q yes=0.2]]", "[[decide x yes=0.4]]", noul(), &[0.2]),
        ("[[decide q yes=0.2]]", "[[decide q]]", noul(), &[0.2]),
        ("[[decide q a=0.7 b=0.2]]", "?", choice(three), &[0.7, 0.2, 0.1]),
        ("[[decide q a=0.6]]", "?", choice(three), &[0.6, 0.2, 0.2]),
        (
            "[[decide q a=0.7 'can wait'=0.2]]",
            "?",
            choice(three),
            &[0.7, 0.1, 0.2],
        ),
        (
            "[[decide q a=6 b=3 others=1]]",
            "?",
            choice(three),
            &[0.6, 0.3, 0.1],
        ),
        ("[[decide q b=1]]", "?", score(three), &[0.0, 1.0, 0.0]),
        ("[[decide q 0=0.1 2=0.9]]", "?", score(three), &[0.1, 0.0, 0.9]),
    ] {
        let actual = numbers(text, question("q", instructions, kind)).await;
        assert!(near(&actual, expected), "{text} {instructions}: {actual:?}");
    }
}

#[tokio::test]
async fn functions_and_their_arguments_are_decided() {
    let tool = |name: &str| FunctionTool {
        name: name.to_owned(),
        description: None,
        parameters: json!({"type": "object", "properties": {
            "notify": {"type": "boolean"}, "reason": {"enum": ["twice", "other"]}, "note": {"type": "string"}}}),
    };
    for (required, expected) in [
        (false, &[0.9, 0.02, 0.08][..]),
        (true, &[0.978_260_9, 0.021_739_1]),
    ] {
        let kind = QuestionKind::Tool {
            tools: vec![tool("refund"), tool("escalate")],
            required,
        };
        let text = "[[decide next refund=0.9 escalate=0.02 none=0.08 twice=0.75 other=0.25 true=0.97]]";
        let answer = relayed(text, vec![question("next", "?", kind)]).await.unwrap();
        let Verdict::Tool {
            probabilities,
            arguments,
        } = &answer.decisions[0].verdict
        else {
            panic!("{answer:?}");
        };
        assert!(near(probabilities, expected), "{probabilities:?}");
        let decided: Vec<&str> = arguments[0]
            .iter()
            .map(|one| one.argument.name.as_str())
            .collect();
        assert_eq!(decided, ["notify", "reason"]);
        assert!(near(&arguments[0][0].probabilities, &[0.97, 0.03]));
        assert!(near(&arguments[0][1].probabilities, &[0.75, 0.25]));
        assert!(arguments[1].is_empty(), "an improbable function has none");
    }
}

#[tokio::test]
async fn questions_refuse_fail_and_abstain_alone() {
    let mut all: Vec<Question> = ["a", "b", "c", "d"]
        .iter()
        .map(|id| question(id, "?", noul()))
        .collect();
    for asked in &mut all {
        asked.abstain = true;
    }
    let text = "[[decide a refuse]] [[decide b fail=overloaded]] [[decide c yes=0.5 abstain=0.25]]";
    let answer = relayed(text, all).await.unwrap();
    let [refused, failed, scripted, plain] = &answer.decisions[..] else {
        panic!("{answer:?}");
    };
    assert!(matches!(refused.verdict, Verdict::Refused) && refused.abstain.is_none());
    assert!(refused.method.is_none());
    let Verdict::Failed(error) = &failed.verdict else {
        panic!("{failed:?}");
    };
    assert_eq!(
        (error.code, error.param.as_deref()),
        (ErrorCode::Overloaded, Some("questions.b"))
    );
    assert_eq!(scripted.abstain, Some(0.25));
    assert!(
        plain
            .abstain
            .is_some_and(|abstain| abstain > 0.0 && abstain < 1.0)
    );
    assert_eq!(plain.method.as_ref().unwrap().source, DecisionSource::Native);
    assert_eq!(answer.usage, Some(Usage::tokens(tokens::count(text) + 4, 0)));
}

#[tokio::test]
async fn without_a_script_answers_stay_the_same() {
    let names: Vec<String> = (0..255).map(|index| format!("option {index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let one = numbers("a state", question("q", "Which?", choice(&names))).await;
    assert!((one.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert_eq!(
        one,
        numbers("a state", question("other", "Which?", choice(&names))).await
    );
    assert_ne!(
        one,
        numbers("another", question("q", "Which?", choice(&names))).await
    );
    assert_ne!(
        one,
        numbers("a state", question("q", "Whose?", choice(&names))).await
    );
    let reversed: Vec<&str> = names.iter().rev().copied().collect();
    let mut two = numbers("a state", question("q", "Which?", choice(&reversed))).await;
    two.reverse();
    assert!(near(&one, &two), "the order of options means nothing");
}

#[tokio::test]
async fn invalid_scripts_are_reported() {
    for (text, instructions, param) in [
        ("[[decide q what]]", "?", "state"),
        ("[[decide q a=-1]]", "?", "state"),
        ("[[decide q a=NaN]]", "?", "state"),
        ("[[decide q mass=1.5]]", "?", "state"),
        ("[[decide q abstain=2]]", "?", "state"),
        ("[[decide q fail=what]]", "?", "state"),
        ("[[decide q a=1", "?", "state"),
        ("[[decide ]]", "?", "state"),
        ("[[sim what]]", "?", "state"),
        ("", "[[decide q what]]", "questions.q.instructions"),
    ] {
        let error = relayed(text, vec![question("q", instructions, noul())])
            .await
            .unwrap_err();
        assert_eq!(
            error.kind,
            UpstreamErrorKind::Simulated(ErrorCode::InvalidParameter),
            "{text}"
        );
        assert_eq!(error.param.as_deref(), Some(param), "{text}");
    }
    for text in ["[[decided]]", "[[sim error=overloaded]]"] {
        let actual = relayed(text, vec![question("q", "?", noul())]).await;
        assert_eq!(actual.is_err(), text.contains("error"), "{text}");
    }
}

fn call(model: &str, text: &str, asked: &str, labels: &[&str]) -> LabelCall {
    LabelCall {
        upstream_model: model.into(),
        state: state(text),
        question: asked.into(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        seed: 0,
    }
}

async fn read(call: &LabelCall) -> Result<LabelReading, UpstreamError> {
    let ways = sim().decision_ways(&call.upstream_model, &call.state);
    Ok(sim().read_labels(&ctx(), ways[0], call).await?.unwrap())
}

fn shares_of(reading: &LabelReading) -> Vec<f64> {
    let actual = reading.logprobs.iter();
    actual.map(|one| one.map_or(0.0, f64::exp)).collect()
}

#[tokio::test]
async fn label_probabilities_match_their_options() {
    let asked = "Which team?\n\nA) tech: Repairs\nB) billing: Payments: all of them\nC) a: b: c\n\nAnswer with a letter.";
    let own = "[[decide team]] Which team?\nA) billing\nB) tech\n";
    for (text, asked, labels, expected) in [
        (
            "[[decide * tech=0.3 billing=0.7]]",
            asked,
            &["A", "B", "C"][..],
            &[0.3, 0.7, 0.0][..],
        ),
        (
            "[[decide * 'a: b'=0.6 tech=0.4]]",
            asked,
            &["A", "B", "C"],
            &[0.4, 0.0, 0.6],
        ),
        (
            "[[decide * tech=0.3 billing=0.7 mass=0.5]]",
            asked,
            &["A", "B", "C"],
            &[0.15, 0.35, 0.0],
        ),
        (
            "[[decide * tech=0.3 billing=0.7]]",
            asked,
            &["B", "A"],
            &[0.7, 0.3],
        ),
        (
            "[[decide * tech=1]] [[decide team billing=0.8]]",
            own,
            &["A", "B"],
            &[0.8, 0.2],
        ),
        (
            "",
            "[[decide team yes=0.8]] Is it?\nA) yes\nB) no",
            &["B", "A"],
            &[0.2, 0.8],
        ),
    ] {
        for model in ["decide-logits", "decide-logprobs"] {
            let reading = read(&call(model, text, asked, labels)).await.unwrap();
            assert!(
                near(&shares_of(&reading), expected),
                "{model} {text}: {reading:?}"
            );
        }
    }
}

#[tokio::test]
async fn the_companion_question_has_its_own_number() {
    let [can, cannot] = ANSWERABLE;
    let asked =
        format!("[[decide q yes=0.9 abstain=0.2]] Is there enough?\nA) {cannot}\nB) {can}: There is.");
    let reading = read(&call("decide-logits", "x", &asked, &["A", "B"]))
        .await
        .unwrap();
    assert!(near(&shares_of(&reading), &[0.2, 0.8]), "{reading:?}");
}

#[tokio::test]
async fn bias_helps_the_first_and_noise_differs_by_context() {
    let asked = "Which?\nA) one\nB) two\n";
    let bias = read(&call(
        "decide-logits",
        "[[decide * one=0.5 bias=1]]",
        asked,
        &["A", "B"],
    ))
    .await
    .unwrap();
    let first = 1_f64.exp() / (1_f64.exp() + 1.0);
    assert!(near(&shares_of(&bias), &[first, 1.0 - first]), "{bias:?}");
    let noisy = |asked: &'static str| {
        call(
            "decide-logits",
            "[[decide * one=0.5 noise=1]]",
            asked,
            &["A", "B"],
        )
    };
    let one = read(&noisy(asked)).await.unwrap();
    assert_eq!(one, read(&noisy(asked)).await.unwrap());
    assert_ne!(one, read(&noisy("Which?\nA) two\nB) one\n")).await.unwrap());
    assert!(!near(&shares_of(&one), &[0.5, 0.5]));
}

#[tokio::test]
async fn only_top_logprobs_are_reported() {
    let labels = sim().labels(&ctx(), "decide-logprobs", 26).await.unwrap();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let lines: String = labels
        .iter()
        .map(|label| format!("{label}) option {label}\n"))
        .collect();
    let text = "[[decide * 'option A'=0.9 mass=0.8]]";
    let reading = read(&call("decide-logprobs", text, &lines, &labels))
        .await
        .unwrap();
    let actual = reading.logprobs.iter().flatten().count();
    assert!(reading.logprobs[0].is_some() && actual < 20, "{actual}");
    let rest = reading.rest.unwrap();
    assert!(reading.logprobs.iter().flatten().all(|one| *one >= rest));
    let refused = read(&call("decide-logprobs", "[[decide * refuse]]", &lines, &labels))
        .await
        .unwrap();
    assert!(refused.logprobs.iter().all(Option::is_none) && refused.rest.is_some());
}

fn drawing(answers: u32) -> Draw {
    Draw {
        answers,
        max_tokens: 16,
    }
}

#[tokio::test]
async fn draws_follow_the_shares_and_the_seed() {
    let asked = "Which?\nA) one\nB) two\n";
    let text = "[[decide * one=0.8 mass=0.5]]";
    let draw = |seed| {
        let call = LabelCall {
            seed,
            ..call("decide-sampled", text, asked, &["A", "B"])
        };
        async move {
            sim()
                .draw_labels(&ctx(), &call, drawing(10_000))
                .await
                .unwrap()
                .unwrap()
        }
    };
    let draws = draw(1).await;
    assert_eq!(draws.counts.iter().sum::<u32>() + draws.others, 10_000);
    assert!(
        draws.counts[0].abs_diff(4_000) < 300 && draws.counts[1].abs_diff(1_000) < 300,
        "{draws:?}"
    );
    assert_eq!(draws, draw(1).await);
    assert_ne!(draws, draw(2).await);
}

#[tokio::test]
async fn each_model_has_one_decision_way() {
    let sim = sim();
    let mut heard = State::default();
    heard.media.push(StateMedia {
        kind: StateMediaKind::Audio,
        url: "data:audio/wav;base64,AAAA".to_owned(),
        param: "state".to_owned(),
    });
    for (model, source, hears) in [
        ("decide", Some(DecisionSource::Native), false),
        ("decide-audio", Some(DecisionSource::Native), true),
        ("decide-logits", Some(DecisionSource::Logits), false),
        ("decide-logprobs", Some(DecisionSource::TopLogprobs), false),
        ("decide-sampled", Some(DecisionSource::Sampled), false),
        ("chat", None, false),
    ] {
        let ways = sim.decision_ways(model, &State::default());
        assert_eq!(ways.first().map(|way| way.source()), source, "{model}");
        assert_eq!(!sim.decision_ways(model, &heard).is_empty(), hears, "{model}");
        let call = call(model, "", "A) a\nB) b", &["A", "B"]);
        let drawn = sim.draw_labels(&ctx(), &call, drawing(1)).await.unwrap();
        assert_eq!(
            drawn.is_some(),
            source == Some(DecisionSource::Sampled),
            "{model}"
        );
        for way in [
            NATIVE,
            DecisionWay::Logits { labels: MAX_LABELS },
            DecisionWay::TopLogprobs { max: TOP_LOGPROBS },
        ] {
            let read = sim.read_labels(&ctx(), way, &call).await.unwrap();
            let expected = way.source() != DecisionSource::Native && ways.contains(&way);
            assert_eq!(read.is_some(), expected, "{model} {way:?}");
        }
    }
}

#[tokio::test]
async fn no_label_is_a_prefix_of_another() {
    for number in [2, 26, 27, 255] {
        let labels = sim().labels(&ctx(), "decide-logits", number).await.unwrap();
        assert_eq!(labels.len(), number);
        for one in &labels {
            let beginning = labels.iter().filter(|other| other.starts_with(one.as_str()));
            assert_eq!(beginning.count(), 1, "{one}");
        }
    }
}
