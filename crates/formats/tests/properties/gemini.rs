//! Properties of `generateContent` requests and streams.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use tollgate_formats::gemini::{
    Purpose, Relay, StreamDecoder, StreamEncoder, decode_count, decode_embeddings, decode_request,
    decode_response, embed_request, embed_requests, encode_request, event_with_cost, inspect_response,
    splice_request, splice_response, validate,
};
use tollgate_formats::sse::EventReader;
use tollgate_types::Credits;
use tollgate_types::generate::{GenerateRequest, Part};

use super::{Change, change, places};

const ORIGIN: &str = "0123456789abcdef";
/// Base64 of `gw1.0123456789abcdef.sig`.
const OWN: &str = "Z3cxLjAxMjM0NTY3ODlhYmNkZWYuc2ln";
/// Base64 of `gw1.fedcba9876543210.other`.
const OTHER: &str = "Z3cxLmZlZGNiYTk4NzY1NDMyMTAub3RoZXI=";

/// Returns a request with all features. Some names are in camel case and some in snake case.
fn rich_request() -> Value {
    json!({
        "system_instruction": {"role": "user", "parts": [{"text": "be kind"}]},
        "contents": [
            {"role": "user", "parts": [
                {"text": "look \"here\"\n😀"},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                {"inline_data": {"mime_type": "application/pdf", "data": "AA==", "display_name": "n"}},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}},
                {"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}, "videoMetadata": {"fps": 1}},
            ]},
            {"role": "model", "parts": [
                {"text": "hm", "thought": true, "thoughtSignature": OTHER},
                {"text": "so", "thought_signature": OWN},
                {"functionCall": {"name": "f", "args": {"x": 1.50, "y": [1e3]}}, "thoughtSignature": OTHER},
                {"function_call": {"id": "b", "name": "f", "args": {}}},
            ]},
            {"parts": [
                {"functionResponse": {"name": "f", "response": {"result": "1"}}},
                {"function_response": {"id": "b", "name": "f", "response": {"a": 2}, "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]}},
                {"text": "go on"},
            ]},
        ],
        "tools": [{"function_declarations": [
            {"name": "f", "description": "d", "parameters": {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}}}},
            {"name": "g", "parameters_json_schema": {"type": "object"}},
        ]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "generationConfig": {
            "temperature": 0.5, "topP": 1, "top_k": 7.0, "candidate_count": 2, "maxOutputTokens": 100,
            "stopSequences": ["a", "b"], "presence_penalty": 1, "frequencyPenalty": -1, "seed": -7,
            "response_logprobs": true, "logprobs": 3, "responseModalities": ["TEXT"], "mediaResolution": "LOW",
            "responseMimeType": "application/json", "response_json_schema": {"type": "object"},
            "thinkingConfig": {"includeThoughts": true, "thinking_level": "high"},
        },
        "safetySettings": [{"category": "C", "threshold": "T"}],
        "labels": {"a": "b"}, "serviceTier": "standard", "store": false, "model": "models/x", "cachedContent": null,
    })
}

fn altered(changes: &[(Index, Change)]) -> Value {
    let mut body = rich_request();
    for (index, change) in changes {
        let mut found = Vec::new();
        places(&body, "", &mut found);
        let place = index.get(&found).clone();
        match change {
            Change::Replace(value) => {
                if let Some(here) = body.pointer_mut(&place) {
                    *here = value.clone();
                }
            }
            Change::Remove => {
                let (parent, key) = place.rsplit_once('/').unwrap_or_default();
                match body.pointer_mut(parent) {
                    Some(Value::Object(fields)) => drop(fields.shift_remove(key)),
                    Some(Value::Array(items)) => {
                        if let Ok(at) = key.parse::<usize>()
                            && at < items.len()
                        {
                            items.remove(at);
                        }
                    }
                    _ => {}
                }
            }
            Change::Add(key, value) => {
                if let Some(Value::Object(fields)) = body.pointer_mut(&place) {
                    fields.insert((*key).to_owned(), value.clone());
                }
            }
        }
    }
    body
}

fn changes() -> impl Strategy<Value = Vec<(Index, Change)>> {
    prop::collection::vec((any::<Index>(), change()), 0..4)
}

/// Returns the part of a request that round-trips: without parts that only this format has, and
/// without reasoning.
fn common(mut request: GenerateRequest) -> GenerateRequest {
    for message in &mut request.messages {
        message
            .parts
            .retain(|part| !matches!(part, Part::Foreign { .. } | Part::Reasoning(_)));
    }
    request
        .messages
        .retain(|message| !message.parts.is_empty() || !message.tool_calls.is_empty());
    request
}

fn texts(request: &GenerateRequest) -> Vec<String> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let text = |part: &Part| match part {
        Part::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    parts.filter_map(text).collect()
}

fn stream() -> Bytes {
    let mut text = String::new();
    let part =
        |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]});
    for mut event in [
        part(json!({"text": "hm\n", "thought": true})),
        part(json!({"text": "héllo", "thoughtSignature": "sig"})),
        part(json!({"functionCall": {"name": "f", "args": {"x": 1}}})),
        json!({"candidates": [{"finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}}),
    ] {
        event["modelVersion"] = json!("m");
        event["responseId"] = json!("r");
        text.push_str(&format!("data: {event}\n\n"));
    }
    Bytes::from(text)
}

/// Relays a stream in these chunks. Returns the caller's bytes, the number of output bytes, and
/// whether the stream ended.
fn relayed<'p>(chunks: impl IntoIterator<Item = &'p [u8]>) -> (Vec<u8>, u64, bool) {
    let (mut reader, mut relay) = (EventReader::default(), Relay::new("public", ORIGIN));
    let (mut out, mut bytes) = (Vec::new(), 0);
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk));
        while let Ok(Some(event)) = reader.next_event() {
            let Ok(event) = relay.pass(&event) else { continue };
            out.extend(event.bytes.unwrap_or_default());
            bytes += event.output_bytes;
        }
    }
    (out, bytes, relay.is_finished())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn accepted_requests_survive_the_common_form(changes in changes()) {
        let body = altered(&changes).to_string();
        let Ok(head) = validate(body.as_bytes(), Purpose::Generate) else { return Ok(()) };
        // Features outside the common form are refused.
        let Ok(request) = decode_request(body.as_bytes()) else { return Ok(()) };
        prop_assert_eq!(request.max_tokens, head.max_tokens);
        prop_assert_eq!(request.tools.len() as u32, head.tools);
        prop_assert_eq!(request.n, head.candidates);
        let request = common(request);
        let encoded = encode_request(&request, &Default::default(), None);
        // Without messages, the encoded request is invalid.
        let Ok(again) = decode_request(&encoded) else { return Ok(()) };
        prop_assert_eq!(&again.tools, &request.tools);
        prop_assert_eq!(&again.stop, &request.stop);
        prop_assert_eq!(&again.sampling, &request.sampling);
        prop_assert_eq!(&again.response_format, &request.response_format);
        prop_assert_eq!(texts(&again), texts(&request));
    }

    #[test]
    fn splicing_preserves_the_request(changes in changes(), clamp in proptest::option::of(1..9_u64)) {
        let body = Bytes::from(altered(&changes).to_string());
        let Ok(head) = validate(&body, Purpose::Generate) else { return Ok(()) };
        let spliced = splice_request(&body, &head, "m", ORIGIN, clamp);
        let again = validate(&spliced, Purpose::Generate).unwrap();
        let cap = head.max_tokens.into_iter().chain(clamp).min();
        prop_assert_eq!(again.max_tokens, cap);
        let (Ok(mut before), Ok(after)) = (decode_request(&body), decode_request(&spliced)) else { return Ok(()) };
        before.max_tokens = cap;
        prop_assert_eq!(common(after), common(before));
        let text = String::from_utf8_lossy(&spliced).into_owned();
        prop_assert!(!text.contains(OTHER) && !text.contains(OWN), "{}", text);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<Index>()) {
        let mut rich = rich_request().to_string().into_bytes();
        let place = at.index(rich.len());
        rich.splice(place..place, bytes.iter().copied());
        for text in [&bytes, &rich] {
            let text = Bytes::copy_from_slice(text);
            let _ = validate(&text, Purpose::Count);
            let _ = decode_request(&text);
            let _ = decode_count(&text);
            let _ = embed_request(&text);
            let _ = embed_requests(&text);
            let _ = decode_embeddings(&text);
            if let Ok(head) = inspect_response(&text, ORIGIN) {
                let _ = splice_response(&text, &head, "m", Some(Credits::ZERO));
            }
            let _ = decode_response(&text, 0, "id");
            let _ = StreamDecoder::default().decode(&text);
            let _ = event_with_cost(&text, Credits::ZERO);
            let _ = relayed([&*text]);
        }
    }

    #[test]
    fn relayed_stream_does_not_depend_on_chunk_boundaries(cuts in prop::collection::vec(any::<Index>(), 0..6)) {
        let whole = stream();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len())).collect();
        at.sort_unstable();
        at.push(whole.len());
        let mut from = 0;
        let chunks: Vec<&[u8]> = at.iter().map(|to| {
            let chunk = &whole[from..*to];
            from = *to;
            chunk
        }).collect();
        let expected = relayed([&*whole]);
        prop_assert_eq!(relayed(chunks), expected);
    }
}

