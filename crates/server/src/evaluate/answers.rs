//! Parses the answers of a gateway. Probabilities have the order of the question's options.

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate_types::Credits;
use tollgate_types::decide::{Question, QuestionKind};

/// The response body of a decision request.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    answers: Value,
    usage: Usage,
}

#[derive(Debug, Deserialize)]
struct Usage {
    cost: Credits,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ParsedAnswer {
    /// The model answered the question, with these probabilities.
    Answered(AnswerProbabilities),
    /// The model refused to answer.
    Refused,
    /// The question failed with this error code; other questions of the request may have answers.
    Failed(String),
}

/// The probabilities of one question's options.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AnswerProbabilities {
    /// Probabilities in the order of the question's options. For a yes/no question, yes comes
    /// first.
    pub(super) probabilities: Vec<f64>,
    /// The reported confidence, 0 to 1.
    pub(super) confidence: Option<f64>,
    /// The probability that the question cannot be answered.
    pub(super) abstain: Option<f64>,
    /// The method that produced the probabilities, such as `logits`.
    pub(super) source: Option<String>,
}

impl Answer {
    /// Returns the cost of the request.
    pub(super) fn cost(&self) -> Credits {
        self.usage.cost
    }

    /// Returns the answer to each question.
    ///
    /// # Errors
    ///
    /// Returns a message that names the first missing or malformed answer.
    pub(super) fn parsed<'q>(
        &self,
        questions: impl Iterator<Item = &'q Question>,
    ) -> Result<Vec<ParsedAnswer>, String> {
        let each = questions.enumerate().map(|(place, question)| {
            let answer = match &self.answers {
                Value::Array(list) => list.get(place),
                answers => answers.get(&question.id),
            };
            let answer = answer.ok_or_else(|| format!("the response has no answer to '{}'", question.id))?;
            parsed(question, answer).ok_or_else(|| format!("the answer to '{}' is malformed", question.id))
        });
        each.collect()
    }
}

fn parsed(question: &Question, answer: &Value) -> Option<ParsedAnswer> {
    let kind = answer.get("type")?.as_str()?;
    let number = |name: &str| answer.get(name).and_then(Value::as_f64);
    let probabilities = match (kind, &question.kind) {
        ("refusal", _) => return Some(ParsedAnswer::Refused),
        ("error", _) => {
            let code = answer.get("error").and_then(|error| error.get("code")?.as_str());
            return Some(ParsedAnswer::Failed(code.unwrap_or("unknown").to_owned()));
        }
        ("noul", QuestionKind::Noul { .. }) => {
            let yes = number("noul")?;
            vec![yes, 1.0 - yes]
        }
        ("choice", QuestionKind::Choice { options }) => in_order(answer, options.len())?,
        ("score", QuestionKind::Score { levels }) => in_order(answer, levels.len())?,
        ("tool", QuestionKind::Tool { tools, required }) => {
            in_order(answer, tools.len() + usize::from(!required))?
        }
        _ => return None,
    };
    let method = answer.get("method");
    Some(ParsedAnswer::Answered(AnswerProbabilities {
        probabilities,
        confidence: number("confidence"),
        abstain: number("abstain"),
        source: method.and_then(|method| Some(method.get("source")?.as_str()?.to_owned())),
    }))
}

/// Returns the probabilities in the order of the response, which is that of the question's options;
/// `None` if the number of probabilities is not `number`.
fn in_order(answer: &Value, number: usize) -> Option<Vec<f64>> {
    let named: &Map<String, Value> = answer.get("probabilities")?.as_object()?;
    let probabilities: Vec<f64> = named.values().filter_map(Value::as_f64).collect();
    (probabilities.len() == number).then_some(probabilities)
}

/// Maps probabilities of reversed options back to the order of the question. The option "no
/// function" is last in both orders.
pub(super) fn restore_order(question: &Question, mut probabilities: Vec<f64>) -> Vec<f64> {
    let options = match &question.kind {
        QuestionKind::Tool { tools, .. } => tools.len(),
        _ => probabilities.len(),
    };
    if let Some(options) = probabilities.get_mut(..options) {
        options.reverse();
    }
    probabilities
}

#[cfg(test)]
mod tests;
