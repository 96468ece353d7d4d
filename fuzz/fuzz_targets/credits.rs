//! Amounts: conversion between text and number is lossless, both ways.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_types::Credits;

fuzz_target!(|data: &[u8]| {
    if let Some(nanos) = data.first_chunk::<8>() {
        let nanos = i64::from_le_bytes(*nanos);
        // The minimum has no positive counterpart; no real amount comes near it.
        if nanos != i64::MIN {
            let credits = Credits::from_nanos(nanos);
            assert_eq!(credits.to_string().parse(), Ok(credits));
        }
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(credits) = text.parse::<Credits>() {
        let written = credits.to_string();
        assert_eq!(written.parse(), Ok(credits));
        assert!(written.len() <= text.len(), "{text} became {written}");
        assert!(
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte))
        );
    }
});
