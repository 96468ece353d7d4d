//! Properties of all typed decisions.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use tollgate_formats::decisions::{
    DecisionRequest, Dialect, InputTokens, ResponseFrame, Shape, StatePart, answers, ask, check_compatible,
    read, state_parts, write,
};
use tollgate_types::Credits;
use tollgate_types::decide::{
    Argument, ArgumentDecision, Decision, DecisionSource, Method, Question, QuestionKind, Verdict,
};

const SHAPES: [Shape; 4] = [Shape::SystemOne, Shape::OpenAi, Shape::Google, Shape::OpenRouter];

fn word() -> impl Strategy<Value = String> {
    "[a-z\"\\\\é\\[\\]]{1,6}"
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{1,20}", Just("see [image 1] and [ Audio 2 ]".to_owned())]
        .prop_filter("says something", |text| !text.trim().is_empty())
}

fn medium() -> impl Strategy<Value = Value> {
    let media = [
        json!("data:image/png;base64,iVBORw0KGgo="),
        json!({"type": "image_url", "image_url": {"url": "https://a.example/b"}}),
        json!({"type": "video", "uri": "https://a.example/c"}),
        json!({"inline_data": {"mime_type": "audio/wav", "data": "AA=="}}),
    ];
    select(media.to_vec())
}

/// Generates a state within the media limits of a request.
fn state() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null)
    ];
    let tree = leaf.prop_recursive(3, 12, 4, |inner| {
        let members = vec((word(), inner.clone()), 0..4);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::Array),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    let with_media =
        (tree, vec(medium(), 0..4)).prop_map(|(tree, media)| json!({"a": tree, "b": media, "c": ["d"]}));
    prop_oneof![text().prop_map(Value::from), with_media]
}

fn question() -> impl Strategy<Value = Value> {
    let words = |min, max| vec(word(), min..max).prop_map(distinct);
    let noul = Just(json!({"type": "noul"}));
    let choice = words(2, 9).prop_map(|words| json!({"type": "choice", "criteria": words}));
    let score = words(2, 9).prop_map(|words| json!({"type": "score", "levels": words}));
    let tool = (words(2, 6), words(1, 4), any::<bool>()).prop_map(|(values, names, required)| {
        let properties =
            json!({"why": {"enum": values}, "now": {"type": "boolean"}, "note": {"type": "string"}});
        let parameters = json!({"type": "object", "properties": properties});
        let tools = names
            .iter()
            .map(|name| json!({"type": "function", "name": name, "parameters": parameters}));
        let choice = if required { "required" } else { "auto" };
        json!({"type": "tool", "tools": tools.collect::<Vec<_>>(), "tool_choice": choice})
    });
    let kind = prop_oneof![noul, choice, score, tool];
    (kind, text(), any::<bool>()).prop_map(|(mut question, instructions, abstain)| {
        question["instructions"] = json!(instructions);
        if question["type"] != "tool" {
            question["abstain"] = json!(abstain);
        }
        question
    })
}

/// Appends a number to each word, so that all are distinct.
fn distinct(words: Vec<String>) -> Vec<String> {
    let numbered = words.into_iter().enumerate();
    numbered.map(|(place, word)| format!("{word}{place}")).collect()
}

fn body(name: &str, state: &Value, questions: &[Value], in_map: bool) -> Value {
    let container = match in_map {
        false => json!(questions),
        true => {
            let named = questions.iter().enumerate();
            Value::Object(
                named
                    .map(|(place, question)| (format!("q{place}"), question.clone()))
                    .collect(),
            )
        }
    };
    json!({"model": "m", name: state, "questions": container})
}

#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn request(body: &Value) -> DecisionRequest {
    read(body.to_string().as_bytes()).unwrap()
}

