//! What a gateway answered, brought to the places of the questions' options.

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate_types::Credits;
use tollgate_types::decide::{Question, QuestionKind};

/// The answer to a request.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    answers: Value,
    usage: Usage,
}

#[derive(Debug, Deserialize)]
struct Usage {
    cost: Credits,
}

/// What was said of one question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// How probable each option is, in the order of the question.
    Answered(Probable),
    /// The model would not answer.
    Refused,
    /// It failed alone, with this code.
    Failed(String),
}

/// How probable options are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Probable {
    /// In the order of the question's options; of a yes or no the yes first.
    pub(super) probabilities: Vec<f64>,
    /// How sure the answer is.
    pub(super) confidence: Option<f64>,
    /// How probable it is that the question cannot be answered.
    pub(super) abstain: Option<f64>,
    /// How the numbers were obtained.
    pub(super) source: Option<String>,
}

impl Answer {
    /// What it cost.
    pub(super) fn cost(&self) -> Credits {
        self.usage.cost
    }

    /// What was said of each of these questions; an error says what cannot be made out.
    pub(super) fn said<'q>(
        &self,
        questions: impl Iterator<Item = &'q Question>,
    ) -> Result<Vec<Said>, String> {
        let each = questions.enumerate().map(|(place, question)| {
            let answer = match &self.answers {
                Value::Array(list) => list.get(place),
                answers => answers.get(&question.id),
            };
            let answer = answer.ok_or_else(|| format!("it has no answer to '{}'", question.id))?;
            said(question, answer).ok_or_else(|| format!("its answer to '{}' is not understood", question.id))
        });
        each.collect()
    }
}

fn said(question: &Question, answer: &Value) -> Option<Said> {
    let kind = answer.get("type")?.as_str()?;
    let number = |name: &str| answer.get(name).and_then(Value::as_f64);
    let probabilities = match (kind, &question.kind) {
        ("refusal", _) => return Some(Said::Refused),
        ("error", _) => {
            let code = answer.get("error").and_then(|error| error.get("code")?.as_str());
            return Some(Said::Failed(code.unwrap_or("unknown").to_owned()));
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
    Some(Said::Answered(Probable {
        probabilities,
        confidence: number("confidence"),
        abstain: number("abstain"),
        source: method.and_then(|method| Some(method.get("source")?.as_str()?.to_owned())),
    }))
}

/// Probabilities are in the order of the question's options.
fn in_order(answer: &Value, number: usize) -> Option<Vec<f64>> {
    let named: &Map<String, Value> = answer.get("probabilities")?.as_object()?;
    let probabilities: Vec<f64> = named.values().filter_map(Value::as_f64).collect();
    (probabilities.len() == number).then_some(probabilities)
}

/// What was said when options were shown from last to first, in the order of the question. That none is called stays at the
/// end.
pub(super) fn turned(question: &Question, mut probabilities: Vec<f64>) -> Vec<f64> {
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
