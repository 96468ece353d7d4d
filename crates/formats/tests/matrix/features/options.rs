//! Features about options of the response.

use serde_json::{Value, json};

use super::Feature;

/// Returns the feature of an option with its name in each format; an empty name means that the
/// format does not have the option.
fn option(name: &'static str, names: [&str; 5], value: &Value) -> Feature {
    let requests = names.map(|name| match name.split_once('.') {
        _ if name.is_empty() => Value::Null,
        None => json!({ name: value }),
        Some((object, name)) => json!({object: {name: value}}),
    });
    Feature::new(name, "", requests)
}

pub fn all() -> Vec<Feature> {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
    let named = json!({"name": "it", "schema": schema, "strict": true});
    let flat = json!({"type": "json_schema", "name": "it", "schema": schema, "strict": true});
    let object = json!({"type": "json_object"});
    let forced = json!({"type": "json_schema", "json_schema": named});
    let json_mode = "application/json";
    let lists = json!({"stop_sequences": ["END"]});
    let stops = json!({"stop": ["END"]});
    vec![
        Feature::new(
            "JSON object output",
            "",
            [
                json!({"response_format": object}),
                json!({"response_format": object}),
                json!({"response_format": object}),
                json!({"text": {"format": object}}),
                json!({"generationConfig": {"responseMimeType": json_mode}}),
            ],
        ),
        Feature::new(
            "JSON schema output",
            "required",
            [
                json!({"response_format": forced}),
                json!({"response_format": forced}),
                json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
                json!({"text": {"format": flat}}),
                json!({"generationConfig": {"responseMimeType": json_mode, "responseJsonSchema": schema}}),
            ],
        ),
        option(
            "cap on output",
            [
                "max_completion_tokens",
                "max_tokens",
                "max_tokens",
                "max_output_tokens",
                "generationConfig.maxOutputTokens",
            ],
            &json!(321),
        ),
        Feature::new(
            "stop sequences",
            "END",
            [
                stops.clone(),
                stops,
                lists,
                Value::Null,
                json!({"generationConfig": {"stopSequences": ["END"]}}),
            ],
        ),
        option(
            "temperature",
            [
                "temperature",
                "temperature",
                "temperature",
                "temperature",
                "generationConfig.temperature",
            ],
            &json!(0.5),
        ),
        option(
            "temperature above 1",
            [
                "temperature",
                "temperature",
                "",
                "temperature",
                "generationConfig.temperature",
            ],
            &json!(1.5),
        ),
        option(
            "`top_p`",
            ["top_p", "top_p", "top_p", "top_p", "generationConfig.topP"],
            &json!(0.5),
        ),
        option(
            "`top_k`",
            ["", "", "top_k", "", "generationConfig.topK"],
            &json!(40),
        ),
        option(
            "seed",
            ["seed", "seed", "", "", "generationConfig.seed"],
            &json!(7),
        ),
        option(
            "penalty on frequency",
            [
                "frequency_penalty",
                "frequency_penalty",
                "",
                "frequency_penalty",
                "generationConfig.frequencyPenalty",
            ],
            &json!(0.5),
        ),
        option(
            "penalty on presence",
            [
                "presence_penalty",
                "presence_penalty",
                "",
                "presence_penalty",
                "generationConfig.presencePenalty",
            ],
            &json!(0.5),
        ),
        option(
            "bias of tokens",
            ["logit_bias", "logit_bias", "", "", ""],
            &json!({"5": 10}),
        ),
        Feature::new(
            "log probabilities",
            "",
            [
                json!({"logprobs": true, "top_logprobs": 2}),
                json!({"logprobs": 2}),
                Value::Null,
                json!({"include": ["message.output_text.logprobs"], "top_logprobs": 2}),
                json!({"generationConfig": {"responseLogprobs": true, "logprobs": 2}}),
            ],
        ),
        option(
            "two answers",
            ["n", "n", "", "", "generationConfig.candidateCount"],
            &json!(2),
        ),
        option(
            "end user",
            ["user", "user", "metadata.user_id", "user", ""],
            &json!("ada"),
        ),
        option(
            "end user, for safety",
            [
                "safety_identifier",
                "safety_identifier",
                "",
                "safety_identifier",
                "",
            ],
            &json!("ada"),
        ),
        Feature {
            mark: "of the caller",
            ..option(
                "notes of the caller",
                ["metadata", "metadata", "", "metadata", ""],
                &json!({"note": "of the caller"}),
            )
        },
        option(
            "key of a cache",
            ["prompt_cache_key", "prompt_cache_key", "", "prompt_cache_key", ""],
            &json!("k"),
        ),
        Feature::new(
            "the default service tier",
            "",
            [
                Value::Null,
                Value::Null,
                json!({"service_tier": "standard_only"}),
                Value::Null,
                json!({"serviceTier": "STANDARD"}),
            ],
        ),
        option(
            "verbosity",
            ["verbosity", "", "", "text.verbosity", ""],
            &json!("low"),
        ),
        option(
            "settings of safety",
            ["", "", "", "", "safetySettings"],
            &json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]),
        ),
    ]
}
