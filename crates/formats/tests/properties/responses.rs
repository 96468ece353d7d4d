//! Properties of requests and streams of responses.

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use tollgate_formats::openai_responses::{
    Echo, EventKind, Identity, Relay, RequestEdits, StreamDecoder, StreamEncoder, apply_identity,
    decode_request, decode_response, encode_request, encode_response, input_items, inspect_response,
    response_in_event, sequence_number, splice_request, splice_response, validate, with_items,
};
use tollgate_formats::sse::EventReader;
use tollgate_types::generate::{FinishReason, GenerateRequest, Part};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Usage};

use super::{Change, change};

const ORIGIN: &str = "0123456789abcdef";

/// Returns a request with all features.
fn rich_request() -> Value {
    json!({
        "model": "maker/model", "stream": true, "instructions": "be kind",
        "input": [
            {"role": "user", "content": [
                {"type": "input_text", "text": "look \"here\"\n😀", "prompt_cache_breakpoint": {}},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "f"},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            ]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}],
             "content": null, "encrypted_content": "gw1.0123456789abcdef.sig"},
            {"type": "reasoning", "summary": [], "encrypted_content": "gw1.fedcba9876543210.other"},
            {"type": "message", "role": "assistant", "phase": "final", "status": "completed", "content": [
                {"type": "output_text", "text": "so", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "no"},
            ]},
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f", "arguments": "{\"x\":1}"},
            {"type": "custom_tool_call", "call_id": "b", "name": "c", "input": "free"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}]},
            {"type": "local_shell_call", "call_id": "s", "action": {}},
            {"role": "developer", "content": "hurry"},
            {"role": "user", "content": "now"},
        ],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true},
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "regex", "definition": "."}},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        "parallel_tool_calls": false, "max_output_tokens": 99, "temperature": 0.5, "top_p": 1, "top_logprobs": 2,
        "presence_penalty": 0, "frequency_penalty": 0, "max_tool_calls": 3, "truncation": "auto",
        "reasoning": {"effort": "low", "summary": "auto"}, "include": ["message.output_text.logprobs"],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"},
        "metadata": {"a": "b"}, "service_tier": "auto", "user": "u", "safety_identifier": "s", "store": true,
        "prompt_cache_key": "k", "stream_options": {"include_obfuscation": false}, "context_management": [],
    })
}

fn identity() -> Identity {
    Identity {
        number: 7,
        created_at: 7,
        model: "public".to_owned(),
        store: false,
        background: false,
        previous_response_id: None,
    }
}

