use proptest::prelude::*;
use tollgate_types::Unit::{CacheRead, CacheWrite, Input, InputAudio, Output, OutputAudio, Reasoning};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Credits, Unit, Usage};

use super::{encode_usage, read_usage};

fn check(text: &str, expected: Option<&[(Unit, u64)]>, implausible: bool) {
    let report = read_usage(text.as_bytes()).unwrap();
    let found: Option<Vec<(Unit, u64)>> = report.usage.map(|usage| usage.iter().collect());
    assert_eq!(found.as_deref(), expected, "{text}");
    assert_eq!(report.implausible, implausible, "{text}");
}

#[test]
fn reports_become_disjoint_classes() {
    let sane: [(&str, &[(Unit, u64)]); 15] = [
        (
            r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}"#,
            &[(Input, 10), (Output, 5)],
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":5}"#,
            &[(Input, 10), (Output, 5)],
        ),
        (
            r#"{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}"#,
            &[],
        ),
        (
            r#"{"prompt_tokens":1e1,"completion_tokens":5.0}"#,
            &[(Input, 10), (Output, 5)],
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":99}"#,
            &[(Input, 10), (Output, 5)],
        ),
        (
            r#"{"prompt_tokens":10,"total_tokens":15}"#,
            &[(Input, 10), (Output, 5)],
        ),
        (
            r#"{"completion_tokens":5,"total_tokens":15}"#,
            &[(Input, 10), (Output, 5)],
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":{}}"#,
            &[(Input, 10), (Output, 5)],
        ),
        (
            r#"{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":20,"audio_tokens":5},"completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":4,"accepted_prediction_tokens":3,"text_tokens":16}}"#,
            &[
                (Input, 15),
                (CacheRead, 60),
                (CacheWrite, 20),
                (InputAudio, 5),
                (Output, 16),
                (Reasoning, 30),
                (OutputAudio, 4),
            ],
        ),
        // DeepSeek reports cache hits as `prompt_cache_hit_tokens`.
        (
            r#"{"prompt_tokens":100,"completion_tokens":5,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}"#,
            &[(Input, 36), (CacheRead, 64), (Output, 5)],
        ),
        // Moonshot reports `cached_tokens` next to the totals.
        (
            r#"{"prompt_tokens":100,"completion_tokens":5,"cached_tokens":64}"#,
            &[(Input, 36), (CacheRead, 64), (Output, 5)],
        ),
        // A report with cache hits in both fields.
        (
            r#"{"prompt_tokens":100,"completion_tokens":5,"prompt_cache_hit_tokens":64,"prompt_tokens_details":{"cached_tokens":64}}"#,
            &[(Input, 36), (CacheRead, 64), (Output, 5)],
        ),
        // xAI includes reasoning only in the total.
        (
            r#"{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}"#,
            &[(Input, 32), (Output, 9), (Reasoning, 94)],
        ),
        (
            r#"{"prompt_tokens":32,"completion_tokens":103,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}"#,
            &[(Input, 32), (Output, 9), (Reasoning, 94)],
        ),
        // Both counts include cached audio; no token is counted twice.
        (
            r#"{"prompt_tokens":100,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":80,"audio_tokens":60}}"#,
            &[(CacheRead, 80), (InputAudio, 20)],
        ),
    ];
    for (text, expected) in sane {
        check(text, Some(expected), false);
    }
}

