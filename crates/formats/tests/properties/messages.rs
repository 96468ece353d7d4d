//! Properties of requests and streams of messages.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use tollgate_formats::anthropic_messages::{
    EventKind, Purpose, Relay, StreamDecoder, StreamEncoder, Version, decode_request, decode_response,
    encode_request, encode_response, event_with_cost, inspect_response, splice_request, splice_response,
    validate,
};
use tollgate_formats::sse::EventReader;
use tollgate_types::Credits;
use tollgate_types::generate::{GenerateRequest, Part};

use super::{Change, change};

const ORIGIN: &str = "0123456789abcdef";

/// Returns a request with all features.
fn rich_request() -> Value {
    json!({
        "model": "maker/model", "max_tokens": 4_000, "stream": true,
        "system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "look \"here\"\n😀", "citations": null},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}, "title": "t"},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
                {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "gw1.0123456789abcdef.sig"},
                {"type": "redacted_thinking", "data": "gw1.fedcba9876543210.other"},
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1.50, "y": [1e3]}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": [{"type": "text", "text": "2"}]},
                {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
            ]},
            {"role": "system", "content": "hurry"},
            {"role": "user", "content": "now"},
        ],
        "tools": [
            {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true},
            {"type": "bash_20250124", "name": "bash"},
        ],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
        "thinking": {"type": "enabled", "budget_tokens": 2_000, "display": "omitted"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "stop_sequences": ["a", "b"], "temperature": 0.5, "top_p": 1, "top_k": 7,
        "metadata": {"user_id": "u"}, "cache_control": {"type": "ephemeral"}, "service_tier": "auto",
        "speed": "standard", "inference_geo": "global", "mcp_servers": [], "container": null, "context_management": {},
    })
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

fn altered(changes: &[(Index, Change)]) -> Value {
    super::altered(rich_request(), changes)
}

fn changes() -> impl Strategy<Value = Vec<(Index, Change)>> {
    prop::collection::vec((any::<Index>(), change()), 0..4)
}

fn stream() -> Bytes {
    let mut text = String::new();
    for event in [
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": {"input_tokens": 9, "cache_read_input_tokens": 2, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm\n"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "héllo"}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "{\"x\":1}"}}),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ] {
        text.push_str(&format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        ));
    }
    Bytes::from(text)
}

