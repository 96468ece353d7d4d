//! Encoding of questions for an upstream.

use serde_json::{Map, Value, json};
use tollgate_types::decide::{
    ChoiceOption, FunctionTool, Level, Question, QuestionKind, State, StateMedia, StateMediaKind,
};

use super::Shape;
use crate::decisions::keys;
use crate::decisions::marker::{StatePart, state_parts};

/// Encodes a request in this shape. Features that [`check_compatible`](super::check_compatible)
/// refuses are encoded in Tollgate's own dialect.
pub fn ask(shape: Shape, model: &str, state: &State, questions: &[Question]) -> Vec<u8> {
    let (name, state) = match shape {
        Shape::SystemOne | Shape::OpenRouter => ("state", content(state, "text", medium)),
        Shape::Google => ("input", content(state, "text", interaction_part)),
        Shape::OpenAi => ("input", message(content(state, "input_text", responses_part))),
    };
    let questions: Value = match shape {
        Shape::OpenAi => questions.iter().map(openai_question).collect(),
        _ => {
            let named = questions
                .iter()
                .map(|decision_question| (decision_question.id.clone(), question(decision_question, shape)));
            Value::Object(named.collect())
        }
    };
    let mut body = Map::from_iter([("model".to_owned(), json!(model))]);
    body.insert(name.to_owned(), state);
    body.insert("questions".to_owned(), questions);
    Value::Object(body).to_string().into_bytes()
}

/// Returns the content of a state: a text, or a list of parts if the state has media.
fn content(state: &State, text_type: &str, write: fn(&StateMedia) -> Value) -> Value {
    if state.media.is_empty() {
        return json!(state.text);
    }
    let state_parts = state_parts(state).into_iter().map(|part| match part {
        StatePart::Text(text) => json!({"type": text_type, "text": text}),
        StatePart::Medium(medium) => write(medium),
    });
    state_parts.collect()
}

/// Wraps the content for OpenAI, whose `input` is a text or a list of messages.
fn message(content: Value) -> Value {
    match content {
        Value::Array(_) => json!([{"role": "user", "content": content}]),
        text => text,
    }
}

/// Returns the media part in the format of chat completions.
fn medium(medium: &StateMedia) -> Value {
    let url = &medium.url;
    match medium.kind {
        StateMediaKind::Image => json!({"type": "image_url", "image_url": {"url": url}}),
        StateMediaKind::Audio => json!({"type": "audio_url", "audio_url": {"url": url}}),
        StateMediaKind::Video => json!({"type": "video_url", "video_url": {"url": url}}),
    }
}

/// Returns the media part in the format of responses, which support only images; audio and video
/// have the format of chat completions.
fn responses_part(part: &StateMedia) -> Value {
    match part.kind {
        StateMediaKind::Image => json!({"type": "input_image", "image_url": part.url}),
        _ => medium(part),
    }
}

/// Returns the media part in the format of Gemini's interactions.
fn interaction_part(medium: &StateMedia) -> Value {
    let kind = medium.kind.as_str();
    let inline = medium
        .url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"));
    match inline {
        Some((mime, data)) => json!({"type": kind, "data": data, "mime_type": mime}),
        None => json!({"type": kind, "uri": medium.url}),
    }
}

/// Encodes a question in System One's shape, or in the variant of Google or OpenRouter.
fn question(question: &Question, shape: Shape) -> Value {
    let mut out = match &question.kind {
        QuestionKind::Noul { yes, no } => {
            let mut out = json!({"type": "noul"});
            if let Some(criteria) = meanings(yes.as_deref(), no.as_deref(), shape) {
                out["criteria"] = criteria;
            }
            out
        }
        QuestionKind::Choice { options } => json!({"type": "choice", "criteria": described(options, shape)}),
        QuestionKind::Score { levels } => {
            json!({"type": "score", "criteria": levels.iter().map(level).collect::<Vec<_>>()})
        }
        QuestionKind::Tool { tools, required } => json!({
            "type": "tool",
            "tools": tools.iter().map(tool).collect::<Vec<_>>(),
            "tool_choice": if *required { "required" } else { "auto" },
        }),
    };
    out["instructions"] = json!(question.instructions);
    if question.abstain {
        out["abstain"] = json!(true);
    }
    out
}

/// Returns the criteria of a yes-or-no question; `None` if both meanings are missing.
fn meanings(yes: Option<&str>, no: Option<&str>, shape: Shape) -> Option<Value> {
    yes.or(no)?;
    let (yes_key, no_key) = match shape {
        Shape::Google => ("true_description", "false_description"),
        _ => ("true", "false"),
    };
    // OpenRouter requires both criteria or none.
    let otherwise = (shape == Shape::OpenRouter).then_some("Otherwise.");
    let named = [(yes_key, yes.or(otherwise)), (no_key, no.or(otherwise))];
    let criteria = named
        .into_iter()
        .filter_map(|(key, text)| Some((key.to_owned(), json!(text?))));
    Some(Value::Object(criteria.collect()))
}

/// Returns the options with their descriptions. A missing description is an empty text for Google
/// and null for the other shapes.
fn described(options: &[ChoiceOption], shape: Shape) -> Value {
    let named = keys::for_options(options).into_iter().zip(options);
    let meaning = |option: &ChoiceOption| match (&option.description, shape) {
        (Some(text), _) => json!(text),
        (None, Shape::Google) => json!(""),
        (None, _) => Value::Null,
    };
    Value::Object(named.map(|(key, option)| (key, meaning(option))).collect())
}

fn level(level: &Level) -> String {
    match &level.description {
        Some(description) => format!("{}: {description}", level.label),
        None => level.label.clone(),
    }
}

fn tool(tool: &FunctionTool) -> Value {
    let mut function = json!({"name": tool.name, "parameters": tool.parameters});
    if let Some(description) = &tool.description {
        function["description"] = json!(description);
    }
    json!({"type": "function", "function": function})
}

fn openai_question(decision_question: &Question) -> Value {
    let mut out = match &decision_question.kind {
        QuestionKind::Noul { .. } => json!({"type": "predicate"}),
        QuestionKind::Choice { options } => {
            let choices = options
                .iter()
                .map(|option| with_description("value", option.value.clone(), option.description.as_deref()));
            json!({"type": "choice", "choices": choices.collect::<Vec<_>>()})
        }
        QuestionKind::Score { levels } => {
            let levels = levels
                .iter()
                .map(|level| with_description("label", json!(level.label), level.description.as_deref()));
            json!({"type": "score", "levels": levels.collect::<Vec<_>>()})
        }
        QuestionKind::Tool { .. } => question(decision_question, Shape::OpenAi),
    };
    out["name"] = json!(decision_question.id);
    out["instructions"] = json!(predicate_instructions(decision_question));
    if decision_question.abstain {
        out["abstain"] = json!(true);
    }
    out
}

fn with_description(key: &str, value: Value, description: Option<&str>) -> Value {
    let mut out = Map::from_iter([(key.to_owned(), value)]);
    if let Some(description) = description {
        out.insert("description".to_owned(), json!(description));
    }
    Value::Object(out)
}

/// Returns the instructions of a question. The meanings of a yes-or-no question are appended,
/// because OpenAI has no separate member for them.
fn predicate_instructions(question: &Question) -> String {
    let mut text = question.instructions.clone();
    if let QuestionKind::Noul { yes, no } = &question.kind {
        for (when, meaning) in [("True", yes), ("False", no)] {
            if let Some(meaning) = meaning {
                text.push_str(&format!("\n{when} when: {meaning}"));
            }
        }
    }
    text
}
