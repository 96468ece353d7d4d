//! Client that sends questions and reads their reports and sources.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::{Value, json};
use tollgate_providers::HttpClient;
use tollgate_providers::gateway::{GatewayAnswer, GatewayClient};
use tollgate_providers::http::EndpointError;
use tollgate_types::Credits;
use tollgate_types::clock::{Clock, SystemClock};

use super::super::request::{self, CaseError, send, unexpected_body};
use super::cases::ResearchCase;
use super::score::{self, Outcome, Statement};

const RESEARCH: &str = "/v1/research";
const DECISIONS: &str = "/v1/decisions";
/// Duration of one long poll, in seconds.
const POLL_S: u64 = 20;
/// Timeout of one request, beyond the duration of a poll.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum time that a report may take, with its time in the queue.
const REPORT_TIMEOUT: Duration = Duration::from_hours(2);
/// Minimum probability of a supported statement, as in the engine.
const SUPPORTED: f64 = 0.7;

/// A client of one gateway, authenticated with an API key.
#[derive(Debug)]
pub struct ResearchClient {
    research: GatewayClient,
    decisions: GatewayClient,
    clock: SystemClock,
}

/// The target of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResearchTarget {
    /// Id of the evaluated model.
    pub model: String,
    /// Effort of questions whose line has none; `None` for the gateway's default.
    pub effort: Option<String>,
    /// Model for typed decisions that judges whether quotes support their statement.
    pub judge: Option<String>,
}

impl ResearchClient {
    /// Creates a client for the gateway at this address, with or without `/v1`. `key` is an API key
    /// of an account.
    ///
    /// # Errors
    ///
    /// Fails if the address or the key is invalid.
    pub fn new(address: &str, key: &SecretString) -> Result<Self, EndpointError> {
        let http = HttpClient::new(tollgate_providers::HttpSettings::default());
        Ok(Self {
            research: GatewayClient::new(&http, address, RESEARCH, key)?,
            decisions: GatewayClient::new(&http, address, DECISIONS, key)?,
            clock: SystemClock::default(),
        })
    }

    /// Sends all questions. Returns the results in any order, and the failed lines with their
    /// messages. Calls `on_progress` after each question with the number of finished questions.
    ///
    /// # Errors
    ///
    /// Returns an error message if a request fails for a reason that affects all questions, and no
    /// question has a report.
    pub(super) async fn all(
        &self,
        cases: &[ResearchCase],
        target: &ResearchTarget,
        parallel: usize,
        on_progress: impl FnMut(usize),
    ) -> Result<(Vec<Outcome>, Vec<(usize, String)>), String> {
        let run = |place, case| self.one(place, case, target);
        request::all(cases, parallel, |case| case.line, run, on_progress).await
    }

    /// Waits for the report of one question and scores it.
    async fn one(
        &self,
        place: usize,
        case: &ResearchCase,
        target: &ResearchTarget,
    ) -> Result<Outcome, CaseError> {
        let body = Bytes::from(case.request(&target.model, target.effort.as_deref()).to_string());
        let began = self.clock.monotonic_micros();
        let post = async || self.research.post(body.clone(), REQUEST_TIMEOUT).await;
        let accepted = json(&send(&self.clock, post).await?.0)?;
        let id = text(&accepted, "job_id").ok_or_else(|| CaseError::Fatal(unexpected_body(202)))?;
        let job = self.ended(id, began).await?;
        let took = Duration::from_micros(self.clock.monotonic_micros().saturating_sub(began));
        if text(&job, "status") != Some("completed") {
            return Err(not_completed(&job));
        }
        let texts = self.texts(id, &job).await?;
        let mut outcome = score::of(place, case, &job, &texts, took).map_err(CaseError::CaseOnly)?;
        if let Some(judge) = &target.judge {
            for statement in score::statements(&job) {
                if !statement.quotes.is_empty() {
                    outcome.judged += 1;
                    let (is_supported, cost) = self.judge(judge, &statement).await?;
                    outcome.supported += usize::from(is_supported);
                    outcome.judge_cost = outcome.judge_cost.saturating_add(cost.nanos());
                }
            }
        }
        Ok(outcome)
    }

    async fn ended(&self, id: &str, began: u64) -> Result<Value, CaseError> {
        let path = format!("/v1/jobs/{id}?wait={POLL_S}");
        let limit = u64::try_from(REPORT_TIMEOUT.as_micros()).unwrap_or(u64::MAX);
        loop {
            let get = async || self.research.get(&path, REQUEST_TIMEOUT).await;
            let job = json(&send(&self.clock, get).await?.0)?;
            if !matches!(text(&job, "status"), Some("queued" | "in_progress")) {
                return Ok(job);
            }
            if self.clock.monotonic_micros().saturating_sub(began) > limit {
                return Err(CaseError::CaseOnly(format!("{id} has not ended after two hours")));
            }
        }
    }

    /// Returns the stored texts of the cited sources, by id.
    async fn texts(&self, id: &str, job: &Value) -> Result<BTreeMap<String, Vec<char>>, CaseError> {
        let mut texts = BTreeMap::new();
        for source in score::cited_sources(job) {
            let path = format!("/v1/research/{id}/sources/{source}");
            let get = async || self.research.get(&path, REQUEST_TIMEOUT).await;
            let answer = match send(&self.clock, get).await {
                Ok((answer, _)) => answer,
                // A citation of a source without a text is a wrong citation.
                Err(CaseError::CaseOnly(_)) => continue,
                Err(error) => return Err(error),
            };
            let text = String::from_utf8_lossy(&answer.body);
            texts.insert(source.to_owned(), text.chars().collect());
        }
        Ok(texts)
    }

    /// Returns whether the quotes of a statement support it, and the cost of the decision.
    async fn judge(&self, model: &str, statement: &Statement<'_>) -> Result<(bool, Credits), CaseError> {
        let body = json!({
            "model": model,
            "state": {"statement": statement.text, "quotes": statement.quotes},
            "questions": {"supported": {
                "type": "noul",
                "instructions": "Do the quotes alone support the whole statement?",
            }},
        });
        let body = Bytes::from(body.to_string());
        let post = async || self.decisions.post(body.clone(), REQUEST_TIMEOUT).await;
        let answer = json(&send(&self.clock, post).await?.0)?;
        let cost = answer.pointer("/usage/cost").and_then(Value::as_str);
        let cost = cost
            .and_then(|cost| cost.parse::<Credits>().ok())
            .unwrap_or_default();
        let probability = answer.pointer("/answers/supported/noul").and_then(Value::as_f64);
        Ok((probability.is_some_and(|yes| yes >= SUPPORTED), cost))
    }
}

fn json(answer: &GatewayAnswer) -> Result<Value, CaseError> {
    serde_json::from_slice(&answer.body).map_err(|_| CaseError::Fatal(unexpected_body(answer.status)))
}

fn text<'v>(value: &'v Value, member: &str) -> Option<&'v str> {
    value.get(member)?.as_str()
}

fn not_completed(job: &Value) -> CaseError {
    let member = |name: &str| job.get("error").and_then(|error| text(error, name));
    let status = text(job, "status").unwrap_or("unknown");
    CaseError::CaseOnly(match (member("code"), member("message")) {
        (Some(code), Some(message)) => format!("{status}: {code}: {message}"),
        _ => status.to_owned(),
    })
}
