//! Client that sends evaluation requests concurrently.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use secrecy::SecretString;
use serde_json::Value;
use tokio::time::sleep;
use tollgate_providers::HttpClient;
use tollgate_providers::gateway::{GatewayAnswer, GatewayClient};
use tollgate_providers::http::EndpointError;
use tollgate_types::Credits;
use tollgate_types::clock::{Clock, SystemClock};
use tollgate_types::decide::Question;

use super::answers::{Answer, AnswerProbabilities, ParsedAnswer, restore_order};
use super::cases::{Case, is_reversible};

const DECISIONS: &str = "/v1/decisions";
/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
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

/// A client of one gateway, authenticated with an API key.
#[derive(Debug)]
pub struct EvaluationClient {
    client: GatewayClient,
    clock: SystemClock,
}

/// Options of an evaluation run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Number of concurrent requests.
    pub parallel: usize,
    /// Whether choice and tool questions are sent a second time with reversed options.
    pub reversed: bool,
}

/// The result of one test case.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Index of the case.
    pub(super) place: usize,
    /// The answer to each question.
    pub(super) parsed: Vec<ParsedAnswer>,
    /// The probabilities in both orders, for each question that was answered in both orders.
    pub(super) orders: Vec<(Vec<f64>, Vec<f64>)>,
    /// Duration of the request in the original order.
    pub(super) took: Duration,
    /// Cost of the request in the original order.
    pub(super) cost: Credits,
    /// Cost of the request in the reversed order.
    pub(super) cost_of_orders: Credits,
}

/// The reason why a test case has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseError {
    /// An error that affects all cases, with its fix.
    Fatal(String),
    /// An error of this case only.
    CaseOnly(String),
}

impl EvaluationClient {
    /// Creates a client for the gateway at this address, with or without `/v1`. `key` is an API key
    /// of an account.
    ///
    /// # Errors
    ///
    /// Fails if the address or the key is invalid.
    pub fn new(address: &str, key: &SecretString) -> Result<Self, EndpointError> {
        let http = HttpClient::new(tollgate_providers::HttpSettings::default());
        Ok(Self {
            client: GatewayClient::new(&http, address, DECISIONS, key)?,
            clock: SystemClock::default(),
        })
    }

    /// Sends all cases. Returns the results in any order, and the failed lines with their messages.
    /// Calls `on_progress` after each case with the number of finished cases.
    ///
    /// # Errors
    ///
    /// Returns an error message if a request fails for a reason that affects all cases, and no case
    /// has a result.
    pub(super) async fn all(
        &self,
        cases: &[Case],
        options: RunOptions,
        mut on_progress: impl FnMut(usize),
    ) -> Result<(Vec<Outcome>, Vec<(usize, String)>), String> {
        let asked = cases.iter().enumerate();
        let asked = asked.map(|(place, case)| async move { (place, self.one(place, case, options).await) });
        let mut running = stream::iter(asked).buffer_unordered(options.parallel.max(1));
        let (mut outcomes, mut failed) = (Vec::with_capacity(cases.len()), Vec::new());
        while let Some((place, answered)) = running.next().await {
            let line = cases.get(place).map_or(0, |case| case.line);
            match answered {
                Ok(outcome) => outcomes.push(outcome),
                // The results so far have been paid for, so they are returned.
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

    async fn one(&self, place: usize, case: &Case, options: RunOptions) -> Result<Outcome, CaseError> {
        let (answer, took) = self.answer(case.request()).await?;
        let parsed = answer
            .parsed(case.questions.iter())
            .map_err(CaseError::CaseOnly)?;
        let mut outcome = Outcome {
            place,
            parsed,
            orders: Vec::new(),
            took,
            cost: answer.cost(),
            cost_of_orders: Credits::default(),
        };
        if let Some(request) = case.reversed().filter(|_| options.reversed) {
            let (again, _) = self.answer(request).await?;
            let asked = || case.questions.iter().filter(|question| is_reversible(question));
            let parsed = again.parsed(asked()).map_err(CaseError::CaseOnly)?;
            outcome.cost_of_orders = again.cost();
            let first = case.questions.iter().zip(&outcome.parsed);
            let first = first.filter(|(question, _)| is_reversible(question));
            outcome.orders = first.zip(parsed).filter_map(both_orders).collect();
        }
        Ok(outcome)
    }

    /// Returns the answer and the duration of the last attempt, without the pauses before it.
    async fn answer(&self, request: Bytes) -> Result<(Answer, Duration), CaseError> {
        let mut attempt = 1;
        loop {
            let began = self.clock.monotonic_micros();
            let answered = self.client.post(request.clone(), REQUEST_TIMEOUT).await;
            let answered = answered.map_err(|error| {
                let detail = error.detail;
                CaseError::Fatal(format!(
                    "the gateway does not answer ({detail}); start it, or set its address with --url"
                ))
            })?;
            let took = self.clock.monotonic_micros().saturating_sub(began);
            match answered.status {
                200 => {
                    let answer = serde_json::from_slice(&answered.body);
                    let answer = answer.map_err(|_| CaseError::Fatal(unexpected_body(200)))?;
                    return Ok((answer, Duration::from_micros(took)));
                }
                429 if attempt < MAX_RATE_LIMITED_ATTEMPTS => {}
                503 if attempt < MAX_ATTEMPTS => {}
                _ => return Err(refused(&answered)),
            }
            let pause = answered.retry_after.unwrap_or(RETRY_PAUSE * attempt);
            sleep(pause.min(MAX_RETRY_PAUSE)).await;
            attempt += 1;
        }
    }
}

type QuestionPair<'a> = ((&'a Question, &'a ParsedAnswer), ParsedAnswer);

fn both_orders(((question, first), second): QuestionPair<'_>) -> Option<(Vec<f64>, Vec<f64>)> {
    match (first, second) {
        (
            ParsedAnswer::Answered(first),
            ParsedAnswer::Answered(AnswerProbabilities { probabilities, .. }),
        ) => Some((
            first.probabilities.clone(),
            restore_order(question, probabilities),
        )),
        _ => None,
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

fn unexpected_body(status: u16) -> String {
    format!(
        "the server returned status {status} with an unexpected body; set the address of a gateway with --url"
    )
}
