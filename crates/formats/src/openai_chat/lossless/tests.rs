use bytes::Bytes;
use tollgate_types::{Credits, Usage};

use super::super::usage::encode_usage;
use super::super::validate;
use super::request::MIN_CHUNKED_BYTES;
use super::*;
use crate::sse;

#[track_caller]
fn spliced(body: &str, edits: &RequestEdits<'_>) -> String {
    let out = whole(body, edits);
    validate(out.as_bytes()).unwrap_or_else(|error| panic!("{error} after splicing: {out:?}"));
    // A long body is sent in chunks.
    let space = " ".repeat(MIN_CHUNKED_BYTES);
    assert_eq!(whole(&format!("{body}{space}"), edits), format!("{out}{space}"));
    out
}

fn whole(body: &str, edits: &RequestEdits<'_>) -> String {
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let head = validate(&bytes).unwrap_or_else(|error| panic!("{error} in {body}"));
    String::from_utf8(splice_request(&bytes, &head, edits).concat()).unwrap()
}

#[test]
fn a_long_request_is_not_copied() {
    let body = Bytes::from(format!(r#"{{"model":"m",{M}}}{}"#, " ".repeat(MIN_CHUNKED_BYTES)));
    let chunks = splice_request(&body, &validate(&body).unwrap(), &EDITS);
    let longest = chunks.iter().max_by_key(|chunk| chunk.len()).unwrap();
    assert_eq!(longest.as_ptr_range().end, body.as_ptr_range().end);
}

const EDITS: RequestEdits<'static> = RequestEdits {
    model: "up",
    clamp_output: None,
    cap_name: CapName::AsSent,
    remove: &[],
    add: &[],
    vendor_fields: &[],
    developer_as_system: false,
};

const M: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

#[test]
fn the_model_is_renamed_and_nothing_else() {
    let cases = [
        (
            format!(r#"{{"model":"m",{M}}}"#),
            format!(r#"{{"model":"up",{M}}}"#),
        ),
        (
            format!(r#" {{ {M} , "model" : "maker\/m" }} "#),
            format!(r#" {{ {M} , "model" : "up" }} "#),
        ),
        (
            format!("{{\n\t\"mod\\u0065l\":\"m\",\r\n{M}}}\n"),
            format!("{{\n\t\"mod\\u0065l\":\"up\",\r\n{M}}}\n"),
        ),
        (
            r#"{"messages":[{"role":"user","content":"{\"model\":\"m\"}","x":{"model":"m"}}],"model":"m"}"#
                .to_owned(),
            r#"{"messages":[{"role":"user","content":"{\"model\":\"m\"}","x":{"model":"m"}}],"model":"up"}"#
                .to_owned(),
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(spliced(&body, &EDITS), expected);
    }
    let quoted = RequestEdits {
        model: "a\"b\\c",
        ..EDITS
    };
    assert_eq!(
        spliced(&format!(r#"{{"model":"m",{M}}}"#), &quoted),
        format!(r#"{{"model":"a\"b\\c",{M}}}"#)
    );
}

#[test]
fn unchanged_request_is_not_copied() {
    let body = Bytes::from(format!(r#"{{"model":"up",{M}}}"#));
    let out = splice_request(&body, &validate(&body).unwrap(), &EDITS);
    assert_eq!((out.len(), out[0].as_ptr()), (1, body.as_ptr()));
}

#[test]
fn usage_is_always_requested_in_streams() {
    let body = |options: &str| format!(r#"{{"model":"m",{M},"stream":true{options}}}"#);
    let expected = |options: &str| format!(r#"{{"model":"up",{M},"stream":true{options}}}"#);
    assert_eq!(
        spliced(&body(""), &EDITS),
        format!(r#"{{"stream_options":{{"include_usage":true}},"model":"up",{M},"stream":true}}"#)
    );
    let cases = [
        (
            r#","stream_options":{}"#,
            r#","stream_options":{"include_usage":true}"#,
        ),
        (
            r#","stream_options":{ }"#,
            r#","stream_options":{"include_usage":true }"#,
        ),
        (
            r#","stream_options":null"#,
            r#","stream_options":{"include_usage":true}"#,
        ),
        (
            r#","stream_options":{"include_usage":false}"#,
            r#","stream_options":{"include_usage":true}"#,
        ),
        (
            r#","stream_options":{"include_usage":null}"#,
            r#","stream_options":{"include_usage":true}"#,
        ),
        (
            r#","stream_options": {"include_usage" : true }"#,
            r#","stream_options": {"include_usage" : true }"#,
        ),
        (
            r#","stream_options":{"include_obfuscation":false}"#,
            r#","stream_options":{"include_usage":true,"include_obfuscation":false}"#,
        ),
    ];
    for (sent, forwarded) in cases {
        assert_eq!(spliced(&body(sent), &EDITS), expected(forwarded));
    }
    let no_options = RequestEdits {
        remove: &["stream_options"],
        ..EDITS
    };
    assert_eq!(spliced(&body(""), &no_options), expected(""));
    assert_eq!(
        spliced(&body(r#","stream_options":{}"#), &no_options),
        expected("")
    );
    let not_streamed = format!(r#"{{"model":"m",{M},"stream":false,"stream_options":null}}"#);
    assert_eq!(
        spliced(&not_streamed, &EDITS),
        not_streamed.replace("\"m\"", "\"up\"")
    );
}

#[test]
fn cap_uses_the_field_name_of_the_upstream() {
    use CapName::{AsSent, MaxCompletionTokens, MaxTokens};
    let cases = [
        (AsSent, r#","max_tokens":5"#, r#","max_tokens":5"#),
        (
            AsSent,
            r#","max_completion_tokens":5"#,
            r#","max_completion_tokens":5"#,
        ),
        (
            AsSent,
            r#","max_tokens":5,"max_completion_tokens":5"#,
            r#","max_tokens":5,"max_completion_tokens":5"#,
        ),
        (MaxTokens, r#","max_completion_tokens" : 5"#, r#","max_tokens":5"#),
        (MaxTokens, r#","max_tokens" : 5"#, r#","max_tokens" : 5"#),
        (
            MaxTokens,
            r#","max_completion_tokens":5,"max_tokens":5"#,
            r#","max_tokens":5"#,
        ),
        (
            MaxTokens,
            r#","max_completion_tokens":5,"max_tokens":null"#,
            r#","max_tokens":5"#,
        ),
        (
            MaxTokens,
            r#","max_tokens":null,"max_completion_tokens":null"#,
            "",
        ),
        (
            MaxCompletionTokens,
            r#","max_tokens":5"#,
            r#","max_completion_tokens":5"#,
        ),
        (
            MaxCompletionTokens,
            r#","max_tokens":5,"max_completion_tokens":5"#,
            r#","max_completion_tokens":5"#,
        ),
        (MaxCompletionTokens, "", ""),
    ];
    for (cap_name, sent, forwarded) in cases {
        let edits = RequestEdits {
            cap_name,
            clamp_output: Some(7),
            ..EDITS
        };
        let has_cap = sent.contains(":5") || sent.contains(": 5");
        let edits = if has_cap {
            edits
        } else {
            RequestEdits {
                clamp_output: None,
                ..edits
            }
        };
        let body = format!(r#"{{"model":"m",{M}{sent}}}"#);
        assert_eq!(
            spliced(&body, &edits),
            format!(r#"{{"model":"up",{M}{forwarded}}}"#),
            "{cap_name:?} {sent}"
        );
    }
}

#[test]
fn a_clamp_is_set_when_the_caller_set_no_cap_or_a_larger_one() {
    let clamped = |sent: &str, cap_name| {
        let edits = RequestEdits {
            cap_name,
            clamp_output: Some(1024),
            ..EDITS
        };
        spliced(&format!(r#"{{"model":"m",{M}{sent}}}"#), &edits)
    };
    let expected = |name: &str| format!(r#"{{"{name}":1024,"model":"up",{M}}}"#);
    assert_eq!(clamped("", CapName::AsSent), expected("max_tokens"));
    assert_eq!(clamped("", CapName::MaxTokens), expected("max_tokens"));
    assert_eq!(
        clamped(r#","max_tokens":null"#, CapName::AsSent),
        expected("max_tokens")
    );
    assert_eq!(
        clamped(r#","max_tokens":null"#, CapName::MaxTokens),
        expected("max_tokens")
    );
    assert_eq!(
        clamped(r#","max_completion_tokens":null"#, CapName::MaxTokens),
        expected("max_tokens")
    );
    for (sent, cap_name, forwarded) in [
        (
            r#","max_tokens": 1025"#,
            CapName::AsSent,
            r#","max_tokens": 1024"#,
        ),
        (r#","max_tokens":1024"#, CapName::AsSent, r#","max_tokens":1024"#),
        (r#","max_tokens":1023"#, CapName::AsSent, r#","max_tokens":1023"#),
        (
            r#","max_tokens":1025,"max_completion_tokens":1025"#,
            CapName::AsSent,
            r#","max_tokens":1024,"max_completion_tokens":1024"#,
        ),
        (
            r#","max_tokens":null,"max_completion_tokens":1025"#,
            CapName::AsSent,
            r#","max_tokens":null,"max_completion_tokens":1024"#,
        ),
        (
            r#","max_completion_tokens": 1025"#,
            CapName::MaxTokens,
            r#","max_tokens":1024"#,
        ),
        (
            r#","max_tokens":1025"#,
            CapName::MaxCompletionTokens,
            r#","max_completion_tokens":1024"#,
        ),
    ] {
        let forwarded = format!(r#"{{"model":"up",{M}{forwarded}}}"#);
        assert_eq!(clamped(sent, cap_name), forwarded, "{cap_name:?} {sent}");
    }
}

#[test]
fn removed_fields_may_be_anywhere() {
    let fields = [
        ("seed", r#""seed":1"#),
        ("user", r#""user":"u""#),
        ("model", r#""model":"m""#),
        ("messages", M),
        ("store", r#""store" : false"#),
        ("n", r#""n":2"#),
    ];
    let all: Vec<&str> = fields.iter().map(|(_, text)| *text).collect();
    for order in 0..fields.len() {
        let mut all = all.clone();
        all.rotate_left(order);
        let body = format!("{{ {} }}", all.join(" , "));
        for removed in [
            vec!["seed"],
            vec!["n"],
            vec!["seed", "user"],
            vec!["store", "n"],
            vec!["user", "store", "n", "seed"],
        ] {
            let edits = RequestEdits {
                remove: &removed,
                ..EDITS
            };
            let out = spliced(&body, &edits);
            let forwarded: Vec<&str> = all
                .iter()
                .filter(|text| {
                    !fields
                        .iter()
                        .any(|(name, field)| field == *text && removed.contains(name))
                })
                .copied()
                .collect();
            let expected = forwarded.join(" , ").replace("\"m\"", "\"up\"");
            assert_eq!(
                out.trim_matches(['{', '}', ' ']),
                expected,
                "{removed:?} out of {body}"
            );
        }
    }
}

#[test]
fn only_allowed_vendor_fields_are_forwarded() {
    let body = format!(r#"{{"top_k":4,"model":"m","betas":["x"],{M},"min_p":0.1,"to\u0070_a":1}}"#);
    let none = format!(r#"{{"model":"up",{M}}}"#);
    assert_eq!(spliced(&body, &EDITS), none);
    let some = RequestEdits {
        vendor_fields: &["top_k", "top_a"],
        ..EDITS
    };
    assert_eq!(
        spliced(&body, &some),
        format!(r#"{{"top_k":4,"model":"up",{M},"to\u0070_a":1}}"#)
    );
    let removed = RequestEdits {
        remove: &["top_k"],
        ..some
    };
    assert_eq!(
        spliced(&body, &removed),
        format!(r#"{{"model":"up",{M},"to\u0070_a":1}}"#)
    );
}

#[test]
fn fields_are_added_unless_the_caller_sent_them() {
    let body = format!(r#"{{"model":"m",{M},"store":true}}"#);
    let add = RequestEdits {
        add: &[("store", "false"), ("usage", r#"{"include":true}"#)],
        ..EDITS
    };
    assert_eq!(
        spliced(&body, &add),
        format!(r#"{{"usage":{{"include":true}},"model":"up",{M},"store":true}}"#)
    );
    let replace = RequestEdits {
        remove: &["store"],
        ..add
    };
    assert_eq!(
        spliced(&body, &replace),
        format!(r#"{{"store":false,"usage":{{"include":true}},"model":"up",{M}}}"#)
    );
}

#[test]
fn developer_becomes_system_on_demand() {
    let body = r#"{"model":"m","messages":[{"role":"developer","content":"role: \"developer\""},{"content":"developer","role":"user"},{"content":[{"type":"text","text":"x","role":"developer"}],"role" : "develop\u0065r"}]}"#;
    let expected = r#"{"model":"up","messages":[{"role":"system","content":"role: \"developer\""},{"content":"developer","role":"user"},{"content":[{"type":"text","text":"x","role":"developer"}],"role" : "system"}]}"#;
    let edits = RequestEdits {
        developer_as_system: true,
        ..EDITS
    };
    assert_eq!(spliced(body, &edits), expected);
    assert_eq!(spliced(body, &EDITS), body.replace(r#""m""#, r#""up""#));
}

#[track_caller]
fn answered(body: &str, cost: Option<Credits>) -> String {
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    let head = inspect_response(&bytes).unwrap();
    let usage = Usage::tokens(3, 2);
    let out = splice_response(&bytes, &head, "public/m", cost.map(|cost| (&usage, cost)));
    String::from_utf8(out.to_vec()).unwrap()
}

const COST: Option<Credits> = Some(Credits::from_nanos(100_000));

#[test]
fn responses_have_the_public_model_and_the_cost() {
    let cases = [
        (r#"{"model":"up"}"#, None, r#"{"model":"public/m"}"#),
        (r#"{"id":"x"}"#, None, r#"{"model":"public/m","id":"x"}"#),
        ("{}", None, r#"{"model":"public/m"}"#),
        (
            r#"{"model":null,"usage":null}"#,
            None,
            r#"{"model":"public/m","usage":null}"#,
        ),
        (
            r#"{"usage": {"prompt_tokens":1 ,"completion_tokens":2} ,"model":"up"}"#,
            COST,
            r#"{"usage": {"prompt_tokens":1 ,"completion_tokens":2,"cost":"0.0001"} ,"model":"public/m"}"#,
        ),
        (
            r#"{"model":"up","usage":{}}"#,
            COST,
            r#"{"model":"public/m","usage":{"cost":"0.0001"}}"#,
        ),
        (
            r#"{"model":"up","usage":{"cost":0.42,"prompt_tokens":1,"cost_details":{"upstream":1}}}"#,
            COST,
            r#"{"model":"public/m","usage":{"prompt_tokens":1,"cost":"0.0001"}}"#,
        ),
        (
            r#"{"model":"up","usage":{"cost":0.42,"is_byok":true}}"#,
            None,
            r#"{"model":"public/m","usage":{}}"#,
        ),
        (
            r#"{"choices":[{"message":{"content":"{\"model\":\"up\",\"usage\":{}}","model":"up","usage":{"cost":1}}}],"model":"up"}"#,
            None,
            r#"{"choices":[{"message":{"content":"{\"model\":\"up\",\"usage\":{}}","model":"up","usage":{"cost":1}}}],"model":"public/m"}"#,
        ),
    ];
    for (body, cost, expected) in cases {
        assert_eq!(answered(body, cost), expected);
    }
    let counted = encode_usage(&Usage::tokens(3, 2), COST);
    for (body, expected) in [
        ("{}", format!(r#"{{"model":"public/m","usage":{counted}}}"#)),
        (
            r#"{"id":"x"}"#,
            format!(r#"{{"model":"public/m","id":"x","usage":{counted}}}"#),
        ),
        (
            r#"{"model":"up","id":"x" }"#,
            format!(r#"{{"model":"public/m","id":"x","usage":{counted} }}"#),
        ),
        (
            r#"{"usage": null,"model":"up"}"#,
            format!(r#"{{"usage": {counted},"model":"public/m"}}"#),
        ),
    ] {
        assert_eq!(answered(body, COST), expected);
    }
    let same = Bytes::from_static(br#"{"model":"public/m","usage":{"prompt_tokens":1}}"#);
    let out = splice_response(&same, &inspect_response(&same).unwrap(), "public/m", None);
    assert_eq!(out.as_ptr(), same.as_ptr());
}

#[test]
fn cost_can_be_added_later() {
    let cost = Credits::from_nanos(1_500_000_000);
    let event = Bytes::from_static(b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n");
    assert_eq!(
        event_with_cost(&event, cost).unwrap(),
        &b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"cost\":\"1.5\"}}\n\n"[..]
    );
    for event in ["data: {\"usage\":null}\n\n", "data: [DONE]\n\n"] {
        let event = Bytes::copy_from_slice(event.as_bytes());
        assert_eq!(event_with_cost(&event, cost).unwrap(), event);
    }
}

#[test]
fn response_output_is_measured() {
    let text = |body: &str| {
        let head = inspect_response(body.as_bytes()).unwrap();
        (head.choices, head.output_bytes)
    };
    assert_eq!(
        text(r#"{"choices":[{"message":{"content":"h\u00e9\n","role":"assistant"}}]}"#),
        (1, 4)
    );
    assert_eq!(
        text(
            r#"{"choices":[{"message":{"content":null,"refusal":"no","reasoning_content":"why"}},{"message":{"content":"x"}}]}"#
        ),
        (2, 6)
    );
    assert_eq!(
        text(r#"{"choices":[{"message":{"reasoning":"same","reasoning_content":"same"}}]}"#),
        (1, 4)
    );
    assert_eq!(
        text(
            r#"{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"custom":{"input":"abc"}}]}}]}"#
        ),
        (1, 5)
    );
    assert_eq!(
        text(
            r#"{"choices":[{"message":{"function_call":{"name":"f","arguments":"{}"},"audio":{"data":"AAAA","transcript":"hi"}}}]}"#
        ),
        (1, 4)
    );
    assert_eq!(
        text(
            r#"{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"abc"}]},{"type":"text","text":"d"}]}}]}"#
        ),
        (1, 4)
    );
    assert_eq!(text(r#"{"choices":"none"}"#), (0, 0));
    assert_eq!(
        text(r#"{"choices":[7,{"message":[]},{"message":{"content":7,"tool_calls":{}}}]}"#),
        (3, 0)
    );
    assert_eq!(text("{}"), (0, 0));
    assert!(
        inspect_response(br#"{"error":{"message":"x"}}"#)
            .unwrap()
            .is_error
    );
    assert!(!inspect_response(br#"{"error":null}"#).unwrap().is_error);
    for body in ["", "<html>", "[]", "null", "{\"choices\":[", "{} {}"] {
        assert!(inspect_response(body.as_bytes()).is_err(), "{body}");
    }
    let head = inspect_response(br#"{"usage":{"prompt_tokens":3,"completion_tokens":4}}"#).unwrap();
    assert_eq!(head.report.usage, Some(Usage::tokens(3, 4)));
    assert!(
        inspect_response(br#"{"usage":"many"}"#)
            .unwrap()
            .report
            .implausible
    );
}

#[test]
fn event_kinds_are_detected() {
    use EventKind::{Content, Done, Error, Finish, Preamble, Usage};
    let cases = [
        ("[DONE]", Done, 0),
        (" [DONE] ", Done, 0),
        ("{}", Preamble, 0),
        (r#"{"choices":[],"prompt_filter_results":[]}"#, Preamble, 0),
        (r#"{"choices":[],"usage":null}"#, Preamble, 0),
        (
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
            Preamble,
            0,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[]}}]}"#,
            Preamble,
            0,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"content":"hé"}}]}"#,
            Content,
            3,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}"#,
            Content,
            2,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}"#,
            Content,
            2,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"refusal":"no"}}]}"#,
            Content,
            2,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]}"#,
            Content,
            0,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}]}"#,
            Content,
            4,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"audio":{"data":"AAAA"}}}]}"#,
            Content,
            0,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            Finish,
            0,
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
            Finish,
            1,
        ),
        (
            r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
            Usage,
            0,
        ),
        (r#"{"usage":{"prompt_tokens":1,"completion_tokens":2}}"#, Usage, 0),
        (
            r#"{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":2}}"#,
            Usage,
            0,
        ),
        (
            r#"{"choices":[],"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}"#,
            Usage,
            0,
        ),
        (r#"{"error":{"message":"x"}}"#, Error, 0),
        (r#"{"error":"x"}"#, Error, 0),
        (r#"{"object":"error","message":"x"}"#, Error, 0),
        (
            r#"{"error":null,"object":"chat.completion.chunk","choices":[]}"#,
            Preamble,
            0,
        ),
    ];
    for (data, kind, bytes) in cases {
        let head = inspect_event(data.as_bytes()).unwrap();
        assert_eq!((head.kind, head.output_bytes), (kind, bytes), "{data}");
    }
    for data in ["", "{", "DONE", "[]", "[DONE", "7"] {
        assert!(inspect_event(data.as_bytes()).is_err(), "{data}");
    }
}

#[test]
fn reports_are_found_in_events() {
    let report = |data: &str| inspect_event(data.as_bytes()).unwrap().report;
    let plain = r#""usage":{"prompt_tokens":1,"completion_tokens":2}"#;
    let groq = r#""x_groq":{"id":"r","usage":{"prompt_tokens":7,"completion_tokens":8}}"#;
    assert_eq!(report(&format!("{{{plain}}}")).usage, Some(Usage::tokens(1, 2)));
    assert_eq!(report(&format!("{{{groq}}}")).usage, Some(Usage::tokens(7, 8)));
    assert_eq!(
        report(&format!("{{{groq},{plain}}}")).usage,
        Some(Usage::tokens(1, 2))
    );
    assert_eq!(
        report(&format!("{{{plain},{groq}}}")).usage,
        Some(Usage::tokens(1, 2))
    );
    assert_eq!(
        report(&format!(r#"{{"usage":null,{groq}}}"#)).usage,
        Some(Usage::tokens(7, 8))
    );
    assert_eq!(
        report(&format!(r#"{{{groq},"usage":null}}"#)).usage,
        Some(Usage::tokens(7, 8))
    );
    assert!(report(r#"{"usage":{"prompt_tokens":18446744073709551615,"completion_tokens":1}}"#).implausible);
}

/// Returns the bytes that the caller receives for an event with this data.
fn relayed(data: &str, include_usage: bool, cost: Option<Credits>) -> Option<String> {
    let event = sse::Event {
        name: None,
        id: None,
        data: Bytes::copy_from_slice(data.as_bytes()),
        raw: None,
    };
    let head = inspect_event(&event.data).unwrap();
    let out = splice_event(&event, &head, &EventEdits::new("public/m", include_usage), cost)?;
    let text = String::from_utf8(out.to_vec()).unwrap();
    let data = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
    Some(data.to_owned())
}

#[test]
fn events_have_the_public_model_and_requested_usage() {
    let chunk = |before: &str, after: &str| {
        format!(
            r#"{{"id":"x"{before},"choices":[{{"index":0,"delta":{{"content":"\"usage\":null,\"model\":\"up\""}}}}]{after}}}"#
        )
    };
    let model = r#","model":"up""#;
    let public = r#","model":"public/m""#;
    let null = r#","usage":null"#;
    let report = r#","usage":{"prompt_tokens":1,"completion_tokens":2}"#;
    let cases = [
        (false, chunk(model, null), chunk(public, "")),
        (true, chunk(model, null), chunk(public, null)),
        (false, chunk(null, model), chunk("", public)),
        (false, chunk(r#" , "usage" : null "#, model), chunk("  ", public)),
        (false, chunk(model, report), chunk(public, "")),
        (true, chunk(model, report), chunk(public, report)),
        (true, chunk(report, model), chunk(report, public)),
        (true, chunk(model, ""), chunk(public, "")),
    ];
    for (include_usage, data, expected) in cases {
        assert_eq!(
            relayed(&data, include_usage, None),
            Some(expected),
            "{include_usage} {data}"
        );
    }
    let first = r#"{"usage":null,"choices":[{"delta":{"content":"x"}}],"model":"up"}"#;
    let expected = r#"{"choices":[{"delta":{"content":"x"}}],"model":"public/m"}"#;
    assert_eq!(relayed(first, false, None).as_deref(), Some(expected));
    let nothing_else = relayed(r#"{ "usage":null }"#, false, None);
    assert_eq!(nothing_else.as_deref(), Some(r#"{"model":"public/m"  }"#));
}

#[test]
fn usage_events_are_hidden_or_priced() {
    let data =
        r#"{"id":"x","model":"up","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":9}}"#;
    assert_eq!(relayed(data, false, COST), None);
    let free =
        r#"{"id":"x","model":"public/m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    assert_eq!(relayed(data, true, None).as_deref(), Some(free));
    let priced = r#"{"id":"x","model":"public/m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":"0.0001"}}"#;
    assert_eq!(relayed(data, true, COST).as_deref(), Some(priced));
    assert_eq!(
        relayed(r#"{"error":{"message":"the vendor says"}}"#, true, None),
        None
    );
    assert_eq!(relayed("[DONE]", true, None).as_deref(), Some("[DONE]"));
}

#[test]
fn unchanged_event_keeps_its_bytes() {
    let bytes = Bytes::from_static(
        b"data: {\"model\":\"public/m\",\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n",
    );
    let mut reader = sse::EventReader::default();
    reader.push(bytes.clone());
    let event = reader.next_event().unwrap().unwrap();
    let head = inspect_event(&event.data).unwrap();
    let out = splice_event(&event, &head, &EventEdits::new("public/m", false), None).unwrap();
    assert_eq!(out.as_ptr(), bytes.as_ptr());
    assert_eq!(out, bytes);
}

#[test]
fn other_event_forms_are_normalised() {
    let streams = [
        "data: {\"model\":\"MODEL\",\ndata: \"choices\":[]}\n\n",
        "data:{\"model\":\"MODEL\",\"choices\":[]}\r\n\r\n",
        ": comment\nevent: message\nid: 7\ndata: {\"model\":\"MODEL\",\"choices\":[]}\n\n",
    ];
    for stream in streams {
        for model in ["up", "public/m"] {
            let mut reader = sse::EventReader::default();
            reader.push(Bytes::from(stream.replace("MODEL", model)));
            let event = reader.next_event().unwrap().unwrap();
            let head = inspect_event(&event.data).unwrap();
            let out = splice_event(&event, &head, &EventEdits::new("public/m", true), None).unwrap();
            assert_eq!(
                out, "data: {\"model\":\"public/m\",\"choices\":[]}\n\n",
                "{stream:?}"
            );
        }
    }
}
