//! Requests that are refused before the upstream is called. The error names the field as the caller
//! spelled it.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::{NATIVE, VECTORS, ask, assert_refused, saying, scene};

fn user(part: Value) -> Value {
    json!({"contents": [{"role": "user", "parts": [part]}]})
}

fn config(config: Value) -> Value {
    json!({"generationConfig": config})
}

#[tokio::test]
async fn every_invalid_field_has_its_code_and_parameter() {
    let scene = scene().await;
    let invalid = "invalid_parameter";
    let missing = "missing_required_parameter";
    let unsupported = "unsupported_parameter";
    let unknown = "unknown_parameter";
    let tools = json!([{"functionDeclarations": [{"name": "f"}]}]);
    let call = json!({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]});
    let cases: Vec<(Value, &str, &str)> = vec![
        (json!({"contents": null}), invalid, "contents"),
        (json!({"contents": []}), invalid, "contents"),
        (json!({"contents": "hi"}), invalid, "contents"),
        (
            json!({"contents": [{"role": "user"}]}),
            missing,
            "contents[0].parts",
        ),
        (json!({"contents": [{"parts": []}]}), invalid, "contents[0].parts"),
        (
            json!({"contents": [{"role": "assistant", "parts": [{"text": "x"}]}]}),
            invalid,
            "contents[0].role",
        ),
        (user(json!({})), invalid, "contents[0].parts[0]"),
        (user(json!({"text": 7})), invalid, "contents[0].parts[0].text"),
        (
            user(json!({"text": "a", "inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo="}})),
            invalid,
            "contents[0].parts[0].inline_data",
        ),
        (
            user(json!({"inlineData": {"data": "AA"}})),
            missing,
            "contents[0].parts[0].inlineData.mimeType",
        ),
        (
            user(json!({"inline_data": {"mime_type": "image/png"}})),
            missing,
            "contents[0].parts[0].inline_data.data",
        ),
        (
            user(json!({"inlineData": {"mimeType": "png", "data": "AA"}})),
            invalid,
            "contents[0].parts[0].inlineData.mimeType",
        ),
        (
            user(json!({"fileData": {"mimeType": "image/png"}})),
            missing,
            "contents[0].parts[0].fileData.fileUri",
        ),
        (
            user(json!({"fileData": {"mimeType": "image/png", "fileUri": "gs://b/a.png"}})),
            invalid,
            "contents[0].parts[0].fileData.fileUri",
        ),
        (
            user(json!({"fileData": {"mimeType": "video/mp4", "fileUri": "https://e.org/a"}})),
            unsupported,
            "contents[0].parts[0].fileData.mimeType",
        ),
        (
            user(json!({"functionCall": {"name": "f"}})),
            invalid,
            "contents[0].parts[0].functionCall",
        ),
        (
            user(json!({"executableCode": {}})),
            unsupported,
            "contents[0].parts[0].executableCode",
        ),
        (
            user(json!({"functionResponse": {"name": "f", "response": {}}})),
            invalid,
            "contents[0].parts[0].functionResponse.name",
        ),
        (
            user(json!({"functionResponse": {"response": {}}})),
            missing,
            "contents[0].parts[0].functionResponse.name",
        ),
        (
            user(json!({"functionResponse": {"name": "f"}})),
            missing,
            "contents[0].parts[0].functionResponse.response",
        ),
        (
            user(json!({"functionResponse": {"name": "f", "response": "x"}})),
            invalid,
            "contents[0].parts[0].functionResponse.response",
        ),
        (
            json!({"contents": [{"role": "model", "parts": [{"functionCall": {"args": {}}}]}]}),
            missing,
            "contents[0].parts[0].functionCall.name",
        ),
        (
            json!({"contents": [call, {"parts": [{"functionResponse": {"name": "g", "response": {}}}]}]}),
            invalid,
            "contents[1].parts[0].functionResponse.name",
        ),
        (
            json!({"systemInstruction": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "AA"}}]}}),
            invalid,
            "systemInstruction.parts[0].inlineData",
        ),
        (
            json!({"system_instruction": "be brief"}),
            invalid,
            "system_instruction",
        ),
        (json!({"temprature": 1}), unknown, "temprature"),
        (json!({"_contents": []}), unknown, "_contents"),
        (
            json!({"cachedContent": "cachedContents/x"}),
            unsupported,
            "cachedContent",
        ),
        (json!({"store": true}), unsupported, "store"),
        (json!({"serviceTier": "priority"}), unsupported, "serviceTier"),
        (json!({"labels": {"a": 1}}), invalid, "labels.a"),
        (
            json!({"safetySettings": [{"category": 1}]}),
            invalid,
            "safetySettings[0].category",
        ),
        (
            config(json!({"maxTokens": 5})),
            unknown,
            "generationConfig.maxTokens",
        ),
        (
            json!({"generation_config": {"max_output_tokens": 0}}),
            invalid,
            "generation_config.max_output_tokens",
        ),
        (
            json!({"generationConfig": {}, "generation_config": {}}),
            invalid,
            "generation_config",
        ),
        (
            config(json!({"topP": 0.5, "top_p": 0.5})),
            invalid,
            "generationConfig.top_p",
        ),
        (
            config(json!({"maxOutputTokens": 5_000})),
            "parameter_out_of_range",
            "generationConfig.maxOutputTokens",
        ),
        (
            config(json!({"temperature": 2.1})),
            invalid,
            "generationConfig.temperature",
        ),
        (
            config(json!({"temperature": -0.1})),
            invalid,
            "generationConfig.temperature",
        ),
        (config(json!({"topP": 1.01})), invalid, "generationConfig.topP"),
        (config(json!({"topK": 0})), invalid, "generationConfig.topK"),
        (config(json!({"top_k": 1.5})), invalid, "generationConfig.top_k"),
        (
            config(json!({"candidateCount": 0})),
            invalid,
            "generationConfig.candidateCount",
        ),
        (
            config(json!({"candidateCount": 9})),
            invalid,
            "generationConfig.candidateCount",
        ),
        (
            config(json!({"stopSequences": ["a", "b", "c", "d", "e", "f"]})),
            invalid,
            "generationConfig.stopSequences",
        ),
        (
            config(json!({"stopSequences": [""]})),
            invalid,
            "generationConfig.stopSequences[0]",
        ),
        (
            config(json!({"presencePenalty": 2.5})),
            invalid,
            "generationConfig.presencePenalty",
        ),
        (
            config(json!({"frequency_penalty": -2.5})),
            invalid,
            "generationConfig.frequency_penalty",
        ),
        (
            config(json!({"seed": 2_147_483_648_i64})),
            invalid,
            "generationConfig.seed",
        ),
        (
            config(json!({"responseLogprobs": true, "logprobs": 21})),
            invalid,
            "generationConfig.logprobs",
        ),
        (
            config(json!({"logprobs": 1})),
            invalid,
            "generationConfig.logprobs",
        ),
        (
            config(json!({"responseMimeType": "text/html"})),
            invalid,
            "generationConfig.responseMimeType",
        ),
        (
            config(json!({"responseMimeType": "text/x.enum"})),
            missing,
            "generationConfig.responseSchema",
        ),
        (
            config(json!({"responseSchema": {}})),
            invalid,
            "generationConfig.responseMimeType",
        ),
        (
            config(
                json!({"responseMimeType": "application/json", "responseSchema": {}, "responseJsonSchema": {}}),
            ),
            invalid,
            "generationConfig.responseSchema",
        ),
        (
            config(json!({"responseModalities": ["AUDIO"]})),
            unsupported,
            "generationConfig.responseModalities[0]",
        ),
        (
            config(json!({"speechConfig": {}})),
            unsupported,
            "generationConfig.speechConfig",
        ),
        (
            config(json!({"thinkingConfig": {"thinkingBudget": -2}})),
            invalid,
            "generationConfig.thinkingConfig.thinkingBudget",
        ),
        (
            config(json!({"thinkingConfig": {"thinkingLevel": "huge"}})),
            invalid,
            "generationConfig.thinkingConfig.thinkingLevel",
        ),
        (
            config(json!({"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 5}})),
            invalid,
            "generationConfig.thinkingConfig.thinkingLevel",
        ),
        (
            json!({"tools": [{"googleSearch": {}}]}),
            unsupported,
            "tools[0].googleSearch",
        ),
        (
            json!({"tools": [{"code_execution": {}}]}),
            unsupported,
            "tools[0].code_execution",
        ),
        (json!({"tools": [{"newTool": {}}]}), unknown, "tools[0].newTool"),
        (
            json!({"tools": [{"functionDeclarations": [{}]}]}),
            missing,
            "tools[0].functionDeclarations[0].name",
        ),
        (
            json!({"tools": [{"functionDeclarations": [{"name": "1f"}]}]}),
            invalid,
            "tools[0].functionDeclarations[0].name",
        ),
        (
            json!({"tools": [{"functionDeclarations": [{"name": "f", "parameters": {}, "parametersJsonSchema": {}}]}]}),
            invalid,
            "tools[0].functionDeclarations[0].parameters",
        ),
        (
            json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
            invalid,
            "toolConfig.functionCallingConfig",
        ),
        (
            json!({"tools": tools, "toolConfig": {"functionCallingConfig": {"mode": "SOME"}}}),
            invalid,
            "toolConfig.functionCallingConfig.mode",
        ),
        (
            json!({"tools": tools, "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f"]}}}),
            invalid,
            "toolConfig.functionCallingConfig.allowedFunctionNames",
        ),
    ];
    for (members, code, param) in cases {
        let body = saying("hi", members.clone());
        for action in ["generateContent", "streamGenerateContent?alt=sse"] {
            let response = ask(&scene, &format!("{NATIVE}:{action}"), &body).await;
            assert_refused(&members.to_string(), &response, code, Some(param));
        }
    }
    let response = ask(&scene, &format!("{NATIVE}:generateContent"), &json!({})).await;
    assert_refused("nothing", &response, missing, Some("contents"));
    let path = format!("/v1/models/{NATIVE}:generateContent");
    let broken = Request::post(&path, "{\"contents\": [")
        .header("content-type", "application/json")
        .header("x-goog-api-key", scene.key.secret.as_str());
    let response = scene.client().send(&broken).await;
    assert_refused("half a body", &response, "invalid_json", None);
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn values_at_the_bounds_are_accepted() {
    let scene = scene().await;
    for accepted in [
        json!({"temperature": 0, "topP": 0, "topK": 1, "candidateCount": 1, "maxOutputTokens": 1, "seed": -2_147_483_648_i64}),
        json!({"temperature": 2, "topP": 1, "topK": 40.0, "maxOutputTokens": 4_096, "seed": 2_147_483_647}),
        json!({"candidateCount": 8, "maxOutputTokens": 5, "stopSequences": ["a", "b", "c", "d", "e"]}),
        json!({"responseLogprobs": true, "logprobs": 20, "presencePenalty": 2, "frequencyPenalty": -2}),
        json!({"thinkingConfig": {"thinkingBudget": -1}, "responseModalities": ["TEXT"]}),
        json!({"thinkingConfig": {"thinkingLevel": "low"}, "mediaResolution": "MEDIA_RESOLUTION_LOW"}),
    ] {
        let body = saying("hi", config(accepted.clone()));
        let response = ask(&scene, &format!("{NATIVE}:generateContent"), &body).await;
        assert_eq!(response.status, 200, "{accepted}: {}", response.text());
    }
    scene.finish().await;
}

