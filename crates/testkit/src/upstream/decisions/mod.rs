//! Decisions in the formats of providers: questions at `POST …/systemone`, `…/alpha/decisions` and
//! `…/decisions`, and labels in chat completions, in generated content, and at the native endpoints
//! of vLLM, SGLang and llama.cpp. The prompt contains the true probabilities, in the syntax of the
//! gateway's simulator: `[[decide ID|* option=0.7 'two words'=0.2 others=0.01 abstain=0.1 noise=0.3
//! bias=0.5 mass=0.9 refuse]]`.

mod labels;
mod questions;
mod servers;
mod truth;

use std::collections::VecDeque;

use serde_json::Value;

use super::chat_request::Shape;
use super::received::ReceivedRequest;
use super::reply::Reply;

/// Start of a decision script within a text.
const MARK: &str = "[[decide";

/// A fault of the decision endpoints. It applies until another fault is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionFault {
    /// The endpoint does not exist: 404, including the native endpoints of model servers.
    NoEndpoint,
    /// The model does not support decisions: 501.
    NoDecisionModel,
    /// The model is refused, and the error names it: 400.
    WrongModel,
    /// Log probabilities are refused, and the error names the reason: 400.
    RefusesLogprobs,
    /// Log probabilities are refused, and the error has no reason: 400.
    RefusesSilently,
    /// The answer has no log probabilities.
    DropsLogprobs,
    /// The answer has at most this many of the requested log probabilities.
    FewerLogprobs(usize),
    /// A probability is more than one.
    PositiveLogprob,
    /// A probability is `NaN`, so the answer is invalid JSON.
    NotANumber,
    /// Token ids are ignored, and the most probable tokens are reported.
    IgnoresTokenIds,
    /// The last question has no answer.
    FewerAnswers,
    /// The first answer belongs to a question that was not requested.
    AnotherQuestion,
    /// The probabilities of a choice do not add up to one.
    NoSum,
    /// The answer to a choice omits an option.
    ForgetsOption,
    /// Requests whose body contains these words fail with 500.
    FailsAt(&'static str),
}

/// Scripted replies and faults of decisions.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub queue: VecDeque<Reply>,
    pub fault: Option<DecisionFault>,
}

impl Decisions {
    /// Returns the reply to a decision request, or to a label request of a native endpoint.
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

/// Whether a text request requests the log probabilities of one token. The gateway probes
/// deployments with such requests, which contain no script.
fn asks_for_logprobs(body: &Value) -> bool {
    let is_short = [
        "/max_tokens",
        "/max_completion_tokens",
        "/generationConfig/maxOutputTokens",
    ]
    .iter()
    .any(|position| body.pointer(position) == Some(&Value::from(1)));
    let requested = body.get("logprobs") == Some(&Value::Bool(true))
        || body.pointer("/generationConfig/responseLogprobs") == Some(&Value::Bool(true));
    is_short && requested
}

fn json_reply(body: &Value, fault: Option<DecisionFault>) -> Reply {
    let text = match fault {
        // JSON has no `NaN`, but some servers write it.
        Some(DecisionFault::NotANumber) => body.to_string().replace("\"NaN\"", "NaN"),
        _ => body.to_string(),
    };
    Reply::body(200, "application/json", text)
}