/// Returns `count` probabilities that sum to 1, derived from the weights.
fn distribution(weights: &[u32], count: usize) -> Vec<f64> {
    let weights: Vec<f64> = (0..count)
        .map(|place| f64::from(weights[place % weights.len()]) + 1.0)
        .collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn decision(question: &Question, weights: &[u32]) -> Decision {
    let decided = |argument: Argument| ArgumentDecision {
        probabilities: distribution(weights, argument.values.len()),
        argument,
    };
    let verdict = match &question.kind {
        QuestionKind::Noul { .. } => Verdict::Noul(distribution(weights, 2)[0]),
        QuestionKind::Choice { options } => Verdict::Choice(distribution(weights, options.len())),
        QuestionKind::Score { levels } => Verdict::Score(distribution(weights, levels.len())),
        QuestionKind::Tool { tools, required } => Verdict::Tool {
            probabilities: distribution(weights, tools.len() + usize::from(!required)),
            arguments: tools
                .iter()
                .map(|tool| tool.arguments().into_iter().map(decided).collect())
                .collect(),
        },
    };
    Decision {
        verdict,
        abstain: question.abstain.then(|| distribution(weights, 3)[1]),
        method: Some(Method {
            source: DecisionSource::Logits,
            permutations: 2,
            mass: Some(0.5),
            calls: 1,
            calibrated: None,
        }),
    }
}

/// Returns all probabilities of a decision.
fn numbers(decision: &Decision) -> Vec<f64> {
    let mut numbers: Vec<f64> = decision.abstain.into_iter().collect();
    match &decision.verdict {
        Verdict::Noul(yes) => numbers.push(*yes),
        Verdict::Choice(all) | Verdict::Score(all) => numbers.extend(all),
        Verdict::Tool {
            probabilities,
            arguments,
        } => {
            numbers.extend(probabilities);
            numbers.extend(
                arguments
                    .iter()
                    .flatten()
                    .flat_map(|argument| &argument.probabilities),
            );
        }
        Verdict::Refused | Verdict::Failed(_) => {}
    }
    numbers
}

/// Returns the properties of a question that every shape preserves. The position of the question in
/// the request is not one of them.
fn essence(question: &Question) -> (String, String, QuestionKind, bool) {
    (
        question.id.clone(),
        question.instructions.clone(),
        question.kind.clone(),
        question.abstain,
    )
}

fn frame() -> ResponseFrame<'static> {
    ResponseFrame {
        id: "dec_1",
        created: 1,
        model: "m",
        usage: InputTokens {
            state: 3,
            questions: 2,
            media: 1,
        },
        cost: Credits::from_nanos(1),
    }
}

/// Generates values of all types, to insert anywhere. Most of them are invalid there.
fn stray() -> impl Strategy<Value = Value> {
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1.5),
        json!(""),
        json!("a"),
        json!("data:image/png;base64,x"),
        json!([]),
        json!([""]),
        json!([[]]),
        json!({}),
        json!({"a": null}),
        json!({"type": "input_image"}),
        json!({"type": "tool", "instructions": "?", "tools": [{}]}),
        json!({"value": 1}),
    ];
    select(values.to_vec())
}