#[tokio::test]
async fn embedding_requests_are_validated() {
    let scene = scene().await;
    let one = format!("{VECTORS}:embedContent");
    let several = format!("{VECTORS}:batchEmbedContents");
    let text = json!({"parts": [{"text": "a"}]});
    let invalid = "invalid_parameter";
    let missing = "missing_required_parameter";
    let unsupported = "unsupported_parameter";
    let many: Vec<Value> = vec![json!({"content": text}); 101];
    for (target, body, code, param) in [
        (&one, json!({}), missing, "content"),
        (&one, json!({"content": {}}), missing, "content.parts"),
        (&one, json!({"content": {"parts": []}}), missing, "content.parts"),
        (
            &one,
            json!({"content": {"parts": [{"text": ""}]}}),
            invalid,
            "content.parts[0].text",
        ),
        (
            &one,
            json!({"content": {"parts": [{"inlineData": {}}]}}),
            unsupported,
            "content.parts[0]",
        ),
        (
            &one,
            json!({"content": {"parts": [{"text": "a"}, {"text": "b"}]}}),
            unsupported,
            "content.parts[1]",
        ),
        (
            &one,
            json!({"content": text, "outputDimensionality": 0}),
            invalid,
            "outputDimensionality",
        ),
        (
            &one,
            json!({"content": text, "output_dimensionality": 9}),
            "parameter_out_of_range",
            "outputDimensionality",
        ),
        (
            &one,
            json!({"content": text, "size": 1}),
            "unknown_parameter",
            "size",
        ),
        (&several, json!({}), missing, "requests"),
        (&several, json!({"requests": []}), invalid, "requests"),
        (&several, json!({"requests": many}), invalid, "requests"),
        (
            &several,
            json!({"requests": [{"content": text}, {"content": text, "taskType": "X"}]}),
            unsupported,
            "requests[1]",
        ),
    ] {
        let response = ask(&scene, target, &body).await;
        assert_refused(&body.to_string(), &response, code, Some(param));
    }
    scene.nothing_happened().await;
    let query = json!({"content": text, "taskType": "RETRIEVAL_QUERY"});
    let response = ask(&scene, "sim/embeddings:embedContent", &query).await;
    assert_refused(
        "a kind of vector",
        &response,
        "unknown_parameter",
        Some("taskType"),
    );
    let response = ask(&scene, &one, &query).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json()["embedding"]["values"], json!([0.5, -0.25, 1.0]));
    scene.finish().await;
}
