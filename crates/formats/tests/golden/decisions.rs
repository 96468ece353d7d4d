//! Golden files of typed decisions. `request.json` decodes to `ir.json` and is sent to an upstream
//! as `forwarded.json`. The upstream's response is `response.json`, and the caller receives it as
//! `relayed.json`. The first word of a case name is the shape of the upstream.

use serde_json::{Map, Value, json};
use tollgate_formats::decisions::{
    DecisionRequest, InputTokens, ResponseFrame, Shape, answers, ask, check_compatible, read, write,
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
    let request = read(&case.read("request.json").unwrap()).unwrap();
    check_compatible(shape, &request.state, &request.questions).unwrap();
    case.expect("ir.json", &pretty(&form(&request)));
    let forwarded = ask(shape, "upstream-model", &request.state, &request.questions);
    case.expect("forwarded.json", &again(&forwarded));
    let response = case.read("response.json").unwrap();
    let (decisions, usage) = answers(shape, &response, &request.questions).unwrap();
    let frame = ResponseFrame {
        id: "dec_1",
        created: 1_795_000_000,
        model: &request.model,
        usage: InputTokens {
            state: usage.map_or(0, |usage| usage.total_input()),
            ..InputTokens::default()
        },
        cost: Credits::from_nanos(1_500),
    };
    case.expect("relayed.json", &again(&write(&request, &decisions, &frame)));
}

fn again(body: &[u8]) -> String {
    pretty(&serde_json::from_slice(body).unwrap())
}

fn pretty(value: &Value) -> String {
    format!("{}\n", serde_json::to_string_pretty(value).unwrap())
}

fn form(request: &DecisionRequest) -> Value {
    let media = request.state.media.iter();
    let media =
        media.map(|medium| json!({"kind": medium.kind.as_str(), "url": medium.url, "param": medium.param}));
    json!({
        "model": request.model,
        "dialect": format!("{:?}, {:?}", request.dialect, request.container),
        "text": request.state.text.lines().collect::<Vec<_>>(),
        "media": media.collect::<Vec<_>>(),
        "questions": request.questions.iter().map(question).collect::<Vec<_>>(),
        "options": format!("{:?}", request.options),
        "ignored": request.ignored,
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