/// Replaces the value at a position of a tree.
fn damage(node: &mut Value, place: &Index, with: Value) {
    fn count(node: &Value) -> usize {
        1 + match node {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(members) => members.values().map(count).sum(),
            _ => 0,
        }
    }
    fn replace(node: &mut Value, place: &mut usize, with: &Value) {
        if *place == 0 {
            *node = with.clone();
        }
        *place = place.wrapping_sub(1);
        match node {
            Value::Array(items) => items.iter_mut().for_each(|item| replace(item, place, with)),
            Value::Object(members) => members.values_mut().for_each(|item| replace(item, place, with)),
            _ => {}
        }
    }
    let mut place = place.index(count(node));
    replace(node, &mut place, &with);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The text has exactly one marker for each medium, in order.
    #[test]
    fn markers_match_the_media(state in state()) {
        let request = request(&body("state", &state, &[json!({"type": "noul", "instructions": "?"})], false));
        let (mut joined, mut media) = (String::new(), Vec::new());
        for part in state_parts(&request.state) {
            match part {
                StatePart::Text(text) => joined.push_str(text),
                StatePart::Medium(medium) => {
                    prop_assert!(joined.ends_with(']'), "{} has no marker", medium.param);
                    media.push(medium.clone());
                }
            }
        }
        prop_assert_eq!(&joined, &request.state.text);
        prop_assert_eq!(&media, &request.state.media);
        let kinds = ["[image ", "[audio ", "[video "];
        let markers: usize = kinds.iter().map(|kind| joined.matches(kind).count()).sum();
        prop_assert_eq!(markers, media.len(), "{}", joined);
    }

    /// A request to an upstream decodes to the same questions and media.
    #[test]
    fn questions_round_trip_through_each_shape(
        state in state(),
        questions in vec(question(), 1..6),
        in_map in any::<bool>(),
    ) {
        let request = request(&body("state", &state, &questions, in_map));
        for shape in SHAPES {
            if check_compatible(shape, &request.state, &request.questions).is_err() {
                continue;
            }
            let again = read(&ask(shape, "up", &request.state, &request.questions)).unwrap();
            let expected: Vec<_> = request.questions.iter().map(essence).collect();
            prop_assert_eq!(again.questions.iter().map(essence).collect::<Vec<_>>(), expected);
            let media = |request: &DecisionRequest| request.state.media.iter().map(|medium| (medium.kind, medium.url.clone())).collect::<Vec<_>>();
            prop_assert_eq!(media(&again), media(&request));
            let dialect = match shape {
                Shape::SystemOne | Shape::OpenRouter => Dialect::Native,
                Shape::OpenAi => Dialect::OpenAi,
                Shape::Google => Dialect::Google,
            };
            prop_assert_eq!((again.dialect, again.model.as_str()), (dialect, "up"));
        }
    }

    /// Responses in every dialect preserve the decisions.
    #[test]
    fn answers_survive_every_dialect(
        questions in vec(question(), 1..6),
        in_map in any::<bool>(),
        name in select(vec!["state", "input"]),
        weights in vec(0..1_000_u32, 1..8),
    ) {
        let request = request(&body(name, &json!("text"), &questions, in_map));
        let decisions: Vec<Decision> = request.questions.iter().map(|question| decision(question, &weights)).collect();
        let written = write(&request, &decisions, &frame());
        let mut plain: Value = serde_json::from_slice(&written).unwrap();
        // Removes the names: generated names are null, and names are not compared.
        if let Value::Array(items) = &mut plain["answers"] {
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|item: &mut Map<_, _>| {
                item.shift_remove("name");
            });
        }
        let (again, usage) = answers(Shape::SystemOne, plain.to_string().as_bytes(), &request.questions).unwrap();
        prop_assert_eq!(usage.map(|usage| usage.total_input()), Some(6));
        for (found, expected) in again.iter().zip(&decisions) {
            let (found, expected) = (numbers(found), numbers(expected));
            prop_assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(&expected) {
                prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
            }
        }
    }

    /// A damaged request is refused, or decodes to a valid request.
    #[test]
    fn damaged_requests_only_cause_errors(
        state in state(),
        questions in vec(question(), 1..4),
        in_map in any::<bool>(),
        name in select(vec!["state", "input"]),
        places in vec((any::<Index>(), stray()), 1..3),
    ) {
        let mut body = body(name, &state, &questions, in_map);
        places.into_iter().for_each(|(place, with)| damage(&mut body, &place, with));
        match read(body.to_string().as_bytes()) {
            Ok(request) => {
                prop_assert!((1..=128).contains(&request.questions.len()));
                prop_assert!(!request.state.text.trim().is_empty());
                prop_assert!(read(&ask(Shape::SystemOne, "up", &request.state, &request.questions)).is_ok(), "{}", body);
            }
            Err(error) => prop_assert!(error.message.len() < 400, "{}", error.message),
        }
    }

    /// No response of an upstream makes a parser panic, and accepted values are plausible.
    #[test]
    fn damaged_answers_only_cause_errors(
        questions in vec(question(), 1..4),
        in_map in any::<bool>(),
        weights in vec(0..1_000_u32, 1..8),
        place in any::<Index>(),
        with in stray(),
        bytes in vec(any::<u8>(), 0..60),
    ) {
        let request = request(&body("state", &json!("text"), &questions, in_map));
        let decisions: Vec<Decision> = request.questions.iter().map(|question| decision(question, &weights)).collect();
        let mut body: Value = serde_json::from_slice(&write(&request, &decisions, &frame())).unwrap();
        damage(&mut body, &place, with);
        for shape in SHAPES {
            let _ = answers(shape, &bytes, &request.questions).is_ok();
            if let Ok((found, _)) = answers(shape, body.to_string().as_bytes(), &request.questions) {
                prop_assert_eq!(found.len(), request.questions.len());
                prop_assert!(found.iter().flat_map(numbers).all(|number| (0.0..=1.0).contains(&number)));
            }
        }
        let _ = read(&bytes).is_ok();
    }
}