/// Relays a stream in these chunks. Returns the caller's bytes, the number of output bytes, and the
/// event kinds.
fn relayed<'p>(chunks: impl IntoIterator<Item = &'p [u8]>) -> (Vec<u8>, u64, Vec<EventKind>) {
    let (mut reader, mut relay) = (EventReader::default(), Relay::new("public", ORIGIN));
    let (mut out, mut bytes, mut kinds) = (Vec::new(), 0, Vec::new());
    for chunk in chunks {
        reader.push(Bytes::copy_from_slice(chunk));
        while let Ok(Some(event)) = reader.next_event() {
            let Ok(event) = relay.pass(&event) else { continue };
            out.extend(event.bytes.unwrap_or_default());
            bytes += event.output_bytes;
            kinds.push(event.kind);
        }
    }
    (out, bytes, kinds)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn accepted_requests_survive_the_common_form(changes in changes()) {
        let body = altered(&changes).to_string();
        let version = Version::default();
        let Ok(head) = validate(body.as_bytes(), version, Purpose::Generate) else { return Ok(()) };
        let request = decode_request(body.as_bytes()).unwrap();
        prop_assert_eq!(&request.model, &*head.model);
        prop_assert_eq!(request.max_tokens, head.max_tokens);
        prop_assert_eq!(request.tools.len() as u32, head.tools);
        prop_assert_eq!(request.stream, head.stream);
        let request = common(request);
        let encoded = encode_request(&request, &Default::default(), 1);
        // Without messages, the encoded request is invalid.
        let Ok(again) = decode_request(&encoded) else { return Ok(()) };
        prop_assert_eq!(again.tools.len(), request.tools.len());
        prop_assert_eq!(&again.stop, &request.stop);
        prop_assert_eq!(&again.sampling, &request.sampling);
        let texts = |request: &GenerateRequest| -> Vec<String> {
            let parts = request.messages.iter().flat_map(|message| &message.parts);
            parts.filter_map(|part| match part {
                Part::Text(text) if !text.is_empty() => {
                    let text = text.strip_prefix("<system-reminder>\n").unwrap_or(text);
                    Some(text.strip_suffix("\n</system-reminder>").unwrap_or(text).to_owned())
                }
                _ => None,
            }).collect()
        };
        // Between two turns of the assistant, the encoder moves instructions after the user
        // content.
        let (mut written, mut read) = (texts(&again), texts(&request));
        written.sort_unstable();
        read.sort_unstable();
        prop_assert_eq!(written, read);
    }

    #[test]
    fn splicing_changes_the_model_and_the_cap_alone(changes in changes(), clamp in proptest::option::of(1..6_000_u64)) {
        let body = Bytes::from(altered(&changes).to_string());
        let Ok(head) = validate(&body, Version::default(), Purpose::Generate) else { return Ok(()) };
        // The gateway's limit is always above the reasoning budget.
        let clamp = clamp.map(|clamp| clamp + head.reasoning_budget);
        let spliced = splice_request(&body, &head, "upstream \"model\"", ORIGIN, clamp);
        let again = validate(&spliced, Version::default(), Purpose::Generate).unwrap();
        prop_assert_eq!(&*again.model, "upstream \"model\"");
        let cap = head.max_tokens.into_iter().chain(clamp).min();
        prop_assert_eq!(again.max_tokens, cap);
        let (mut before, mut after) = (decode_request(&body).unwrap(), decode_request(&spliced).unwrap());
        before.max_tokens = cap;
        before.model.clear();
        after.model.clear();
        prop_assert_eq!(common(after), common(before));
        prop_assert!(!String::from_utf8_lossy(&spliced).contains("gw1.fedcba9876543210"));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<Index>()) {
        let mut rich = rich_request().to_string().into_bytes();
        let place = at.index(rich.len());
        rich.splice(place..place, bytes.iter().copied());
        for text in [&bytes, &rich] {
            let text = Bytes::copy_from_slice(text);
            let _ = validate(&text, Version::V2026_10_21, Purpose::Count);
            let _ = decode_request(&text);
            if let Ok(head) = inspect_response(&text, ORIGIN) {
                let _ = splice_response(&text, &head, "m", Some(Credits::ZERO));
            }
            let _ = decode_response(&text, 0);
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
    validate(
        rich_request().to_string().as_bytes(),
        Version::default(),
        Purpose::Generate,
    )
    .unwrap();
}

#[test]
fn truncated_stream_is_a_prefix_of_the_whole() {
    let whole = stream();
    let (all, bytes, kinds) = relayed([&*whole]);
    let text = String::from_utf8(all.clone()).unwrap();
    assert!(
        text.contains(&format!("gw1.{ORIGIN}.sig")) && text.contains("\"public\"") && !text.contains("ping")
    );
    assert_eq!(
        bytes,
        "hm\n".len() as u64 + "héllo".len() as u64 + "{\"x\":1}".len() as u64
    );
    assert_eq!(kinds.last(), Some(&EventKind::Stop));
    for end in 0..whole.len() {
        let (out, ..) = relayed([&whole[..end]]);
        assert!(all.starts_with(&out), "cut at {end}");
    }
}

#[test]
fn events_go_through_the_common_form() {
    let mut reader = EventReader::default();
    reader.push(stream());
    let (mut decoder, mut encoder) = (StreamDecoder::new(7), StreamEncoder::new("public", true));
    let mut out = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        for event in decoder.decode(&event.data).unwrap() {
            out.extend(encoder.encode(&event));
        }
    }
    out.extend(encoder.end(None, None));
    let text = String::from_utf8(out).unwrap();
    let (relayed, ..) = relayed([&*stream()]);
    let names = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.starts_with("event: "))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(names(&text), names(&String::from_utf8(relayed).unwrap()));
    assert!(
        text.contains("\"input_tokens\":9") && text.contains("\"cache_read_input_tokens\":2"),
        "{text}"
    );
}

#[test]
fn whole_responses_round_trip() {
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": format!("gw1.{ORIGIN}.sig")},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"n": 1}},
        ],
        "stop_reason": "stop_sequence", "stop_sequence": "END",
        "usage": {"input_tokens": 9, "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 2}},
    });
    let response = decode_response(answer.to_string().as_bytes(), 7).unwrap();
    let encoded = encode_response(&response, "m", None, true);
    assert_eq!(decode_response(&encoded, 7).unwrap(), response);
    let words = select(vec![
        "end_turn",
        "max_tokens",
        "tool_use",
        "refusal",
        "model_context_window_exceeded",
    ]);
    proptest!(|(word in words)| {
        let mut answer = answer.clone();
        answer["stop_reason"] = json!(word);
        if word == "end_turn" {
            // A response with tool calls has the finish reason for calls in the common form.
            answer["content"] = json!([]);
        }
        let response = decode_response(answer.to_string().as_bytes(), 7).unwrap();
        let encoded: Value = serde_json::from_slice(&encode_response(&response, "m", None, true)).unwrap();
        prop_assert_eq!(&encoded["stop_reason"], word);
    });
}
