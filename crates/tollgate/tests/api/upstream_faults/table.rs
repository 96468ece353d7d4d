//! Every fault of the scripted upstream, asked for whole and streamed.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{FAULTS, Fault, Outcome};

use super::{Told, assert_told, estimate};
use crate::scene::{Classes, GRANTED, PRICES, Scene, hello};

const UPSTREAM: Told = Told::Refused("upstream_error");
const BUSY: Told = Told::Refused("model_unavailable");
const LATE: Told = Told::Refused("upstream_timeout");
const CUT: Told = Told::Broken("upstream_error");

/// What a caller is told about the fault, asking for a whole answer and for a stream.
fn told(fault: &Fault) -> (Told, Told) {
    use Told::Answer;
    match fault.name {
        // The answer was complete when the connection broke; only the framing knows that more should come.
        "close-short-of-content-length" | "close-without-last-chunk" => (UPSTREAM, Answer),
        // The bytes of JSON are judged, the type of a stream is what makes it one.
        "wrong-content-type" => (Answer, UPSTREAM),
        "reset-mid-body" | "sse-cut-mid-event" | "sse-cut-between-events" | "error-event" => (UPSTREAM, CUT),
        "hang-mid-body" => (LATE, Told::Broken("upstream_timeout")),
        "endless" => (LATE, Told::Broken("upstream_timeout")),
        "400" => (
            Told::Refused("invalid_parameter"),
            Told::Refused("invalid_parameter"),
        ),
        "context-length" => (
            Told::Refused("context_length_exceeded"),
            Told::Refused("context_length_exceeded"),
        ),
        "content-policy" => (
            Told::Refused("content_policy_violation"),
            Told::Refused("content_policy_violation"),
        ),
        "429" | "429-long" | "html-429" => (BUSY, BUSY),
        _ => match fault.outcome {
            Outcome::Answer => (Answer, Answer),
            Outcome::Failure => (UPSTREAM, UPSTREAM),
            Outcome::Endless => (LATE, LATE),
        },
    }
}

/// What the call costs, and whether the gateway counted itself.
fn charge(fault: &Fault, scene: &Scene, body: &Value, output: &str, told: Told) -> (Classes, bool) {
    if told != Told::Answer {
        return (Classes::default(), false);
    }
    match fault.name {
        "usage-missing" | "usage-null" | "usage-huge" | "usage-beyond-u64" | "usage-negative"
        | "usage-float" | "usage-string" => (estimate(body, output), true),
        // A report of nothing is a report.
        "usage-zero" => (Classes::default(), false),
        // A part cannot be larger than its whole.
        "usage-inconsistent" => (
            Classes {
                cache_read: 5,
                output: 4,
                ..Classes::default()
            },
            false,
        ),
        _ => {
            let used = scene.upstream.served().last().unwrap().used;
            let count = |tokens: u64| i64::try_from(tokens).unwrap();
            (
                Classes {
                    input: count(used.prompt),
                    output: count(used.completion),
                    ..Classes::default()
                },
                false,
            )
        }
    }
}

/// Plays the faults one after the other; each is seen from all sides before the next.
async fn play(settings: &str, chosen: impl Fn(&Fault) -> bool) {
    let scene = Scene::start_with(&format!("[retries]\nextra_attempts = 0\n{settings}")).await;
    let (mut paid, mut played) = (0, 0);
    for fault in FAULTS.iter().filter(|fault| chosen(fault)) {
        let (whole, streamed) = told(fault);
        for (stream, told) in [(false, whole), (true, streamed)] {
            let what = format!("{} {}", fault.name, if stream { "streamed" } else { "whole" });
            let body = hello(json!({"stream": stream}));
            // At full speed the bound on an answer's size would come before the one on its time.
            scene.upstream.push(match fault.name {
                "endless" => fault.reply().pace(Duration::from_millis(1)),
                _ => fault.reply(),
            });
            let response = scene.chat(&body).await;
            let output = assert_told(&what, &response, stream, told);
            played += 1;
            assert_eq!(scene.upstream.request_count(), played, "{what}: asked once");

            let usage = scene.usage_of(response.request_id()).await;
            let row = &usage["data"][0];
            let (classes, estimated) = charge(fault, &scene, &body, &output, told);
            let cost = classes.at(PRICES);
            paid += cost;
            assert_eq!(Classes::of_row(row), classes, "{what}: {row}");
            assert_eq!(nanos(&row["cost"]), cost, "{what}: {row}");
            assert_eq!(row["estimated"], estimated, "{what}: {row}");
            let outcome = match told {
                Told::Answer => "ok",
                Told::Refused("upstream_timeout") | Told::Broken("upstream_timeout") => "timeout",
                Told::Refused(_) | Told::Broken(_) => "upstream_error",
            };
            assert_eq!(row["outcome"], outcome, "{what}: {row}");
            assert_eq!(nanos(&usage["balance"]["credits"]), GRANTED - paid, "{what}");
            assert_eq!(usage["balance"]["held"], "0", "{what}: nothing stays held");
            if told == BUSY {
                let wait: u32 = response.header("retry-after").unwrap().parse().unwrap();
                assert_eq!(
                    wait,
                    if fault.name == "429-long" {
                        3600
                    } else {
                        wait.clamp(1, 60)
                    },
                    "{what}"
                );
            }
        }
    }
    assert!(played > 0, "some faults were chosen");
    let log = scene.gateway.log();
    for secret in [
        "sk-secret",
        crate::scene::PROVIDER_KEY,
        "The server had an error",
        "Hi there",
    ] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    let check = scene.finish().await;
    assert_eq!((check.usage_rows, check.revenue), (played, paid));
}

#[tokio::test]
async fn answers_that_are_odd() {
    play("", |fault| fault.outcome == Outcome::Answer).await;
}

#[tokio::test]
async fn failures() {
    play("", |fault| fault.outcome == Outcome::Failure).await;
}

#[tokio::test]
async fn silence() {
    let short = "[timeouts]\nheaders_ms = 400\nfirst_content_ms = 400\nidle_ms = 400\ntotal_ms = 30000\n";
    play(short, |fault| {
        fault.outcome == Outcome::Endless && fault.name != "endless"
    })
    .await;
}

#[tokio::test]
async fn no_end() {
    play("[timeouts]\ntotal_ms = 500\n", |fault| fault.name == "endless").await;
}
