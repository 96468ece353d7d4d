//! Token-count requests for upstreams. Except for the Gemini API, which counts complete requests,
//! the body is reduced to the counted members, because upstreams refuse members that their count
//! endpoints do not support, such as a limit on output tokens.

use bytes::Bytes;
use serde_json::Value;
use tollgate_types::usage::MAX_QUANTITY;

use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Path, Reader, write_string};
use crate::lossless::Span;

/// Counted members of messages requests (platform.claude.com/docs/en/api/messages/count_tokens).
const MESSAGES_MEMBERS: &[&str] = &[
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
];

/// Counted members of responses requests
/// (platform.openai.com/docs/api-reference/responses/input-tokens).
const RESPONSES_MEMBERS: &[&str] = &[
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

/// Counted members of `generateContent` requests at Vertex AI (CountTokensRequest of its API).
const VERTEX_MEMBERS: &[&str] = &["contents", "systemInstruction", "tools", "generationConfig"];

/// Counted members of Converse requests (ConverseTokensRequest of the Bedrock runtime).
const CONVERSE_MEMBERS: &[&str] = &["messages", "system", "toolConfig", "additionalModelRequestFields"];

/// Returns the body for `POST /v1/messages/count_tokens`. Fails if the body is not a JSON object.
pub fn messages(body: &[u8]) -> Result<Bytes, DecodeError> {
    keep_members(body, MESSAGES_MEMBERS).map(Bytes::from)
}

/// Returns the body for `POST /v1/responses/input_tokens`. Fails if the body is not a JSON object.
pub fn responses(body: &[u8]) -> Result<Bytes, DecodeError> {
    keep_members(body, RESPONSES_MEMBERS).map(Bytes::from)
}

/// Returns the body for `:countTokens` of the Gemini API, which requires a complete request with
/// its model. `body` must be a JSON object. `model` includes the collection:
/// `models/gemini-2.5-flash`.
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

/// Returns the body for `:countTokens` of Vertex AI. Fails if the body is not a JSON object.
pub fn vertex_content(body: &[u8]) -> Result<Bytes, DecodeError> {
    keep_members(body, VERTEX_MEMBERS).map(Bytes::from)
}

/// Returns the body for `CountTokens` of Bedrock. Fails if the body is not a JSON object.
pub fn converse(body: &[u8]) -> Result<Bytes, DecodeError> {
    let counted = keep_members(body, CONVERSE_MEMBERS)?;
    Ok(Bytes::from(
        [br#"{"input":{"converse":"#, &*counted, b"}}"].concat(),
    ))
}

/// Reads the token count in the top-level member `name` of a response. Returns `None` unless the
/// response is a JSON object and the member is an integer from 1 to 1,000,000,000.
pub fn read(answer: &[u8], name: &str) -> Option<u64> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let tokens = answer.get(name)?.as_u64()?;
    (1..=MAX_QUANTITY).contains(&tokens).then_some(tokens)
}

/// Returns the object with only the members in `names`. Their values are copied byte for byte.
fn keep_members(body: &[u8], names: &[&str]) -> Result<Vec<u8>, DecodeError> {
    read_members(body, names).map_err(|error| *error)
}

fn read_members(body: &[u8], names: &[&str]) -> Result<Vec<u8>, BoxedError> {
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
    fn counted_members_keep_their_bytes() {
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
    fn generate_content_count_names_the_model() {
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
    fn implausible_token_counts_are_none() {
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
