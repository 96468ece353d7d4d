//! Decoding of an answer's probabilities, with plausibility checks.

use serde_json::Value;
use tollgate_types::decide::{ArgumentDecision, FunctionTool, Question, QuestionKind, Verdict};

use crate::decisions::keys;
use crate::decisions::write::NO_TOOL;
use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Tolerance for probabilities outside of 0 to 1.
const PROBABILITY_TOLERANCE: f64 = 1e-6;

/// Reads the answer to a question that was neither refused nor failed; `kind` is the declared type
/// of the answer.
pub(super) fn read(
    node: &Node<'_>,
    kind: Option<&str>,
    question: &Question,
    path: &Path<'_>,
) -> Result<Verdict, BoxedError> {
    let kinds: &[&str] = match &question.kind {
        QuestionKind::Noul { .. } => &["noul", "predicate"],
        QuestionKind::Choice { .. } => &["choice"],
        QuestionKind::Score { .. } => &["score"],
        QuestionKind::Tool { .. } => &["tool"],
    };
    if kind.is_some_and(|kind| !kinds.contains(&kind)) {
        return Err(path.key("type").invalid("does not match the question's type"));
    }
    match &question.kind {
        QuestionKind::Noul { .. } => {
            let name = if node.get("noul").is_some() {
                "noul"
            } else {
                "probability"
            };
            Ok(Verdict::Noul(probability(
                node.need(name, path)?,
                &path.key(name),
            )?))
        }
        QuestionKind::Choice { options } => {
            let values: Vec<Value> = options.iter().map(|option| option.value.clone()).collect();
            distribution(node, &keys::for_options(options), &values, path).map(Verdict::Choice)
        }
        QuestionKind::Score { levels } => {
            let keys: Vec<String> = (0..levels.len()).map(|place| place.to_string()).collect();
            let values: Vec<Value> = (0..levels.len()).map(Value::from).collect();
            distribution(node, &keys, &values, path).map(Verdict::Score)
        }
        QuestionKind::Tool { tools, required } => tool(node, tools, *required, path),
    }
}

fn tool(
    node: &Node<'_>,
    tools: &[FunctionTool],
    required: bool,
    path: &Path<'_>,
) -> Result<Verdict, BoxedError> {
    let mut names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    if !required {
        names.push(NO_TOOL.to_owned());
    }
    let values: Vec<Value> = names.iter().cloned().map(Value::String).collect();
    let probabilities = distribution(node, &names, &values, path)?;
    let path = path.key("arguments");
    let reported = node.get("arguments");
    let of_tool = |tool: &FunctionTool| match reported.and_then(|reported| reported.get(&tool.name)) {
        Some(reported) => arguments(reported, tool, &path.key(&tool.name)),
        None => Ok(Vec::new()),
    };
    Ok(Verdict::Tool {
        probabilities,
        arguments: tools.iter().map(of_tool).collect::<Result<_, BoxedError>>()?,
    })
}

fn arguments(
    node: &Node<'_>,
    tool: &FunctionTool,
    path: &Path<'_>,
) -> Result<Vec<ArgumentDecision>, BoxedError> {
    let decided = tool.arguments().into_iter().filter_map(|argument| {
        let reported = node.get(&argument.name)?;
        let keys = keys::for_values(&argument.values.iter().collect::<Vec<_>>());
        let read = distribution(reported, &keys, &argument.values, &path.key(&argument.name));
        Some(read.map(|probabilities| ArgumentDecision {
            argument,
            probabilities,
        }))
    });
    decided.collect()
}

/// Reads `probabilities` in the order of the possible answers: from a map by `keys`, from a list by
/// `values`.
fn distribution(
    node: &Node<'_>,
    keys: &[String],
    values: &[Value],
    path: &Path<'_>,
) -> Result<Vec<f64>, BoxedError> {
    let found = node.need("probabilities", path)?;
    let path = path.key("probabilities");
    let count = match found {
        Node::Object(members) => members.len(),
        Node::List(items) => items.len(),
        _ => return Err(path.invalid("must be an object or an array")),
    };
    if count != keys.len() {
        return Err(path.invalid("must have one probability per option"));
    }
    let reported = keys.iter().zip(values).enumerate();
    let read = reported.map(|(place, (key, value))| {
        let number = match found {
            Node::List(items) => listed(items, place, value),
            _ => found.get(key),
        };
        let missing = || path.invalid("must have a probability for each option");
        probability(number.ok_or_else(missing)?, &path)
    });
    normalised(read.collect::<Result<_, BoxedError>>()?, &path)
}

/// Returns the probability of a value: the number at index `place` of a list of numbers, or
/// `probability` of the object with this `value`.
fn listed<'n, 'a>(items: &'n [Node<'a>], place: usize, value: &Value) -> Option<&'n Node<'a>> {
    let of_value = |item: &&Node<'a>| item.get("value").is_some_and(|found| found.to_value() == *value);
    match items.get(place)? {
        number @ Node::Number(_) => Some(number),
        _ => items.iter().find(of_value)?.get("probability"),
    }
}

/// Reads a probability and clamps it to the range 0 to 1. Fails if the value is outside the range
/// by more than [`PROBABILITY_TOLERANCE`].
pub(super) fn probability(node: &Node<'_>, path: &Path<'_>) -> Result<f64, BoxedError> {
    match node.as_f64() {
        Some(value) if (-PROBABILITY_TOLERANCE..=1.0 + PROBABILITY_TOLERANCE).contains(&value) => {
            Ok(value.clamp(0.0, 1.0))
        }
        _ => Err(path.invalid("must be a probability")),
    }
}

/// Normalises the probabilities to the sum 1. Refuses a sum that differs from 1 by more than
/// rounding: 0.002, plus 0.0001 for each probability.
fn normalised(mut probabilities: Vec<f64>, path: &Path<'_>) -> Result<Vec<f64>, BoxedError> {
    let sum: f64 = probabilities.iter().sum();
    let rounding = 0.002 + 0.0001 * probabilities.len() as f64;
    if (sum - 1.0).abs() > rounding {
        return Err(path.invalid("must sum to one"));
    }
    for probability in &mut probabilities {
        *probability /= sum;
    }
    Ok(probabilities)
}
