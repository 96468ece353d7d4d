//! The common form as JSON, for the golden files. The patterns name every field, so that new fields
//! cause a compile error. Most null, false and empty values are omitted.

use serde_json::{Map, Value, json};
use tollgate_types::Usage;
use tollgate_types::generate::{
    CacheLife, Choice, File, GenerateRequest, GenerateResponse, Message, Part, Reasoning, ResponseFormat,
    Sampling, Seal, Stored, Tool, ToolCall, ToolChoice,
};
use tollgate_types::stream::StreamEvent;

/// Returns an object of the fields whose values are not null, false, or an empty array or object.
fn object(fields: Vec<(&str, Value)>) -> Value {
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let fields = fields.into_iter().filter(|(_, value)| is_set(value));
    Value::Object(
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<Map<_, _>>(),
    )
}

fn list<T>(items: &[T], write: impl Fn(&T) -> Value) -> Value {
    Value::Array(items.iter().map(write).collect())
}

pub fn request(request: &GenerateRequest) -> Value {
    let GenerateRequest {
        model,
        messages,
        max_tokens,
        n,
        stream,
        include_usage,
        stop,
        sampling,
        tools,
        tool_choice,
        parallel_tool_calls,
        response_format,
        reasoning_effort,
        thinking,
        hide_reasoning,
        user,
        top_logprobs,
        extra,
    } = request;
    let Sampling {
        temperature,
        top_p,
        top_k,
        frequency_penalty,
        presence_penalty,
        seed,
    } = sampling;
    object(vec![
        ("model", json!(model)),
        ("messages", list(messages, message)),
        ("max_tokens", json!(max_tokens)),
        ("n", json!(n)),
        ("stream", json!(stream)),
        ("include_usage", json!(include_usage)),
        ("stop", json!(stop)),
        ("temperature", json!(temperature)),
        ("top_p", json!(top_p)),
        ("top_k", json!(top_k)),
        ("frequency_penalty", json!(frequency_penalty)),
        ("presence_penalty", json!(presence_penalty)),
        ("seed", json!(seed)),
        ("tools", list(tools, tool)),
        ("tool_choice", choice_of_tool(tool_choice)),
        (
            "parallel_tool_calls",
            json!(parallel_tool_calls.map(|yes| if yes { "yes" } else { "no" })),
        ),
        ("response_format", format(response_format)),
        ("reasoning_effort", json!(reasoning_effort)),
        (
            "thinking",
            json!(thinking.map(|thinking| format!("{thinking:?}"))),
        ),
        ("hide_reasoning", json!(hide_reasoning)),
        ("user", json!(user)),
        ("top_logprobs", json!(top_logprobs)),
        ("extra", json!(extra)),
    ])
}

fn message(message: &Message) -> Value {
    let Message {
        role,
        parts,
        tool_calls,
        tool_call_id,
        is_error,
        place: _,
        name,
        extra,
    } = message;
    object(vec![
        ("role", json!(format!("{role:?}"))),
        ("name", json!(name)),
        ("parts", list(parts, part)),
        ("tool_calls", list(tool_calls, tool_call)),
        ("tool_call_id", json!(tool_call_id)),
        ("is_error", json!(is_error)),
        ("extra", json!(extra)),
    ])
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"text": text}),
        Part::Refusal(text) => json!({"refusal": text}),
        Part::Reasoning(Reasoning { text, seal: None }) => json!({"reasoning": text}),
        Part::Reasoning(Reasoning {
            text,
            seal: Some(Seal { origin, data }),
        }) => json!({"reasoning": text, "seal": {"origin": origin, "data": data}}),
        Part::Image { url, detail } => {
            json!({"image": object(vec![("url", json!(url)), ("detail", json!(detail))])})
        }
        Part::Audio { data, format } => json!({"audio": {"data": data, "format": format}}),
        Part::File(File {
            data,
            url,
            text,
            filename,
        }) => json!({"file": object(vec![
            ("data", json!(data)),
            ("url", json!(url)),
            ("text", json!(text)),
            ("filename", json!(filename)),
        ])}),
        Part::Stored(Stored {
            id,
            is_image,
            detail,
            filename,
            field,
        }) => json!({"stored": object(vec![
            ("id", json!(id)),
            ("is_picture", json!(is_image)),
            ("detail", json!(detail)),
            ("filename", json!(filename)),
            ("field", json!(field)),
        ])}),
        Part::CacheBreakpoint(CacheLife::FiveMinutes) => json!("cache breakpoint"),
        Part::CacheBreakpoint(CacheLife::OneHour) => json!("cache breakpoint for an hour"),
        Part::Foreign { kind, value } => json!({"foreign": kind, "value": value}),
    }
}

