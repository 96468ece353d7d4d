//! Asking an upstream how many tokens a request has: its body with nothing but what decides about that, and the number in
//! the answer. Upstreams refuse members that their counts do not know, such as a cap on output.

use bytes::Bytes;
use serde_json::Value;
use tollgate_types::usage::MAX_QUANTITY;

use crate::error::{DecodeError, Flaw};
use crate::json::{MAX_NODES, Path, Reader, write_string};
use crate::lossless::Span;

/// Members of messages that are counted (platform.claude.com/docs/en/api/messages/count_tokens).
const OF_MESSAGES: &[&str] = &[
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
];

/// Members of responses that are counted (platform.openai.com/docs/api-reference/responses/input-tokens).
const OF_RESPONSES: &[&str] = &[
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "truncation",
];

/// Members of generated content that Vertex AI counts (CountTokensRequest of its API).
const OF_VERTEX: &[&str] = &["contents", "systemInstruction", "tools", "generationConfig"];

/// Members of Converse that are counted (ConverseTokensRequest of the Bedrock runtime).
const OF_CONVERSE: &[&str] = &["messages", "system", "toolConfig", "additionalModelRequestFields"];

/// Messages, as `POST /v1/messages/count_tokens` takes them.
pub fn messages(body: &[u8]) -> Result<Bytes, DecodeError> {
    only(body, OF_MESSAGES).map(Bytes::from)
}

/// Responses, as `POST /v1/responses/input_tokens` takes them.
pub fn responses(body: &[u8]) -> Result<Bytes, DecodeError> {
    only(body, OF_RESPONSES).map(Bytes::from)
}

/// Generated content, as `:countTokens` of the Gemini API takes it: a whole request, which names its model. `model` has its
/// folder: `models/gemini-2.5-flash`.
pub fn content(body: &[u8], model: &str) -> Bytes {
    let mut out = br#"{"generateContentRequest":{"model":"#.to_vec();
    write_string(&mut out, model);
    let members = body.trim_ascii().strip_prefix(b"{").unwrap_or_default();
    if members.trim_ascii_start().first() != Some(&b'}') {
        out.push(b',');
    }
    out.extend_from_slice(members);
    out.push(b'}');
    Bytes::from(out)
}

/// Generated content, as `:countTokens` of Vertex AI takes it.
pub fn vertex_content(body: &[u8]) -> Result<Bytes, DecodeError> {
    only(body, OF_VERTEX).map(Bytes::from)
}

/// Converse, as `CountTokens` of Bedrock takes it.
pub fn converse(body: &[u8]) -> Result<Bytes, DecodeError> {
    let counted = only(body, OF_CONVERSE)?;
    Ok(Bytes::from(
        [br#"{"input":{"converse":"#, &*counted, b"}}"].concat(),
    ))
}

/// The number under this name in the answer to a count. Nothing where it is missing or cannot be meant: no request has no
/// tokens, and none has more than a thousand million.
pub fn read(answer: &[u8], name: &str) -> Option<u64> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let tokens = answer.get(name)?.as_u64()?;
    (1..=MAX_QUANTITY).contains(&tokens).then_some(tokens)
}

/// The object with these members alone, byte for byte.
fn only(body: &[u8], names: &[&str]) -> Result<Vec<u8>, DecodeError> {
    read_only(body, names).map_err(|flaw| *flaw)
}

fn read_only(body: &[u8], names: &[&str]) -> Result<Vec<u8>, Flaw> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    let mut out = vec![b'{'];
    reader.object_at(&Path::TOP)?;
    while let Some(key) = reader.key()? {
        let start = reader.place();
        reader.skip()?;
        if !names.contains(&&*key.name) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        write_string(&mut out, &key.name);
        out.push(b':');
        out.extend_from_slice(Span::new(start, reader.end()).of(body));
    }
    out.push(b'}');
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(body: Result<Bytes, DecodeError>) -> String {
        String::from_utf8(body.unwrap().to_vec()).unwrap()
    }

    #[test]
    fn what_decides_about_the_count_stays_byte_for_byte() {
        let body = br#" { "max_tokens":9, "messages" : [ {"role":"user" ,"content":"\u00e9"} ],"m\u006fdel":"m","stream":true } "#;
        assert_eq!(
            text(messages(body)),
            r#"{"messages":[ {"role":"user" ,"content":"\u00e9"} ],"model":"m"}"#
        );
        let body =
            br#"{"store":false,"input":"x","model":"m","max_output_tokens":16,"text":{"verbosity":"low"}}"#;
        assert_eq!(
            text(responses(body)),
            r#"{"input":"x","model":"m","text":{"verbosity":"low"}}"#
        );
        let body = br#"{"contents":[],"toolConfig":{},"safetySettings":[],"generationConfig":{"seed":1}}"#;
        assert_eq!(
            text(vertex_content(body)),
            r#"{"contents":[],"generationConfig":{"seed":1}}"#
        );
        let body = br#"{"inferenceConfig":{"maxTokens":9},"messages":[],"toolConfig":{}}"#;
        assert_eq!(
            text(converse(body)),
            r#"{"input":{"converse":{"messages":[],"toolConfig":{}}}}"#
        );
        assert_eq!(text(messages(b"{}")), "{}");
        messages(b"[]").unwrap_err();
        messages(br#"{"model":}"#).unwrap_err();
    }

    #[test]
    fn a_whole_request_of_generated_content_names_its_model() {
        for (body, rest) in [
            (&br#" { "contents":[1]} "#[..], json!({"contents": [1]})),
            (b"{ }", json!({})),
        ] {
            let mut expected = rest;
            expected["model"] = json!("models/\"m");
            let written: Value = serde_json::from_slice(&content(body, "models/\"m")).unwrap();
            assert_eq!(written, json!({ "generateContentRequest": expected }));
        }
    }

    #[test]
    fn numbers_that_cannot_be_meant_are_none() {
        for (answer, expected) in [
            (r#"{"n": 1}"#, Some(1)),
            (r#"{"n": 1000000000, "x": 2}"#, Some(MAX_QUANTITY)),
            (r#"{"n": 1000000001}"#, None),
            (r#"{"n": 18446744073709551616}"#, None),
            (r#"{"n": 1e300}"#, None),
            (r#"{"n": 0}"#, None),
            (r#"{"n": -1}"#, None),
            (r#"{"n": 1.5}"#, None),
            (r#"{"n": "12"}"#, None),
            (r#"{"n": null}"#, None),
            (r#"{"x": 12}"#, None),
            ("[12]", None),
            ("12", None),
            ("{", None),
            ("", None),
        ] {
            assert_eq!(read(answer.as_bytes(), "n"), expected, "{answer}");
        }
    }
}
