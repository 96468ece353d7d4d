//! Token counts in four formats: one token for each byte of the request. Members that the
//! provider's count endpoint does not support are refused, as the provider does.

use serde_json::{Value, json};

use super::reply::Reply;

/// The count endpoint of a provider: the end of its path, the JSON pointer to the counted request
/// in the body, the allowed members, and the member with the count.
struct Count {
    end: &'static str,
    position: &'static str,
    members: &'static [&'static str],
    name: &'static str,
}

const COUNTS: &[Count] = &[
    Count {
        end: "/messages/count_tokens",
        position: "",
        members: &[
            "messages",
            "model",
            "cache_control",
            "output_config",
            "system",
            "thinking",
            "tool_choice",
            "tools",
        ],
        name: "input_tokens",
    },
    Count {
        end: "/responses/input_tokens",
        position: "",
        members: &[
            "conversation",
            "input",
            "instructions",
            "model",
            "parallel_tool_calls",
            "previous_response_id",
            "reasoning",
            "text",
            "tool_choice",
            "tools",
            "truncation",
        ],
        name: "input_tokens",
    },
    Count {
        end: "/count-tokens",
        position: "/input/converse",
        members: &["messages", "system", "toolConfig", "additionalModelRequestFields"],
        name: "inputTokens",
    },
];

const VERTEX: Count = Count {
    end: ":countTokens",
    position: "",
    members: &[
        "endpoint",
        "model",
        "instances",
        "contents",
        "systemInstruction",
        "tools",
        "generationConfig",
    ],
    name: "totalTokens",
};

const GEMINI: Count = Count {
    end: ":countTokens",
    position: "/generateContentRequest",
    members: &[
        "model",
        "contents",
        "tools",
        "toolConfig",
        "safetySettings",
        "systemInstruction",
        "generationConfig",
        "cachedContent",
        "serviceTier",
        "store",
    ],
    name: "totalTokens",
};

/// Whether a path is a count endpoint.
pub(super) fn is_count(path: &str) -> bool {
    path.ends_with(GEMINI.end) || COUNTS.iter().any(|count| path.ends_with(count.end))
}

/// Returns the token count of a request, or the error for an invalid request.
pub(super) fn reply(path: &str, body: &[u8]) -> Reply {
    let google = match path.contains("/projects/") {
        true => &VERTEX,
        false => &GEMINI,
    };
    let count = COUNTS.iter().find(|count| path.ends_with(count.end));
    let count = count.unwrap_or(google);
    let refused = |message: &str| Reply::error(400, "invalid_request", message);
    let Ok(request) = serde_json::from_slice::<Value>(body) else {
        return refused("We could not parse the JSON body of your request.");
    };
    let Some(counted) = request.pointer(count.position).and_then(Value::as_object) else {
        return refused("There is nothing to count.");
    };
    if let Some(name) = counted
        .keys()
        .find(|name| !count.members.contains(&name.as_str()))
    {
        return refused(&format!("{name}: Extra inputs are not permitted"));
    }
    let names_model = counted.get("model").and_then(Value::as_str);
    let is_named = match count.name {
        "totalTokens" if count.position.is_empty() => true,
        "totalTokens" => names_model.is_some_and(|model| path.contains(&format!("/{model}:"))),
        "inputTokens" => true,
        _ => names_model.is_some(),
    };
    if !is_named {
        return refused("you must provide a model parameter");
    }
    let answer = json!({count.name: body.len(), "object": "count"});
    Reply::body(200, "application/json", answer.to_string())
}
