//! Asking a gateway, several requests at once.

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

use super::answers::{Answer, Probable, Said, turned};
use super::cases::{Case, is_reversible};

/// The endpoint.
const DECISIONS: &str = "/v1/decisions";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often a request is made while the gateway is too busy, and while it has a limit of requests that waiting takes care of.
const ATTEMPTS: u32 = 5;
const ATTEMPTS_WITHIN_LIMITS: u32 = 60;
/// How long is waited between two of them, unless the gateway says how long; and the most of what it says.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A gateway that is asked.
#[derive(Debug)]
pub struct Asked {
    client: GatewayClient,
    clock: SystemClock,
}

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// How many requests run at once.
    pub parallel: usize,
    /// Whether choices and functions are asked again with their options reversed.
    pub reversed: bool,
}

/// What came of a line.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The place of its case.
    pub(super) place: usize,
    /// What was said of each question.
    pub(super) said: Vec<Said>,
    /// Both orders of each question that was answered in both.
    pub(super) orders: Vec<(Vec<f64>, Vec<f64>)>,
    /// How long the answer took.
    pub(super) took: Duration,
    /// What the answer cost.
    pub(super) cost: Credits,
    /// What the answer in the other order cost.
    pub(super) cost_of_orders: Credits,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Other lines would fare no better: what is wrong, and what to do.
    ForAll(String),
    /// This line alone.
    Alone(String),
}

impl Asked {
    /// A gateway at this address, with or without `/v1`, and a key of one of its accounts.
    pub fn new(address: &str, key: &SecretString) -> Result<Self, EndpointError> {
        let http = HttpClient::new(tollgate_providers::HttpSettings::default());
        Ok(Self {
            client: GatewayClient::new(&http, address, DECISIONS, key)?,
            clock: SystemClock::default(),
        })
    }

    /// Asks all cases; what came of each, in no order. `told` is told after each how many are done.
    pub(super) async fn all(
        &self,
        cases: &[Case],
        effort: Effort,
        mut told: impl FnMut(usize),
    ) -> Result<(Vec<Outcome>, Vec<(usize, String)>), String> {
        let asked = cases.iter().enumerate();
        let asked = asked.map(|(place, case)| async move { (place, self.one(place, case, effort).await) });
        let mut running = stream::iter(asked).buffer_unordered(effort.parallel.max(1));
        let (mut outcomes, mut failed) = (Vec::with_capacity(cases.len()), Vec::new());
        while let Some((place, answered)) = running.next().await {
            let line = cases.get(place).map_or(0, |case| case.line);
            match answered {
                Ok(outcome) => outcomes.push(outcome),
                // What was answered is paid for, and not thrown away.
                Err(Unanswered::ForAll(what)) if outcomes.is_empty() => {
                    return Err(format!("line {line}: {what}"));
                }
                Err(Unanswered::ForAll(what) | Unanswered::Alone(what)) => failed.push((line, what)),
            }
            told(outcomes.len() + failed.len());
        }
        failed.sort();
        Ok((outcomes, failed))
    }

    async fn one(&self, place: usize, case: &Case, effort: Effort) -> Result<Outcome, Unanswered> {
        let (answer, took) = self.answer(case.request()).await?;
        let said = answer.said(case.questions.iter()).map_err(Unanswered::Alone)?;
        let mut outcome = Outcome {
            place,
            said,
            orders: Vec::new(),
            took,
            cost: answer.cost(),
            cost_of_orders: Credits::default(),
        };
        if let Some(request) = case.reversed().filter(|_| effort.reversed) {
            let (again, _) = self.answer(request).await?;
            let asked = || case.questions.iter().filter(|question| is_reversible(question));
            let said = again.said(asked()).map_err(Unanswered::Alone)?;
            outcome.cost_of_orders = again.cost();
            let first = case.questions.iter().zip(&outcome.said);
            let first = first.filter(|(question, _)| is_reversible(question));
            outcome.orders = first.zip(said).filter_map(both_orders).collect();
        }
        Ok(outcome)
    }

    /// The answer, and how long it took, without what was waited for a refusal.
    async fn answer(&self, request: Bytes) -> Result<(Answer, Duration), Unanswered> {
        let mut attempt = 1;
        loop {
            let began = self.clock.monotonic_micros();
            let answered = self.client.post(request.clone(), PATIENCE).await;
            let answered = answered.map_err(|error| {
                let detail = error.detail;
                Unanswered::ForAll(format!(
                    "the gateway does not answer ({detail}); start it, or say with --url where it is"
                ))
            })?;
            let took = self.clock.monotonic_micros().saturating_sub(began);
            match answered.status {
                200 => {
                    let answer = serde_json::from_slice(&answered.body);
                    let answer = answer.map_err(|_| Unanswered::ForAll(strange(200)))?;
                    return Ok((answer, Duration::from_micros(took)));
                }
                429 if attempt < ATTEMPTS_WITHIN_LIMITS => {}
                503 if attempt < ATTEMPTS => {}
                _ => return Err(refused(&answered)),
            }
            let pause = answered.retry_after.unwrap_or(PAUSE * attempt);
            sleep(pause.min(LONGEST_PAUSE)).await;
            attempt += 1;
        }
    }
}

type Asking<'a> = ((&'a Question, &'a Said), Said);

fn both_orders(((question, first), second): Asking<'_>) -> Option<(Vec<f64>, Vec<f64>)> {
    match (first, second) {
        (Said::Answered(first), Said::Answered(Probable { probabilities, .. })) => {
            Some((first.probabilities.clone(), turned(question, probabilities)))
        }
        _ => None,
    }
}

/// What a refusal says. A wrong key or model is wrong for every line.
fn refused(answer: &GatewayAnswer) -> Unanswered {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let member = |name: &str| body.get("error").and_then(|error| error.get(name)?.as_str());
    let what = match (member("code"), member("message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => strange(answer.status),
    };
    let is_of_model = member("param") == Some("model");
    match answer.status {
        401..=405 => Unanswered::ForAll(what),
        400 if is_of_model => Unanswered::ForAll(what),
        _ => Unanswered::Alone(what),
    }
}

fn strange(status: u16) -> String {
    format!("status {status} with a body that is not of a gateway; say with --url where one is")
}
