//! Client that sends evaluation requests concurrently.

use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use tollgate_providers::HttpClient;
use tollgate_providers::gateway::GatewayClient;
use tollgate_providers::http::EndpointError;
use tollgate_types::Credits;
use tollgate_types::clock::SystemClock;
use tollgate_types::decide::Question;

use super::answers::{Answer, AnswerProbabilities, ParsedAnswer, restore_order};
use super::cases::{Case, is_reversible};
use super::request::{self, CaseError, send, unexpected_body};

const DECISIONS: &str = "/v1/decisions";
/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

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
        on_progress: impl FnMut(usize),
    ) -> Result<(Vec<Outcome>, Vec<(usize, String)>), String> {
        let run = |place, case| self.one(place, case, options);
        request::all(cases, options.parallel, |case| case.line, run, on_progress).await
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
        let post = async || self.client.post(request.clone(), REQUEST_TIMEOUT).await;
        let (answered, took) = send(&self.clock, post).await?;
        let answer = serde_json::from_slice(&answered.body);
        let answer = answer.map_err(|_| CaseError::Fatal(unexpected_body(answered.status)))?;
        Ok((answer, took))
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
