//! Tables with valid and invalid values for every rule.

use tollgate_types::ErrorCode;
use tollgate_types::ErrorCode::{InvalidJson, InvalidParameter, MissingRequiredParameter, UnknownParameter};

use super::super::{ChatHead, Field, MaxTokens, Media, ResponseFormatKind, check_unknown, decode_request};
use super::validate;

const HELLO: &str = r#"{"role":"user","content":"hello"}"#;

/// Returns a request with these additional top-level fields.
fn with_fields(fields: &str) -> String {
    format!(r#"{{"model":"m","messages":[{HELLO}],{fields}}}"#)
}

/// Returns a request with these messages.
fn with_messages(messages: &str) -> String {
    format!(r#"{{"model":"m","messages":[{messages}]}}"#)
}

/// Returns a request with one user message of this content.
fn with_content(content: &str) -> String {
    with_messages(&format!(r#"{{"role":"user","content":{content}}}"#))
}

#[track_caller]
fn accepted(body: &str) -> ChatHead<'_> {
    let head = validate(body.as_bytes()).unwrap_or_else(|error| panic!("{error} in {body}"));
    decode_request(body.as_bytes()).unwrap_or_else(|error| panic!("decode: {error} in {body}"));
    head
}

#[track_caller]
fn refused(body: &str, code: ErrorCode, param: &str) {
    let error = validate(body.as_bytes()).expect_err(body);
    let found = (error.code, error.param.as_deref().unwrap_or(""));
    assert_eq!(found, (code, param), "{error} in {body}");
    assert_eq!(decode_request(body.as_bytes()).expect_err(body), error);
}

#[test]
fn fields_within_bounds_are_accepted() {
    let cases = [
        r#""temperature":0"#,
        r#""temperature":2"#,
        r#""temperature":2.0"#,
        r#""temperature":null"#,
        r#""top_p":0"#,
        r#""top_p":1"#,
        r#""frequency_penalty":-2"#,
        r#""frequency_penalty":2"#,
        r#""presence_penalty":-2.0"#,
        r#""presence_penalty":2"#,
        r#""n":1"#,
        r#""n":128"#,
        r#""seed":-9223372036854775808"#,
        r#""seed":9223372036854775807"#,
        r#""stop":"x""#,
        r#""stop":[]"#,
        r#""stop":["a","b","c","d"]"#,
        r#""stop":null"#,
        r#""logprobs":true"#,
        r#""logprobs":true,"top_logprobs":0"#,
        r#""top_logprobs":20,"logprobs":true"#,
        r#""logit_bias":{}"#,
        r#""logit_bias":{"1":-100,"2":100,"3":0.5}"#,
        r#""max_tokens":1"#,
        r#""max_completion_tokens":9223372036854775807"#,
        r#""max_tokens":5,"max_completion_tokens":5"#,
        r#""max_tokens":null,"max_completion_tokens":5"#,
        r#""stream":false"#,
        r#""stream":true,"stream_options":{}"#,
        r#""stream_options":{"include_usage":true,"include_obfuscation":false},"stream":true"#,
        r#""stream_options":null"#,
        r#""stream":true,"stream_options":{"include_usage":null,"continuous_usage_stats":true}"#,
        r#""response_format":{"type":"text"}"#,
        r#""response_format":{"type":"json_object"}"#,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"A-b_9"}}"#,
        r#""response_format":{"json_schema":{"schema":{"type":"object"},"strict":null,"name":"x","description":"d"},"type":"json_schema"}"#,
        r#""tools":[]"#,
        r#""tools":[{"type":"function","function":{"name":"f"}}]"#,
        r#""tools":[{"function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true},"type":"function"}]"#,
        r#""tools":[{"type":"function","function":{"name":"f","description":null,"parameters":null,"strict":null}}]"#,
        r#""tools":[{"type":"custom","custom":{"name":"c"}}]"#,
        r#""tools":[{"type":"custom","custom":{"name":"c","description":"d","format":{"type":"text"}}}]"#,
        r#""tools":[{"type":"custom","custom":{"name":"c","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: x"}}}}]"#,
        r#""tool_choice":"none""#,
        r#""tool_choice":"auto""#,
        r#""tool_choice":"required""#,
        r#""tool_choice":{"type":"function","function":{"name":"f"}}"#,
        r#""tool_choice":{"custom":{"name":"c"},"type":"custom"}"#,
        r#""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}"#,
        r#""parallel_tool_calls":false"#,
        r#""reasoning_effort":"none""#,
        r#""reasoning_effort":"minimal""#,
        r#""reasoning_effort":"low""#,
        r#""reasoning_effort":"medium""#,
        r#""reasoning_effort":"high""#,
        r#""reasoning_effort":"xhigh""#,
        r#""reasoning_effort":"max""#,
        r#""verbosity":"low""#,
        r#""verbosity":"high""#,
        r#""metadata":{}"#,
        r#""metadata":{"k":"v"}"#,
        r#""service_tier":"auto""#,
        r#""service_tier":"default""#,
        r#""modalities":["text"]"#,
        r#""modalities":["text","audio"],"audio":{"voice":"alloy","format":"wav"}"#,
        r#""audio":{"voice":{"id":"v"},"format":"pcm16"}"#,
        r#""prediction":{"type":"content","content":"x"}"#,
        r#""prediction":{"type":"content","content":[{"type":"text","text":"x"}]}"#,
        r#""usage":{"include":true}"#,
        r#""prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{"mode":"implicit"}"#,
        r#""user":"u","store":true"#,
        r#""functions":[{"name":"f","parameters":{}}],"function_call":{"name":"f"}"#,
        r#""function_call":"auto""#,
    ];
    for fields in cases {
        accepted(&with_fields(fields));
    }
}

#[test]
fn fields_outside_bounds_are_refused() {
    let cases = [
        (r#""temperature":-0.1"#, "temperature"),
        (r#""temperature":2.01"#, "temperature"),
        (r#""temperature":"1""#, "temperature"),
        (r#""top_p":-0.1"#, "top_p"),
        (r#""top_p":1.1"#, "top_p"),
        (r#""frequency_penalty":-2.1"#, "frequency_penalty"),
        (r#""frequency_penalty":2.1"#, "frequency_penalty"),
        (r#""presence_penalty":-2.1"#, "presence_penalty"),
        (r#""presence_penalty":[]"#, "presence_penalty"),
        (r#""n":0"#, "n"),
        (r#""n":129"#, "n"),
        (r#""n":1.0"#, "n"),
        (r#""n":"1""#, "n"),
        (r#""seed":9223372036854775808"#, "seed"),
        (r#""seed":1.5"#, "seed"),
        (r#""seed":-0"#, "seed"),
        (r#""stop":["a","b","c","d","e"]"#, "stop"),
        (r#""stop":7"#, "stop"),
        (r#""stop":["a",7]"#, "stop[1]"),
        (r#""logprobs":1"#, "logprobs"),
        (r#""logprobs":true,"top_logprobs":21"#, "top_logprobs"),
        (r#""logprobs":true,"top_logprobs":-1"#, "top_logprobs"),
        (r#""top_logprobs":3"#, "top_logprobs"),
        (r#""logprobs":false,"top_logprobs":3"#, "top_logprobs"),
        (r#""logit_bias":{"50256":101}"#, "logit_bias.50256"),
        (r#""logit_bias":{"50256":-101}"#, "logit_bias.50256"),
        (r#""logit_bias":{"50256":null}"#, "logit_bias.50256"),
        (r#""logit_bias":[]"#, "logit_bias"),
        (r#""max_tokens":0"#, "max_tokens"),
        (r#""max_tokens":-1"#, "max_tokens"),
        (r#""max_tokens":256.0"#, "max_tokens"),
        (r#""max_tokens":18446744073709551615"#, "max_tokens"),
        (r#""max_completion_tokens":0"#, "max_completion_tokens"),
        (r#""max_tokens":5,"max_completion_tokens":6"#, "max_tokens"),
        (r#""stream":"true""#, "stream"),
        (r#""stream_options":{}"#, "stream_options"),
        (
            r#""stream_options":{"include_usage":true},"stream":false"#,
            "stream_options",
        ),
        (r#""stream":true,"stream_options":true"#, "stream_options"),
        (
            r#""stream":true,"stream_options":{"include_usage":1}"#,
            "stream_options.include_usage",
        ),
        (
            r#""stream":true,"stream_options":{"include_obfuscation":""}"#,
            "stream_options.include_obfuscation",
        ),
        (r#""response_format":"json_object""#, "response_format"),
        (r#""response_format":{"type":"json"}"#, "response_format.type"),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":""}}"#,
            "response_format.json_schema.name",
        ),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":"a b"}}"#,
            "response_format.json_schema.name",
        ),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":"x","schema":"y"}}"#,
            "response_format.json_schema.schema",
        ),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":"x","strict":"y"}}"#,
            "response_format.json_schema.strict",
        ),
        (r#""tools":{}"#, "tools"),
        (r#""tools":["f"]"#, "tools[0]"),
        (r#""tools":[{"type":"web_search"}]"#, "tools[0].type"),
        (
            r#""tools":[{"type":"function","function":{"name":""}}]"#,
            "tools[0].function.name",
        ),
        (
            r#""tools":[{"type":"function","function":{"name":"f","parameters":[]}}]"#,
            "tools[0].function.parameters",
        ),
        (
            r#""tools":[{"type":"function","function":{"name":"f","strict":1}}]"#,
            "tools[0].function.strict",
        ),
        (
            r#""tools":[{"type":"custom","custom":{"name":"f","format":{"type":"xml"}}}]"#,
            "tools[0].custom.format.type",
        ),
        (
            r#""tools":[{"type":"custom","custom":{"name":"f","format":{"type":"grammar","grammar":{"syntax":"bnf","definition":""}}}}]"#,
            "tools[0].custom.format.grammar.syntax",
        ),
        (r#""tool_choice":"any""#, "tool_choice"),
        (r#""tool_choice":7"#, "tool_choice"),
        (r#""tool_choice":{"type":"tool"}"#, "tool_choice.type"),
        (
            r#""tool_choice":{"type":"function","function":{"name":7}}"#,
            "tool_choice.function.name",
        ),
        (
            r#""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"any","tools":[]}}"#,
            "tool_choice.allowed_tools.mode",
        ),
        (r#""parallel_tool_calls":"no""#, "parallel_tool_calls"),
        (r#""reasoning_effort":"extreme""#, "reasoning_effort"),
        (r#""reasoning_effort":3"#, "reasoning_effort"),
        (r#""verbosity":"loud""#, "verbosity"),
        (r#""metadata":{"k":7}"#, "metadata.k"),
        (r#""metadata":{"k":"v","k":"w"}"#, "metadata.k"),
        (r#""service_tier":"gold""#, "service_tier"),
        (r#""store":"yes""#, "store"),
        (r#""modalities":[]"#, "modalities"),
        (r#""modalities":["video"]"#, "modalities[0]"),
        (r#""audio":{"voice":7,"format":"wav"}"#, "audio.voice"),
        (r#""audio":{"voice":"a","format":"ogg"}"#, "audio.format"),
        (r#""prediction":{"type":"text","content":"x"}"#, "prediction.type"),
        (r#""prompt_cache_retention":"1h""#, "prompt_cache_retention"),
        (r#""user":7"#, "user"),
        (r#""function_call":"required""#, "function_call"),
    ];
    for (fields, param) in cases {
        refused(&with_fields(fields), InvalidParameter, param);
    }
}

#[test]
fn counted_bounds_hold_on_both_sides() {
    let tools = |count: usize| {
        let tool = r#"{"type":"function","function":{"name":"f"}}"#;
        with_fields(&format!(r#""tools":[{}]"#, vec![tool; count].join(",")))
    };
    assert_eq!(accepted(&tools(128)).tools, 128);
    refused(&tools(129), InvalidParameter, "tools");

    let metadata = |count: usize, key: usize, value: usize| {
        let entries: Vec<String> = (0..count)
            .map(|entry| format!(r#""{entry:0key$}":"{}""#, "é".repeat(value)))
            .collect();
        with_fields(&format!(r#""metadata":{{{}}}"#, entries.join(",")))
    };
    accepted(&metadata(16, 64, 512));
    refused(&metadata(17, 2, 1), InvalidParameter, "metadata");
    refused(&metadata(1, 65, 1), InvalidParameter, "metadata");
    refused(&metadata(1, 1, 513), InvalidParameter, "metadata.0");

    let text = |field: &str, length: usize| with_fields(&format!(r#""{field}":"{}""#, "x".repeat(length)));
    accepted(&text("safety_identifier", 128));
    refused(
        &text("safety_identifier", 129),
        InvalidParameter,
        "safety_identifier",
    );

    let schema = |length: usize| {
        let name = "x".repeat(length);
        with_fields(&format!(
            r#""response_format":{{"type":"json_schema","json_schema":{{"name":"{name}"}}}}"#
        ))
    };
    accepted(&schema(64));
    refused(&schema(65), InvalidParameter, "response_format.json_schema.name");
}

#[test]
fn required_fields_are_missed() {
    let cases = [
        ("{}".to_owned(), "model"),
        (format!(r#"{{"messages":[{HELLO}]}}"#), "model"),
        (r#"{"model":"m"}"#.to_owned(), "messages"),
        (with_messages("{}"), "messages[0].role"),
        (with_messages(r#"{"content":"x"}"#), "messages[0].role"),
        (with_messages(r#"{"role":"user"}"#), "messages[0].content"),
        (with_messages(r#"{"role":"system"}"#), "messages[0].content"),
        (
            with_messages(r#"{"role":"function","content":"x"}"#),
            "messages[0].name",
        ),
        (
            with_messages(r#"{"role":"tool","content":"x"}"#),
            "messages[0].tool_call_id",
        ),
        (with_content(r#"[{"text":"x"}]"#), "messages[0].content[0].type"),
        (
            with_content(r#"[{"type":"text"}]"#),
            "messages[0].content[0].text",
        ),
        (
            with_content(r#"[{"type":"image_url"}]"#),
            "messages[0].content[0].image_url",
        ),
        (
            with_content(r#"[{"type":"image_url","image_url":{}}]"#),
            "messages[0].content[0].image_url.url",
        ),
        (
            with_content(r#"[{"type":"input_audio","input_audio":{"format":"wav"}}]"#),
            "messages[0].content[0].input_audio.data",
        ),
        (
            with_content(r#"[{"type":"input_audio","input_audio":{"data":"x"}}]"#),
            "messages[0].content[0].input_audio.format",
        ),
        (
            with_messages(
                r#"{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":""}}]}"#,
            ),
            "messages[0].tool_calls[0].id",
        ),
        (
            with_messages(
                r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]}"#,
            ),
            "messages[0].tool_calls[0].type",
        ),
        (
            with_messages(r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function"}]}"#),
            "messages[0].tool_calls[0].function",
        ),
        (
            with_messages(
                r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}}]}"#,
            ),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            with_messages(
                r#"{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{"input":""}}]}"#,
            ),
            "messages[0].tool_calls[0].custom.name",
        ),
        (
            with_messages(r#"{"role":"assistant","audio":{}}"#),
            "messages[0].audio.id",
        ),
        (with_fields(r#""response_format":{}"#), "response_format.type"),
        (
            with_fields(r#""response_format":{"type":"json_schema"}"#),
            "response_format.json_schema",
        ),
        (
            with_fields(r#""response_format":{"type":"json_schema","json_schema":{}}"#),
            "response_format.json_schema.name",
        ),
        (with_fields(r#""tools":[{}]"#), "tools[0].type"),
        (
            with_fields(r#""tools":[{"type":"function"}]"#),
            "tools[0].function",
        ),
        (
            with_fields(r#""tools":[{"type":"function","function":{}}]"#),
            "tools[0].function.name",
        ),
        (with_fields(r#""tools":[{"type":"custom"}]"#), "tools[0].custom"),
        (
            with_fields(r#""tools":[{"type":"custom","custom":{}}]"#),
            "tools[0].custom.name",
        ),
        (
            with_fields(r#""tools":[{"type":"custom","custom":{"name":"c","format":{}}}]"#),
            "tools[0].custom.format.type",
        ),
        (
            with_fields(r#""tools":[{"type":"custom","custom":{"name":"c","format":{"type":"grammar"}}}]"#),
            "tools[0].custom.format.grammar",
        ),
        (
            with_fields(
                r#""tools":[{"type":"custom","custom":{"name":"c","format":{"type":"grammar","grammar":{"syntax":"lark"}}}}]"#,
            ),
            "tools[0].custom.format.grammar.definition",
        ),
        (with_fields(r#""tool_choice":{}"#), "tool_choice.type"),
        (
            with_fields(r#""tool_choice":{"type":"function"}"#),
            "tool_choice.function",
        ),
        (
            with_fields(r#""tool_choice":{"type":"custom","function":{"name":"f"}}"#),
            "tool_choice.custom",
        ),
        (
            with_fields(r#""tool_choice":{"type":"function","function":{}}"#),
            "tool_choice.function.name",
        ),
        (
            with_fields(r#""tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto"}}"#),
            "tool_choice.allowed_tools.tools",
        ),
        (
            with_fields(r#""tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[]}}"#),
            "tool_choice.allowed_tools.mode",
        ),
        (with_fields(r#""modalities":["audio"]"#), "audio"),
        (with_fields(r#""audio":{"voice":"a"}"#), "audio.format"),
        (with_fields(r#""audio":{"format":"wav"}"#), "audio.voice"),
        (
            with_fields(r#""prediction":{"type":"content"}"#),
            "prediction.content",
        ),
        (with_fields(r#""prediction":{"content":"x"}"#), "prediction.type"),
        (with_fields(r#""functions":[{}]"#), "functions[0].name"),
        (with_fields(r#""function_call":{}"#), "function_call.name"),
    ];
    for (body, param) in cases {
        refused(&body, MissingRequiredParameter, param);
    }
}

#[test]
fn messages_of_every_kind_are_accepted() {
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"custom","custom":{"name":"c","input":"x"}}]}"#;
    let cases = [
        HELLO.to_owned(),
        r#"{"content":"x","role":"developer","name":"n"}"#.to_owned(),
        r#"{"role":"system","content":[{"type":"text","text":"x","prompt_cache_breakpoint":{"mode":"explicit"}}]}"#.to_owned(),
        r#"{"role":"user","content":[]}"#.to_owned(),
        r#"{"role":"assistant"}"#.to_owned(),
        r#"{"role":"assistant","content":null,"refusal":"no","name":"n","audio":{"id":"x"}}"#.to_owned(),
        r#"{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"refusal","refusal":"y"}]}"#.to_owned(),
        r#"{"role":"assistant","content":"x","reasoning_content":"why","reasoning_details":[{"any":1}]}"#.to_owned(),
        r#"{"role":"assistant","content":"","tool_calls":null,"function_call":{"name":"f","arguments":"{}"}}"#.to_owned(),
        r#"{"role":"function","name":"f","content":null}"#.to_owned(),
        format!(r#"{call},{{"role":"tool","tool_call_id":"a","content":"x"}}"#),
        format!(r#"{call},{{"content":[{{"type":"text","text":"x"}}],"tool_call_id":"b","role":"tool"}},{HELLO}"#),
        format!(r#"{call},{HELLO},{{"role":"tool","tool_call_id":"\u0061","content":"x"}}"#),
    ];
    for messages in cases {
        accepted(&with_messages(&messages));
    }
}

#[test]
fn messages_that_make_no_sense_are_refused() {
    let call = r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#;
    let cases = [
        (with_messages(""), "messages"),
        (r#"{"model":"m","messages":null}"#.to_owned(), "messages"),
        (r#"{"model":"m","messages":"hello"}"#.to_owned(), "messages"),
        (r#"{"model":"m","messages":{}}"#.to_owned(), "messages"),
        (format!(r#"{{"model":"","messages":[{HELLO}]}}"#), "model"),
        (format!(r#"{{"model":null,"messages":[{HELLO}]}}"#), "model"),
        (format!(r#"{{"model":7,"messages":[{HELLO}]}}"#), "model"),
        (with_messages("\"hello\""), "messages[0]"),
        (
            with_messages(r#"{"role":"robot","content":"x"}"#),
            "messages[0].role",
        ),
        (
            with_messages(r#"{"role":null,"content":"x"}"#),
            "messages[0].role",
        ),
        (
            with_messages(&format!(r#"{HELLO},{{"role":"user","content":null}}"#)),
            "messages[1].content",
        ),
        (with_content("7"), "messages[0].content"),
        (with_content(r#"["x"]"#), "messages[0].content[0]"),
        (
            with_content(r#"[{"type":"video","video":{}}]"#),
            "messages[0].content[0].type",
        ),
        (
            with_content(r#"[{"type":"text","text":7}]"#),
            "messages[0].content[0].text",
        ),
        (
            with_content(r#"[{"type":"refusal","refusal":"x"}]"#),
            "messages[0].content[0].type",
        ),
        (
            with_content(r#"[{"type":"text","text":"x"},{"type":"image_url","image_url":"https://x"}]"#),
            "messages[0].content[1].image_url",
        ),
        (
            with_content(r#"[{"type":"image_url","image_url":{"url":""}}]"#),
            "messages[0].content[0].image_url.url",
        ),
        (
            with_content(r#"[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]"#),
            "messages[0].content[0].image_url.url",
        ),
        (
            with_content(r#"[{"type":"image_url","image_url":{"url":"https://x","detail":"best"}}]"#),
            "messages[0].content[0].image_url.detail",
        ),
        (
            with_content(r#"[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]"#),
            "messages[0].content[0].input_audio.data",
        ),
        (
            with_content(r#"[{"type":"input_audio","input_audio":{"data":"x","format":"ogg"}}]"#),
            "messages[0].content[0].input_audio.format",
        ),
        (
            with_content(r#"[{"type":"file","file":{"filename":"x"}}]"#),
            "messages[0].content[0].file",
        ),
        (
            with_content(r#"[{"type":"file","file":{"file_id":7}}]"#),
            "messages[0].content[0].file.file_id",
        ),
        (
            with_messages(
                r#"{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}"#,
            ),
            "messages[0].content[0].type",
        ),
        (
            with_messages(
                r#"{"content":[{"type":"text","text":"x"},{"type":"file","file":{"file_id":"f"}}],"role":"assistant"}"#,
            ),
            "messages[0].content[1].type",
        ),
        (
            with_messages(r#"{"role":"tool","tool_call_id":"a","content":"x"}"#),
            "messages[0].tool_call_id",
        ),
        (
            with_messages(&format!(
                r#"{{"role":"tool","tool_call_id":"a","content":"x"}},{call}"#
            )),
            "messages[0].tool_call_id",
        ),
        (
            with_messages(&format!(
                r#"{call},{{"role":"tool","tool_call_id":"b","content":"x"}}"#
            )),
            "messages[1].tool_call_id",
        ),
        (
            with_messages(&format!(
                r#"{call},{{"role":"tool","tool_call_id":"a","content":[{{"type":"image_url","image_url":{{"url":"https://x"}}}}]}}"#
            )),
            "messages[1].content[0].type",
        ),
        (
            with_messages(r#"{"role":"user","content":"x","tool_calls":[]}"#),
            "messages[0].tool_calls",
        ),
        (
            with_messages(r#"{"role":"assistant","tool_calls":{}}"#),
            "messages[0].tool_calls",
        ),
        (
            with_messages(
                r#"{"role":"assistant","tool_calls":[{"id":"","type":"function","function":{"name":"f","arguments":""}}]}"#,
            ),
            "messages[0].tool_calls[0].id",
        ),
        (
            with_messages(
                r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{}}}]}"#,
            ),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            with_messages(r#"{"role":"assistant","tool_calls":[{"id":"a","type":"hosted"}]}"#),
            "messages[0].tool_calls[0].type",
        ),
        (
            with_messages(r#"{"role":"user","content":"x","name":7}"#),
            "messages[0].name",
        ),
    ];
    for (body, param) in cases {
        refused(&body, InvalidParameter, param);
    }
}

#[test]
fn duplicate_keys_are_refused() {
    let cases = [
        (with_fields(r#""model":"n""#), "model"),
        (with_fields(r#""mod\u0065l":"n""#), "model"),
        (with_fields(r#""max_tokens":1,"max_tokens":1"#), "max_tokens"),
        (with_fields(r#""max_tokens":null,"max_tokens":1"#), "max_tokens"),
        (with_fields(r#""messages":[]"#), "messages"),
        (with_fields(r#""vendor":1,"vendor":2"#), "vendor"),
        (
            with_fields(r#""stream":true,"stream_options":{"include_usage":true,"include_usage":false}"#),
            "stream_options.include_usage",
        ),
        (
            with_messages(r#"{"role":"user","content":"x","content":"y"}"#),
            "messages[0].content",
        ),
        (
            with_messages(r#"{"role":"user","r\u006fle":"tool","content":"x"}"#),
            "messages[0].role",
        ),
        (
            with_content(r#"[{"type":"text","text":"x","text":"y"}]"#),
            "messages[0].content[0].text",
        ),
        (
            with_content(r#"[{"type":"text","type":"text","text":"y"}]"#),
            "messages[0].content[0].type",
        ),
        (
            with_content(r#"[{"type":"image_url","image_url":{"url":"https://x","url":"https://y"}}]"#),
            "messages[0].content[0].image_url.url",
        ),
        (
            with_fields(r#""tools":[{"type":"function","function":{"name":"f","name":"g"}}]"#),
            "tools[0].function.name",
        ),
        (
            with_fields(r#""tool_choice":{"type":"function","function":{"name":"f","name":"g"}}"#),
            "tool_choice.function.name",
        ),
        (
            with_fields(r#""response_format":{"type":"text","type":"json_object"}"#),
            "response_format.type",
        ),
    ];
    for (body, param) in cases {
        refused(&body, InvalidParameter, param);
    }
    accepted(&with_messages(
        r#"{"role":"user","content":"x","vendor":1,"vendor":2}"#,
    ));
}

#[test]
fn invalid_json_is_reported_first() {
    let cases = [
        "",
        "hello",
        "{",
        r#"{"model":"m","messages":["#,
        r#"{"model":"m","messages":[]"#,
        r#"{"model":"m","messages":[],}"#,
        r#"{"temperature":9,"model":"#,
        r#"{"temperature":"hot"} trailing"#,
        r#"{"temperature":01}"#,
        r#"{'model':'m'}"#,
        "\u{feff}{}",
    ];
    for body in cases {
        refused(body, InvalidJson, "");
    }
    let deep = with_fields(&format!(r#""vendor":{}1{}"#, "[".repeat(64), "]".repeat(64)));
    refused(&deep, InvalidJson, "");
    let wide = with_fields(&format!(r#""vendor":[{}1]"#, "1,".repeat(1_000_000)));
    refused(&wide, InvalidJson, "");
    assert_eq!(validate(b"{\"model\":\"\xff\"}").unwrap_err().code, InvalidJson);
}

#[test]
fn non_object_bodies_are_refused() {
    for body in ["[]", "null", "7", "\"x\"", "true"] {
        let error = validate(body.as_bytes()).unwrap_err();
        assert_eq!((error.code, &error.param), (InvalidParameter, &None), "{body}");
        assert!(
            error.message.starts_with("The request body must be an object"),
            "{error}"
        );
    }
}

#[test]
fn unknown_fields_are_listed_for_a_later_check() {
    let body = with_fields(r#""top_k":40,"client_metadata":{"a":[1,{"model":"x"}]},"min\u005fp":0.1"#);
    let head = accepted(&body);
    let names: Vec<&str> = head.unknown_fields().collect();
    assert_eq!(names, ["top_k", "client_metadata", "min_p"]);
    let judged = |allowed: &[&str]| check_unknown(&head, allowed).map_err(|error| (error.code, error.param));
    assert_eq!(judged(&["top_k", "min_p"]), Ok(()));
    assert_eq!(
        judged(&["top_k"]),
        Err((UnknownParameter, Some("min_p".to_owned())))
    );
    assert_eq!(judged(&[]), Err((UnknownParameter, Some("top_k".to_owned()))));
    assert_eq!(head.ignored_hints(&[]).collect::<Vec<_>>(), ["client_metadata"]);
    assert_eq!(head.ignored_hints(&["client_metadata"]).count(), 0);

    let many = |count: usize| {
        let fields: Vec<String> = (0..count).map(|field| format!(r#""x{field}":0"#)).collect();
        with_fields(&fields.join(","))
    };
    assert_eq!(accepted(&many(64)).unknown_fields().count(), 64);
    refused(&many(65), UnknownParameter, "x64");
}

#[test]
fn head_has_the_requested_options() {
    let body = with_fields(
        r#""stream":true,"stream_options":{"include_usage":true},"max_tokens":9,"n":3,"tools":[{"type":"function","function":{"name":"f"}}],"functions":[{"name":"g"}],"response_format":{"type":"json_schema","json_schema":{"name":"x"}},"logprobs":true,"reasoning_effort":"low","temperature":0.5,"service_tier":"default","store":true,"modalities":["text","audio"],"audio":{"format":"wav","voice":"v"},"seed":null"#,
    );
    let head = accepted(&body);
    assert_eq!(head.model, "m");
    assert!(head.stream && head.include_usage && head.logprobs && head.store && head.audio_output);
    let cap = MaxTokens {
        value: 9,
        field: Field::MaxTokens,
    };
    assert_eq!(head.max_tokens, Some(cap));
    assert_eq!((head.n, head.messages, head.tools), (3, 1, 2));
    assert_eq!(head.response_format, ResponseFormatKind::JsonSchema);
    assert_eq!(head.reasoning_effort, Some("low"));
    assert_eq!(head.temperature, Some(0.5));
    assert!(head.has(Field::Tools) && head.has(Field::Model));
    assert!(!head.has(Field::Seed) && !head.has(Field::User));

    let plain = with_messages(HELLO);
    let head = accepted(&plain);
    assert_eq!((head.n, head.tools, head.max_tokens), (1, 0, None));
    assert!(!head.stream && !head.include_usage && !head.store);
    assert_eq!(head.media, Media::default());
}

#[test]
fn inline_images_are_images() {
    let of = |url: &str| {
        with_messages(&format!(
            r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}"#
        ))
    };
    for url in [
        "data:image/png;base64,iVBORw0KGgo+",
        // PHP escapes slashes, and .NET escapes the plus sign.
        r"data:image\/jpeg;base64,\/9j\/4AAQ",
        r"data:image/png;base64,iVBORw0KGgo\u002B",
        // The gateway accepts a JPEG declared as PNG, and data that is not declared as an image.
        "data:image/png;base64,/9j/4AAQ",
        "data:application/pdf;base64,JVBERi0=",
    ] {
        assert_eq!(accepted(&of(url)).media.images, 1, "{url}");
    }
    for url in [
        "data:image/png;base64,aGVsbG8=",
        "data:image/svg+xml;base64,PHN2Zy8+",
        r"data:image/png;base64,PHN2Zy8\u002B",
        "data:image/png;base64,iVBOR",
    ] {
        let path = "messages[0].content[0].image_url.url";
        refused(&of(url), ErrorCode::InvalidParameter, path);
    }
}

#[test]
fn media_are_counted() {
    let body = with_messages(
        r#"{"role":"user","content":[
            {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},
            {"type":"image_url","image_url":{"url":"https:\/\/x\/y.png","detail":null}},
            {"type":"input_audio","input_audio":{"data":"BBBB","format":"mp3"}},
            {"type":"file","file":{"file_id":"f","filename":"a.pdf"}}]},
           {"role":"user","content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,CC"}}]}"#,
    );
    let expected = Media {
        images: 2,
        audio: 1,
        files: 2,
        addresses: 1,
        stored: 1,
        inline_bytes: 34 + 4 + 30,
    };
    assert_eq!(accepted(&body).media, expected);
}

#[test]
fn model_names_may_be_escaped() {
    let body = format!(r#"{{"model":"maker\/m\u00e9","messages":[{HELLO}]}}"#);
    assert_eq!(accepted(&body).model, "maker/mé");
}
