//! Requests to the gateway, with new attempts while it is busy.

use futures_util::{StreamExt, stream};
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;
use tollgate_providers::gateway::GatewayAnswer;
use tollgate_types::clock::{Clock, SystemClock};
use tollgate_upstream::UpstreamError;

/// Maximum number of attempts of a request that is refused with 503.
const MAX_ATTEMPTS: u32 = 5;
/// Maximum number of attempts of a request that is refused with 429. It is greater than
/// [`MAX_ATTEMPTS`], because a rate limit allows the request after some time.
const MAX_RATE_LIMITED_ATTEMPTS: u32 = 60;
/// Pause after the first attempt. The pause grows linearly with each attempt; a `retry-after` of
/// the gateway replaces it.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause between two attempts, also for a `retry-after`.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// The reason why a test case has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseError {
    /// An error that affects all cases, with its fix.
    Fatal(String),
    /// An error of this case only.
    CaseOnly(String),
}

/// Runs all cases, `parallel` of them concurrently. Returns the results in any order, and the
/// failed lines with their messages, in order. Calls `on_progress` after each case with the number
/// of finished cases. Fails if a request fails for a reason that affects all cases, and no case has
/// a result: results so far have been paid for, so they are returned.
pub(super) async fn all<'c, C, T, F: Future<Output = Result<T, CaseError>>>(
    cases: &'c [C],
    parallel: usize,
    line: impl Fn(&C) -> usize,
    run: impl Fn(usize, &'c C) -> F,
    mut on_progress: impl FnMut(usize),
) -> Result<(Vec<T>, Vec<(usize, String)>), String> {
    let running = cases.iter().enumerate().map(|(place, case)| {
        let (line, running) = (line(case), run(place, case));
        async move { (line, running.await) }
    });
    let mut running = stream::iter(running).buffer_unordered(parallel.max(1));
    let (mut outcomes, mut failed) = (Vec::with_capacity(cases.len()), Vec::new());
    while let Some((line, result)) = running.next().await {
        match result {
            Ok(outcome) => outcomes.push(outcome),
            Err(CaseError::Fatal(what)) if outcomes.is_empty() => {
                return Err(format!("line {line}: {what}"));
            }
            Err(CaseError::Fatal(what) | CaseError::CaseOnly(what)) => failed.push((line, what)),
        }
        on_progress(outcomes.len() + failed.len());
    }
    failed.sort();
    Ok((outcomes, failed))
}

/// Sends a request until the gateway answers with status 200 or 202. Returns the answer and the
/// duration of the last attempt, without the pauses before it.
pub(super) async fn send(
    clock: &SystemClock,
    request: impl AsyncFn() -> Result<GatewayAnswer, UpstreamError>,
) -> Result<(GatewayAnswer, Duration), CaseError> {
    let mut attempt = 1;
    loop {
        let began = clock.monotonic_micros();
        let answered = request().await.map_err(|error| {
            let detail = error.detail;
            CaseError::Fatal(format!(
                "the gateway does not answer ({detail}); start it, or set its address with --url"
            ))
        })?;
        let took = clock.monotonic_micros().saturating_sub(began);
        match answered.status {
            200 | 202 => return Ok((answered, Duration::from_micros(took))),
            429 if attempt < MAX_RATE_LIMITED_ATTEMPTS => {}
            503 if attempt < MAX_ATTEMPTS => {}
            _ => return Err(refused(&answered)),
        }
        let pause = answered.retry_after.unwrap_or(RETRY_PAUSE * attempt);
        sleep(pause.min(MAX_RETRY_PAUSE)).await;
        attempt += 1;
    }
}

/// Converts an error response. With a wrong key, model or path, or without credits, every case
/// fails.
fn refused(answer: &GatewayAnswer) -> CaseError {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let member = |name: &str| body.get("error").and_then(|error| error.get(name)?.as_str());
    let what = match (member("code"), member("message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => unexpected_body(answer.status),
    };
    let is_of_model = member("param") == Some("model");
    match answer.status {
        401..=405 => CaseError::Fatal(what),
        400 if is_of_model => CaseError::Fatal(what),
        _ => CaseError::CaseOnly(what),
    }
}

/// Returns the message for a body that no gateway sends.
pub(super) fn unexpected_body(status: u16) -> String {
    format!(
        "the server returned status {status} with an unexpected body; set the address of a gateway with --url"
    )
}