/// Returns the part of a request that round-trips: without the model, `hide_reasoning`, reasoning,
/// and parts that only this format has.
fn common(mut request: GenerateRequest) -> GenerateRequest {
    request.hide_reasoning = false;
    request.model.clear();
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

fn altered(changes: &[(Index, Change)]) -> Bytes {
    Bytes::from(super::altered(rich_request(), changes).to_string())
}

fn changes() -> impl Strategy<Value = Vec<(Index, Change)>> {
    prop::collection::vec((any::<Index>(), change()), 0..4)
}

/// Generates stream events in any order that an adapter may send: a call starts before its
/// arguments.
fn steps() -> impl Strategy<Value = Vec<StreamEvent>> {
    let step = prop_oneof![
        "[a-z\n\"]{0,4}".prop_map(|text| StreamEvent::Text {
            choice: 0,
            text,
            logprobs: None
        }),
        "[a-z]{0,4}".prop_map(|text| StreamEvent::Refusal { choice: 0, text }),
        "[a-z]{0,4}".prop_map(|text| StreamEvent::Reasoning { choice: 0, text }),
        any::<bool>().prop_map(|hidden| StreamEvent::ReasoningSeal {
            choice: 0,
            seal: Default::default(),
            hidden,
        }),
        (0..3_u32).prop_map(|call| StreamEvent::ToolCallStart {
            choice: 0,
            call,
            id: format!("c{call}"),
            name: "f".to_owned(),
        }),
        (0..3_u32, "[a-z]{0,4}").prop_map(|(call, arguments)| StreamEvent::ToolCallArguments {
            choice: 0,
            call,
            arguments,
        }),
    ];
    prop::collection::vec(step, 0..24)
}

fn events_of(bytes: &[u8]) -> Vec<Value> {
    let mut reader = EventReader::default();
    reader.push(Bytes::copy_from_slice(bytes));
    std::iter::from_fn(|| reader.next_event().unwrap())
        .map(|event| serde_json::from_slice(&event.data).unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn accepted_requests_survive_the_common_form(changes in changes()) {
        let body = altered(&changes);
        let Ok(head) = validate(&body) else { return Ok(()) };
        let request = decode_request(&body).unwrap();
        prop_assert_eq!(&request.model, &*head.model);
        prop_assert_eq!(request.max_tokens, head.max_tokens);
        prop_assert_eq!(request.tools.len() as u32, head.tools);
        prop_assert_eq!(request.stream, head.stream);
        let _ = Echo::of(&body).unwrap();
        let request = common(request);
        // Without messages, the encoded request is invalid. The encoder omits tools that only this
        // format has.
        let Ok(again) = decode_request(&encode_request(&request, None, false)) else { return Ok(()) };
        prop_assert_eq!(again.sampling.temperature, request.sampling.temperature);
        let texts = |request: &GenerateRequest| -> Vec<String> {
            let parts = request.messages.iter().flat_map(|message| &message.parts);
            parts.filter_map(|part| match part {
                Part::Text(text) => Some(text.clone()),
                _ => None,
            }).collect()
        };
        // The encoder joins leading instructions.
        prop_assert_eq!(texts(&again).join("\n\n"), texts(&request).join("\n\n"));
    }

    #[test]
    fn splicing_changes_only_the_required_fields(changes in changes()) {
        let body = altered(&changes);
        let Ok(head) = validate(&body) else { return Ok(()) };
        let edits = RequestEdits { model: "upstream \"model\"", origin: ORIGIN, clamp_output: None, stream: head.stream, reasons: false };
        let spliced = splice_request(&body, &head, edits);
        prop_assert!(!String::from_utf8_lossy(&spliced).contains("gw1.fedcba9876543210"));
        // An input with only foreign reasoning becomes empty.
        let Ok(again) = validate(&spliced) else { return Ok(()) };
        prop_assert_eq!(&*again.model, "upstream \"model\"");
        prop_assert!(!again.store);
        prop_assert_eq!(common(decode_request(&spliced).unwrap()), common(decode_request(&body).unwrap()));
    }

    #[test]
    fn items_are_prepended_to_accepted_input(changes in changes()) {
        let body = altered(&changes);
        if validate(&body).is_err() { return Ok(()) }
        let before = [json!({"type": "message", "role": "user", "content": "before"})];
        let expected: Vec<Value> = before.into_iter().chain(input_items(&body).unwrap()).collect();
        let joined = with_items(&body, &expected).unwrap();
        prop_assert_eq!(input_items(&joined).unwrap(), expected);
        prop_assert_eq!(validate(&joined).unwrap().previous_response_id, None);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<Index>()) {
        let mut rich = rich_request().to_string().into_bytes();
        let place = at.index(rich.len());
        rich.splice(place..place, bytes.iter().copied());
        for text in [&bytes, &rich] {
            let text = Bytes::copy_from_slice(text);
            let _ = validate(&text);
            let _ = decode_request(&text);
            let _ = with_items(&text, &[]);
            if let Ok(head) = inspect_response(&text, ORIGIN) {
                let _ = splice_response(&text, &head, &identity(), &Usage::ZERO, Credits::ZERO);
            }
            let _ = decode_response(&text);
            let _ = StreamDecoder::default().decode(&text);
            let _ = apply_identity(&text, &identity(), Some((&Usage::ZERO, Credits::ZERO)));
            let _ = (response_in_event(&text), sequence_number(&text));
            let mut reader = EventReader::default();
            reader.push(text);
            while let Ok(Some(event)) = reader.next_event() {
                let _ = Relay::new(ORIGIN).pass(&event);
            }
        }
    }

    #[test]
    fn any_step_order_makes_a_valid_stream(steps in steps()) {
        let mut encoder = StreamEncoder::new(identity(), Echo::default(), true);
        let mut out: Vec<u8> = steps.iter().flat_map(|step| encoder.encode(step)).collect();
        out.extend(encoder.encode(&StreamEvent::Finish { choice: 0, reason: FinishReason::Stop, stop_sequence: None }));
        out.extend(encoder.end(None, None, 9));
        let events = events_of(&out);
        let (mut decoder, mut relay) = (StreamDecoder::default(), Relay::new(ORIGIN));
        let (mut open, mut done, mut full_text) = (None, Vec::new(), String::new());
        for (number, event) in events.iter().enumerate() {
            prop_assert_eq!(&event["sequence_number"], number);
            match event["type"].as_str().unwrap() {
                "response.output_item.added" => {
                    prop_assert_eq!(open.replace(event["output_index"].clone()), None);
                    prop_assert_eq!(&event["output_index"], done.len());
                }
                "response.output_item.done" => {
                    prop_assert!(open.take().is_some());
                    done.push(event["item"].clone());
                }
                _ => {}
            }
            for decoded in decoder.decode(event.to_string().as_bytes()).unwrap() {
                if let StreamEvent::Text { text, .. } = decoded {
                    full_text.push_str(&text);
                }
            }
        }
        prop_assert_eq!(open, None);
        let last = &events[events.len() - 1];
        prop_assert_eq!(&last["response"]["output"], &json!(done));
        let expected: String = steps.iter().filter_map(|step| match step {
            StreamEvent::Text { text, .. } => Some(text.as_str()),
            _ => None,
        }).collect();
        prop_assert_eq!(full_text, expected);
        // The response object of the last event can be decoded and encoded again.
        let whole = last["response"].to_string();
        let answer = decode_response(whole.as_bytes()).unwrap();
        let again = encode_response(&answer, &identity(), &Echo::default(), 9, None, true);
        prop_assert!(inspect_response(&again, ORIGIN).unwrap().has_output);
        let event = tollgate_formats::sse::write_event(Some(b"x"), last.to_string().as_bytes());
        let mut reader = EventReader::default();
        reader.push(event);
        prop_assert_eq!(relay.pass(&reader.next_event().unwrap().unwrap()).unwrap().kind, EventKind::End);
    }
}

#[test]
fn the_rich_request_is_accepted() {
    validate(rich_request().to_string().as_bytes()).unwrap();
}