#[test]
fn implausible_usage_is_flagged() {
    check("null", None, false);
    check("{}", None, false);
    check(r#"{"prompt_tokens":null,"completion_tokens":null}"#, None, false);
    check(r#"{"queue_time":0.1}"#, None, false);
    for text in [
        r#"{"prompt_tokens":10}"#,
        r#"{"total_tokens":10}"#,
        r#"{"prompt_tokens":10,"total_tokens":5}"#,
        r#"{"prompt_tokens":-1,"completion_tokens":5}"#,
        r#"{"prompt_tokens":10,"completion_tokens":1.5}"#,
        r#"{"prompt_tokens":"10","completion_tokens":5}"#,
        r#"{"prompt_tokens":10,"completion_tokens":true}"#,
        r#"{"prompt_tokens":10,"completion_tokens":{}}"#,
        r#"{"prompt_tokens":18446744073709551615,"completion_tokens":5}"#,
        r#"{"prompt_tokens":10,"completion_tokens":1000000001}"#,
        r#"{"prompt_tokens":10,"completion_tokens":1e300}"#,
    ] {
        check(text, None, true);
    }
    let cached = |cached: &str| {
        format!(
            r#"{{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{{"cached_tokens":{cached}}}}}"#
        )
    };
    check(&cached("11"), Some(&[(CacheRead, 10), (Output, 5)]), true);
    check(&cached("-1"), Some(&[(Input, 10), (Output, 5)]), true);
    check(&cached("\"4\""), Some(&[(Input, 10), (Output, 5)]), true);
    check(
        r#"{"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":9}}"#,
        Some(&[(Input, 10), (Reasoning, 5)]),
        true,
    );
    check(
        r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":[1],"completion_tokens_details":"x"}"#,
        Some(&[(Input, 10), (Output, 5)]),
        false,
    );
}

#[test]
fn max_quantity_is_accepted() {
    let text = format!(r#"{{"prompt_tokens":{MAX_QUANTITY},"completion_tokens":{MAX_QUANTITY}}}"#);
    let usage = read_usage(text.as_bytes()).unwrap().usage.unwrap();
    assert_eq!(usage, Usage::tokens(MAX_QUANTITY, MAX_QUANTITY));
}

#[test]
fn encoded_usage_round_trips() {
    let usage = Usage::tokens(7, 5)
        .with(CacheRead, 3)
        .with(CacheWrite, 2)
        .with(InputAudio, 1)
        .with(Reasoning, 11)
        .with(OutputAudio, 4);
    let cost = Credits::from_nanos(100_000);
    let written = encode_usage(&usage, Some(cost));
    assert_eq!(written["prompt_tokens"], 13);
    assert_eq!(written["completion_tokens"], 20);
    assert_eq!(written["total_tokens"], 33);
    assert_eq!(written["cost"], "0.0001");
    let report = read_usage(written.to_string().as_bytes()).unwrap();
    assert_eq!((report.usage, report.implausible), (Some(usage), false));
    assert!(encode_usage(&usage, None).get("cost").is_none());
}

/// Generates a count as an upstream may send it.
fn count() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0..2_000_u64).prop_map(|count| count.to_string()),
        1 => (0..2_000_u64).prop_map(|count| format!("{count}.0")),
        1 => any::<u64>().prop_map(|count| count.to_string()),
        1 => prop::sample::select(vec!["null", "-1", "1.5", "\"7\"", "[]", "1e9", "1e12"]).prop_map(str::to_owned),
    ]
}

proptest! {
    #[test]
    fn the_classes_add_up_to_the_totals(
        prompt in 0..100_000_u64, completion in 0..100_000_u64, total in prop::option::of(count()),
        cached in prop::option::of(count()), write in prop::option::of(count()), audio in prop::option::of(count()),
        hit in prop::option::of(count()), reasoning in prop::option::of(count()), spoken in prop::option::of(count()),
    ) {
        let mut parts = vec![format!(r#""prompt_tokens":{prompt},"completion_tokens":{completion}"#)];
        let mut add = |name: &str, count: &Option<String>| {
            if let Some(count) = count {
                parts.push(format!(r#""{name}":{count}"#));
            }
        };
        add("total_tokens", &total);
        add("prompt_cache_hit_tokens", &hit);
        let details = |counts: [(&str, &Option<String>); 3]| {
            let fields: Vec<String> = counts
                .iter()
                .filter_map(|(name, count)| Some(format!(r#""{name}":{}"#, count.as_ref()?)))
                .collect();
            fields.join(",")
        };
        let input = details([("cached_tokens", &cached), ("cache_write_tokens", &write), ("audio_tokens", &audio)]);
        let output = details([("reasoning_tokens", &reasoning), ("audio_tokens", &spoken), ("text_tokens", &None)]);
        parts.push(format!(r#""prompt_tokens_details":{{{input}}},"completion_tokens_details":{{{output}}}"#));
        let text = format!("{{{}}}", parts.join(","));

        let usage = read_usage(text.as_bytes()).unwrap().usage.unwrap();
        prop_assert_eq!(usage.total_input(), prompt, "{}", text);
        let beside = usage.total_output() - completion;
        if beside > 0 {
            // The reasoning is added only if the upstream's total shows that `completion_tokens`
            // excludes it.
            prop_assert_eq!(beside, usage.get(Reasoning), "{}", text);
            prop_assert_eq!(total, Some((prompt + completion + beside).to_string()), "{}", text);
        }
    }

    #[test]
    fn any_object_is_read(counts in proptest::collection::vec(count(), 11)) {
        let names = [
            "prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "reasoning_tokens", "cost",
            "prompt_cache_hit_tokens", "prompt_tokens_details", "completion_tokens_details", "x", "is_byok",
        ];
        let fields: Vec<String> = names.iter().zip(&counts).map(|(name, count)| format!(r#""{name}":{count}"#)).collect();
        let text = format!("{{{}}}", fields.join(","));
        let report = read_usage(text.as_bytes()).unwrap();
        if let Some(usage) = report.usage {
            prop_assert!(usage.iter().all(|(_, quantity)| quantity <= MAX_QUANTITY));
        }
    }
}
