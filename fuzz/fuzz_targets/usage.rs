//! Usage reports: accepted numbers are bounded, in classes that do not overlap, and survive writing
//! and parsing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tollgate_formats::openai_chat::{UsageReport, encode_usage, read_usage};
use tollgate_fuzz::tree;
use tollgate_types::usage::MAX_QUANTITY;

fuzz_target!(|data: &[u8]| {
    let Ok(report) = read_usage(data) else {
        return;
    };
    let Some(usage) = report.usage else {
        return;
    };
    let classes: u64 = usage.iter().map(|(_, quantity)| quantity).sum();
    assert_eq!(classes, usage.total());
    assert!(usage.total_input() <= MAX_QUANTITY && usage.total_output() <= MAX_QUANTITY);
    let written = encode_usage(&usage, None).to_string();
    let again = UsageReport {
        usage: Some(usage),
        implausible: false,
    };
    assert_eq!(read_usage(written.as_bytes()), Ok(again));

    let Some(tree) = tree(data) else {
        return;
    };
    let count = |name: &str| tree.get(name).and_then(Value::as_u64);
    if let (Some(prompt), Some(completion)) = (count("prompt_tokens"), count("completion_tokens")) {
        assert_eq!(usage.total_input(), prompt);
        // Never less than the upstream reports, and more only by the reasoning that its own total
        // proves.
        let more = usage
            .total_output()
            .checked_sub(completion)
            .expect("no token is lost");
        assert!(more == 0 || count("total_tokens") == Some(prompt + completion + more));
    }
});
