//! Typed decisions: `request.json` of a caller is read as `ir.json` and asked of an upstream as `forwarded.json`; what
//! that says, `response.json`, is told the caller as `relayed.json`. The first word of a case says how the upstream wants
//! to be asked.

use serde_json::{Map, Value, json};
use tollgate_formats::decisions::{
    Asked, InputTokens, ResponseFrame, Shape, answers, ask, carry, read, write,
};
use tollgate_types::Credits;
use tollgate_types::decide::{Question, QuestionKind};

use super::{Case, cases};

#[test]
fn decisions() {
    let cases = cases("decisions");
    assert!(cases.len() >= 6, "the cases are found");
    cases.iter().for_each(check);
}

fn check(case: &Case) {
    let shape = match case.name.split('_').next() {
        Some("openai") => Shape::OpenAi,
        Some("google") => Shape::Google,
        Some("openrouter") => Shape::OpenRouter,
        _ => Shape::SystemOne,
    };
    let asked = read(&case.read("request.json").unwrap()).unwrap();
    carry(shape, &asked.state, &asked.questions).unwrap();
    case.expect("ir.json", &pretty(&form(&asked)));
    let forwarded = ask(shape, "upstream-model", &asked.state, &asked.questions);
    case.expect("forwarded.json", &again(&forwarded));
    let response = case.read("response.json").unwrap();
    let (decisions, usage) = answers(shape, &response, &asked.questions).unwrap();
    let frame = ResponseFrame {
        id: "dec_1",
        created: 1_795_000_000,
        model: &asked.model,
        usage: InputTokens {
            state: usage.map_or(0, |usage| usage.total_input()),
            ..InputTokens::default()
        },
        cost: Credits::from_nanos(1_500),
    };
    case.expect("relayed.json", &again(&write(&asked, &decisions, &frame)));
}

fn again(body: &[u8]) -> String {
    pretty(&serde_json::from_slice(body).unwrap())
}

fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap())
}

fn form(asked: &Asked) -> Value {
    let media = asked.state.media.iter();
    let media =
        media.map(|medium| json!({"kind": medium.kind.as_str(), "url": medium.url, "param": medium.param}));
    json!({
        "model": asked.model,
        "dialect": format!("{:?}, {:?}", asked.dialect, asked.container),
        "text": asked.state.text.lines().collect::<Vec<_>>(),
        "media": media.collect::<Vec<_>>(),
        "questions": asked.questions.iter().map(question).collect::<Vec<_>>(),
        "options": format!("{:?}", asked.options),
        "ignored": asked.ignored,
    })
}

fn question(question: &Question) -> Value {
    let kind = match &question.kind {
        QuestionKind::Noul { yes, no } => json!({"noul": [yes, no]}),
        QuestionKind::Choice { options } => {
            let options = options
                .iter()
                .map(|option| json!([option.value, option.description]));
            json!({"choice": options.collect::<Vec<_>>()})
        }
        QuestionKind::Score { levels } => {
            let levels = levels.iter().map(|level| json!([level.label, level.description]));
            json!({"score": levels.collect::<Vec<_>>()})
        }
        QuestionKind::Tool { tools, required } => {
            let of_tool = |(name, values): (String, Vec<Value>)| (name, Value::Array(values));
            let tools = tools.iter().map(|tool| {
                let arguments = tool
                    .arguments()
                    .into_iter()
                    .map(|argument| (argument.name, argument.values));
                (tool.name.clone(), Value::Object(arguments.map(of_tool).collect()))
            });
            json!({"tool": tools.collect::<Map<_, _>>(), "required": required})
        }
    };
    json!({
        "id": question.id,
        "param": question.param,
        "instructions": question.instructions,
        "kind": kind,
        "abstain": question.abstain,
    })
}
