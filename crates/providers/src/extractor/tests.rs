//! Tests with programs that violate the protocol. The real program is tested in
//! `crates/tollgate/tests/extract.rs`.

use std::time::Duration;

use bytes::Bytes;
use tollgate_types::Date;
use tollgate_upstream::page::EXTRACT_GREETING;
use tollgate_upstream::{ExtractError, PageExtractor, PageHead};

use super::{Extractor, ExtractorSettings};

/// Creates a pool of one process of a shell script, which starts with a greeting.
fn extractor(script: &str) -> Extractor {
    let greeting = format!(
        "printf '\\0\\0\\0\\{:o}%s' '{EXTRACT_GREETING}'; ",
        EXTRACT_GREETING.len()
    );
    of(&(greeting + script))
}

fn of(script: &str) -> Extractor {
    Extractor::new(ExtractorSettings {
        arguments: vec!["-c".into(), script.into()],
        processes: 1,
        time_limit: Duration::from_secs(5),
        ..ExtractorSettings::of("/bin/sh")
    })
}

async fn extract(extractor: &Extractor) -> Result<String, ExtractError> {
    let head = PageHead {
        url: "https://example.com/".to_owned(),
        media_type: "text/html".to_owned(),
        charset: None,
        today: Date::new(2026, 11, 29).unwrap(),
    };
    let page = extractor.extract(&head, &Bytes::from_static(b"<p>Text")).await;
    page.map(|page| page.text)
}

#[tokio::test]
async fn other_programs_receive_no_page() {
    for script in [
        "exit 0",
        "echo hello",
        "printf '\\0\\0\\0\\026tollgate extract 9.9.99'",
        "printf '\\377\\377\\377\\377'",
        "printf '\\0\\0'",
    ] {
        let unavailable = Err(ExtractError::Unavailable);
        assert_eq!(extract(&of(script)).await, unavailable, "{script}");
    }
    let missing = Extractor::new(ExtractorSettings::of("/no/such/program"));
    assert_eq!(extract(&missing).await, Err(ExtractError::Unavailable));
}

#[tokio::test]
async fn failed_processes_fail_one_page() {
    for script in [
        "exit 1",
        "head -c 40 >/dev/null; kill -9 $$",
        "printf '\\0\\0\\0\\02{}'; exec sleep 100",
        "printf '\\377\\0\\0\\0'; exec sleep 100",
        "printf '\\0\\0\\0\\011garbage'; exit",
    ] {
        let extractor = extractor(script);
        for _ in 0..2 {
            assert_eq!(
                extract(&extractor).await,
                Err(ExtractError::TooComplex),
                "{script}"
            );
        }
    }
}

#[tokio::test]
async fn processes_that_do_not_reply_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let mut extractor = extractor(&format!("echo $$ > {}; exec sleep 100", file.display()));
    extractor.settings.time_limit = Duration::from_secs(1);
    assert_eq!(extract(&extractor).await, Err(ExtractError::TimedOut));
    let pid = std::fs::read_to_string(file).unwrap();
    let has_ended = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
        status.is_empty() || status.contains("State:\tZ")
    };
    while !has_ended() {
        tokio::task::yield_now().await;
    }
}
