//! Timings of the hot paths. The tests are ignored by default, because the results depend on the
//! machine: `cargo test --release -p tollgate-formats --test bench -- --ignored --nocapture`
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement reads the time and prints it"
)]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use tollgate_formats::openai_chat::{self, EventEdits, RequestEdits};
use tollgate_formats::sse;

/// Prints the nanoseconds per call and the throughput for `bytes` per call. Takes the minimum of
/// many rounds that are shorter than a time slice, to exclude interruptions.
fn time(name: &str, bytes: usize, mut call: impl FnMut() -> usize) {
    const ROUND: f64 = 1e6;
    let mut calls = 1_u64;
    let mut best = f64::MAX;
    for _ in 0..300 {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        let elapsed = start.elapsed().as_nanos() as f64;
        best = best.min(elapsed / calls as f64);
        if elapsed < ROUND / 2.0 {
            calls = ((ROUND / elapsed.max(1.0)) as u64 * calls).max(calls + 1);
        }
    }
    println!("{name:44} {best:>10.0} ns {:>7.2} GB/s", bytes as f64 / best);
}

const WORDS: [&str; 12] = [
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "and",
    "says",
    "\\\"hello\\\"\\n",
    "then",
];

fn prompt(bytes: usize, extra: &str) -> String {
    let mut text = String::new();
    for place in 0.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(WORDS[place * 7 % WORDS.len()]);
        text.push(' ');
        if place % 9 == 0 {
            text.push_str(extra);
        }
    }
    text
}

fn request(prompt: &str) -> Bytes {
    let body = format!(
        r#"{{"model": "maker/model", "messages": [{{"role": "system", "content": "You are a helpful assistant."}}, {{"role": "user", "content": "{prompt}"}}], "max_tokens": 256, "temperature": 0.2, "stream": true}}"#
    );
    Bytes::from(body)
}

#[test]
#[ignore = "a measurement"]
fn bench_validate() {
    for (name, body) in [
        ("0.5 KB", request(&prompt(330, ""))),
        ("100 KB with escapes", request(&prompt(100_000, ""))),
        (
            "100 KB with escapes and umlauts",
            request(&prompt(100_000, "Zürich ")),
        ),
        (
            "100 KB plain",
            request(&"plain text without escapes ".repeat(3_700)),
        ),
        ("100 KB Chinese", request(&"汉字".repeat(16_700))),
    ] {
        println!("-- request, {name} ({} bytes)", body.len());
        time("validate", body.len(), || {
            openai_chat::validate(&body).unwrap().messages as usize
        });
        let head = openai_chat::validate(&body).unwrap();
        let edits = RequestEdits {
            model: "upstream-model",
            ..RequestEdits::default()
        };
        time("splice_request", body.len(), || {
            openai_chat::splice_request(&body, &head, &edits).len()
        });
        time("memcpy", body.len(), || black_box(body.to_vec()).len());
        time("utf8 check (std)", body.len(), || {
            std::str::from_utf8(&body).unwrap().len()
        });
        time("serde_json tree", body.len(), || {
            let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
            value.as_object().unwrap().len()
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn bench_events() {
    let chunk = r#"data: {"id":"chatcmpl-BxYz0123456789abcdef","object":"chat.completion.chunk","created":1763600000,"model":"gpt-5.1-2026-10-01","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" lazy"},"logprobs":null,"finish_reason":null}],"usage":null}

"#;
    let event = Bytes::from_static(chunk.as_bytes());
    println!("-- event ({} bytes)", event.len());
    let mut reader = sse::EventReader::default();
    time("read", event.len(), || {
        reader.push(event.clone());
        reader.next_event().unwrap().unwrap().data.len()
    });
    reader.push(event.clone());
    let read = reader.next_event().unwrap().unwrap();
    time("inspect_event", event.len(), || {
        openai_chat::inspect_event(&read.data).unwrap().output_bytes as usize
    });
    let head = openai_chat::inspect_event(&read.data).unwrap();
    for (name, edits) in [
        (
            "splice_event, usage hidden",
            EventEdits::new("maker/model", false),
        ),
        ("splice_event, usage asked", EventEdits::new("maker/model", true)),
        (
            "splice_event, nothing to change",
            EventEdits::new("gpt-5.1-2026-10-01", true),
        ),
    ] {
        time(name, event.len(), || {
            openai_chat::splice_event(&read, &head, &edits, None)
                .unwrap()
                .len()
        });
    }
    time("all three", event.len(), || {
        reader.push(event.clone());
        let read = reader.next_event().unwrap().unwrap();
        let head = openai_chat::inspect_event(&read.data).unwrap();
        openai_chat::splice_event(&read, &head, &EventEdits::new("m", false), None)
            .unwrap()
            .len()
    });
}
