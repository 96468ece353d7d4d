//! Decisions as providers make them: questions at `POST …/systemone`, `…/alpha/decisions` and `…/decisions`, and labels in
//! chat completions, in generated content, and at the endpoints that vLLM, SGLang and llama.cpp have of their own. The true
//! probabilities are written in what is asked, as the gateway's simulator reads them:
//! `[[decide ID|* option=0.7 'two words'=0.2 others=0.01 abstain=0.1 noise=0.3 bias=0.5 mass=0.9 refuse]]`.

mod labels;
mod questions;
mod servers;
mod truth;

use std::collections::VecDeque;

use serde_json::Value;

use super::chat_request::Shape;
use super::received::ReceivedRequest;
use super::reply::Reply;

/// What marks a text that wants a decision.
const MARK: &str = "[[decide";

/// How a server of decisions does wrong. It stands until another is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionFault {
    /// It has no such endpoint: 404, also for endpoints of model servers.
    NoEndpoint,
    /// The model decides nothing: 501.
    NoDecisionModel,
    /// The model is not taken, and the error names it: 400.
    WrongModel,
    /// It takes no request for probabilities, and the error says so: 400.
    RefusesLogprobs,
    /// The same, and the error says nothing.
    RefusesSilently,
    /// It tells no probabilities.
    DropsLogprobs,
    /// It tells fewer of them than were asked for.
    FewerLogprobs(usize),
    /// A probability of more than one.
    PositiveLogprob,
    /// A probability that is no number, and so an answer that is no JSON.
    NotANumber,
    /// It does not know tokens by their numbers and tells the likeliest ones.
    IgnoresTokenIds,
    /// The last question has no answer.
    FewerAnswers,
    /// The first answer is to a question that was not asked.
    AnotherQuestion,
    /// The probabilities of a choice are far from one together.
    NoSum,
    /// A choice leaves out an option.
    ForgetsOption,
    /// It fails with 500 at what has these words.
    FailsAt(&'static str),
}

/// What is scripted of decisions.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub queue: VecDeque<Reply>,
    pub fault: Option<DecisionFault>,
}

impl Decisions {
    /// The reply to a request, when it wants a decision, and to those that only servers of labels know.
    pub fn reply(&mut self, request: &ReceivedRequest) -> Option<Reply> {
        if request.method != "POST" {
            return None;
        }
        let path = request.bare_path();
        let body = request.json()?;
        let is_text = Shape::of(path).is_some();
        let is_decision = path.ends_with("/systemone") || path.ends_with("/decisions");
        let is_server = servers::PATHS.iter().any(|end| path.ends_with(end));
        let is_marked = || String::from_utf8_lossy(&request.body).contains(MARK);
        let wants = is_decision || is_server || (is_text && (is_marked() || asks_for_logprobs(&body)));
        if !wants || (is_text && body.get("stream") == Some(&Value::Bool(true))) {
            return None;
        }
        if let Some(reply) = self.queue.pop_front() {
            return Some(reply);
        }
        let fault = self.fault;
        if let Some(DecisionFault::FailsAt(words)) = fault
            && String::from_utf8_lossy(&request.body).contains(words)
        {
            return Some(Reply::error(500, "server_error", "It failed."));
        }
        let answered = match (is_decision, is_server) {
            (true, _) => questions::reply(path, &body, fault),
            (_, true) => servers::reply(path, &body, fault),
            _ => labels::reply(path, &body, fault, request.sequence)?,
        };
        Some(answered.unwrap_or_else(|wrong| Reply::error(400, "invalid_request", &wrong)))
    }
}

/// Whether the probabilities of tokens are wanted in a request of text that says of itself that it is to be decided: the
/// gateway's own trial of a deployment, which no script is in.
fn asks_for_logprobs(body: &Value) -> bool {
    let is_short = [
        "/max_tokens",
        "/max_completion_tokens",
        "/generationConfig/maxOutputTokens",
    ]
    .iter()
    .any(|place| body.pointer(place) == Some(&Value::from(1)));
    let asked = body.get("logprobs") == Some(&Value::Bool(true))
        || body.pointer("/generationConfig/responseLogprobs") == Some(&Value::Bool(true));
    is_short && asked
}

fn json_reply(body: &Value, fault: Option<DecisionFault>) -> Reply {
    let text = match fault {
        // JSON has no word for it, and some servers write one.
        Some(DecisionFault::NotANumber) => body.to_string().replace("\"NaN\"", "NaN"),
        _ => body.to_string(),
    };
    Reply::body(200, "application/json", text)
}