fn tool_call(call: &ToolCall) -> Value {
    let ToolCall {
        id,
        name,
        arguments,
        custom,
    } = call;
    object(vec![
        ("id", json!(id)),
        ("name", json!(name)),
        ("arguments", json!(arguments)),
        ("custom", json!(custom)),
    ])
}

fn tool(tool: &Tool) -> Value {
    match tool {
        Tool::Function {
            name,
            description,
            parameters,
            strict,
            cache,
        } => object(vec![
            ("function", json!(name)),
            ("description", json!(description)),
            ("parameters", json!(parameters)),
            ("strict", json!(strict)),
            ("cache", json!(cache.map(|life| format!("{life:?}")))),
        ]),
        Tool::Custom {
            name,
            description,
            format,
        } => object(vec![
            ("custom", json!(name)),
            ("description", json!(description)),
            ("format", json!(format)),
        ]),
        Tool::Foreign { name, kind, value } => json!({"foreign": kind, "name": name, "value": value}),
    }
}

fn choice_of_tool(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => Value::Null,
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => json!({"named": name}),
        ToolChoice::Allowed { required, names } => json!({"allowed": names, "required": required}),
    }
}

fn format(format: &ResponseFormat) -> Value {
    match format {
        ResponseFormat::Text => Value::Null,
        ResponseFormat::JsonObject => json!("json_object"),
        ResponseFormat::JsonSchema {
            name,
            description,
            schema,
            strict,
        } => object(vec![
            ("name", json!(name)),
            ("description", json!(description)),
            ("schema", json!(schema)),
            ("strict", json!(strict)),
        ]),
    }
}

pub fn response(response: &GenerateResponse) -> Value {
    let GenerateResponse {
        id,
        created,
        model,
        choices,
        usage,
        extra,
    } = response;
    object(vec![
        ("id", json!(id)),
        ("created", json!(created)),
        ("model", json!(model)),
        ("choices", list(choices, choice)),
        ("usage", usage.as_ref().map_or(Value::Null, quantities)),
        ("extra", json!(extra)),
    ])
}

fn choice(choice: &Choice) -> Value {
    let Choice {
        index,
        parts,
        tool_calls,
        finish,
        stop_sequence,
        logprobs,
        extra,
    } = choice;
    object(vec![
        ("index", json!(index)),
        ("parts", list(parts, part)),
        ("tool_calls", list(tool_calls, tool_call)),
        ("finish", json!(format!("{finish:?}"))),
        ("stop_sequence", json!(stop_sequence)),
        ("logprobs", json!(logprobs)),
        ("extra", json!(extra)),
    ])
}

fn quantities(usage: &Usage) -> Value {
    let classes: Map<String, Value> = usage
        .iter()
        .map(|(unit, quantity)| (unit.as_str().to_owned(), json!(quantity)))
        .collect();
    Value::Object(classes)
}

pub fn events(events: &[StreamEvent]) -> Value {
    list(events, event)
}

fn event(event: &StreamEvent) -> Value {
    match event {
        StreamEvent::Start { id, created, model } => {
            json!({"start": {"id": id, "created": created, "model": model}})
        }
        StreamEvent::Text {
            choice,
            text,
            logprobs,
        } => object(vec![
            ("choice", json!(choice)),
            ("text", json!(text)),
            ("logprobs", json!(logprobs)),
        ]),
        StreamEvent::Reasoning { choice, text } => json!({"choice": choice, "reasoning": text}),
        StreamEvent::ReasoningSeal {
            choice,
            seal: Seal { origin, data },
            hidden,
        } => object(vec![
            ("choice", json!(choice)),
            ("seal", json!({"origin": origin, "data": data})),
            ("hidden", json!(hidden)),
        ]),
        StreamEvent::Refusal { choice, text } => json!({"choice": choice, "refusal": text}),
        StreamEvent::ToolCallStart {
            choice,
            call,
            id,
            name,
        } => json!({"choice": choice, "call": call, "id": id, "name": name}),
        StreamEvent::ToolCallArguments {
            choice,
            call,
            arguments,
        } => json!({"choice": choice, "call": call, "arguments": arguments}),
        StreamEvent::Finish {
            choice,
            reason,
            stop_sequence,
        } => object(vec![
            ("choice", json!(choice)),
            ("finish", json!(format!("{reason:?}"))),
            ("stop_sequence", json!(stop_sequence)),
        ]),
        StreamEvent::Usage(usage) => json!({"usage": quantities(usage)}),
    }
}
