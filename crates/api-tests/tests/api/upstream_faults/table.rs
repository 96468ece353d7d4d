//! Every fault of the scripted upstream, for whole answers and streams.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{FAULTS, Fault, Outcome};

use super::{Received, assert_received, estimate};
use crate::scene::{Classes, GRANTED, PRICES, Scene, hello};

const UPSTREAM: Received = Received::Refused("upstream_error");
const BUSY: Received = Received::Refused("model_unavailable");
const LATE: Received = Received::Refused("upstream_timeout");
const CUT: Received = Received::Broken("upstream_error");

/// Faults that close a connection before the end of a response head.
const HANG_UPS: &[&str] = &[
    "reset",
    "reset-before-body-is-read",
    "close",
    "close-inside-headers",
];

/// Returns the outcomes of a call with this fault: for a whole answer and for a stream.
fn received(fault: &Fault) -> (Received, Received) {
    use Received::Answer;
    match fault.name {
        // The answer was complete when the connection broke; only the framing shows that more
        // should follow.
        "close-short-of-content-length" | "close-without-last-chunk" => (UPSTREAM, Answer),
        // A whole answer is accepted by its JSON, a stream only by its content type.
        "wrong-content-type" => (Answer, UPSTREAM),
        "reset-mid-body" | "sse-cut-mid-event" | "sse-cut-between-events" | "error-event" => (UPSTREAM, CUT),
        "hang-mid-body" => (LATE, Received::Broken("upstream_timeout")),
        "endless" => (LATE, Received::Broken("upstream_timeout")),
        "400" => (
            Received::Refused("invalid_parameter"),
            Received::Refused("invalid_parameter"),
        ),
        "context-length" => (
            Received::Refused("context_length_exceeded"),
            Received::Refused("context_length_exceeded"),
        ),
        "content-policy" => (
            Received::Refused("content_policy_violation"),
            Received::Refused("content_policy_violation"),
        ),
        "429" | "429-long" | "html-429" | "503" | "529" | "html-503" => (BUSY, BUSY),
        _ => match fault.outcome {
            Outcome::Answer => (Answer, Answer),
            Outcome::Failure => (UPSTREAM, UPSTREAM),
            Outcome::Endless => (LATE, LATE),
        },
    }
}

/// Returns the charged tokens of the call, and whether they are an estimate.
fn charge(fault: &Fault, scene: &Scene, body: &Value, output: &str, received: Received) -> (Classes, bool) {
    if received != Received::Answer {
        return (Classes::default(), false);
    }
    match fault.name {
        // A report of zero tokens is ignored if text has arrived.
        "usage-missing" | "usage-null" | "usage-huge" | "usage-beyond-u64" | "usage-negative"
        | "usage-float" | "usage-string" | "usage-zero" => (estimate(body, output), true),
        // A part cannot be larger than its total.
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

/// Plays the faults one by one and checks response, charge and logs of each.
async fn play(settings: &str, chosen: impl Fn(&Fault) -> bool) {
    let scene = Scene::start_with(&format!("[retries]\nextra_attempts = 0\n{settings}")).await;
    let (mut paid, mut played) = (0, 0);
    for fault in FAULTS.iter().filter(|fault| chosen(fault)) {
        let (whole, streamed) = received(fault);
        for (stream, received) in [(false, whole), (true, streamed)] {
            let what = format!("{} {}", fault.name, if stream { "streamed" } else { "whole" });
            let body = hello(json!({"stream": stream}));
            // At full speed the limit on the answer's size would be reached before its timeout.
            let reply = match fault.name {
                "endless" => fault.reply().pace(Duration::from_millis(1)),
                _ => fault.reply(),
            };
            let before = scene.upstream.request_count();
            // If a reused connection is closed before the response, the call is repeated on a new
            // one. The fault is played again there.
            let may_be_resent = HANG_UPS.contains(&fault.name);
            match may_be_resent {
                true => scene.upstream.set_default(reply),
                false => scene.upstream.push(reply),
            }
            let response = scene.chat(&body).await;
            let output = assert_received(&what, &response, stream, received);
            played += 1;
            let asked = scene.upstream.request_count() - before;
            assert!(
                asked == 1 || asked == 2 && may_be_resent,
                "{what}: asked {asked} times"
            );

            let usage = scene.usage_of(response.request_id()).await;
            let row = &usage["data"][0];
            let (classes, estimated) = charge(fault, &scene, &body, &output, received);
            let cost = classes.at(PRICES);
            paid += cost;
            assert_eq!(Classes::of_row(row), classes, "{what}: {row}");
            assert_eq!(nanos(&row["cost"]), cost, "{what}: {row}");
            assert_eq!(row["estimated"], estimated, "{what}: {row}");
            let outcome = match received {
                Received::Answer => "ok",
                Received::Refused("upstream_timeout") | Received::Broken("upstream_timeout") => "timeout",
                Received::Refused(_) | Received::Broken(_) => "upstream_error",
            };
            assert_eq!(row["outcome"], outcome, "{what}: {row}");
            assert_eq!(nanos(&usage["balance"]["credits"]), GRANTED - paid, "{what}");
            assert_eq!(usage["balance"]["held"], "0", "{what}: nothing stays held");
            if received == BUSY {
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
async fn unusual_answers() {
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
async fn endless_answers() {
    play("[timeouts]\ntotal_ms = 500\n", |fault| fault.name == "endless").await;
}