#[test]
fn the_rich_request_is_accepted() {
    validate(rich_request().to_string().as_bytes(), Purpose::Generate).unwrap();
}

#[test]
fn truncated_stream_is_a_prefix_of_the_whole() {
    let whole = stream();
    let (all, bytes, is_finished) = relayed([&*whole]);
    let text = String::from_utf8(all.clone()).unwrap();
    assert!(
        text.contains(OWN) && text.contains("\"public\"") && is_finished,
        "{text}"
    );
    let call = r#"{"name":"f","args":{"x":1}}"#;
    assert_eq!(bytes as usize, "hm\n".len() + "héllo".len() + call.len());
    for end in 0..whole.len() {
        let (out, ..) = relayed([&whole[..end]]);
        assert!(all.starts_with(&out), "cut at {end}");
    }
}

#[test]
fn events_go_through_the_common_form() {
    let mut reader = EventReader::default();
    reader.push(stream());
    let (mut decoder, mut encoder) = (StreamDecoder::new(7, "id"), StreamEncoder::new("public", true));
    let mut out = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        for event in decoder.decode(&event.data).unwrap() {
            out.extend(encoder.encode(&event));
        }
    }
    out.extend(encoder.end(None, None));
    let text = String::from_utf8(out).unwrap();
    for part in [
        "hm\\n",
        "\"thought\":true",
        "héllo",
        "\"args\":{\"x\":1}",
        "\"promptTokenCount\":9",
        "\"STOP\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(
        last.contains("finishReason") && last.contains("usageMetadata"),
        "{last}"
    );
    assert_eq!(text.matches("finishReason").count(), 1, "{text}");
}
